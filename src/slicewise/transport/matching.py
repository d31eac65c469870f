"""One-to-one matchings of thousands of samples, nearly optimal, within well under a second.

Exact assignment compares all pairs, and takes minutes for 10,000 samples. Here each sample has some candidates: its
nearest partners, those whose nearest it is, and its partners along random lines, which alone are a whole matching, so
that there always is one. An auction picks among them (Bertsekas): whoever has no partner bids for the one it likes
best, and prices rise until nobody wants to change for less than ε.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.support import matching_loops

# Nearest partners of each sample, and samples nearest to each partner, that are candidates.
_NEAREST, _NEAREST_BACK = 32, 8
# Random lines along which samples are also matched.
_LINES = 4
# Up to so many samples all pairs are candidates.
_ALL_PAIRS = 1024
# What candidates of a sample typically differ by is told by so many of the nearest.
_NEARBY = 16
# Pairs whose distances are computed at a time.
_BLOCK = 2**24
# Beyond so many pairs nearest neighbors are looked for near a sample's place along lines only.
_MOST_PAIRS = 4 * 10**10
_WINDOW = 64
# ε from one auction to the next.
_SHRINK = 0.2
# Costs above so many times what candidates typically differ by grow with their logarithm: prices rise to the largest
# cost, and of very large ones the last digits are lost that tell ordinary candidates apart.
_ORDINARY = 1e6
# Bids for each sample after which ε grows: a matching is found with any ε, with a large one soon.
_PATIENCE = 2000
# Up to so many rows bid one after another: a round costs as much as some twenty bids.
_FEW = 20

Array = Any


def match_samples(
    x: Tensor, y: Tensor, *, near: Tensor | None = None, precision: float = 0.01, seed: int = 0
) -> Tensor:
    """Match samples one to one, so that the sum of squared distances is nearly the least.

    Args:
        x: Samples (n, d).
        y: Samples (n, d).
        near: Where to look for partners of each x, (n, d): among the y nearest to it. None: near x itself.
        precision: By how much the matching may cost more than the best among its candidates, per sample, as a part of
            what candidates typically differ by.
        seed: Of the lines along which some candidates are found.

    Returns:
        The partner of each x, an index into y, (n,), on the CPU.
    """
    center = y.median(dim=-2).values
    x, y = (x - center).double(), (y - center).double()
    near = x if near is None else (near - center).double()
    if not all(bool(torch.isfinite(t).all()) for t in (x, y, near)):
        raise ValueError("samples to match hold NaN or infinity: leave those out")
    starts, columns = _candidates(near, y, seed)
    costs = _costs(x.cpu(), y.cpu(), starts, columns)
    return torch.from_numpy(_auction(starts, columns, costs, precision))


def matched_distance(x: Tensor, y: Tensor) -> float:
    """An upper bound of the exact W_2 between x (n, d) and y (n, d), equally weighted: that of a nearly optimal matching."""
    # Precise, so that samples that coincide are seen to.
    partners = match_samples(x, y, precision=1e-10).to(y.device)
    gaps = x.double() - y[partners].double()
    unit = gaps.abs().max()  # so that no square is zero or infinite
    return float(unit * (gaps / torch.where(unit > 0, unit, 1)).square().sum(dim=-1).mean().sqrt())


def _candidates(x: Tensor, y: Tensor, seed: int) -> tuple[Array, Array]:
    """Which y each x may get: those of x_i are `columns[starts[i] : starts[i + 1]]`."""
    n = len(x)
    if n <= _ALL_PAIRS:
        return np.arange(n + 1) * n, np.tile(np.arange(n), n)
    generator = torch.Generator().manual_seed(seed)
    lines = torch.randn(x.shape[-1], _LINES, generator=generator, dtype=torch.float64).to(x.device)
    orders = [(t @ lines).argsort(dim=0) for t in (x, y)]
    forth, back = min(_NEAREST, n), min(_NEAREST_BACK, n)
    everyone = torch.arange(n)
    if n * n <= _MOST_PAIRS:
        of_x, of_y = _nearest_distinct(x, y, forth, generator), _nearest(y, x, back)
    else:
        of_x = _nearest_along(x, y, forth, orders[0], orders[1])
        of_y = _nearest_along(y, x, back, orders[1], orders[0])
    rows = [everyone.repeat_interleave(of_x.shape[1]), of_y.flatten(), *orders[0].cpu().T]
    columns = [of_x.flatten(), everyone.repeat_interleave(back), *orders[1].cpu().T]
    pairs = np.unique((torch.cat(rows) * n + torch.cat(columns)).numpy())
    starts = np.searchsorted(pairs, np.arange(n + 1) * n)
    return starts, pairs % n


def _nearest(x: Tensor, y: Tensor, k: int) -> Tensor:
    """The k samples of y (m, d) nearest to each of x (n, d), (n, k), in no order."""
    # Which are nearest may be decided by rounding: what they cost is computed from differences.
    scale = _scale(y)
    x, y = (x / scale).float(), (y / scale).float()
    loops = None if x.is_cuda else matching_loops()
    squares = y.square().sum(dim=-1)
    found = torch.empty(len(x), k, dtype=torch.int64)
    for rows in torch.arange(len(x)).split(max(1, _BLOCK // len(y))):
        here = x[rows.to(x.device)]
        scores = torch.addmm(squares, here, y.T, alpha=-2)  # |x − y|² but for |x|²
        if loops is None:
            found[rows] = scores.topk(k, largest=False, sorted=False).indices.cpu()
        else:
            found[rows] = loops.least(scores, k)
    return found


def _nearest_distinct(x: Tensor, y: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """As `_nearest`, of different places: where several y are equal, two of them chosen at random stand for all."""
    places, which, counts = torch.unique(y.cpu(), dim=0, return_inverse=True, return_counts=True)
    if len(places) == len(y):
        return _nearest(x, y, k)
    near = _nearest(x, places.to(y.device), min(k, len(places)))
    first = counts.cumsum(0) - counts
    draws = torch.rand(*near.shape, 2, generator=generator, dtype=torch.float64)
    picked = first[near].unsqueeze(-1) + (draws * counts[near].unsqueeze(-1)).long()
    return which.argsort(stable=True)[picked].flatten(1)


def _nearest_along(x: Tensor, y: Tensor, k: int, x_order: Tensor, y_order: Tensor) -> Tensor:
    """As `_nearest`, among the y close to x's place along one of some lines; the orders are (n, lines)."""
    places, n = x_order.argsort(dim=0), len(y)
    shifts = torch.arange(-_WINDOW, _WINDOW, device=x.device)
    lines = torch.arange(x_order.shape[1], device=x.device)[:, None]
    found = torch.empty(len(x), k, dtype=torch.int64)
    for rows in torch.arange(len(x)).split(max(1, _BLOCK // (2 * _LINES * _WINDOW * x.shape[-1]))):
        here = rows.to(x.device)
        nearby = (places[here].unsqueeze(-1) + shifts).clamp(0, n - 1)  # (r, lines, places)
        candidates = y_order[nearby, lines].flatten(1).sort(dim=1).values
        distances = (x[here].unsqueeze(1) - y[candidates]).square().sum(dim=-1)
        # Who is near along several lines counts once.
        distances[:, 1:][candidates[:, 1:] == candidates[:, :-1]] = torch.inf
        best = distances.topk(k, largest=False, sorted=False).indices
        found[rows] = candidates.gather(1, best).cpu()
    return found


def _scale(samples: Tensor) -> Tensor:
    """A positive number about as large as the coordinates of most samples."""
    sizes = samples.abs()
    for scale in (sizes.median(), sizes.mean()):
        if scale > 0:
            return scale
    return torch.ones_like(scale)


def _costs(x: Tensor, y: Tensor, starts: Array, columns: Array) -> Array:
    """The squared distance of every candidate, (E,), in a unit in which most are neither large nor small."""
    scale = _scale(y)
    if len(columns) == len(x) ** 2:
        gaps = torch.cdist(x / scale, y / scale, compute_mode="donot_use_mm_for_euclid_dist")
        return gaps.square().clamp(max=1e100).flatten().numpy()
    rows = torch.from_numpy(np.repeat(np.arange(len(x)), np.diff(starts)))
    partners = torch.from_numpy(columns)
    costs = torch.empty(len(rows), dtype=torch.float64)
    for edges in torch.arange(len(rows)).split(max(1, _BLOCK // (8 * x.shape[-1]))):
        gaps = (x[rows[edges]] - y[partners[edges]]) / scale
        costs[edges] = gaps.square().sum(dim=-1)
    return costs.clamp(max=1e100).numpy()


def _auction(starts: Array, columns: Array, costs: Array, precision: float) -> Array:
    """The partner of each row, (n,): a matching of nearly least cost, by auctions with ever smaller ε."""
    n = len(starts) - 1
    least = np.minimum.reduceat(costs, starts[:-1])
    # The least cost of a row is paid in any case: without it, prices are of the size of differences.
    costs = costs - np.repeat(least, np.diff(starts))
    unit = _typical_difference(starts, costs)
    over = np.maximum(costs / (_ORDINARY * unit), 1)
    costs = np.minimum(costs, _ORDINARY * unit) * (1 + np.log(over))
    prices, loops = np.zeros(n), matching_loops()
    bid = _bid if loops is None else loops.auction
    # From an ε as large as the costs, so that whoever must go far is found in a few bids, not in many small ones.
    last = precision * unit
    epsilon = max(costs.max() / 4, last)
    while True:
        owners, partners = np.full(n, -1), np.full(n, -1)
        rising, budget = epsilon, _PATIENCE * n
        while (partners < 0).any():
            bid(starts, columns, costs, prices, rising, budget, owners, partners)
            rising *= 4  # only matters where the budget was not enough
        if epsilon <= last:
            return partners
        epsilon = max(_SHRINK * epsilon, last)


def _typical_difference(starts: Array, costs: Array) -> float:
    """By how much candidates that are nearly the best cost more than the best of a row, whose cost is 0."""
    some = range(0, len(starts) - 1, -(-len(starts) // 1000))  # a thousand rows tell
    rows = [costs[starts[i] : starts[i + 1]] for i in some]
    last = [min(_NEARBY, len(row)) - 1 for row in rows]
    nearby = np.array([np.partition(row, i)[i] for row, i in zip(rows, last, strict=True)])
    for unit in (np.median(nearby), nearby.mean(), costs.max()):
        if unit > 0:
            return float(unit)
    return 1.0


def _bid(
    starts: Array,
    columns: Array,
    costs: Array,
    prices: Array,
    epsilon: float,
    budget: int,
    owners: Array,
    partners: Array,
) -> int:
    """Let the rows without a partner bid until each has one, or for `budget` bids; return how many bids were made.

    A row bids for the column of least cost plus price. It raises that price until its second choice would do as well,
    and by ε more; whoever had the column has to bid again. Many rows bid all at once, few one after another.
    """
    bids = 0
    waiting = np.flatnonzero(partners < 0)
    while len(waiting) > _FEW and bids < budget:
        bids += len(waiting)
        _one_round(waiting, starts, columns, costs, prices, epsilon, owners, partners)
        waiting = np.flatnonzero(partners < 0)
    queue = deque(waiting.tolist())
    while queue and bids < budget:
        row = queue.popleft()
        some = slice(starts[row], starts[row + 1])
        values = costs[some] + prices[columns[some]]
        choice = int(values.argmin())
        column, first = columns[some][choice], values[choice]
        values[choice] = np.inf
        second = values.min()
        raised = prices[column] + ((second - first if second < np.inf else 0.0) + epsilon)
        # Where ε is below the precision of a price, the price still has to rise: else two rows bid for ever.
        prices[column] = max(raised, np.nextafter(prices[column], np.inf))
        if owners[column] >= 0:
            partners[owners[column]] = -1
            queue.append(int(owners[column]))
        owners[column], partners[row] = row, column
        bids += 1
    return bids


def _one_round(
    waiting: Array,
    starts: Array,
    columns: Array,
    costs: Array,
    prices: Array,
    epsilon: float,
    owners: Array,
    partners: Array,
) -> None:
    """Take one bid of each waiting row; the highest bid for a column wins."""
    lengths = np.diff(starts)[waiting]
    begin = np.concatenate([[0], np.cumsum(lengths)])
    edges = np.arange(begin[-1]) + np.repeat(starts[waiting] - begin[:-1], lengths)
    values = costs[edges] + prices[columns[edges]]
    first = np.minimum.reduceat(values, begin[:-1])
    # The first edge of each row that attains its least value.
    attained = values == np.repeat(first, lengths)
    choice = np.minimum.reduceat(np.where(attained, np.arange(len(edges)), len(edges)), begin[:-1])
    values[choice] = np.inf
    second = np.minimum.reduceat(values, begin[:-1])
    wanted = columns[edges[choice]]
    raised = prices[wanted] + (np.where(second < np.inf, second - first, 0.0) + epsilon)
    offers = np.maximum(raised, np.nextafter(prices[wanted], np.inf))
    order = np.argsort(offers, kind="stable")
    highest = np.empty(len(prices), np.int64)
    highest[wanted[order]] = order  # the last to be written is the highest
    winners = np.unique(highest[wanted])
    taken = wanted[winners]
    before = owners[taken]
    partners[before[before >= 0]] = -1
    owners[taken], partners[waiting[winners]] = waiting[winners], taken
    prices[taken] = offers[winners]
