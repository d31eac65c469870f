"""How an estimate from few slices is distributed, simulated where a slice costs next to nothing.

With ten slices Student's statistic, (estimate − truth) / standard error, does not follow Student's distribution: costs
are skewed, weights follow the costs, an ascent depends on where it starts. What it does follow is simulated here, with
both sample sets replaced by normal distributions of their means and covariances. The cost of a slice then is a formula,
so that thousands of sets of slices can be drawn as the recipe draws them, priced, weighted and studentized.

B. Efron, R. J. Tibshirani, An Introduction to the Bootstrap, 1993, chapters 12 and 21 (bootstrap-t, parametric).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from slicewise.distance.intervals import student_quantile
from slicewise.problem import (
    Problem,
    SlicerPart,
    Uncertainty,
    covariance_of,
    declared,
    fields_of,
    label_free,
    mean_of,
)
from slicewise.sampling import Randomness
from slicewise.variants import Recipe

# Sets of slices: quantiles of 2.5 % are then off by 0.35 % (one standard error) of probability, with the fewest by 0.7 %.
_MOST_SETS, _FEWEST_SETS = 2000, 500
# Slices, and groups of several slices, of a set; of more, quantiles are taken on from these.
_MOST_SLICES, _MOST_GROUPS = 64, 15
_FEWEST_SLICES, _FEWEST_GROUPS = 10, 5
# Multiplications and slices of one simulation, 0.03 to 0.7 s of one core, and numbers that are held at a time.
_MOST_WORK, _MOST_DRAWN, _MOST_NUMBERS = 1e9, 100_000, 2**22
_MOST_KEPT = 2**25  # numbers of simulated slices that are kept for the next look at more of them
# A quantile is read where at least so many simulated values lie beyond it; farther out it follows Student's.
_BEYOND = 10
_SEED = 20_261_118  # that and the next two, for three sequences that do not repeat each other


class Studentized(NamedTuple):
    """What was simulated for each element of a batch, (*batch,), in float64."""

    low: Tensor  # quantiles, between which (estimate − truth) / error lies with a given probability
    high: Tensor
    most: Tensor  # the largest cost of a slice, simulated or observed: no weighted mean of costs is larger


# Costs (…, L), slices (…, L, d) and the problem, of one pair of sets: what an interval rests on.
Estimator = Callable[[Tensor, Tensor, Problem], Uncertainty]


@dataclass(frozen=True, eq=False)
class NormalPair(Problem):
    """A problem whose slices cost as if both sets were normal distributions of the same means and covariances.

    On a slice these are N(u, a²) and N(v, b²), and W_p^p = E |u − v + (a − b) Z|^p for a standard normal Z.

    Args:
        gap: from the mean of y to that of x, (1, d).
        x_covariance, y_covariance: (d, d) each.
        roughness: standard deviation of each coordinate of the gradients in slices that samples have beyond that, since
            there are only so many of them.
        noise: where such gradients are drawn from.
    """

    gap: Tensor | None = None
    x_covariance: Tensor | None = None
    y_covariance: Tensor | None = None
    roughness: float = 0.0
    noise: torch.Generator | None = None

    @classmethod
    def like(cls, problem: Problem) -> NormalPair:
        """The normal distributions with the moments of the samples of a problem."""
        x, y = problem.side("x"), problem.side("y")
        return cls(
            **fields_of(problem),
            gap=mean_of(*x) - mean_of(*y),
            x_covariance=covariance_of(*x),
            y_covariance=covariance_of(*y),
        )

    def costs(self, slices: Tensor) -> Tensor:
        return self.in_convention(self._priced(slices)[0])

    def costs_and_ascent(self, slices: Tensor) -> tuple[Tensor, Tensor]:
        assert self.gap is not None
        costs, (by_ahead, by_wider), ends = self._priced(slices)
        wider = [
            turned / torch.where(spread > 0, spread, 1).unsqueeze(-1) for turned, spread in ends
        ]
        ascent = by_ahead.unsqueeze(-1) * self.gap + by_wider.unsqueeze(-1) * (wider[0] - wider[1])
        if self.roughness > 0:
            rough = torch.empty_like(ascent).normal_(0, self.roughness, generator=self.noise)
            ascent = ascent + rough - (rough * slices).sum(dim=-1, keepdim=True) * slices
        return costs, ascent

    def _priced(
        self, slices: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor], list[tuple[Tensor, Tensor]]]:
        """Costs (*batch, L), their derivatives in u − v and a − b, and for each side Σθ (*batch, L, d) and a or b."""
        assert self.gap is not None
        assert self.x_covariance is not None
        assert self.y_covariance is not None
        ahead = (slices @ self.gap.mT).squeeze(-1)
        ends = []
        for covariance in (self.x_covariance, self.y_covariance):
            turned = slices @ covariance
            ends.append((turned, (turned * slices).sum(dim=-1).clamp(min=0).sqrt()))
        wider = ends[0][1] - ends[1][1]
        costs, by_ahead, by_wider = (torch.zeros_like(ahead) for _ in range(3))
        # Gauss–Hermite quadrature: exact for p = 2 with two points.
        for point, weight in _normal_points(2 if self.p == 2 else 16):
            u = ahead + point * wider
            slope = weight * self.p * u.sign() * u.abs() ** (self.p - 1)
            costs = costs + weight * u.abs() ** self.p
            by_ahead, by_wider = by_ahead + slope, by_wider + point * slope
        return costs, (by_ahead, by_wider), ends


class Simulated(NamedTuple):
    """Sets of slices (sets, L, d), and what they cost (sets, L) between two normal distributions."""

    pair: NormalPair
    slices: Tensor
    costs: Tensor


# By which pair of sample sets, and by the numbers of sets and of groups.
Kept = dict[tuple[int, int, int], Simulated]


@functools.cache
def _normal_points(n: int) -> list[tuple[float, float]]:
    """Points and weights of Gauss–Hermite quadrature for a standard normal variable."""
    points, weights = np.polynomial.hermite_e.hermegauss(n)
    return list(zip(points.tolist(), (weights / weights.sum()).tolist(), strict=True))


def studentized_quantiles(
    recipe: Recipe,
    problem: Problem,
    slices: Tensor,
    costs: Tensor,
    size: int | None,
    estimator: Estimator,
    level: float,
    kept: Kept | None = None,
) -> Studentized | None:
    """Simulate how (estimate − truth) / error is distributed.

    Costs of samples are not quite those of normal distributions: observed costs are regressed on them, and simulated
    costs are this line, with normal noise of the size of the residuals.

    Args:
        recipe: what draws slices.
        problem: what was sliced, without gradients.
        slices, costs: (*batch, L, d) and (*batch, L), as they were drawn.
        size: how many successive slices depend on each other.
        estimator: computes the estimate, and each slice's share of its error.
        level: the probability.
        kept: simulated slices of earlier calls with the same recipe and problem, to which this one adds its own.

    Returns:
        Its quantiles; None where this cannot be simulated, or not quickly: y is a law, slices are curves, there are parts
        of a caller's own, too many dimensions, or groups of too many slices.
    """
    plan = _Plan.of(recipe, problem, slices.shape[-2], size)
    if plan is None:
        return None
    batch = costs.shape[:-1]
    flat, alone = costs.reshape(-1, costs.shape[-1]), _alone(problem)
    found = flat.new_empty(len(Studentized._fields), len(flat), dtype=torch.float64)
    rows = slices.expand(*batch, *slices.shape[-2:]).reshape(-1, *slices.shape[-2:])
    whole = slice(0, len(flat))
    parts = [(whole, alone)] if alone is not None else (
        (slice(k, k + 1), one) for k, one in enumerate(_elements(problem, batch))
    )  # fmt: skip
    for which, one in parts:
        key = (which.start, plan.sets, plan.groups)
        known = None if kept is None else kept.get(key)
        if known is None:
            known = plan.simulated(one, rows[which])
            if kept is not None and _has_room(kept, known):
                kept[key] = known
        given = (one, rows[which], flat[which])
        found[:, which] = torch.stack(plan.quantiles(known, *given, estimator, level))
    return Studentized(*found.reshape(-1, *batch).unbind(0))


def _has_room(kept: Kept, another: Simulated) -> bool:
    return sum(one.slices.numel() for one in (*kept.values(), another)) <= _MOST_KEPT


@dataclass(frozen=True)
class _Plan:
    """How many sets of how many slices are simulated, for slices that come in groups of a size."""

    recipe: Recipe
    sets: int
    groups: int
    size: int
    n: int  # groups that were observed
    each: int  # slices that the recipe draws at a time

    @classmethod
    def of(cls, recipe: Recipe, problem: Problem, n_slices: int, size: int | None) -> _Plan | None:
        """A plan, if there is one."""
        slicer = declared(recipe.slicer, SlicerPart)
        each = slicer.n_slices(problem.d)
        known = type(problem) is Problem and problem.law is None and problem.y_sorted is None
        own = recipe.built_in and problem.others is None and not slicer.is_fixed
        if not (known and own) or size is None or each is None or each % size or n_slices % size:
            return None
        n = n_slices // size
        work = size * 2 * problem.d**2  # of one group
        most, fewest = (
            (_MOST_SLICES, _FEWEST_SLICES) if size == 1 else (_MOST_GROUPS, _FEWEST_GROUPS)
        )
        groups = min(n, most, max(fewest, int(_MOST_WORK / work / _MOST_SETS)))
        # Where quantiles are taken on to many more groups, so is less of their error.
        wanted = _MOST_SETS if groups == n else _MOST_SETS // 2
        sets = min(wanted, max(_FEWEST_SETS, _MOST_DRAWN // (groups * size)))
        sets = min(sets, int(_MOST_WORK / work / groups))
        if n < 2 or n_slices < 3 or size * _FEWEST_GROUPS > _MOST_SLICES or sets < _FEWEST_SETS:
            return None
        return cls(recipe, sets, groups, size, n, each)

    def simulated(self, problem: Problem, slices: Tensor) -> Simulated:
        """Sets of slices for one pair of sample sets, of which (k, L, d) have been drawn."""
        pair = NormalPair.like(problem)
        if not label_free(
            self.recipe.slicer
        ):  # an ascent, which follows what few samples look like
            pair = dataclasses.replace(pair, roughness=_roughness(problem, pair, slices[0]))
        drawn = self._drawn(pair)
        return Simulated(pair, drawn, pair.costs(drawn).double())

    def quantiles(
        self,
        known: Simulated,
        problem: Problem,
        slices: Tensor,
        costs: Tensor,
        estimator: Estimator,
        level: float,
    ) -> Studentized:
        """What is simulated for several sets of slices (k, L, d) of one pair of sample sets."""
        pair, drawn, plain = known
        generator = torch.Generator(plain.device).manual_seed(_SEED + 2)
        noise = torch.empty_like(plain).normal_(generator=generator)
        base, slope, spread = _line(pair.costs(slices).double(), costs.double())
        at_a_time = max(1, _MOST_NUMBERS // plain.numel())
        found = []
        for some in range(0, len(costs), at_a_time):
            a, b, s = (t[some : some + at_a_time, None, None] for t in (base, slope, spread))
            simulated = (a + b * plain + s * noise).clamp(min=0).to(costs.dtype)
            errors = estimator(simulated, drawn, problem)
            truth = estimator(simulated.flatten(-2), drawn.flatten(0, 1), problem).center
            error = standard_error(errors.terms.unflatten(-1, (self.groups, self.size)).sum(dim=-1))
            off = (errors.center - truth.unsqueeze(-1)).double()
            most = torch.maximum(simulated.amax((-2, -1)), costs[some : some + at_a_time].amax(-1))
            ends = self._read(torch.where(error > 0, off / error, 0), level)
            found.append(Studentized(*ends, most.double()))
        return Studentized(*(torch.cat(parts) for parts in zip(*found, strict=True)))

    def _drawn(self, pair: NormalPair) -> Tensor:
        """Sets of slices, (sets, groups · size, d)."""
        rng = Randomness(_SEED, pair.x.device)
        if pair.roughness > 0:
            noise = torch.Generator(pair.x.device).manual_seed(_SEED + 1)
            pair = dataclasses.replace(pair, noise=noise)
        per_set = self.groups * self.size
        calls = -(-self.sets * per_set // self.each)
        several = dataclasses.replace(pair, x=pair.x.expand(calls, *pair.x.shape))
        with torch.no_grad():
            drawn = self.recipe.slicer(several, rng).to(pair.x.dtype)
        drawn = drawn.flatten(0, 1)[: self.sets * per_set]
        return drawn.reshape(self.sets, per_set, -1)

    def _read(self, values: Tensor, level: float) -> tuple[Tensor, Tensor]:
        """Quantiles of simulated values (k, sets), for as many groups as were observed."""
        tail = (1 - level) / 2
        seen = max(tail, _BEYOND / self.sets)
        ends = torch.quantile(values, values.new_tensor([seen, 1 - seen]), dim=-1)
        here, there = (values.new_tensor([n - 1.0]) for n in (self.groups, self.n))
        if seen > tail:
            ends = ends * (student_quantile(1 - tail, here) / student_quantile(1 - seen, here))
        if self.n > self.groups:
            # Beside Student's, what skewness and bias do to a quantile falls with the square root of their number.
            student = values.new_tensor([[-1.0], [1.0]])
            beyond = ends - student * student_quantile(1 - tail, here)
            left = math.sqrt(self.groups / self.n)
            ends = student * student_quantile(1 - tail, there) + left * beyond
        return ends[0], ends[1]


def standard_error(groups: Tensor) -> Tensor:
    """The standard error (…,) of a sum of independent terms (…, n), in float64."""
    groups = groups.double()
    return groups.std(dim=-1) * math.sqrt(groups.shape[-1])


def _line(known: Tensor, costs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Intercept, slope of at least 0, and residual standard deviation, (k,) each, of costs on known ones, (k, L) each."""
    off, mean = known - known.mean(dim=-1, keepdim=True), costs.mean(dim=-1, keepdim=True)
    below = off.square().sum(dim=-1)
    along = ((costs - mean) * off).sum(dim=-1)
    slope = torch.where(below > 0, along / torch.where(below > 0, below, 1), 0).clamp(min=0)
    left = costs - mean - slope.unsqueeze(-1) * off
    spread = (left.square().sum(dim=-1) / (costs.shape[-1] - 2)).sqrt()
    return mean.squeeze(-1) - slope * known.mean(dim=-1), slope, spread


