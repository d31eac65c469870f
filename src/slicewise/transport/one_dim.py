"""Optimal transport on the line, for many lines at once, in plain PyTorch: sort, price, differentiate."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from slicewise.support import broadcast, line_loops

# Knots of two sides that are this near, in shares of the mass, are one.
TIED = 1e-14


class Match(NamedTuple):
    """What `match` returns. Gradients that were not asked for are None."""

    cost: Tensor  # (...), W_p^p on each line
    u_grad: Tensor | None  # (..., n)
    v_grad: Tensor | None  # (..., m)
    u_weights_grad: Tensor | None  # (..., n)
    v_weights_grad: Tensor | None  # (..., m)


class Wanted(NamedTuple):
    """Which gradients a `match` should return: for u, for v, for the weights of u, of v."""

    u: bool = True
    v: bool = True
    u_weights: bool = False
    v_weights: bool = False


class Cells(NamedTuple):
    """The pieces of [0, 1] on which both quantile functions are constant, n + m of them.

    Cell k carries mass `width[k]` from the `u_rank[k]`-th smallest u to the `v_rank[k]`-th smallest v.
    Cells of zero width occur wherever both functions jump at once; they cost nothing.
    """

    u_rank: Tensor  # (..., n + m)
    v_rank: Tensor
    width: Tensor
    from_u: Tensor  # does the cell end where u jumps (True) or where v does?
    order: Tensor  # the knot, counted through u's then v's, that ends each cell


def match(
    u: Tensor,
    v: Tensor,
    *,
    p: float,
    u_weights: Tensor | None = None,
    v_weights: Tensor | None = None,
    v_is_sorted: bool = False,
    wanted: Wanted = Wanted(),
) -> Match:
    """Price the transport of u (..., n) to v (..., m) under |u − v|^p, with its gradients.

    Weights broadcast against the leading dimensions and are divided by their own sum, so the
    gradient to them is the Kantorovich potential centred to mean zero. Zero weight means absent.

    >>> u, v = torch.tensor([3.0, 0.0]), torch.tensor([1.0, 4.0])
    >>> match(u, v, p=2).cost, match(u, v, p=2).u_grad
    (tensor(1.), tensor([-1., -1.]))
    """
    u_sorted, u_order = u.sort(dim=-1, stable=True)
    if v_is_sorted:
        v_sorted, v_order = v, torch.arange(v.shape[-1], device=v.device).expand(v.shape)
    else:
        v_sorted, v_order = v.sort(dim=-1, stable=True)
    if u_weights is None and v_weights is None and u.shape[-1] == v.shape[-1]:
        gap = u_sorted - v_sorted  # (..., n)
        cost = power(gap, p).mean(dim=-1)
        slope = _slope(gap, p) / u.shape[-1] if wanted.u or wanted.v else gap
        u_grad = unsort(slope, u_order) if wanted.u else None
        v_grad = unsort(-slope, v_order) if wanted.v else None
        return Match(cost, u_grad, v_grad, None, None)

    u_mass = None if u_weights is None else _sorted_weights(u_weights, u_order)  # (..., n)
    v_mass = None if v_weights is None else _sorted_weights(v_weights, v_order)
    cells = _cells(u, v, u_mass, v_mass)
    gap = pick(u_sorted, cells.u_rank) - pick(v_sorted, cells.v_rank)  # (..., n + m)
    width = cells.width.to(gap.dtype)
    # A padding sample may lie anywhere; where, keeps 0 · inf out of the sum.
    cost = torch.where(width > 0, width * power(gap, p), 0).sum(dim=-1)
    u_grad = v_grad = u_weights_grad = v_weights_grad = None
    if wanted.u or wanted.v:
        slope = torch.where(width > 0, width * _slope(gap, p), 0)
        if wanted.u:
            u_grad = unsort(_collect(slope, cells.u_rank, u.shape[-1]), u_order)
        if wanted.v:
            v_grad = unsort(_collect(-slope, cells.v_rank, v.shape[-1]), v_order)
    if wanted.u_weights and u_mass is not None:
        potential = potential_of(u_sorted, v_sorted, u_mass, cells, p, side="u")
        u_weights_grad = unsort(potential, u_order)
    if wanted.v_weights and v_mass is not None:
        potential = potential_of(v_sorted, u_sorted, v_mass, cells, p, side="v")
        v_weights_grad = unsort(potential, v_order)
    return Match(cost, u_grad, v_grad, u_weights_grad, v_weights_grad)


def plan_mean(
    u: Tensor,
    v: Tensor,
    function: Callable[[Tensor], Tensor],
    *,
    u_weights: Tensor | None = None,
    v_weights: Tensor | None = None,
) -> Tensor:
    """For each u (..., n), the mean of function(u − partner) over its partners in the plan `match` prices.

    0 for samples of weight zero, which have none.
    """
    u_sorted, u_order = u.sort(dim=-1, stable=True)
    v_sorted, v_order = v.sort(dim=-1, stable=True)
    if u_weights is None and v_weights is None and u.shape[-1] == v.shape[-1]:
        return unsort(function(u_sorted - v_sorted), u_order)
    u_mass = None if u_weights is None else _sorted_weights(u_weights, u_order)
    v_mass = None if v_weights is None else _sorted_weights(v_weights, v_order)
    cells = _cells(u, v, u_mass, v_mass)
    gap = pick(u_sorted, cells.u_rank) - pick(v_sorted, cells.v_rank)  # (..., n + m)
    width = cells.width.to(gap.dtype).expand(gap.shape)
    present = width > 0
    values = torch.where(present, width * function(torch.where(present, gap, 0)), 0)
    total, mass = (_collect(t, cells.u_rank, u.shape[-1]) for t in (values, width))
    return unsort(torch.where(mass > 0, total / torch.where(mass > 0, mass, 1), 0), u_order)


def plan_on_lines(
    u: Tensor, v: Tensor, *, u_weights: Tensor | None = None, v_weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The plan `match` prices, as indices into u (..., n) and v (..., m) and the mass that goes between them."""
    u_order, v_order = (order_of(t) for t in (u, v))
    if u_weights is None and v_weights is None and u.shape[-1] == v.shape[-1]:
        return u_order, v_order, u.new_full((), 1 / u.shape[-1]).expand(u.shape)
    loops = line_loops(u, v, *(w for w in (u_weights, v_weights) if w is not None))
    if loops is not None:
        rows, cols, mass = loops.line_plans((u_order, v_order), u_weights, v_weights)
        return rows, cols, mass.to(u.dtype)
    u_mass = None if u_weights is None else _sorted_weights(u_weights, u_order)
    v_mass = None if v_weights is None else _sorted_weights(v_weights, v_order)
    cells = _cells(u, v, u_mass, v_mass)
    return pick(u_order, cells.u_rank), pick(v_order, cells.v_rank), cells.width.to(u.dtype)


