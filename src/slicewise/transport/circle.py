"""Optimal transport on circles, for many circles at once, in plain PyTorch.

Positions are in turns: numbers modulo 1. A plan on the circle is a plan on the line once the circle is cut: quantile q of
u goes to quantile q + θ of v, where v continues periodically, v_(j+m) = v_j + 1. The cost is convex in θ, and linear
between the values at which a knot of u meets one of v, so that a bisection on its slope finds the best cut.

Reference:
    J. Delon, J. Salomon, A. Sobolevski, Fast transport optimization for Monge costs on the circle, 2010.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from slicewise.support import broadcast, line_loops, sort_lines
from slicewise.transport.one_dim import merge_knots, order_of, pick, power, running_shares

# Halvings of an interval of length two: beyond what double precision resolves.
_HALVINGS = 56
# How far beside a kink of the cost its slopes are taken, in shares of the mass.
_BESIDE = 1e-9


class CirclePlan(NamedTuple):
    """An optimal plan on each circle; entries of zero mass occur."""

    u_index: Tensor  # (..., K), the sample of u
    v_index: Tensor  # (..., K), the sample of v
    laps: Tensor  # (..., K), how many turns v is carried on by: the way of the mass is u − v − laps
    mass: Tensor  # (..., K)


def circle_costs(
    u: Tensor,
    v: Tensor,
    *,
    p: float,
    u_weights: Tensor | None = None,
    v_weights: Tensor | None = None,
) -> Tensor:
    """Compute W_p^p between samples on circles of circumference one.

    Differentiable, also twice, in positions; once in weights. The gradient holds the plan: it is exact wherever the
    cost is differentiable.

    Args:
        u: positions in turns, (..., n).
        v: positions in turns, (..., m).
        p: the order, at least 1.
        u_weights: weights (n,) or (..., n), divided by their sum. None is equal weights.
        v_weights: the same for v.

    Returns:
        The costs, (...).

    >>> u, v = torch.tensor([0.9, 0.4]), torch.tensor([0.1, 0.6])
    >>> circle_costs(u, v, p=1)
    tensor(0.2000)
    """
    plan = plan_on_circles(u, v, p=p, u_weights=u_weights, v_weights=v_weights)
    gap = pick(u % 1, plan.u_index) - pick(v % 1, plan.v_index) - plan.laps.to(u.dtype)
    costs = (plan.mass.to(gap.dtype) * power(gap, p)).sum(dim=-1)
    for weights in (u_weights, v_weights):
        if weights is not None and weights.requires_grad and torch.is_grad_enabled():
            return costs + _weight_terms(u.detach(), v.detach(), u_weights, v_weights, p)
    return costs


def plan_on_circles(
    u: Tensor,
    v: Tensor,
    *,
    p: float,
    u_weights: Tensor | None = None,
    v_weights: Tensor | None = None,
) -> CirclePlan:
    """Find an optimal plan on each circle; arguments as in `circle_costs`. Nothing is recorded for autograd."""
    with torch.no_grad():
        u_sorted, u_order = _in_order(u.detach(), u_weights)
        v_sorted, v_order = _in_order(v.detach(), v_weights)
        n = u.shape[-1]
        if u_weights is None and v_weights is None and n == v.shape[-1]:
            k = _best_rotation(u_sorted, v_sorted, p)  # (..., 1)
            place = torch.arange(n, device=u.device) + k
            index, laps = place.remainder(n), place.div(n, rounding_mode="floor")
            mass = torch.full_like(u_sorted, 1 / n)
            shape = broadcast(u_order.shape, index.shape)
            return CirclePlan(u_order.expand(shape), pick(v_order, index), laps, mass)
        a, b = _both_knots(u, v, u_weights, v_weights, u_order, v_order)
        shift = _best_shift(u_sorted, v_sorted, a, b, p)
        u_rank, v_rank, laps, mass = _cells_at(a, b, shift)
        return CirclePlan(pick(u_order, u_rank), pick(v_order, v_rank), laps, mass)


def uniform_circle_costs(u: Tensor, u_weights: Tensor | None = None) -> Tensor:
    """Compute W_2^2 between samples on circles and the uniform law, in closed form; differentiable.

    With sorted positions u_i of weights w_i, and W_i the sum of the weights before the i-th:
    Σ w_i u_i² − (Σ w_i u_i)² + Σ w_i u_i (1 − w_i − 2 W_i) + 1/12.

    Args:
        u: positions in turns, (..., n).
        u_weights: weights (n,) or (..., n), divided by their sum. None is equal weights.

    Returns:
        The costs, (...).

    >>> uniform_circle_costs(torch.tensor([0.3], dtype=torch.float64))  # a single point: 1/12
    tensor(0.0833, dtype=torch.float64)

    Reference:
        C. Bonet et al., Spherical sliced-Wasserstein, 2023.
    """
    n = u.shape[-1]
    if u_weights is None:
        known = sort_lines(u % 1)  # values alone, where nothing asks for their gradient
        ordered = _in_order(u, None)[0] if known is None else known
        places = torch.arange(n, device=u.device, dtype=u.dtype)
        # (u_i − u-bar − (i + 1/2)/n + 1/2)² summed: nothing cancels, in single precision either.
        off = ordered - (places + 0.5) / n
        return (off - off.mean(dim=-1, keepdim=True)).square().mean(dim=-1) + 1 / (12 * n * n)
    ordered, order = _in_order(u, u_weights)
    mass = pick(u_weights.double(), order)
    mass = mass / mass.sum(dim=-1, keepdim=True)
    middle = mass.cumsum(dim=-1) - mass / 2
    off = ordered.double() - middle
    off = off - (mass * off).sum(dim=-1, keepdim=True)
    return ((mass * off.square()).sum(dim=-1) + (mass**3).sum(dim=-1) / 12).to(u.dtype)


def linear_circle_costs(
    u: Tensor, v: Tensor, *, u_weights: Tensor | None = None, v_weights: Tensor | None = None
) -> Tensor:
    """Compute the squared linear circular transport distance: that of embeddings by plans from the uniform law.

    Quantile q of u is compared with quantile q + mean(u) − mean(v) of v: no cut is searched. The integral over q is
    exact, and the gradient includes the change of the means.

    Args:
        u, v, u_weights, v_weights: as in `circle_costs`.

    Returns:
        The costs, (...).

    >>> u, v = torch.tensor([0.2, 0.5, 0.8]), torch.tensor([0.3, 0.6, 0.9])
    >>> linear_circle_costs(u, v)
    tensor(0.0240)

    Reference:
        R. D. Martin et al., LCOT: Linear circular optimal transport, 2024.
    """
    u_sorted, u_order = _in_order(u, u_weights)
    v_sorted, v_order = _in_order(v, v_weights)
    a, b = _both_knots(u, v, u_weights, v_weights, u_order, v_order)
    shift = _mean(u_sorted, a) - _mean(v_sorted, b)
    loops = line_loops(u_sorted, v_sorted, a, b)
    if loops is not None:
        return loops.shifted_costs(u_sorted, v_sorted, a, b, shift)
    u_rank, v_rank, _, mass = _cells_at(a, b, shift)
    gap = pick(u_sorted, u_rank) - pick(v_sorted, v_rank)
    gap = gap - gap.detach().round()
    # Where u = v the cost has a kink in the means; the cells that would open there have no width, and no slope.
    mass = torch.where(mass > 0, mass, 0)
    return (mass.to(gap.dtype) * gap.square()).sum(dim=-1)


def _in_order(positions: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Positions modulo 1 in order, and the order; samples of weight zero come last, wherever they are."""
    turned = positions % 1
    if weights is not None:
        turned = torch.where(weights > 0, turned, 1)
    order = order_of(turned)
    return pick(turned, order), order


