"""Transport of samples to a law that is known: its quantile function takes the place of sorted samples.

Sample i, in order, receives the mass of the law between two levels, its *cell*. A cost is a sum over cells, and what a
cell costs needs three integrals of the law over it (mass, mean, mean square) for p = 2, two of them for p = 1, and a
quadrature for other p. Nothing is sampled.

A `KnownLaw` is handed to the engine in the place of samples y as its *frame*: the mean and the axes of the law as rows
(k, d). Projected on a slice, they say where the law lies on that slice and how wide it is, so that gradients in the law's
parameters and in the slices go the way of those in samples.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from slicewise.support import broadcast, is_transformed
from slicewise.transport.one_dim import Cells, Match, Wanted, pick, potential_of, unsort
from slicewise.transport.sliced import (
    Matcher,
    MovedPoints,
    PointsMatcher,
    PricingMatcher,
    RoundPoints,
    match_slices,
    project,
)

# Nodes of the quadrature of each piece of a cell, for p other than 1 and 2; and how far they reach.
_NODES, _REACH = 41, 3.4
_KEPT = 64  # numbers of samples whose cells are kept, for each law on the line


class LineCells(NamedTuple):
    """The cells of n samples of equal weight on a standard law."""

    places: Tensor  # (n + 1,), where they begin and end
    means: Tensor  # (n,), the mean of each cell
    variance: Tensor  # (), the sum over cells of mass times variance


class LineLaw:
    """A standard law on the line, in float64; a law in R^d lies on each slice as one that is moved and scaled.

    Levels are probabilities in [0, 1]. Integrals "up to x" begin at the lower end of the law; x may be infinite.
    """

    symmetric = True
    second_moment = 1.0

    def quantile(self, level: Tensor) -> Tensor:
        """The place of each level."""
        raise NotImplementedError

    def cdf(self, x: Tensor) -> Tensor:
        """The level of each place."""
        raise NotImplementedError

    def density(self, x: Tensor) -> Tensor:
        """The density at each place, for laws that may be components of a mixture."""
        raise NotImplementedError

    def mean_up_to(self, x: Tensor) -> Tensor:
        """∫ z up to x."""
        raise NotImplementedError

    def square_up_to(self, x: Tensor) -> Tensor:
        """∫ z² up to x."""
        raise NotImplementedError

    def infinite(self, p: float) -> str | None:
        """Why the p-th moment is infinite; None if it is finite."""
        return None

    # A variable in which the density is smooth and of bounded support, for quadratures.
    def to_chart(self, x: Tensor) -> Tensor:
        """The chart variable of each place."""
        raise NotImplementedError

    def from_chart(self, y: Tensor) -> Tensor:
        """The place of each value of the chart variable."""
        raise NotImplementedError

    def chart_density(self, y: Tensor) -> Tensor:
        """The density of the law in the chart variable."""
        raise NotImplementedError

    # Where in the chart variable, inside its range, places, density or a derivative of them jump: no piece of a quadrature
    # reaches across one.
    breaks: tuple[float, ...] = ()

    # Are partial integrals known in closed form? If not, those of cells are found by quadrature, for every p.
    closed_form = True

    def equal_cells(self, n: int) -> LineCells:
        """The cells of n samples of equal weight."""
        levels = torch.arange(n + 1, dtype=torch.float64) / n
        first, second = self.cell_integrals(levels)
        means = n * first
        if self.symmetric:  # and exactly so
            means = (means - means.flip(-1)) / 2
        # Of quadratures the same ones, so that their errors cancel.
        whole = self.second_moment if self.closed_form else second.sum()
        return LineCells(self.quantile(levels), means, whole - means.square().mean())

    def cell_integrals(self, levels: Tensor) -> tuple[Tensor, Tensor]:
        """∫ z and ∫ z² over the cells between successive levels (..., n + 1): both (..., n)."""
        places = self.quantile(levels)
        return self.mean_up_to(places).diff(dim=-1), self.square_up_to(places).diff(dim=-1)


class Placed(NamedTuple):
    """Where the components of a law lie on slices."""

    loc: Tensor  # (..., L, K)
    scale: Tensor  # (..., L, K); negative where a law that is not symmetric is turned round


class KnownLaw:
    """What the engine asks of a law: lines that it lies on, how much each counts, and where on slices they are."""

    lines: tuple[LineLaw, ...]
    weights: tuple[float, ...]

    @property
    def is_whole(self) -> bool:
        """Has its frame all axes? If not, the lengths of slices say how wide the law is on them."""
        raise NotImplementedError

    @property
    def width(self) -> float | None:
        """How wide it is on slices of length one, where its frame is a mean alone; None where the frame says more."""
        raise NotImplementedError

    def placed(self, frame: Tensor, lengths: Tensor) -> Placed:
        """Read projections of the frame (..., L, k), beside the lengths of the slices (..., L)."""
        raise NotImplementedError

    def frame_gradient(self, frame: Tensor, placed: Placed, grads: Placed) -> Tensor:
        """Gradients in the projections of the frame (..., L, k) from those in places and scales."""
        raise NotImplementedError


@functools.lru_cache(maxsize=_KEPT)
def _cells_of(line: LineLaw, n: int) -> LineCells:
    return line.equal_cells(n)


@functools.lru_cache(maxsize=_KEPT)
def equal_cells(line: LineLaw, n: int, dtype: torch.dtype, device: torch.device) -> LineCells:
    """The cells of n samples of equal weight, computed once for each n and kept where they are needed."""
    with torch.inference_mode(False), torch.no_grad():  # they outlive the mode they are made in
        return LineCells(*(t.to(device, dtype) for t in _cells_of(line, n)))


class _OnLines(NamedTuple):
    """What is found on lines."""

    cost: Tensor  # (..., L)
    u_grad: Tensor  # (..., L, n), in the order of the samples
    placed_grad: Placed  # (..., L, K)
    u_weights_grad: Tensor | None


def match_law(
    u: Tensor,
    law: KnownLaw,
    placed: Placed,
    *,
    p: float,
    u_weights: Tensor | None = None,
    weights_wanted: bool = False,
) -> _OnLines:
    """Price the transport of u (..., L, n) to a law on each line under |u − z|^p, with its gradients.

    The definition, in plain PyTorch: what is faster is tested against it. Differentiable in u, loc and scale.
    """
    u_sorted, order = u.sort(dim=-1, stable=True)
    n = u.shape[-1]
    mass = None
    if u_weights is not None:
        mass = pick(u_weights.double(), order)
        mass = mass / mass.sum(dim=-1, keepdim=True)
    knots, ends, inner = _knots(law, placed, n, mass, u)
    cost = torch.zeros_like(u_sorted[..., 0])
    slope = torch.zeros_like(u_sorted)
    locs, scales = [], []
    for k, (line, weight) in enumerate(zip(law.lines, law.weights, strict=True)):
        loc, scale = placed.loc[..., k, None], placed.scale[..., k, None]
        turn = None if line.symmetric else scale < 0
        cell = _Cell(
            u_sorted, loc, scale, line, knots[k], ends, mass, turn, single=len(law.lines) == 1
        )
        a0, a1, a2 = cell.squares() if p == 2 else cell.distances() if p == 1 else cell.powers(p)
        cost = cost + weight * a0
        slope = slope + weight * a1
        locs.append(-weight * a1.sum(dim=-1))
        scales.append(-weight * a2)
    u_weights_grad = None
    if weights_wanted and mass is not None and u_weights is not None:
        far = _upper_ends(u_sorted, order, law, placed, knots, inner, u_weights)
        u_weights_grad = _weight_gradient(u_sorted, order, far, u_weights, p)
    grads = Placed(torch.stack(locs, dim=-1), torch.stack(scales, dim=-1))
    return _OnLines(cost, unsort(slope, order), grads, u_weights_grad)


def _knots(
    law: KnownLaw, placed: Placed, n: int, mass: Tensor | None, u: Tensor
) -> tuple[list[Tensor], Tensor, Tensor | None]:
    """Where cells end, in units of each component: (..., n + 1) in float64; and at which levels they do.

    Of a mixture also the places themselves, without the first and the last, (..., n - 1): a component that is bounded,
    or a point, does not reach all of them.
    """
    if mass is None:
        levels = torch.arange(n + 1, dtype=torch.float64, device=u.device) / n
    else:
        zero = torch.zeros_like(mass[..., :1])
        levels = torch.cat([zero, mass.detach().cumsum(dim=-1)], dim=-1)
        levels = (levels / levels[..., -1:]).clamp(0, 1)
    if len(law.lines) == 1:
        line = law.lines[0]
        if mass is None and not is_transformed(u):
            return [equal_cells(line, n, torch.float64, u.device).places], levels, None
        return [line.quantile(levels)], levels, None
    with torch.no_grad():
        loc, scale = placed.loc.double().unsqueeze(-2), placed.scale.double().unsqueeze(-2)
        inner = levels[..., 1:-1].unsqueeze(-1)
        inner = inner.expand(*broadcast(inner.shape[:-2], loc.shape[:-2]), n - 1, 1)
        places = _mixture_quantiles(law, loc, scale, inner)  # (..., n - 1, 1)
        found = []
        for k, line in enumerate(law.lines):
            standard = _standardized(places[..., 0], loc[..., k], scale[..., k])
            point = scale[..., k] == 0
            if bool(point.any()):
                share = _share_of_a_point(law, loc, scale, k, inner[..., 0])
                standard = torch.where(point, line.quantile(share), standard)
            ends = line.quantile(torch.tensor([0.0, 1.0], dtype=torch.float64, device=u.device))
            low, high = (e.expand(*standard.shape[:-1], 1) for e in (ends[:1], ends[1:]))
            found.append(torch.cat([low, standard.clamp(ends[0], ends[1]), high], dim=-1))
        return found, levels, places[..., 0]


def _share_of_a_point(law: KnownLaw, loc: Tensor, scale: Tensor, k: int, levels: Tensor) -> Tensor:
    """How much of component k, a point on slices, lies below levels of the mixture: several cells may share a point."""
    at = loc[..., k]
    below = torch.zeros_like(at)
    for j, (line, weight) in enumerate(zip(law.lines, law.weights, strict=True)):
        if j != k:
            level = line.cdf(_standardized(at, loc[..., j], scale[..., j]))
            # Of points at one place the first comes first.
            here = (scale[..., j] == 0) & (loc[..., j] == at)
            below = below + weight * torch.where(here, float(j < k), level)
    return ((levels - below) / max(law.weights[k], 1e-300)).clamp(0, 1)


def _mixture_quantiles(law: KnownLaw, loc: Tensor, scale: Tensor, levels: Tensor) -> Tensor:
    """Quantiles (..., n, 1) of the mixture: between the least and the largest of its components, by Newton's steps."""
    each = torch.cat(
        [
            loc[..., k : k + 1] + scale[..., k : k + 1] * line.quantile(levels)
            for k, line in enumerate(law.lines)
        ],
        dim=-1,
    )
    low, high = each.amin(dim=-1, keepdim=True), each.amax(dim=-1, keepdim=True)
    parts = [
        (line, weight, loc[..., k : k + 1], scale[..., k : k + 1])
        for k, (line, weight) in enumerate(zip(law.lines, law.weights, strict=True))
    ]

    def level(x: Tensor) -> Tensor:
        each = [
            weight * line.cdf(_standardized(x, loc, scale)) for line, weight, loc, scale in parts
        ]
        return torch.stack(each).sum(dim=0)

    def density(x: Tensor) -> Tensor:
        each = [
            weight
            * line.density(_standardized(x, loc, scale))
            / torch.where(scale == 0, torch.inf, scale)
            for line, weight, loc, scale in parts
        ]
        return torch.stack(each).sum(dim=0)

    return solved(level, density, levels, low, high)


