// The page: draws clouds, makes steps, shows costs by direction. All arithmetic is in `sliced`.
"use strict";
const MOST = 400; // samples a side: every step sorts them on up to 180 slices
const SEED = 1;
const HALF = 2.2; // the plane is shown from -HALF to HALF
const EVEN = Array.from({ length: 180 }, (_, l) => (Math.PI * l) / 180);
const by = (id) => document.getElementById(id);
const state = { x: [], y: [], start: [], steps: 0, curve: [], found: null, length: null, running: false, random: sliced.generator(SEED) };

// ---- toys -------------------------------------------------------------------------------------------------------
function normal(random) {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}
const TOYS = {
  swiss: (t, noise) => { const a = 1.5 * Math.PI * (1 + 2 * t); return [0.11 * a * Math.cos(a) + noise(), 0.11 * a * Math.sin(a) + noise()]; },
  gaussians: (t, noise) => { const a = (Math.PI / 4) * Math.floor(8 * t); return [1.4 * Math.cos(a) + 3 * noise(), 1.4 * Math.sin(a) + 3 * noise()]; },
  knot: (t, noise) => { const a = 2 * Math.PI * t; return [0.55 * (Math.sin(a) + 2 * Math.sin(2 * a)) + noise(), 0.55 * (Math.cos(a) - 2 * Math.cos(2 * a)) + noise()]; },
  line: (t, noise) => [3 * ((2 * t) % 1) - 1.5, (t < 0.5 ? 0.7 : -0.7) + noise()],
};
function take(toy) {
  const random = sliced.generator(SEED);
  state.y = Array.from({ length: 150 }, () => TOYS[toy](random(), () => 0.03 * normal(random)));
  state.x = Array.from({ length: 150 }, () => [0.35 * normal(random), 0.35 * normal(random)]);
  restart();
}

// ---- steps ------------------------------------------------------------------------------------------------------
const settings = () => ({
  variant: by("variant").value,
  slices: Number(by("slices").value),
  rate: by("computed").checked ? null : 10 ** Number(by("rate").value),
});
const ready = () => state.x.length > 0 && state.y.length > 0;
function measure() {
  return ready() ? sliced.evaluate(state.x, state.y, EVEN, "sw") : null;
}
function step() {
  if (!ready()) return;
  const { variant, slices, rate } = settings();
  const angles = sliced.draw(variant, slices, state.random, state.x, state.y);
  state.found = sliced.evaluate(state.x, state.y, angles, variant);
  state.length = rate === null ? sliced.computedStep(state.found) : (2 * rate) / state.x.length;
  state.x = sliced.moved(state.x, state.found, rate);
  state.steps += 1;
  const even = measure();
  state.curve.push(even.root);
  // Samples that have left for good, as they do at a rate that is too large.
  if (!Number.isFinite(even.root) || even.root > 1e6) run(false);
}
function restart() {
  // What stands now is where a reset goes back to.
  state.start = state.x.map((point) => [...point]);
  reset();
}
function reset() {
  state.x = state.start.map((point) => [...point]);
  Object.assign(state, { steps: 0, found: null, length: null, random: sliced.generator(SEED) });
  const even = measure();
  state.curve = even === null ? [] : [even.root];
  show();
}
function run(on) {
  state.running = on && ready();
  by("play").textContent = state.running ? "Pause" : "Play";
  if (state.running) requestAnimationFrame(frame);
}
let last = 0;
function frame(now) {
  if (!state.running) return;
  if (now - last > 60) { last = now; step(); show(); }
  requestAnimationFrame(frame);
}