def _both_knots(
    u: Tensor,
    v: Tensor,
    u_weights: Tensor | None,
    v_weights: Tensor | None,
    u_order: Tensor,
    v_order: Tensor,
) -> tuple[Tensor, Tensor]:
    """Where the mass of each sorted sample ends, in shares of the whole, (..., n) and (..., m) in float64."""
    a, b = (
        running_shares(None if w is None else pick(w.double(), order), t.shape[-1], t.device)
        for t, w, order in ((u, u_weights, u_order), (v, v_weights, v_order))
    )
    return a, b


def _mean(values: Tensor, knots: Tensor) -> Tensor:
    mass = torch.diff(knots, dim=-1, prepend=torch.zeros_like(knots[..., :1]))
    return (mass * values.double()).sum(dim=-1, keepdim=True)


def _best_rotation(u: Tensor, v: Tensor, p: float) -> Tensor:
    """By how many places sorted v is rotated against sorted u in the best plan, (..., 1), for equal masses."""
    loops = line_loops(u, v)
    if loops is not None:
        return loops.rotations(u, v, p)
    n = u.shape[-1]
    places = torch.arange(n, device=u.device)
    batch = broadcast(u.shape[:-1], v.shape[:-1])
    low = torch.full((*batch, 1), -n, device=u.device)
    high = torch.full_like(low, n)

    def cost(k: Tensor) -> Tensor:
        at = places + k
        carried = pick(v, at.remainder(n)) + at.div(n, rounding_mode="floor")
        return power(u - carried, p).sum(dim=-1, keepdim=True)

    for _ in range((2 * n).bit_length()):
        middle = (low + high).div(2, rounding_mode="floor")
        rises = cost(middle + 1) >= cost(middle)
        high = torch.where(rises, middle, high)
        low = torch.where(rises, low, torch.minimum(middle + 1, high))
    return high


