"""The distance as a number, and as a number with what it was computed from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from slicewise.distance.bounds import is_frame, most_of_slices
from slicewise.distance.in_range import in_range
from slicewise.distance.intervals import confidence_interval, skewness_of_costs
from slicewise.distance.objective import Objective, check_objective, value_of_costs, weigh
from slicewise.distance.plan import planned_value
from slicewise.distance.request import (
    OutOfRange,
    ask_by_name,
    check_value,
    draw,
    fixed_slices,
    is_tracked,
    may_be_planned,
    prepare,
    problem_for,
    randomness_of,
    recipe_for,
)
from slicewise.distance.simulated import Kept, standard_error, studentized_quantiles
from slicewise.laws import Law
from slicewise.parts import slice_weights
from slicewise.problem import (
    Learner,
    Problem,
    SlicerPart,
    Target,
    Uncertainty,
    WeightingPart,
    declared,
    label_free,
)
from slicewise.sampling import Generators, Randomness
from slicewise.steps import moved, pull_of
from slicewise.support import (
    Result,
    check_generator,
    check_number,
    full_precision,
    takes_arrays,
    values_readable,
)
from slicewise.transport import root
from slicewise.variants import Recipe, Variant

_ARRAYS = ("x", "y", "x_weights", "y_weights", "slices")


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Result):
    """A distance and what it was computed from: what `evaluate` returns.

    Attributes:
        value: (*batch,), the objective that was asked for: SW_p unless said otherwise.
        power: (*batch,), SW_p^p = Σ `weights` · `costs`.
        costs: (*batch, L), W_p^p on each slice.
        weights: (*batch, L), how much each slice counted.
        slices: (*batch, L, d), the directions, as they were given or drawn.
        group_size: how many successive slices depend on each other; None if that is not known.
        objective: "root", "power" or "mean_root".
        recipe: the parts it was computed by.
        problem: what was sliced.
        scaled: the same for samples in another unit, and that unit, where powers of these leave the floating-point range;
            else None. Errors and intervals are then computed from it.
        drawn: whether the recipe drew the slices; False if they were given.
    """

    value: Tensor
    power: Tensor
    costs: Tensor
    weights: Tensor
    slices: Tensor
    group_size: int | None
    objective: Objective
    recipe: Recipe
    problem: Problem
    scaled: tuple[Evaluation, Tensor] | None = None
    drawn: bool = True
    # Intervals that were computed, by level: a simulation takes up to a second.
    _intervals: dict[tuple[float, bool], tuple[Tensor, Tensor]] = field(
        init=False, default_factory=dict
    )

    def __repr__(self) -> str:
        """One line: all costs and slices would be a page of numbers."""
        known = self.value.dim() == 0 and values_readable(self.value)
        value = f"{self.value.item():.6g}" if known else f"of shape {tuple(self.value.shape)}"
        p, n_slices = f"{self.problem.p:g}", self.costs.shape[-1]
        kind = {"power": f"SW_{p}^{p}", "root": f"SW_{p}", "mean_root": f"mean W_{p}"}
        return f"Evaluation({kind[self.objective]} {value}, {n_slices} slices, {self.recipe!r})"

    @property
    def displacement(self) -> Tensor:
        """The move that these slices suggest for each sample of x, (*batch, n, d): add it to x.

        It has the length of the Cauchy step, with slice weights held constant; see `displacement`.
        """
        self.recipe.check_linear("a displacement")
        with torch.no_grad(), full_precision(self.costs.device.type):
            weights = self.weights.detach()
            problem, slices = self.problem.detached(), self.slices.detach()
            move = moved(pull_of(problem, slices.to(problem.x.dtype), weights))
            return move if problem.precision is None else move.to(problem.precision)

    @property
    def bound(self) -> Tensor:
        """An upper bound (*batch,) of the largest slice of these samples, in the unit of `value`.

        The value of "maxsw" lies below it; where the two agree, it is the maximum. For slices that are an orthonormal
        frame ("maxksw", "ksw") it bounds the mean over any such frame. Computed when it is asked for.
        """
        if not self.problem.linear_slices:
            raise ValueError(
                f"no bound is known for {self.recipe.lift!r}, whose slices are curves; use function='poly'"
            )
        self.problem.check_has_samples("a bound")
        if self.recipe.convention == "reference":
            raise ValueError("a bound is stated in convention='mean' alone: leave convention out")
        slices = self.slices
        if not is_frame(slices):
            best = self.costs.detach().argmax(dim=-1, keepdim=True).unsqueeze(-1)
            slices = torch.take_along_dim(slices.expand(*self.problem.batch, -1, -1), best, dim=-2)
        power = most_of_slices(self.problem, slices)
        return power if self.objective == "power" else root(power, self.problem.p)

    @property
    def stderr(self) -> Tensor:
        """Monte-Carlo standard error of `power` (*batch,).

        From the spread between independent groups: slices, chains or frames. NaN where there is only
        one, as for MaxSW. Slices given by the caller are taken for independent draws.
        """
        if self.scaled is not None:
            found, unit = self.scaled
            return found.stderr * unit**self.problem.p
        costs, power = self.costs.detach(), self.power.detach()
        weighting = declared(self.recipe.weighting, WeightingPart)
        errors = weighting.errors(costs, self.slices, self.problem.detached())
        if errors is None:
            errors = _plain_errors(costs, self.weights.detach(), power)
        terms = self._groups(errors)
        n = terms.shape[-1]
        if n < 2:
            return torch.full_like(self.power.detach(), math.nan)
        return (terms.square().sum(dim=-1) * (n / (n - 1))).sqrt()

    def interval(self, level: float = 0.95, *, simulate: bool = True) -> tuple[Tensor, Tensor]:
        """Return a confidence interval of `value`: its ends, (*batch,) each.

        It says where the value would lie with infinitely many slices of the same two sets. How the studentized
        estimate is distributed with so few slices is simulated, with normal distributions in the place of the two sets
        (0.03 s for ten slices in d = 50, for each pair of a batch). Where it cannot be, the interval is Student's with
        Hall's transformation for skewness; `docs/statistics.md` says where. It is not symmetric about `value`, which
        lies inside it. NaN where `stderr` is.

        Args:
            level: the confidence level, in (0, 1).
            simulate: whether to simulate; False takes the other interval at once, for a batch of thousands of pairs. With
                ten slices of skewed costs it covers less than its level.

        Raises:
            ValueError: if the level is not between 0 and 1.
        """
        if not 0 < level < 1:
            raise ValueError(f"level = {level!r}: give a number between 0 and 1, e.g. 0.95")
        low, high = self._interval(float(level), simulate)
        return low.clone(), high.clone()

    def _interval(
        self, level: float, simulate: bool = True, kept: Kept | None = None
    ) -> tuple[Tensor, Tensor]:
        """The interval, computed once; several evaluations of one problem may keep what they simulate."""
        key = level, simulate
        if key not in self._intervals:
            self._intervals[key] = self._computed_interval(level, simulate, kept)
        return self._intervals[key]

    def _computed_interval(
        self, level: float, simulate: bool, kept: Kept | None
    ) -> tuple[Tensor, Tensor]:
        if self.scaled is not None:
            found, unit = self.scaled
            scale = unit**self.problem.p if self.objective == "power" else unit
            low, high = (end * scale for end in found.interval(level, simulate=simulate))
            return low, high
        problem, slices = self.problem.detached(), self.slices.detach()
        costs, weights = self.costs.detach(), self.weights.detach()
        known = self._uncertainty(costs, slices, problem, weights)
        total = self.power.detach()
        if self.objective == "mean_root":
            total = (weights * root(costs, problem.p)).sum(dim=-1)
        groups = self._groups(known.terms)
        reach = None
        if simulate and self.drawn:
            reach = self._simulated_reach(known, groups, level, weights.sum(dim=-1), kept)
        below, above = reach or self._reach(known, groups, level)
        # What is reported is not always what the interval is about; it belongs inside.
        ends = (
            torch.minimum(known.center - below, total),
            torch.maximum(known.center + above, total),
        )
        # Costs are not negative; an estimate with a control variate may be.
        low, high = (end.clamp(min=0) if self.objective == "root" else end for end in ends)
        return tuple(value_of_costs(end, problem, self.objective) for end in (low, high))  # type: ignore[return-value]

    def _uncertainty(
        self, costs: Tensor, slices: Tensor, problem: Problem, weights: Tensor | None = None
    ) -> Uncertainty:
        """What an interval rests on, for costs (*batch, L) of slices; slice weights are computed if they are not given."""
        plain = costs
        if self.objective == "mean_root":
            costs = root(costs, problem.p)
        known = declared(self.recipe.weighting, WeightingPart).uncertainty(costs, slices, problem)
        if known is not None:
            return known
        if weights is None:
            weights = slice_weights(self.recipe.weighting, plain, slices, problem)
        total = (weights * costs).sum(dim=-1)
        terms = _plain_errors(costs, weights, total)
        return Uncertainty(total, terms, torch.full_like(total, math.inf))

    def _simulated_reach(
        self, known: Uncertainty, groups: Tensor, level: float, total: Tensor, kept: Kept | None
    ) -> tuple[Tensor, Tensor] | None:
        """How far an interval reaches by a simulation, with slice weights of a total; None where there is none."""
        problem = self.problem.detached()
        found = studentized_quantiles(
            self.recipe, problem, self.slices.detach(), self.costs.detach(), self.group_size,
            self._uncertainty, level, kept,
        )  # fmt: skip
        if found is None:
            return None
        error = standard_error(groups)
        # Where a single slice can take all the weight, simulated errors are small and their quantiles large.
        most = root(found.most, problem.p) if self.objective == "mean_root" else found.most
        room = (total * most - known.center).clamp(min=0)
        below, above = found.high * error, torch.minimum(-found.low * error, room)
        return below.to(groups.dtype), above.to(groups.dtype)

    def _reach(self, known: Uncertainty, groups: Tensor, level: float) -> tuple[Tensor, Tensor]:
        """How far below and above its center an interval reaches, (*batch,) each, by Student's distribution."""
        problem = self.problem.detached()
        freedom = known.freedom.clamp(max=groups.shape[-1] - 1)
        skewness, d = None, problem.d if problem.linear_slices else None
        # Slices of one law, not steps of an ascent.
        if self.group_size == 1 or label_free(self.recipe.slicer):
            skewness = skewness_of_costs(known.terms, groups, known.center, d)
        return confidence_interval(groups, freedom, level, skewness)

    def _groups(self, terms: Tensor) -> Tensor:
        """Sums of terms of slices (*batch, L) over independent groups of them, (*batch, groups)."""
        n_slices = terms.shape[-1]
        size = n_slices if self.group_size is None else self.group_size
        n = -(-n_slices // size)  # the last one perhaps incomplete
        filled = torch.nn.functional.pad(terms, (0, n * size - n_slices))
        return filled.unflatten(-1, (n, size)).sum(dim=-1)


def _plain_errors(costs: Tensor, weights: Tensor, total: Tensor) -> Tensor:
    """Each slice's share (*batch, L) of the error of Σ weights · costs, for weights that were not fitted."""
    return weights * costs - total.unsqueeze(-1) / costs.shape[-1]


@takes_arrays(*_ARRAYS)
def sliced_wasserstein(
    x: Tensor,
    y: Tensor | Target | Law,
    variant: str | Variant | Recipe = "sw",
    *,
    p: float = 2,
    n_slices: int | Literal["auto"] | None = None,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    objective: Objective = "root",
    slices: Tensor | None = None,
    generator: Generators = None,
    backend: str = "auto",
    progress: float = 0.0,
    rtol: float | None = None,
    atol: float | None = None,
    **options: Any,
) -> Tensor:
    """Compute the sliced-Wasserstein distance between two sets of samples.

    Leading dimensions are batch dimensions and broadcast: one call computes one distance for each element of the batch.
    Differentiable in the samples, their weights and given slices.

    Args:
        x: samples (*batch, n, d): tensors, NumPy arrays or lists; the result is of the same kind.
        y: samples (*batch, m, d), a `Target`, or a law of `slicewise.laws` (nothing is sampled).
        variant: a name in `VARIANTS`, e.g. "ebsw", or a `Recipe`.
        p: the order, at least 1.
        n_slices: how many slices enter the weighted sum; None is the variant's own default. "auto" draws as many as the
            wish of `rtol` and `atol` needs; `evaluate` returns their number, and the value with its interval.
        x_weights, y_weights: sample weights (n,) or (*batch, n) that sum to one; samples of weight zero are ignored.
        objective: "root" (SW_p), "power" (SW_p^p) or "mean_root" (the mean W_p over slices).
        slices: directions (L, d) or (*batch, L, d) to use as they are instead of drawing some. Of the variant only its
            weighting is left: "maxsw" of given slices is their mean, the largest is `evaluate(...).costs.max()`.
        generator: an int (a seed: the same slices every time), a `torch.Generator`, a list of either, one for each
            element of the batch, or None for torch's global generator.
        backend: what sorts; the result is the same. "auto" takes the fastest there is (`backends()`); on a CPU "numba",
            "numpy" or "torch", on a CUDA device "nvrtc", "torch-nvrtc", "triton" or "torch".
        progress: how much of a training run is over, in [0, 1], for options that are schedules.
        rtol, atol: with `n_slices="auto"`: half of the 95 % confidence interval of the value is to be at most
            max(rtol · value, atol), for every element of the batch. rtol is 0.05 if neither is given.
        options: those of the variant (`VARIANTS[name].options`), and `defaults`, `convention`, `legacy`.

    Returns:
        The value, (*batch,).

    Raises:
        ValueError: for arguments that do not fit together; the message says what to give instead.

    >>> x, y = torch.zeros(4, 2), torch.tensor([3.0, 4.0]).expand(5, 2)
    >>> sliced_wasserstein(x, y, "maxsw").round(decimals=4)  # all of the distance lies along one direction
    tensor(5.)
    >>> round(sliced_wasserstein([[0.0], [1.0]], [[2.0], [3.0]]), 6)  # lists in, a number out
    2.0

    N. Bonneel et al., Sliced and Radon Wasserstein barycenters of measures, 2015.
    """
    if n_slices == "auto":
        return evaluate(
            x,
            y,
            variant,
            p=p,
            n_slices=n_slices,
            x_weights=x_weights,
            y_weights=y_weights,
            objective=objective,
            slices=slices,
            generator=generator,
            backend=backend,
            progress=progress,
            rtol=rtol,
            atol=atol,
            **options,
        ).value
    _refuse_tolerances(rtol, atol)
    recipe, ask = ask_by_name(variant, n_slices, options, objective, p, backend, progress)
    try:
        if may_be_planned(x, slices):
            found = planned_value(ask, x, y, x_weights, y_weights, generator)
            if found is not None:
                return found[0]
        what = (x, y, p, x_weights, y_weights, recipe.convention, progress, backend)
        problem = problem_for(*what, whole_frame=is_tracked(slices))
        return _evaluated(recipe, problem, y, slices, generator, n_slices, objective).value
    except OutOfRange:
        same = {"generator": generator, "backend": backend, "progress": progress}
        given = {"x": x, "y": y, "x_weights": x_weights, "y_weights": y_weights, "slices": slices}

        kind = problem_dtype(x)

        def call(own: Recipe, _unit: Tensor, **wide: Any) -> Tensor:
            return sliced_wasserstein(**wide, variant=own, p=p, objective=objective, **same)

        return in_range(
            call,
            nearness(recipe, same),
            recipe,
            p,
            objective,
            given,
            value_of=lambda value: value,
            back=lambda value, unit, scale: (value * scale).to(kind),
        )


def problem_dtype(x: Tensor) -> torch.dtype:
    """The precision of values of x: that of x, or float32 for half precisions, which are computed in it."""
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


def nearness(recipe: Recipe, same: dict[str, Any]) -> Callable[..., Tensor]:
    """The distance of order 1 of these parts, or of equal parts if there are none of that order."""
    known = recipe if recipe.lift is None else recipe_for("sw", None, {})

    def order_one(**wide: Any) -> Tensor:
        return sliced_wasserstein(**wide, variant=known, p=1, **same)

    return order_one


@takes_arrays(*_ARRAYS)
def evaluate(
    x: Tensor,
    y: Tensor | Target | Law,
    variant: str | Variant | Recipe = "sw",
    *,
    p: float = 2,
    n_slices: int | Literal["auto"] | None = None,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    objective: Objective = "root",
    slices: Tensor | None = None,
    generator: Generators = None,
    backend: str = "auto",
    progress: float = 0.0,
    rtol: float | None = None,
    atol: float | None = None,
    **options: Any,
) -> Evaluation:
    """Compute the sliced-Wasserstein distance together with its costs, weights, slices and standard error.

    Args:
        x, y, variant, p, n_slices, x_weights, y_weights, objective: as in `sliced_wasserstein`.
        slices, generator, backend, progress, rtol, atol, options: as in `sliced_wasserstein`.

    Returns:
        An `Evaluation`: `value`, `power`, `costs`, `weights`, `slices`, `stderr`, `interval`, `bound`, `displacement`.

    Raises:
        ValueError: for arguments that do not fit together.

    Example:
        >>> x, y = torch.randn(100, 3), torch.randn(80, 3) + 1
        >>> found = evaluate(x, y, "ebsw", n_slices=20)
        >>> found.costs.shape, found.weights.sum().isclose(torch.tensor(1.0)).item()
        (torch.Size([20]), True)
        >>> found = evaluate(x, y, n_slices="auto", rtol=0.1)
        >>> low, high = found.interval(0.95)
        >>> bool(low < found.value < high), bool(high - low <= 0.2 * found.value)
        (True, True)
    """
    if n_slices == "auto":
        wish, wanted = Wish.of(rtol, atol, slices, y), None
    else:
        _refuse_tolerances(rtol, atol)
        wish, wanted = None, n_slices
    recipe = recipe_for(variant, wanted, options)
    check_objective(objective, recipe)
    what = (x, y, p, x_weights, y_weights, recipe.convention, progress, backend)
    problem = problem_for(*what, whole_frame=is_tracked(slices))
    try:
        if wish is not None:
            return _grown(recipe, problem, generator, objective, wish)
        return _evaluated(recipe, problem, y, slices, generator, wanted, objective)
    except OutOfRange:
        same = {"generator": generator, "backend": backend, "progress": progress}
        given = {"x": x, "y": y, "x_weights": x_weights, "y_weights": y_weights, "slices": slices}
        whole = dataclasses.replace(problem, x=problem.x.double(), y=problem.y.double())

        def call(own: Recipe, unit: Tensor, **wide: Any) -> Evaluation:
            auto: dict[str, Any] = {}
            if wish is not None:
                scale = float(unit**p if objective == "power" else unit)
                auto = {"n_slices": "auto", "rtol": wish.rtol, "atol": wish.atol / scale}
            return evaluate(**wide, variant=own, p=p, objective=objective, **auto, **same)

        def back(found: Evaluation, unit: Tensor, scale: Tensor) -> Evaluation:
            # Powers stay in float64: the precision of x may not hold them.
            powers = unit**p
            return dataclasses.replace(
                found,
                value=(found.value * scale).to(problem.x.dtype),
                power=found.power * powers,
                costs=found.costs * powers,
                recipe=recipe,
                problem=found.problem if float(unit) == 1 else whole,
                scaled=None if float(unit) == 1 else (found, unit),
            )

        near = nearness(recipe, same)
        return in_range(
            call, near, recipe, p, objective, given, value_of=lambda found: found.value, back=back
        )


def _evaluated(
    recipe: Recipe,
    problem: Problem,
    y: Tensor | Target | Law,
    slices: Tensor | None,
    generator: Generators,
    n_slices: int | None,
    objective: Objective,
) -> Evaluation:
    with full_precision(problem.x.device.type):
        given = fixed_slices(y, slices)
        ready = prepare(recipe, problem, generator, given, n_slices=n_slices)
        found = weigh(recipe, ready.problem, ready.slices, objective)
    check_value(found[0], problem, objective)
    drawn = given is None
    return Evaluation(
        *found, ready.slices, ready.group_size, objective, recipe, ready.problem, drawn=drawn
    )


def _refuse_tolerances(rtol: float | None, atol: float | None) -> None:
    if rtol is not None or atol is not None:
        raise ValueError("rtol and atol choose the number of slices: give n_slices='auto', too")


@dataclass(frozen=True)
class Wish:
    """How narrow the confidence interval of a value is to be: half of it at most max(rtol · value, atol)."""

    rtol: float
    atol: float

    @classmethod
    def of(cls, rtol: float | None, atol: float | None, slices: object, y: object) -> Wish:
        """Check what a caller wishes."""
        if slices is not None or isinstance(y, Target):
            raise ValueError(
                "n_slices='auto' draws slices, but some are given (slices= or a Target): leave one of them out"
            )
        for name, value in (("rtol", rtol), ("atol", atol)):
            if value is not None:
                check_number(name, value, above=0, or_equal=True)
        wish = cls(0.05 if rtol is None and atol is None else rtol or 0.0, atol or 0.0)
        if wish.rtol == wish.atol == 0:
            raise ValueError(
                "rtol and atol are 0, which no number of slices reaches: give one above 0"
            )
        return wish

    def missed_by(self, found: Evaluation, kept: Kept) -> float:
        """How many times as wide as wished the interval is, the largest over the batch."""
        low, high = found._interval(_LEVEL, kept=kept)
        wanted = (self.rtol * found.value.detach().abs()).clamp(min=self.atol)
        half = (high - low) / 2
        # Equal samples cost nothing on any slice: 0 ± 0 is as precise as it gets.
        ratio = torch.where(half > 0, half / torch.where(wanted > 0, wanted, 1e-300), 0)
        return float(ratio.max()) if ratio.numel() else 0.0


_LEVEL = 0.95
# Slices that are drawn before any error is trusted: the stopping rule looks at the error it stops by.
_FEWEST_SLICES, _FEWEST_GROUPS, _MOST_SLICES = 100, 10, 1_000_000
# Draw a few more than the last look asked for, so that one more look is mostly enough; not many times as many as are
# known.
_MARGIN, _MOST_GROWTH = 1.1, 16.0


def _grown(
    recipe: Recipe,
    problem: Problem,
    generator: Generators,
    objective: Objective,
    wish: Wish,
) -> Evaluation:
    """Evaluate with as many slices as the wish needs, drawn in sets of the recipe's own number."""
    slicer = declared(recipe.slicer, SlicerPart)
    check_generator(generator)
    rng = randomness_of(generator, problem)
    with full_precision(problem.x.device.type):
        sliced, first, _ = draw(recipe, problem, rng, None)
        each, size = first.shape[-2], slicer.group_size(sliced.d)
        if size is None or isinstance(recipe.lift, Learner) or slicer.is_fixed or each == 1:
            raise ValueError(
                f"n_slices='auto' with {recipe!r}, which states no standard error: give a number of slices, or use a variant "
                f"that draws independent ones, e.g. 'sw', 'orthosw' or 'ebsw'"
            )
        # Sets are independent of each other, whatever slices of one set are.
        size = size if each % size == 0 else each
        sets, kept = [first], Kept()
        wanted = max(_FEWEST_SLICES, _FEWEST_GROUPS * size)
        while True:
            while each * len(sets) < wanted:
                sets.append(_another_set(recipe, sliced, rng))
            slices = torch.cat(sets, dim=-2)
            values = weigh(recipe, sliced, slices, objective)
            check_value(values[0], problem, objective)
            found = Evaluation(*values, slices, size, objective, recipe, sliced)
            missed = wish.missed_by(found, kept)
            if missed <= 1:
                return found
            n_slices = slices.shape[-2]
            if n_slices >= _MOST_SLICES:
                raise ValueError(
                    f"{n_slices} slices leave an interval {missed:.3g} times as wide as rtol = {wish.rtol:g}, "
                    f"atol = {wish.atol:g} ask for: give larger ones"
                )
            growth = min(_MARGIN * missed**2, _MOST_GROWTH)
            wanted = min(math.ceil(n_slices * growth), _MOST_SLICES)


def _another_set(recipe: Recipe, problem: Problem, rng: Randomness) -> Tensor:
    """One more set of slices of a problem that is lifted already."""
    return draw(dataclasses.replace(recipe, lift=None), problem, rng, None)[1]