// ---- drawing ----------------------------------------------------------------------------------------------------
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const toCanvas = ([a, b], canvas) => [((a + HALF) / (2 * HALF)) * canvas.width, ((HALF - b) / (2 * HALF)) * canvas.height];
function dots(context, points, paint) {
  context.fillStyle = paint;
  context.globalAlpha = 0.75;
  for (const point of points) {
    const [a, b] = toCanvas(point, context.canvas);
    context.beginPath();
    context.arc(a, b, 4, 0, 2 * Math.PI);
    context.fill();
  }
  context.globalAlpha = 1;
}
function cleared(id) {
  const context = by(id).getContext("2d");
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
  return context;
}
function showCircle(even) {
  const context = cleared("circle"), { width, height } = context.canvas;
  const centerX = width / 2, centerY = height / 2, radius = Math.min(width, height) / 2 - 14;
  context.strokeStyle = color("line");
  context.beginPath();
  context.arc(centerX, centerY, radius, 0, 2 * Math.PI);
  context.stroke();
  if (even === null) return;
  const most = Math.max(...even.costs) || 1;
  const place = (angle, share) => [centerX + radius * share * Math.cos(angle), centerY - radius * share * Math.sin(angle)];
  if (state.found !== null) {
    const heaviest = Math.max(...state.found.weights);
    context.strokeStyle = color("x");
    state.found.angles.forEach((angle, at) => {
      const share = state.found.weights[at] / heaviest;
      context.globalAlpha = 0.25 + 0.6 * share;
      context.beginPath();
      context.moveTo(...place(angle, -share));
      context.lineTo(...place(angle, share));
      context.stroke();
    });
    context.globalAlpha = 1;
  }
  context.strokeStyle = color("ink");
  context.lineWidth = 2;
  context.beginPath();
  for (let l = 0; l <= 2 * even.costs.length; l += 1) {
    context.lineTo(...place((Math.PI * l) / even.costs.length, Math.sqrt(even.costs[l % even.costs.length] / most)));
  }
  context.stroke();
  context.lineWidth = 1;
}
function showCurve() {
  const context = cleared("curve"), { width, height } = context.canvas;
  const values = state.curve.filter((value) => Number.isFinite(value) && value > 0);
  if (values.length === 0) return;
  const high = Math.ceil(Math.log10(Math.max(...values))), low = Math.min(high - 1, Math.floor(Math.log10(Math.min(...values))));
  context.fillStyle = color("faint");
  context.strokeStyle = color("line");
  context.font = "12px system-ui, sans-serif";
  const across = (at) => 44 + ((width - 54) * at) / Math.max(10, state.curve.length - 1);
  const up = (value) => 10 + ((height - 20) * (high - Math.log10(value))) / (high - low);
  const every = Math.ceil((high - low) / 4);
  for (let power = low; power <= high; power += every) {
    context.fillText(`1e${power}`, 4, up(10 ** power) + 4);
    context.beginPath();
    context.moveTo(40, up(10 ** power));
    context.lineTo(width, up(10 ** power));
    context.stroke();
  }
  context.strokeStyle = color("x");
  context.lineWidth = 2;
  context.beginPath();
  state.curve.forEach((value, at) => { if (Number.isFinite(value) && value > 0) context.lineTo(across(at), up(value)); });
  context.stroke();
  context.lineWidth = 1;
}
const digits = (value) => (value === null || !Number.isFinite(value) ? "–" : value.toPrecision(4));
function show() {
  const cloud = cleared("cloud"), even = measure();
  dots(cloud, state.y, color("y"));
  dots(cloud, state.x, color("x"));
  showCircle(even);
  showCurve();
  const { variant, slices, rate } = settings();
  by("slicesShown").textContent = variant === "maxsw" ? "1, found by a search" : slices;
  by("rateShown").textContent = rate === null ? "" : digits(rate);
  by("rate").disabled = rate === null;
  by("slices").disabled = variant === "maxsw";
  by("steps").textContent = state.steps;
  by("distance").textContent = even === null ? "–" : digits(even.root);
  by("length").textContent = digits(state.length);
  by("count").textContent = ready() ? `(${state.x.length} and ${state.y.length})` : "draw some of each";
  const count = variant === "maxsw" ? "" : `, n_slices=${slices}`;
  by("code").textContent = rate === null ? `x = x + sw.displacement(x, y, "${variant}"${count})` : `sw.flow(x, y, "${variant}"${count}, lr=${digits(rate)}, max_steps=${Math.max(1, state.steps)})`;
}

// ---- hands ------------------------------------------------------------------------------------------------------
function drawn(event) {
  const canvas = by("cloud"), box = canvas.getBoundingClientRect(), side = by("brush").value;
  if (state[side].length >= MOST) return;
  const a = ((event.clientX - box.left) / box.width) * 2 * HALF - HALF;
  const b = HALF - ((event.clientY - box.top) / box.height) * 2 * HALF;
  const spread = () => 0.06 * normal(state.random);
  state[side].push([a + spread(), b + spread()]);
  restart();
}
let down = false;
by("cloud").addEventListener("pointerdown", (event) => { down = true; by("cloud").setPointerCapture(event.pointerId); drawn(event); });
by("cloud").addEventListener("pointermove", (event) => { if (down) drawn(event); });
for (const end of ["pointerup", "pointercancel"]) by("cloud").addEventListener(end, () => { down = false; });
by("play").addEventListener("click", () => run(!state.running));
by("step").addEventListener("click", () => { run(false); step(); show(); });
by("reset").addEventListener("click", () => { run(false); reset(); });
by("clear").addEventListener("click", () => { run(false); Object.assign(state, { x: [], y: [] }); restart(); });
by("toy").addEventListener("change", () => { run(false); take(by("toy").value); });
for (const id of ["variant", "slices", "computed", "rate"]) by(id).addEventListener("input", show);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
take("swiss");