def _best_shift(u: Tensor, v: Tensor, a: Tensor, b: Tensor, p: float) -> Tensor:
    """The best θ, (..., 1) in float64, for sorted positions and their knots."""
    loops = line_loops(u, v, a, b)
    if loops is not None:
        return loops.shifts(u, v, a, b, p)
    batch = broadcast(u.shape[:-1], v.shape[:-1], a.shape[:-1], b.shape[:-1])
    low = torch.full((*batch, 1), -1.0, dtype=torch.float64, device=u.device)
    high = torch.full_like(low, 1.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rises = _slope_at(u, v, a, b, middle, p) >= 0
        high, low = torch.where(rises, middle, high), torch.where(rises, low, middle)
    return high


def _slope_at(u: Tensor, v: Tensor, a: Tensor, b: Tensor, shift: Tensor, p: float) -> Tensor:
    """The right derivative of the cost in the shift, (..., 1): mass at each knot of v passes to its successor."""
    at = b - shift  # (..., m), where the knots of v lie among the quantiles of u, some laps away
    lap = at.ceil() - 1
    inside = at - lap  # (0, 1]
    batch = inside.shape[:-1]
    rank = torch.searchsorted(a.expand(*batch, -1).contiguous(), inside.contiguous())
    here = pick(u, rank.clamp(max=u.shape[-1] - 1)).double() + lap
    there = torch.cat([v[..., 1:], v[..., :1] + 1], dim=-1)
    return (power(here - there, p) - power(here - v, p)).sum(dim=-1, keepdim=True)


def _cells_at(a: Tensor, b: Tensor, shift: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The pieces of [0, 1] on which quantile q of u and quantile q + θ of v are constant.

    Returns the rank in u, the rank in v, the laps of v and the mass, (..., n + m + 1) each; the mass is differentiable
    in the knots and the shift.
    """
    m = b.shape[-1]
    lap = shift.floor()  # whole turns, (..., 1)
    at = b - (shift - lap)  # in (−1, 1]
    late = (at <= 0).to(torch.uint8)  # these come after the others, one turn on
    _, order = late.sort(dim=-1, stable=True)
    knots = pick(at + late, order)
    laps = pick(lap.detach() + late, order)
    rank = torch.cat([order, order[..., :1]], dim=-1)
    laps = torch.cat([laps, laps[..., :1] + 1], dim=-1)
    # The first one again up to the end: its knot is one turn on.
    knots = torch.cat([knots.clamp(max=1), torch.ones_like(knots[..., :1])], dim=-1)
    cells = merge_knots(a, knots)
    v_place = cells.v_rank.clamp(max=m)
    return cells.u_rank, pick(rank, v_place), pick(laps, v_place), cells.width


def _weight_terms(
    u: Tensor, v: Tensor, u_weights: Tensor | None, v_weights: Tensor | None, p: float
) -> Tensor:
    """Zero, with the gradient of the costs in the weights.

    The least cost is at a kink. Beside it, where the slope is s₋ < 0 on one side and s₊ > 0 on the other, the costs at
    fixed shifts have derivatives in the weights; that of the least cost is the combination of both in which the slopes
    cancel.
    """
    u_sorted, u_order = _in_order(u, u_weights)
    v_sorted, v_order = _in_order(v, v_weights)
    a, b = _both_knots(u, v, u_weights, v_weights, u_order, v_order)
    with torch.no_grad():
        best = _best_shift(u_sorted, v_sorted, a, b, p)
        slopes = [
            _slope_at(u_sorted, v_sorted, a, b, best + side, p).squeeze(-1)
            for side in (-_BESIDE, _BESIDE)
        ]
        total = slopes[1] - slopes[0]
        share = torch.where(total > 0, slopes[1] / torch.where(total > 0, total, 1), 0.5)
    found = torch.zeros((), dtype=torch.float64, device=u.device)
    for side, factor in ((-_BESIDE, share), (_BESIDE, 1 - share)):
        u_rank, v_rank, laps, mass = _cells_at(a, b, best + side)
        gap = pick(u_sorted, u_rank) - pick(v_sorted, v_rank) - laps
        found = found + factor * (mass * power(gap, p)).sum(dim=-1)
    return (found - found.detach()).to(u.dtype)
