// Sliced-Wasserstein distances between clouds in the plane, for p = 2 and equal sample weights.
// What the page computes, without the page: a test compares it with the library in a browser, number by number.
"use strict";
const sliced = (() => {
  // Points are arrays [x, y]; slices are angles.
  const direction = (angle) => [Math.cos(angle), Math.sin(angle)];

  /** The order of numbers, as indices; equal ones stay in their order. */
  function order(values) {
    return Array.from(values.keys()).sort((i, j) => values[i] - values[j] || i - j);
  }

  /**
   * Transport on one slice: the cost W_2^2, and for each sample of x the mean of where it goes.
   * n samples against m: sample i of the sorted ones owns the quantiles (i/n, (i + 1)/n), counted here in units of 1/(n m).
   */
  function transport(x, y, angle) {
    const [c, s] = direction(angle);
    const u = x.map((point) => c * point[0] + s * point[1]);
    const v = y.map((point) => c * point[0] + s * point[1]);
    const byU = order(u), byV = order(v);
    const n = u.length, m = v.length;
    const pulls = new Float64Array(n);
    let cost = 0, i = 0, j = 0, leftI = m, leftJ = n;
    while (i < n && j < m) {
      const share = Math.min(leftI, leftJ);
      const gap = v[byV[j]] - u[byU[i]];
      cost += (share * gap * gap) / (n * m);
      pulls[byU[i]] += (share * gap) / m;
      leftI -= share;
      leftJ -= share;
      if (leftI === 0) { i += 1; leftI = m; }
      if (leftJ === 0) { j += 1; leftJ = n; }
    }
    return { cost, pulls };
  }

  /** How much each slice counts; the weights sum to one. */
  function weights(costs, variant) {
    if (variant === "ebsw") {
      const most = Math.max(...costs);
      const raised = costs.map((cost) => Math.exp(cost - most));
      const total = raised.reduce((sum, one) => sum + one, 0);
      return raised.map((one) => one / total);
    }
    if (variant === "maxsw") {
      const best = costs.indexOf(Math.max(...costs));
      return costs.map((_, at) => (at === best ? 1 : 0));
    }
    return costs.map(() => 1 / costs.length);
  }

  /** Costs and weights of slices, their weighted mean (the power), and the pull D on every sample. */
  function evaluate(x, y, angles, variant) {
    const found = angles.map((angle) => transport(x, y, angle));
    const costs = found.map((one) => one.cost);
    const counted = weights(costs, variant);
    const pull = x.map(() => [0, 0]);
    found.forEach(({ pulls }, at) => {
      const [c, s] = direction(angles[at]);
      pulls.forEach((one, i) => {
        pull[i][0] += counted[at] * one * c;
        pull[i][1] += counted[at] * one * s;
      });
    });
    const power = costs.reduce((sum, cost, at) => sum + counted[at] * cost, 0);
    return { angles, costs, weights: counted, power, root: Math.sqrt(power), pull };
  }

  /** The computed step: |D|^2 / sum_l w_l |theta_l . D|^2, the exact line search while the order on the slices stays. */
  function computedStep({ angles, weights: counted, pull }) {
    let above = 0, below = 0;
    for (const [a, b] of pull) above += a * a + b * b;
    angles.forEach((angle, at) => {
      const [c, s] = direction(angle);
      let along = 0;
      for (const [a, b] of pull) along += (c * a + s * b) ** 2;
      below += counted[at] * along;
    });
    return below > 0 ? above / below : 0;
  }

  /** The samples after one step: by the computed one, or by a rate times the gradient of the power, a mean over samples. */
  function moved(x, found, rate) {
    const factor = rate === null ? computedStep(found) : (2 * rate) / x.length;
    return x.map(([a, b], i) => [a + factor * found.pull[i][0], b + factor * found.pull[i][1]]);
  }

  /** Slices of one step. random() gives numbers in [0, 1). */
  function draw(variant, count, random, x, y) {
    if (variant === "maxsw") return [steepest(x, y)];
    if (variant === "qsw") return Array.from({ length: count }, (_, l) => (Math.PI * (l + 0.5)) / count);
    if (variant === "orthosw") {
      const frames = Array.from({ length: Math.ceil(count / 2) }, () => Math.PI * random());
      return frames.flatMap((angle) => [angle, angle + Math.PI / 2]).slice(0, count);
    }
    return Array.from({ length: count }, () => Math.PI * random());
  }

  /** The angle of largest cost: by a scan of the half circle, then by thirds around the best. */
  function steepest(x, y, scanned = 180) {
    const cost = (angle) => transport(x, y, angle).cost;
    const costs = Array.from({ length: scanned }, (_, l) => cost((Math.PI * l) / scanned));
    const at = costs.indexOf(Math.max(...costs));
    let low = (Math.PI * (at - 1)) / scanned, high = (Math.PI * (at + 1)) / scanned;
    for (let round = 0; round < 40; round += 1) {
      const third = (high - low) / 3;
      if (cost(low + third) < cost(high - third)) low += third;
      else high -= third;
    }
    const refined = (low + high) / 2;
    return cost(refined) >= costs[at] ? refined : (Math.PI * at) / scanned;
  }

  /** Random numbers in [0, 1) from a seed (mulberry32), so that a page that is reset repeats itself. */
  function generator(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = state;
      t = Math.imul(t ^ (t >>> 15), t | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  return { transport, weights, evaluate, computedStep, moved, draw, steepest, generator };
})();
if (typeof globalThis !== "undefined") globalThis.sliced = sliced;
