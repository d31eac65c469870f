"use strict";
(() => {
  const views = new Map();
  const boxes = () => [...document.querySelectorAll("[data-methods] input")];
  const methods = [...new Set(boxes().map((box) => box.value))];
  let chosen = methods;

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const look = () => ({
    background: null,
    font: "system-ui, sans-serif",
    view: { stroke: color("--line") },
    axis: {
      labelColor: color("--soft"), titleColor: color("--ink"), gridColor: color("--line"),
      domainColor: color("--line"), tickColor: color("--line"), gridOpacity: 0.6,
    },
  });

  const draw = async (place) => {
    const spec = JSON.parse(document.querySelector(`script[data-for="${place.id}"]`).textContent);
    const options = { actions: false, renderer: "svg", config: look(), tooltip: { theme: dark.matches ? "dark" : "light" } };
    const { view } = await vegaEmbed(place, spec, options);
    const tell = (event, words) => view.tooltip()(null, event, null, words);
    views.set(place, view);
    // A finger does not hover: a tap tells, too.
    view.addEventListener("click", (event, item) => {
      if (item && item.tooltip) tell(event, item.tooltip);
    });
    view.signal("chosen", chosen).run();
  };

  // Only what is looked at is drawn: a page may hold a hundred charts.
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) {
        seen.unobserve(target);
        draw(target);
      }
    }
  }, { rootMargin: "600px" });
  for (const place of document.querySelectorAll(".drawn")) seen.observe(place);

  const choose = (names) => {
    chosen = names;
    for (const box of boxes()) box.checked = names.includes(box.value);
    for (const view of views.values()) view.signal("chosen", names).run();
  };
  const redraw = () => { for (const place of [...views.keys()]) draw(place); };

  for (const group of document.querySelectorAll("[data-methods]")) {
    group.addEventListener("change", ({ target }) => {
      choose(methods.filter((name) => (name === target.value ? target.checked : chosen.includes(name))));
    });
    for (const button of group.querySelectorAll("[data-all]")) {
      button.addEventListener("click", () => choose(button.dataset.all ? methods : []));
    }
    group.querySelector("[data-reset]").addEventListener("click", redraw);
  }
  dark.addEventListener("change", redraw);
})();