def order_of(lines: Tensor) -> Tensor:
    """The stable order of each line (..., n)."""
    lines = lines.detach()
    loops = line_loops(lines)
    return lines.argsort(dim=-1, stable=True) if loops is None else loops.orders(lines)


def potentials_on_lines(
    u: Tensor, v: Tensor, orders: tuple[Tensor, Tensor], a: Tensor, b: Tensor, *, p: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute dual potentials of transport on lines, and its cost.

    Args:
        u: sorted positions, (..., n).
        v: sorted positions, (..., m).
        orders: which sample each of them is, (..., n) and (..., m).
        a: weights of the samples, (n,) or (..., n), in the order of samples and in any scale.
        b: the same for v.
        p: the order of the cost |u − v|^p.

    Returns:
        f (..., n) and g (..., m), in the order of samples, with f_i + g_j ≤ |u_i − v_j|^p, and equality where mass
        goes; and the cost (...) of the plan between a and b, each divided by its sum. Only f + c, g − c is determined.
    """
    loops = line_loops(u, v, a, b)
    if loops is not None:
        return loops.potentials(u, v, orders, a, b, p)
    a_sorted, b_sorted = (pick(w.double(), order) for w, order in zip((a, b), orders, strict=True))
    batch = broadcast(*(t.shape[:-1] for t in (u, v, a_sorted, b_sorted)))
    knots = [running_shares(w, w.shape[-1], u.device) for w in (a_sorted, b_sorted)]
    cells = merge_knots(*(k.expand(*batch, -1) for k in knots))
    # From one cell to the next, one side steps to its next sample; its potential then follows from the other's.
    here = power(pick(u, cells.u_rank) - pick(v, cells.v_rank), p).double()  # (..., n + m)
    change = torch.diff(here, dim=-1, prepend=here[..., :1])
    change = _shared_at_ties(change, here, cells, u, v, p)
    found = []
    for rank, order, start in (
        (cells.u_rank, orders[0], 0),
        (cells.v_rank, orders[1], here[..., :1]),
    ):
        moved = torch.diff(rank, dim=-1, prepend=rank[..., :1]) > 0
        value = start + torch.where(moved, change, 0).cumsum(dim=-1)
        by_rank = value.new_zeros(*value.shape[:-1], order.shape[-1]).scatter(-1, rank, value)
        found.append(unsort(by_rank, order).to(u.dtype))
    return found[0], found[1], (cells.width * here).sum(dim=-1).to(u.dtype)


def _shared_at_ties(
    change: Tensor, here: Tensor, cells: Cells, u: Tensor, v: Tensor, p: float
) -> Tensor:
    """The changes of potentials from cell to cell; where both sides step at once, the mean of both orders.

    Each order gives potentials; the mean is symmetric, and zero between equal sets.
    """
    wide = cells.width > TIED
    moved_u, moved_v = (
        torch.diff(rank, dim=-1, prepend=rank[..., :1]) > 0 for rank in (cells.u_rank, cells.v_rank)
    )
    # A cell k of some width, then one without, entered by a step of one side, then a step of the other.
    one, other = slice(1, -1), slice(2, None)
    crossed = (moved_u[..., one] & moved_v[..., other]) | (moved_v[..., one] & moved_u[..., other])
    tied = wide[..., :-2] & ~wide[..., one] & crossed
    u_first = moved_u[..., one]
    # The corner that is passed by if the other side steps first.
    u_rank = torch.where(u_first, cells.u_rank[..., :-2], cells.u_rank[..., other])
    v_rank = torch.where(u_first, cells.v_rank[..., other], cells.v_rank[..., :-2])
    corner = power(pick(u, u_rank) - pick(v, v_rank), p).double()
    before, after = here[..., :-2], here[..., other]
    first = torch.where(tied, (change[..., one] + after - corner) / 2, change[..., one])
    shared = torch.cat([change[..., :1], first, change[..., -1:]], dim=-1)
    second = torch.where(tied, (change[..., other] + corner - before) / 2, shared[..., other])
    return torch.cat([shared[..., :2], second], dim=-1)


def _cells(u: Tensor, v: Tensor, u_mass: Tensor | None, v_mass: Tensor | None) -> Cells:
    n, m = u.shape[-1], v.shape[-1]
    if u_mass is None and v_mass is None:
        return uniform_cells(n, m, u.device)
    return merge_knots(running_shares(u_mass, n, u.device), running_shares(v_mass, m, u.device))


def uniform_cells(n: int, m: int, device: torch.device | None = None) -> Cells:
    """The cells of n and m samples of equal weight, which are the same on every line."""
    # Uniform masses jump at multiples of 1/n and 1/m: exact in integers.
    u_knots = torch.arange(1, n + 1, device=device) * m
    v_knots = torch.arange(1, m + 1, device=device) * n
    cells = merge_knots(u_knots, v_knots)
    return cells._replace(width=cells.width.double() / (n * m))


def running_shares(mass: Tensor | None, n: int, device: torch.device) -> Tensor:
    """Where the mass of each sorted sample ends, as a share of the whole, (..., n) in float64."""
    if mass is None:
        return torch.arange(1, n + 1, device=device, dtype=torch.float64) / n
    total = mass.cumsum(dim=-1)
    # Dividing by the last entry pins the end to exactly 1, and with it trailing zero weights.
    return total / total[..., -1:]


def merge_knots(u_knots: Tensor, v_knots: Tensor) -> Cells:
    """The cells between the knots (..., n) and (..., m) of two sides; both end alike."""
    n, m = u_knots.shape[-1], v_knots.shape[-1]
    batch = broadcast(u_knots.shape[:-1], v_knots.shape[:-1])
    knots = torch.cat([u_knots.expand(*batch, n), v_knots.expand(*batch, m)], dim=-1)
    ends, order = knots.sort(dim=-1, stable=True)  # (..., n + m)
    from_u = order < n
    u_before = from_u.cumsum(dim=-1) - from_u.long()
    v_before = torch.arange(n + m, device=knots.device) - u_before
    width = torch.diff(ends, dim=-1, prepend=torch.zeros_like(ends[..., :1]))
    return Cells(u_before.clamp(max=n - 1), v_before.clamp(max=m - 1), width, from_u, order)


def potential_of(
    near: Tensor, far: Tensor, mass: Tensor, cells: Cells, p: float, *, side: str
) -> Tensor:
    """Derivative of the cost in each weight of the `near` side, in sorted order.

    Moving the knot that ends cell k by ε trades ε of (near rank, far rank) against ε of
    (near rank + 1, far rank); a weight moves its own knot and all later ones but the last, pinned one.
    """
    n = near.shape[-1]
    at_u = side == "u"
    # Between real neighbours absent samples must not be stepped on: theirs may be any distance away.
    real = _real_neighbour(near, mass)
    near_rank, far_rank = (cells.u_rank, cells.v_rank) if at_u else (cells.v_rank, cells.u_rank)
    opposite = pick(far, far_rank)
    here = power(pick(real, near_rank) - opposite, p)
    after = power(pick(real, (near_rank + 1).clamp(max=n - 1)) - opposite, p)
    trade = (here - after).double()
    position = _inverse(cells.order)
    position = position[..., :n] if at_u else position[..., -n:]
    per_knot = pick(trade, position)  # (..., n)
    potential = per_knot.flip(-1).cumsum(dim=-1).flip(-1)
    at_knot = pick(opposite, position)
    potential = potential + (power(near - at_knot, p) - power(real - at_knot, p)).double()
    share = mass / mass.sum(dim=-1, keepdim=True)
    centred = potential - (share * potential).sum(dim=-1, keepdim=True)
    return (centred / mass.sum(dim=-1, keepdim=True)).to(near.dtype)


def _real_neighbour(values: Tensor, mass: Tensor) -> Tensor:
    """Sorted values, those of weight zero replaced by the nearest real one before (or the first)."""
    n = values.shape[-1]
    present = (mass > 0).expand(broadcast(mass.shape, values.shape))
    place = torch.where(present, torch.arange(n, device=values.device), -1).cummax(dim=-1).values
    first = present.long().argmax(dim=-1, keepdim=True)
    return pick(values, torch.maximum(place, first))


def _sorted_weights(weights: Tensor, order: Tensor) -> Tensor:
    # float64: a float32 running sum misplaces mass by 1e-3 at a million samples.
    return pick(weights.double(), order)


def power(gap: Tensor, p: float) -> Tensor:
    """|gap|^p."""
    return gap * gap if p == 2 else gap.abs() if p == 1 else gap.abs() ** p


def _slope(gap: Tensor, p: float) -> Tensor:
    """d|gap|^p / d gap; 0 at 0 for p = 1, a valid subgradient."""
    if p == 2:
        return 2 * gap
    if p == 1:
        return gap.sign()
    # Kept from 0: its own derivative there is infinite for p < 2, and 0 · inf would be NaN.
    zero = gap == 0
    apart = torch.where(zero, 1, gap)
    return torch.where(zero, 0, p * apart.abs() ** (p - 1) * apart.sign())


def pick(values: Tensor, index: Tensor) -> Tensor:
    """Entries of values (..., n) at places (..., k) along the last dimension."""
    batch = broadcast(values.shape[:-1], index.shape[:-1])
    return values.expand(*batch, -1).gather(-1, index.expand(*batch, -1))


def unsort(values: Tensor, order: Tensor) -> Tensor:
    """Values (..., n) of sorted samples, in the order of the samples."""
    return torch.zeros_like(values).scatter(-1, order.expand(values.shape), values)


def _collect(values: Tensor, rank: Tensor, n: int) -> Tensor:
    # float64: one sample may collect a million terms.
    empty = values.new_zeros(*values.shape[:-1], n, dtype=torch.float64)
    return empty.scatter_add(-1, rank.expand(values.shape), values.double()).to(values.dtype)


def _inverse(order: Tensor) -> Tensor:
    places = torch.arange(order.shape[-1], device=order.device).expand(order.shape)
    return torch.zeros_like(order).scatter(-1, order, places)
