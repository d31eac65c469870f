"""How the runs of a flow move, decided once for each call."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import torch

from slicewise.distance import Objective, check_objective
from slicewise.flows.cooling import cooling_rule
from slicewise.flows.movers import MomentumMover, Mover, RateMover, RuleMover
from slicewise.flows.restarts import EscapeRule, escape_rule, patience_for
from slicewise.flows.stopping import Stopping, is_one_to_one
from slicewise.problem import Problem, SlicerPart, WeightingPart, declared
from slicewise.steps import Cauchy, Rule, Tempered
from slicewise.support import check_number
from slicewise.variants import Recipe

# Version of the default for computed steps. A study stores this key with its runs and looks them up by it; a default
# that makes other runs takes a new one. Version 2 makes the steps of the first, and ends by another measure of arrival.
STEP_VERSION_KEY = "2"

# Runs that an assignment may end do so when their loss has not halved for so many steps; none ever escapes. Sliced
# steps have then brought the particles as near as the spacing of the target's samples. Waiting longer brings them
# little nearer, and lets them wander away from the shortest way.
_STALL = 8


@dataclass(frozen=True)
class FlowSettings:
    """How the runs of one call move; its fields are part of a flow's identity."""

    recipe: Recipe
    objective: Objective
    auto: bool  # whether steps are computed
    reduce: bool | Literal["auto"]
    rule: Rule | None
    step_factor: float
    hold_weights: bool
    n_slices_given: bool
    assign: bool | Literal["auto"]
    lower_bound: float | None = None

    def __post_init__(self) -> None:
        if self.lower_bound is not None:
            self._check_lower_bound(self.lower_bound)
        if self.assign is True and not self.auto:
            raise ValueError(
                "Stopping(assign=True) needs lr='auto': stalls are detected for computed steps only"
            )
        if self.rule is not None and not self.auto:
            raise ValueError(
                f"step_rule = {self.rule!r} beside a rate: give lr='auto', or leave step_rule out"
            )
        if not self.auto and self.step_factor != 1:
            raise ValueError("step_factor multiplies computed steps: give lr='auto' with it")
        check_objective(self.objective, self.recipe)
        if self.auto:
            self.recipe.check_linear("lr='auto'")
        if not isinstance(self.reduce, bool | str) or self.reduce not in (True, False, "auto"):
            raise ValueError(f"reduce = {self.reduce!r}: give True, False or 'auto'")
        turns = self.recipe.rotation_invariant and self.recipe.lift is None
        if self.reduce is True and not turns:
            raise ValueError(
                f"reduce=True with {self.recipe!r}: what its slices see depends on the axes or the origin, so that a flow "
                f"of rotated and centered samples is another flow; leave reduce out"
            )
        check_number("step_factor", self.step_factor, above=0)

    def _check_lower_bound(self, lower_bound: float) -> None:
        if not (isinstance(lower_bound, (int, float)) and math.isfinite(lower_bound)):
            raise ValueError(f"lower_bound = {lower_bound!r}: give a number, or None")
        if self.auto or self.reduce is True:
            raise ValueError(
                f"lower_bound = {lower_bound}: a bound on every coordinate is for plain steps of a given lr, with "
                f"reduce=False; computed steps stay near the samples they come from and go to"
            )

    def _has_momentum(self, problem: Problem) -> bool:
        """Whether this is the plain distance with default steps, which the default mover is made for."""
        uniform = declared(self.recipe.slicer, SlicerPart).is_uniform
        plain = uniform and declared(self.recipe.weighting, WeightingPart).is_mean
        squares = problem.p == 2 and self.objective != "mean_root"
        return self.auto and self.rule is None and plain and squares

    def assigns(self, stopping: Stopping, problem: Problem) -> bool:
        """Whether an assignment ends runs that stall.

        Raises:
            ValueError: If that was asked for and is not possible.
        """
        if self.assign is True and not is_one_to_one(problem):
            n, m = problem.x.shape[-2], problem.y.shape[-2]
            raise ValueError(
                f"Stopping(assign=True) with {n} and {m} samples, perhaps weighted: an assignment needs equal "
                f"numbers of equal weight"
            )
        if self.assign != "auto":
            return self.assign
        near = self.auto and stopping.tolerance is not None and not self.recipe.has_fixed_slices
        return near and is_one_to_one(problem)

    def mover(self, problem: Problem, assigns: bool) -> Mover:
        """How runs of this problem move, in the k dimensions they are worked in."""
        if not self.auto:
            return RateMover(self.recipe, self.objective, self.lower_bound)
        # The loss can be zero only for equal numbers of samples of equal weight. Otherwise its minimum is positive, and
        # fresh slices keep moving the particles there.
        k, exact = problem.d, is_one_to_one(problem)
        own = declared(self.recipe.slicer, SlicerPart).n_slices(k)
        if not self._has_momentum(problem):
            squares = exact and problem.p == 2
            # In the plane escapes free runs of few slices, and whole steps arrive sooner.
            default = Tempered() if squares and k > 2 else Cauchy()
            rule = default if self.rule is None else self.rule
            escapes = escape_rule(k) if squares else None
            if assigns:
                escapes = stall_rule(k, own)
            cooling = None if exact else cooling_rule(k, own)
            held, factor = self.hold_weights, self.step_factor
            return RuleMover(self.recipe, self.objective, rule, factor, held, cooling, escapes)
        n_slices = own if own is not None and self.n_slices_given else default_slices(k)
        escapes = stall_rule(k, n_slices) if assigns else None
        if exact and n_slices >= 10 * k and not assigns:
            escapes = escape_rule(k)
        cooling = None if exact else cooling_rule(k, n_slices)
        return MomentumMover(n_slices, self.objective, self.step_factor, cooling, escapes)

    def resolved(self, stopping: Stopping, problem: Problem) -> Stopping:
        """A `Stopping` with "auto" resolved."""
        tolerance = stopping.tolerance
        if tolerance == "auto":
            precise = problem.x.dtype == torch.float64
            tolerance = None if not self.auto else 1e-9 if precise else 1e-6
        stopping = dataclasses.replace(stopping, tolerance=tolerance)
        return dataclasses.replace(stopping, assign=self.assigns(stopping, problem))

    def default_steps(self, stopping: Stopping, problem: Problem, k: int) -> int:
        """The number of steps of a call that gives none, for samples that span k dimensions."""
        matched = stopping.assign is True or not self.auto or self.recipe.has_fixed_slices
        return default_steps(max(problem.x.shape[-2], problem.y.shape[-2]), k, matched=matched)


def default_steps(n: int, k: int, *, matched: bool) -> int:
    """How many steps a flow makes at most if it is not told, for n samples (of the larger set) that span k dimensions.

    1,000 if they are `matched` at the end, which takes some dozens of steps. Sliced steps alone need a number that grows
    with n; `docs/steps.md` has counts.
    """
    return 1000 if matched else 1000 + math.ceil(5 * n * math.log2(2 * k))


def stall_rule(k: int, n_slices: int | None) -> EscapeRule:
    """When a run that an assignment may end has stalled: later where the slices of a step see few of k dimensions."""
    return EscapeRule(patience_for(_STALL, k, n_slices))


def default_slices(k: int) -> int:
    """How many slices a step in k dimensions takes: 50, in whole frames, and at least 7 for each dimension.

    From 5 to 10 for each the time to arrive is the same, in fewer steps; with less, momentum is lost.
    """
    return 50 if k <= 3 else k * max(7, -(-50 // k))