def _roughness(problem: Problem, pair: NormalPair, slices: Tensor) -> float:
    """How far gradients in slices (L, d) of samples are from those of normal distributions, along one coordinate."""
    off = problem.costs_and_ascent(slices)[1] - pair.costs_and_ascent(slices)[1]
    off = off - (off * slices).sum(dim=-1, keepdim=True) * slices
    return float(off.square().sum(dim=-1).mean().div(max(1, slices.shape[-1] - 1)).sqrt())


def _alone(problem: Problem) -> Problem | None:
    """The problem without batch dimensions, if all of its batch is one pair of sets."""

    def first(tensor: Tensor, inner: int) -> Tensor:
        while tensor.dim() > inner and (tensor.stride(0) == 0 or len(tensor) == 1):
            tensor = tensor[0]
        return tensor

    a, b = (None if w is None else first(w, 1) for w in (problem.x_weights, problem.y_weights))
    x, y = first(problem.x, 2), first(problem.y, 2)
    one = dataclasses.replace(problem, x=x, y=y, x_weights=a, y_weights=b)
    return None if one.batch else one


def _elements(problem: Problem, batch: tuple[int, ...]) -> Iterator[Problem]:
    """The problems of a batch, one by one."""

    def rows(tensor: Tensor, inner: int) -> Tensor:
        shape = tensor.shape[tensor.dim() - inner :]
        return tensor.expand(*batch, *shape).reshape(-1, *shape)

    x, y = rows(problem.x, 2), rows(problem.y, 2)
    a, b = (None if w is None else rows(w, 1) for w in (problem.x_weights, problem.y_weights))
    for k in range(math.prod(batch)):
        own = (None if w is None else w[k] for w in (a, b))
        yield dataclasses.replace(problem, x=x[k], y=y[k], x_weights=next(own), y_weights=next(own))
