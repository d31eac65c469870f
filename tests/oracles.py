"""Slow answers from the definitions, in NumPy loops. Nothing here uses the library."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linprog


def plan_on_line(u, v, a=None, b=None):
    """The monotone plan as a list of (i, j, mass): pour the sorted masses into each other."""
    a = np.full(len(u), 1 / len(u)) if a is None else np.asarray(a, float).copy()
    b = np.full(len(v), 1 / len(v)) if b is None else np.asarray(b, float).copy()
    left, right = list(np.argsort(u, kind="stable")), list(np.argsort(v, kind="stable"))
    a, b = a.copy(), b.copy()
    plan = []
    while left and right:
        i, j = left[0], right[0]
        mass = min(a[i], b[j])
        plan.append((i, j, mass))
        a[i] -= mass
        b[j] -= mass
        if a[i] <= 1e-15:
            left.pop(0)
        if b[j] <= 1e-15:
            right.pop(0)
    return plan


def cost_on_line(u, v, p, a=None, b=None):
    return sum(mass * abs(u[i] - v[j]) ** p for i, j, mass in plan_on_line(u, v, a, b))


def cost_by_linear_program(u, v, p, a, b):
    n, m = len(u), len(v)
    prices = np.abs(np.subtract.outer(u, v)) ** p
    marginals = np.zeros((n + m, n * m))
    for i in range(n):
        marginals[i, i * m : (i + 1) * m] = 1
    for j in range(m):
        marginals[n + j, j::m] = 1
    solved = linprog(prices.ravel(), A_eq=marginals, b_eq=np.concatenate([a, b]))
    assert solved.status == 0
    return solved.fun


def slice_cost(x, y, theta, p=2.0, a=None, b=None):
    return cost_on_line(x @ theta, y @ theta, p, a, b)


def slice_gradient(x, y, theta, p=2.0, a=None, b=None):
    """Gradient of `slice_cost` in theta: only the gaps of matched samples enter."""
    total = np.zeros_like(theta)
    for i, j, mass in plan_on_line(x @ theta, y @ theta, a, b):
        gap = theta @ (x[i] - y[j])
        total += mass * p * abs(gap) ** (p - 1) * np.sign(gap) * (x[i] - y[j])
    return total


def unit(vector):
    return vector / np.linalg.norm(vector)


def gram_schmidt(rows):
    frame = []
    for row in rows:
        for done in frame:
            row = row - (row @ done) * done
        frame.append(unit(row))
    return np.array(frame)


def climb(theta, x, y, p=2.0, rate=None):
    """One ascent step before it returns to the sphere: unit gradient, or a rate on the root of sums."""
    gradient = slice_gradient(x, y, theta, p)
    if rate is None:
        return theta + unit(gradient)
    n = len(x)
    summed = n * slice_cost(x, y, theta, p)
    return theta + rate * summed ** (1 / p - 1) / p * n * gradient


def vmf_mean_cosine(d, kappa):
    """The quotient of Bessel functions I_{d/2} / I_{d/2−1}, which underflow, by its continued fraction."""
    quotient = 0.0
    for term in range(2000, -1, -1):
        quotient = 1 / ((d + 2 * term) / kappa + quotient)
    return quotient


def cosine_cdf(log_density, d, points=200_001):
    """Distribution function of the cosine for a density on the sphere given by its logarithm."""
    t = np.linspace(-1, 1, points)[1:-1]
    log_f = log_density(t) + (d - 3) / 2 * np.log1p(-t * t)
    f = np.exp(log_f - log_f.max())
    steps = np.concatenate([[0], np.cumsum((f[1:] + f[:-1]) / 2)])
    return lambda q: np.interp(q, t, steps / steps[-1])


def circle_cost(u, v, p):
    """W_p^p between the positions of each circle, (L, n) and (L, m) in turns: the best rotation of repeated samples."""
    return _rotated_costs(u, v, p).amin(dim=-1)


def embedded_circle_cost(u, v, p):
    """Linear circular transport, (L,): between the two rotations around the difference of the means."""
    costs = _rotated_costs(u, v, p)
    size = costs.shape[-1]
    shift = (u.mean(dim=-1, keepdim=True) - v.mean(dim=-1, keepdim=True)) * size
    low = shift.floor()
    here, after = (costs.gather(-1, (low + k).long() % size) for k in (0, 1))
    return (here + (shift - low) * (after - here)).squeeze(-1)


def _rotated_costs(u, v, p):
    """The cost of every rotation of n · m repeated samples against each other, (L, n m)."""
    n, m = u.shape[-1], v.shape[-1]
    u = u.sort(dim=-1).values.repeat_interleave(m, dim=-1)
    v = v.sort(dim=-1).values.repeat_interleave(n, dim=-1)
    gaps = [u - v.roll(-k, dims=-1) for k in range(n * m)]
    return torch.stack([((g - g.round()).abs() ** p).mean(dim=-1) for g in gaps], dim=-1)
