"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const within = (element, name) => element.querySelector(`[data-${name}]`);
  const redrawn = [];  // what is drawn on canvases is drawn again in other sizes and colors

  // Coordinates are whole numbers of 16 bits, from −2 to 2 times the width of the view.
  const unpacked = (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Uint16Array(bytes.buffer);
  };

  function draw(canvas, target, points, from, n, dot) {
    const scale = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const brush = canvas.getContext("2d"), side = Math.min(width, height);
    brush.setTransform(scale, 0, 0, scale, 0, 0);
    const radius = Math.max(1.4, Math.min(3.4, side * Math.sqrt(0.01 / n)));
    const place = (value, at) => at / 2 + (value / 65535 * 4 - 2) * side / 2;
    const circles = (numbers, start, size) => {
      let outside = 0;
      brush.beginPath();
      for (let i = 0; i < n; i += 1) {
        const x = place(numbers[start + 2 * i], width), y = height - place(numbers[start + 2 * i + 1], height);
        if (x < 0 || x > width || y < 0 || y > height) { outside += 1; continue; }
        brush.moveTo(x + size, y);
        brush.arc(x, y, size, 0, 7);
      }
      return outside;
    };
    circles(target, 0, 1.5 * radius);
    brush.strokeStyle = color("--ring");
    brush.lineWidth = 1;
    brush.stroke();
    const outside = circles(points, from, radius);
    brush.fillStyle = color(dot);
    brush.fill();
    if (outside) {
      brush.fillStyle = color("--bad");
      brush.font = "12px system-ui, sans-serif";
      brush.fillText(`${outside} of ${n} outside`, 2, height - 4);
    }
  }

  const percent = (share) => {
    if (share === null) return "∞";
    if (share <= 1e-6) return "≤ 0.0001 %";
    if (share < 1e-3) return `${Number((100 * share).toPrecision(1))} %`;
    return share < 10 ? `${Number((100 * share).toPrecision(2))} %` : "> 1000 %";
  };

  // The first screen: flows beside each other, moved by one slider.
  const hero = document.querySelector("[data-films]");
  if (hero) {
    const slider = within(hero, "step"), play = within(hero, "play"), takes = [...hero.querySelectorAll(".take")];
    let film, unpackedFilm, playing = false, waited = 0, before = null;
    const show = () => {
      const frame = Number(slider.value);
      takes.forEach((take, i) => {
        const one = film.takes[i];
        take.hidden = !one;
        if (!one) return;
        draw(take.querySelector("canvas"), unpackedFilm.target, unpackedFilm.takes[i], 2 * film.n * frame, film.n, "--accent");
        const left = one.w2[frame];
        within(take, "left").textContent = percent(left === null ? null : left / film.start);
      });
      const words = `step ${film.steps[frame]}`;
      within(hero, "now").textContent = words;
      slider.setAttribute("aria-valuetext", words);
      play.textContent = playing ? "Pause" : frame === film.steps.length - 1 ? "Again" : "Play";
    };
    const choose = (i) => {
      film = data.films[i];
      unpackedFilm = { target: unpacked(film.target), takes: film.takes.map((take) => unpacked(take.frames)) };
      slider.max = film.steps.length - 1;
      slider.value = Math.min(Number(slider.value), film.steps.length - 1);
      takes.forEach((take, j) => {
        const one = film.takes[j];
        if (!one) return;
        within(take, "title").textContent = one.title;
        within(take, "end").textContent = one.words;
        take.querySelector("canvas").setAttribute("aria-label", `${one.title}: ${one.words}`);
      });
      within(hero, "note").textContent = film.note;
      for (const button of hero.querySelectorAll("[data-film]")) button.setAttribute("aria-pressed", String(Number(button.dataset.film) === i));
      show();
    };
    const tick = (now) => {
      if (!playing) return;
      if (before !== null) waited += (now - before) / 1000 * 9;
      before = now;
      if (waited >= 1) {
        waited %= 1;
        slider.value = Number(slider.value) + 1;
        if (Number(slider.value) >= film.steps.length - 1) playing = false;
        show();
      }
      requestAnimationFrame(tick);
    };
    const start = () => { playing = true; before = null; waited = 0; show(); requestAnimationFrame(tick); };
    play.addEventListener("click", () => {
      if (playing) { playing = false; show(); return; }
      if (Number(slider.value) === film.steps.length - 1) slider.value = 0;
      start();
    });
    slider.addEventListener("input", () => { playing = false; show(); });
    for (const button of hero.querySelectorAll("[data-film]")) button.addEventListener("click", () => choose(Number(button.dataset.film)));
    choose(0);
    // A reader who wants no motion, or none yet, sees how far each has come when the first has arrived.
    if (calm.matches) slider.value = Math.round(0.6 * slider.max);
    else start();
    show();
    redrawn.push(show);
    window.addEventListener("beforeprint", () => { playing = false; slider.value = Math.round(0.6 * slider.max); show(); });
  }

  // Pointing at a variant shows it in all charts of a figure; choosing its name keeps it.
  for (const figure of document.querySelectorAll("[data-figure]")) {
    let kept = "";
    const light = (name) => { if (name) figure.dataset.lit = name; else delete figure.dataset.lit; };
    for (const button of figure.querySelectorAll(".legend button")) {
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => {
        kept = kept === button.dataset.v ? "" : button.dataset.v;
        for (const other of figure.querySelectorAll(".legend button")) other.setAttribute("aria-pressed", String(other.dataset.v === kept));
        light(kept);
      });
    }
    const named = (event) => event.target.closest("[data-v]")?.dataset.v;
    figure.addEventListener("pointerover", (event) => light(named(event) || kept));
    figure.addEventListener("pointerleave", () => light(kept));
    figure.addEventListener("focusin", (event) => light(named(event) || kept));
    figure.addEventListener("focusout", () => light(kept));
  }

  // A cell of the map opens its curve, and its film or pictures.
  const panel = document.querySelector("[data-behind]");
  let opened = null;
  const element = (name, words, more = {}) => {
    const made = document.createElement(name);
    if (words) made.textContent = words;
    for (const [key, value] of Object.entries(more)) made.setAttribute(key, value);
    return made;
  };
  const drawn = (name, more, words) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(more)) made.setAttribute(key, value);
    if (words) made.textContent = words;
    return made;
  };
  function curve(lines) {
    const width = 400, height = 260, left = 52, bottom = 36, top = 34;
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "The loss over the steps" });
    const points = lines.flatMap(([, some]) => some);
    if (!points.length) return element("p", "No curve was kept.");
    const logs = (k) => points.map((point) => Math.log10(point[k]));
    const [x0, x1] = [0, Math.max(...logs(0), 1)], [y0, y1] = [Math.floor(Math.min(...logs(1))), Math.ceil(Math.max(...logs(1)))];
    const x = (step) => left + (width - left - 10) * (Math.log10(step) - x0) / (x1 - x0);
    const y = (loss) => height - bottom - (height - bottom - top) * (Math.log10(loss) - y0) / Math.max(y1 - y0, 1);
    const every = Math.max(1, Math.ceil((y1 - y0) / 5));
    for (let power = y0; power <= y1; power += every) {
      svg.append(drawn("line", { x1: left, x2: width - 10, y1: y(10 ** power), y2: y(10 ** power), stroke: "var(--line)" }));
      svg.append(drawn("text", { x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, `1e${power}`));
    }
    for (let power = 0; power <= x1; power += 1) svg.append(drawn("text", { x: x(10 ** power), y: height - bottom + 16, "text-anchor": "middle" }, (10 ** power).toLocaleString("en")));
    svg.append(drawn("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, "step"));
    const looks = ["var(--deep)", "var(--bad)", "var(--soft)"];
    let at = left;
    lines.forEach(([name, some], i) => {
      const path = some.map(([step, loss]) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`).join("L");
      svg.append(drawn("path", { d: `M${path}`, fill: "none", stroke: looks[i % 3], "stroke-width": i ? 1.6 : 3, "stroke-dasharray": ["", "6 3", "2 3"][i % 3] }));
      const words = drawn("text", { x: at, y: 13, style: `fill: ${looks[i % 3]}; font-weight: 600` }, name);
      svg.append(words);
      at += 18 + 7 * name.length;
    });
    svg.append(drawn("text", { x: left, y: 28 }, "SW₂ on the slices of the step"));
    return svg;
  }
  function film(found) {
    const box = element("div"), canvas = element("canvas", "", { role: "img", "aria-label": "Particles and target" });
    const numbers = unpacked(found.frames), count = 2 * found.n, words = element("output");
    const slider = element("input", "", { type: "range", min: 0, max: found.steps.length - 1, value: found.steps.length - 1, "aria-label": "Step" });
    const show = () => {
      draw(canvas, numbers, numbers, count * (1 + Number(slider.value)), found.n, "--accent");
      words.textContent = `after step ${found.steps[slider.value]}`;
    };
    slider.addEventListener("input", show);
    box.append(canvas, slider, words);
    if (found.steps.length < 2) slider.hidden = true;
    requestAnimationFrame(show);
    redrawn.push(show);
    return box;
  }
  const close = () => {
    panel.hidden = true;
    for (const button of document.querySelectorAll("[data-cell]")) button.setAttribute("aria-expanded", "false");
    opened?.focus();
  };
  const open = (button) => {
    const found = data.behind[button.dataset.cell];
    for (const other of document.querySelectorAll("[data-cell]")) other.setAttribute("aria-expanded", String(other === button));
    opened = button;
    panel.hidden = false;
    within(panel, "title").textContent = found.title;
    within(panel, "curve").replaceChildren(curve(found.curves));
    const show = within(panel, "show");
    show.replaceChildren();
    if (found.film) show.append(film(found.film));
    if (found.pictures) show.append(over(...found.pictures));
    within(panel, "facts").replaceChildren(...found.facts.flatMap(([name, words]) => [element("dt", name), element("dd", words)]));
    within(panel, "title").focus({ preventScroll: true });
    panel.scrollIntoView({ block: "nearest", behavior: calm.matches ? "auto" : "smooth" });
  };
  function over(before, after) {
    const box = element("div", "", { class: "over", style: "--x: 50%" });
    const slider = element("input", "", { type: "range", min: 0, max: 100, value: 50, "aria-label": "before to after" });
    box.append(element("img", "", { src: after, alt: "after" }), element("img", "", { src: before, alt: "before", class: "before" }), slider);
    box.querySelectorAll("img").forEach((image) => { image.style.aspectRatio = "auto"; });
    slide(slider);
    return box;
  }
  function slide(slider) {
    slider.addEventListener("input", () => slider.parentElement.style.setProperty("--x", `${slider.value}%`));
  }
  for (const slider of document.querySelectorAll(".over input")) slide(slider);
  if (panel) {
    for (const button of document.querySelectorAll("[data-cell]")) {
      button.setAttribute("aria-expanded", "false");
      button.addEventListener("click", () => (opened === button && !panel.hidden ? close() : open(button)));
      button.addEventListener("keydown", (event) => move(event, button));
    }
    within(panel, "close").addEventListener("click", close);
    panel.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  }
  // Arrow keys move about the map.
  function move(event, button) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const rows = [...document.querySelectorAll(".heat tbody tr")];
    let row = rows.indexOf(button.closest("tr")), column = button.closest("td").cellIndex;
    for (;;) {
      row += step[0];
      column += step[1];
      const cell = rows[row]?.cells[column];
      if (!cell || column < 1) return;
      const next = cell.querySelector("button");
      if (next) { next.focus(); return; }
    }
  }

  // The contents say where the reader is.
  const links = [...document.querySelectorAll("nav a")];
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      for (const link of links) link.toggleAttribute("aria-current", link.hash === `#${target.id}`);
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const part of document.querySelectorAll("#top, .chapter")) seen.observe(part);

  const again = () => { for (const show of redrawn) show(); };
  addEventListener("resize", again);
  dark.addEventListener("change", again);
})();