def solved(
    function: Callable[[Tensor], Tensor],
    slope: Callable[[Tensor], Tensor],
    value: Tensor,
    low: Tensor,
    high: Tensor,
) -> Tensor:
    """Where an increasing function has a value, between two places: by Newton's steps, halving where one leads astray."""
    x, before = (low + high) / 2, torch.full_like(value, torch.inf)
    for _ in range(100):
        gap = function(x) - value
        low, high = torch.where(gap < 0, x, low), torch.where(gap < 0, high, x)
        steep = slope(x)
        usable = (steep > 0) & steep.isfinite()
        near = x - gap / torch.where(usable, steep, 1)
        # A step is taken on if the last one made the gap smaller by half: else the bracket is halved.
        good = usable & (near > low) & (near < high) & (gap.abs() < 0.5 * before)
        after = torch.where(good, near, (low + high) / 2)
        before = gap.abs()
        close = before <= 2e-13 * value
        done = close | ((after - x).abs() <= 4e-16 * torch.maximum(low.abs(), high.abs()))
        x = torch.where(close, torch.where(usable, near, x).clamp(low, high), after)
        if bool(done.all()):
            break
    return x


def _standardized(x: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    """(x − loc) / scale; infinite where the law is a point."""
    gap = x - loc
    point = scale == 0
    far = torch.where(gap < 0, -torch.inf, torch.inf).to(gap.dtype)
    return torch.where(point, far, gap / torch.where(point, 1, scale))


@dataclass
class _Cell:
    """Sorted samples and one component of a law: what its mass in the samples' cells costs."""

    u: Tensor  # (..., n), sorted
    loc: Tensor  # (..., 1)
    scale: Tensor
    line: LineLaw
    knots: Tensor  # (..., n + 1), float64, in units of the component
    levels: Tensor
    mass: Tensor | None  # of the samples; None: equal
    turn: (
        Tensor | None
    )  # (..., 1), where the law is turned round: its cells come in the opposite order
    single: bool  # the only component: its cells have the masses of the samples

    def squares(self) -> tuple[Tensor, Tensor, Tensor]:
        """Σ_i ∫ (u_i − loc − scale z)² over cell i, its slope in each u_i, and −(its slope in scale): p = 2."""
        weight, mean, variance = self._moments()
        gap = self.u - self.loc - self.scale * mean
        slope = 2 * weight * gap
        cost = (weight * gap * gap).sum(dim=-1) + self.scale[..., 0] ** 2 * variance
        return cost, slope, (slope * mean).sum(dim=-1) - 2 * self.scale[..., 0] * variance

    def _moments(self) -> tuple[Tensor | float, Tensor, Tensor]:
        """Mass and mean of each cell, and the sum of mass times variance."""
        n, u = self.u.shape[-1], self.u
        if self.single and self.mass is None and not is_transformed(u):
            kept = equal_cells(self.line, n, u.dtype, u.device)
            return 1 / n, self._turned(kept.means), kept.variance
        if self.single:
            first = self._first_moments()
            weight = torch.full_like(first, 1 / n) if self.mass is None else self.mass
            total = torch.as_tensor(self.line.second_moment, dtype=torch.float64, device=u.device)
        else:
            weight = self.line.cdf(self.knots).diff(dim=-1)
            first = self.line.mean_up_to(self.knots).diff(dim=-1)
            total = self.line.square_up_to(self.knots).diff(dim=-1).sum(dim=-1)
        there = weight > 0
        mean = torch.where(there, first / torch.where(there, weight, 1), 0)
        variance = (total - (weight * mean.square()).sum(dim=-1)).clamp(min=0)
        return weight.to(u.dtype), mean.to(u.dtype), variance.to(u.dtype)

    def _turned(self, values: Tensor) -> Tensor:
        """Values of equal cells, in the opposite order where the law is turned round (scale < 0)."""
        return values if self.turn is None else torch.where(self.turn, values.flip(-1), values)

    def _first_moments(self) -> Tensor:
        """∫ z over each cell of a single component."""
        if self.line.closed_form and self.turn is None:
            return self.line.mean_up_to(self.knots).diff(dim=-1)
        first, _ = self.line.cell_integrals(self.levels)
        if self.turn is None:
            return first
        back, _ = self.line.cell_integrals((1 - self.levels.flip(-1)).clamp(0, 1))
        return torch.where(self.turn, back.flip(-1), first)

    def _ends(self) -> tuple[Tensor, Tensor]:
        """The places between which the cells lie, lower and upper, in units of the component."""
        low, high = self.knots[..., :-1], self.knots[..., 1:]
        if self.turn is None:
            return low, high
        if self.mass is None:
            back = self.knots.flip(-1)
        else:
            back = self.line.quantile((1 - self.levels).clamp(0, 1))
        # A law that is turned round has its upper places first.
        return torch.where(self.turn, back[..., 1:], low), torch.where(
            self.turn, back[..., :-1], high
        )

    def _split(self) -> tuple[Tensor, Tensor, Tensor]:
        """Ends of the cells, and where in them the sample itself lies."""
        low, high = self._ends()
        standard = _standardized(self.u.double(), self.loc.double(), self.scale.double())
        return low, torch.minimum(torch.maximum(standard, low), high), high

    def _in_chart(self) -> tuple[Tensor, Tensor, Tensor]:
        """The same in the chart variable."""
        if self.line.closed_form:
            low, at, high = (self.line.to_chart(t) for t in self._split())
            return low, at, high
        # A level: a place may have many, if the law has mass there, and then does not say where a cell ends.
        low, high = self.levels[..., :-1], self.levels[..., 1:]
        if self.turn is not None:
            low, high = torch.where(self.turn, 1 - high, low), torch.where(self.turn, 1 - low, high)
        standard = _standardized(self.u.double(), self.loc.double(), self.scale.double())
        return low, torch.minimum(torch.maximum(self.line.to_chart(standard), low), high), high

    def distances(self) -> tuple[Tensor, Tensor, Tensor]:
        """The same for p = 1."""
        if not self.line.closed_form:
            return self.powers(1.0)
        low, at, high = self._split()
        line, dtype = self.line, self.u.dtype
        slope = 2 * line.cdf(at) - line.cdf(low) - line.cdf(high)
        first = 2 * line.mean_up_to(at) - line.mean_up_to(low) - line.mean_up_to(high)
        if self.turn is not None:
            sign = torch.where(self.turn, -1.0, 1.0).double()
            slope, first = sign * slope, sign * first
        gap = (self.u - self.loc).double()
        cost = (gap * slope).sum(dim=-1) - (self.scale.double() * first).sum(dim=-1)
        return cost.to(dtype), slope.to(dtype), first.sum(dim=-1).to(dtype)

    def powers(self, p: float) -> tuple[Tensor, Tensor, Tensor]:
        """The same for any p, by quadrature on the two sides of the sample in its cell."""

        def terms(gap: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            size = gap.abs()
            slope = p * size ** (p - 1) * gap.sign()
            return size**p, slope, slope * z

        cost, slope, first = self.integrals(terms, 3)
        dtype = self.u.dtype
        return cost.sum(dim=-1).to(dtype), slope.to(dtype), first.sum(dim=-1).to(dtype)

    def integrals(
        self, terms: Callable[[Tensor, Tensor], tuple[Tensor, ...]], count: int
    ) -> list[Tensor]:
        """Integrals over cells (..., n), in float64, of functions of the gap u − loc − scale z and of z.

        By double-exponential quadrature, whose nodes crowd at the ends of a piece: neither a tail nor the corner of
        |gap|^p at the sample itself costs it its precision.
        """
        low, at, high = self._in_chart()
        loc, scale = self.loc.double(), self.scale.double()
        totals = [torch.zeros_like(at) for _ in range(count)]
        away = self.u.double() - loc
        between = (-math.inf, *self.line.breaks, math.inf)
        for start, end in ((low, at), (at, high)):
            if not self.line.breaks:
                self._add(totals, start, end, away, scale, terms)
                continue
            start, end, wide = torch.broadcast_tensors(start, end, scale)
            for one, other in itertools.pairwise(between):
                # Few cells have a part between two breaks, or several parts.
                part = ~((start >= other) | (end <= one))  # NaN is in all of them
                some = [torch.zeros_like(start[part]) for _ in totals]
                ends = start[part].clamp(min=one), end[part].clamp(max=other)
                self._add(some, *ends, away.expand_as(start)[part], wide[part], terms)
                for total, more in zip(totals, some, strict=True):
                    total[part] += more
        return totals

    def _add(
        self,
        totals: list[Tensor],
        start: Tensor,
        end: Tensor,
        away: Tensor,
        scale: Tensor,
        terms: Callable[[Tensor, Tensor], tuple[Tensor, ...]],
    ) -> None:
        """Add the integrals from start to end, for samples that are u − loc away; all of one shape, scales may be fewer."""
        width = end - start
        for node, weight in zip(*double_exponential(), strict=True):
            # From whichever end is nearer, so that nothing is lost there.
            y = start + width * node if node < 0.5 else end - width * (1 - node)
            z = self.line.from_chart(y)
            density = self.line.chart_density(y) * (weight * width)
            present = density > 0
            gap = torch.where(present, away - scale * z, 0)
            for total, term in zip(totals, terms(gap, torch.where(present, z, 0)), strict=True):
                total += density * term


@functools.cache
def double_exponential() -> tuple[list[float], list[float]]:
    """Nodes and weights on [0, 1]."""
    step = 2 * _REACH / (_NODES - 1)
    nodes, weights = [], []
    for k in range(_NODES):
        t = -_REACH + k * step
        inner = math.pi / 2 * math.sinh(t)
        nodes.append(1 / (1 + math.exp(-2 * inner)))
        weights.append(step * math.pi / 4 * math.cosh(t) / math.cosh(inner) ** 2)
    return nodes, weights


def _upper_ends(
    u_sorted: Tensor,
    order: Tensor,
    law: KnownLaw,
    placed: Placed,
    knots: list[Tensor],
    inner: Tensor | None,
    u_weights: Tensor,
) -> Tensor:
    """Where the cell of each sample ends on the slice, (..., n), in float64."""
    wide = u_sorted.double()
    if inner is not None:
        return torch.cat([inner.expand(*wide.shape[:-1], -1), wide[..., -1:]], dim=-1)
    loc, scale = placed.loc[..., :1].double(), placed.scale[..., :1].double()
    standard = knots[0][..., 1:]
    if not law.lines[0].symmetric:
        mass = pick(u_weights.double(), order)
        levels = mass.cumsum(dim=-1) / mass.sum(dim=-1, keepdim=True)
        back = law.lines[0].quantile((1 - levels).clamp(0, 1))
        standard = torch.where(scale < 0, back, standard)
    # A law that is a point on the slice ends there, even where its standard line does not end.
    far = loc + torch.where(scale == 0, 0, scale * standard)
    # The last cell ends where the law does, perhaps at infinity; no mass is traded there.
    return torch.where(far.isfinite(), far, wide)


def _weight_gradient(
    u_sorted: Tensor, order: Tensor, far: Tensor, u_weights: Tensor, p: float
) -> Tensor:
    """The Kantorovich potential at the samples: by how much a cost changes with each weight."""
    mass = pick(u_weights.double(), order)
    places = torch.arange(far.shape[-1], device=far.device).expand(far.shape)
    cells = Cells(places, places, mass, places >= 0, places)
    return unsort(potential_of(u_sorted, far.to(u_sorted.dtype), mass, cells, p, side="u"), order)


def law_plan_mean(
    u: Tensor,
    law: KnownLaw,
    placed: Placed,
    function: Callable[[Tensor], Tensor],
    *,
    u_weights: Tensor | None = None,
) -> Tensor:
    """For each u (..., L, n), the mean of function(u − z) over its cell of the law. 0 for samples of weight zero."""
    u_sorted, order = u.sort(dim=-1, stable=True)
    n, mass = u.shape[-1], None
    if u_weights is not None:
        mass = pick(u_weights.double(), order)
        mass = mass / mass.sum(dim=-1, keepdim=True)
    knots, levels, _ = _knots(law, placed, n, mass, u)
    total = torch.zeros_like(u_sorted, dtype=torch.float64)
    for k, (line, weight) in enumerate(zip(law.lines, law.weights, strict=True)):
        loc, scale = placed.loc[..., k, None], placed.scale[..., k, None]
        turn = None if line.symmetric else scale < 0
        cell = _Cell(u_sorted, loc, scale, line, knots[k], levels, mass, turn, len(law.lines) == 1)
        total = total + weight * cell.integrals(lambda gap, _: (function(gap),), 1)[0]
    masses = total.new_tensor(1 / n) if mass is None else mass
    mean = torch.where(masses > 0, total / torch.where(masses > 0, masses, 1), 0)
    return unsort(mean.to(u.dtype), order)


@dataclass(frozen=True, eq=False)
class LawMatcher(PricingMatcher):
    """`match_slices` against a law, whose frame is given in the place of samples y.

    Where cells have equal masses and p = 2, the law is as good as n points, the means of its cells, and a constant: the
    matcher of a backend prices those.
    """

    law: KnownLaw
    inner: Matcher = match_slices
    # Cells that were used. Others may leave `equal_cells`, but a captured call reads these where they are.
    _held: dict[tuple[int, torch.dtype, torch.device], LineCells] = field(
        default_factory=dict, repr=False
    )

    @property
    def plain(self) -> LawMatcher:
        """The same by the plain version alone, which compilers and transforms can follow."""
        return LawMatcher(self.law)

    def numbers_held(self, x: Tensor, y: Tensor) -> int:
        """See `PricingMatcher.numbers_held`; in float64 where there is no shorter way."""
        n = x.shape[-2]
        short = len(self.law.lines) == 1 and self.inner is not match_slices
        written_out = not self._points_stay
        return (1 + written_out) * n + y.shape[-2] if short else 20 * n + y.shape[-2]

    @property
    def _points_stay(self) -> bool:
        """Does the backend move the points of cells itself? A law that may be turned round has two rows of them."""
        return isinstance(self.inner, PointsMatcher) and self.law.lines[0].symmetric

    def graph_safe(self, p: float, x_weights: Tensor | None) -> bool:
        """May it be captured as a CUDA graph? Where cells are found anew for each call, numbers are read on the host."""
        return self._has_points(p) and x_weights is None

    def placed(self, y: Tensor, slices: Tensor) -> tuple[Tensor, Placed]:
        """The frame's projections (..., L, k), and where the law lies on slices."""
        frame = project(y, slices)
        # On a CPU three times as fast as a norm; slices with a gradient come with a whole frame, which needs no lengths.
        lengths = slices.detach().square().sum(dim=-1).sqrt()
        return frame, self.law.placed(frame, lengths)

    def _cells(self, x: Tensor) -> LineCells:
        key = (x.shape[-2], x.dtype, x.device)
        found = self._held.get(key)
        if found is None:
            self._held[key] = found = equal_cells(self.law.lines[0], *key)
        return found

    def _points(self, x: Tensor, y: Tensor, slices: Tensor) -> MovedPoints | RoundPoints:
        """The means of cells, sorted, and where they lie on slices."""
        cells = self._cells(x)
        known, width = (cells.means, cells.variance), self.law.width
        if width is not None:
            return RoundPoints(*known, y, width)
        return MovedPoints(*known, *self.placed(y, slices)[1])

    def _written_out(self, x: Tensor, points: MovedPoints) -> Tensor:
        """The points of each line of x."""
        batch = broadcast(x.shape[:-2], points.loc.shape[:-2])
        if self.law.lines[0].symmetric:
            lines = points.written_out()
        else:
            means = torch.where(points.scale < 0, points.points.flip(-1), points.points)
            lines = torch.addcmul(points.loc, points.scale, means)
        return lines.expand(*batch, *lines.shape[-2:]).contiguous()

    def _has_points(self, p: float, *given: Tensor | None) -> bool:
        return p == 2 and len(self.law.lines) == 1 and not is_transformed(*given)

    def __call__(
        self,
        x: Tensor,
        y: Tensor,
        slices: Tensor,
        x_weights: Tensor | None = None,
        y_weights: Tensor | None = None,
        *,
        p: float,
        wanted: Wanted = Wanted(),
        y_sorted: Tensor | None = None,
    ) -> Match:
        """See `transport.match_slices`; the gradient "in v" is that in the projections of the frame."""
        as_points = self._has_points(p, x, y, slices) and x_weights is None
        if as_points and not wanted.v and self.inner is not match_slices:
            points, only = self._points(x, y, slices), Wanted(wanted.u, False)
            if self._points_stay:
                return self.inner(x, x, slices, p=p, wanted=only, y_sorted=points)
            moved = points.on(slices)
            lines = self._written_out(x, moved)
            found = self.inner(x, x, slices, p=p, wanted=only, y_sorted=lines)
            return found._replace(cost=found.cost + moved.constant())
        frame, placed = self.placed(y, slices)
        u = project(x, slices)
        on_lines = match_law(
            u,
            self.law,
            placed,
            p=p,
            u_weights=None if x_weights is None else x_weights.unsqueeze(-2),
            weights_wanted=wanted.u_weights,
        )
        batch = on_lines.cost.shape[:-1]
        v_grad = None
        if wanted.v:
            v_grad = self.law.frame_gradient(frame, placed, on_lines.placed_grad)
            v_grad = v_grad.expand(*batch, *v_grad.shape[-2:])
        u_grad = on_lines.u_grad if wanted.u else None
        return Match(on_lines.cost, u_grad, v_grad, on_lines.u_weights_grad, None)

    def priced(
        self,
        x: Tensor,
        y: Tensor,
        slices: Tensor,
        x_weights: Tensor | None,
        y_weights: Tensor | None,
        coefficients: Tensor | None,
        *,
        p: float,
        root: bool,
        y_sorted: Tensor | MovedPoints | RoundPoints | None = None,
    ) -> tuple[Tensor, Tensor] | None:
        """See `PricingMatcher.priced`; None where the backend's matcher does not add up itself."""
        inner, points_serve = self.inner, self._points_stay and self._has_points(p, x, y, slices)
        if not isinstance(inner, PricingMatcher) or x_weights is not None or not points_serve:
            return None
        points = self._points(x, y, slices)
        return inner.priced(x, x, slices, None, None, coefficients, p=p, root=root, y_sorted=points)

    def plan_mean(
        self,
        x: Tensor,
        y: Tensor,
        slices: Tensor,
        x_weights: Tensor | None,
        function: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """`transport.plan_mean` against the law."""
        weights = None if x_weights is None else x_weights.unsqueeze(-2)
        placed = self.placed(y, slices)[1]
        return law_plan_mean(project(x, slices), self.law, placed, function, u_weights=weights)
