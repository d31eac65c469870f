"""How the runs of a flow move, decided once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from slicewise.distance import Objective, check_objective
from slicewise.flows.movers import Accelerated, Computed, Course, Descent
from slicewise.flows.restarts import Escapes, escapes_for
from slicewise.parts import Equal, Uniform
from slicewise.problem import Problem
from slicewise.steps import Cauchy, Rule, Tempered
from slicewise.support import check_number
from slicewise.variants import Recipe

# A run that ends at its first stall escapes from nothing: it is only watched, in any dimension.
AT_FIRST_STALL = Escapes(50)
# What steps are computed by if nothing is said. A study keeps it with its runs: another default makes other runs.
COMPUTED = "heat of escapes up to 16 times the loss at rest, few slices tempered"


@dataclass(frozen=True)
class Settings:
    """How the runs of one call move; prints all that decides it."""

    recipe: Recipe
    objective: Objective
    auto: bool  # are steps computed?
    reduce: bool | Literal["auto"]
    rule: Rule | None
    share: float
    hold_weights: bool
    n_slices_given: bool
    assign: bool
    at_least: float | None = None

    def __post_init__(self) -> None:
        if self.at_least is not None:
            self._check_floor(self.at_least)
        if self.assign and not self.auto:
            raise ValueError("finish='assign' needs lr='auto': plain gradient steps know no stall")
        if self.rule is not None and not self.auto:
            raise ValueError(
                f"step = {self.rule!r} beside a rate: give lr='auto', or leave step out"
            )
        if not self.auto and (self.share != 1 or not self.hold_weights):
            raise ValueError(
                "share and hold_weights are about computed steps: give lr='auto' with them"
            )
        check_objective(self.objective, self.recipe)
        if self.auto:
            self.recipe.check_linear("lr='auto'")
        if self.recipe.lift is not None and self.reduce is True:
            raise ValueError(
                f"reduce=True with {self.recipe.lift!r}: what it makes of turned samples is not what it makes of "
                f"the samples; leave reduce out"
            )
        if self.reduce not in (True, False, "auto"):
            raise ValueError(f"reduce = {self.reduce!r}: give True, False or 'auto'")
        check_number("share", self.share, above=0)

    def _check_floor(self, at_least: float) -> None:
        if not (isinstance(at_least, (int, float)) and math.isfinite(at_least)):
            raise ValueError(f"at_least = {at_least!r}: give a number, or None")
        if self.auto or self.reduce is True:
            raise ValueError(
                f"at_least = {at_least}: a floor of every coordinate is for plain steps of a given lr, with reduce=False; "
                f"computed steps stay near the samples they come from and go to"
            )

    def accelerated(self, problem: Problem) -> bool:
        """Is this the plain distance, for which the whole default is made?"""
        plain = type(self.recipe.slicer) is Uniform and type(self.recipe.weighting) is Equal
        squares = problem.p == 2 and self.objective != "mean_root"
        return self.auto and self.rule is None and plain and squares

    def course(self, problem: Problem) -> Course:
        """How runs of this problem move, in the k dimensions they are worked in."""
        if not self.auto:
            return Descent(self.recipe, self.objective, self.at_least)
        # Only equal numbers of equal weight can make the loss zero; else fresh slices never stop pulling.
        n, m, k = problem.x.shape[-2], problem.y.shape[-2], problem.d
        exact = n == m and problem.x_weights is None and problem.y_weights is None
        if self.assign and not exact:
            raise ValueError(
                f"finish='assign' with {n} and {m} samples, perhaps weighted: an assignment needs equal "
                f"numbers of equal weight"
            )
        if not self.accelerated(problem):
            squares = exact and problem.p == 2
            # In the plane escapes free runs of few slices, and whole steps arrive sooner.
            own = Tempered() if squares and k > 2 else Cauchy()
            rule = own if self.rule is None else self.rule
            escapes = escapes_for(k) if squares else None
            if self.assign:
                escapes = AT_FIRST_STALL
            held = self.hold_weights
            return Computed(self.recipe, self.objective, rule, self.share, held, not exact, escapes)
        slicer = self.recipe.slicer
        assert isinstance(slicer, Uniform)
        n_slices = slicer.n if self.n_slices_given else slices_for_rank(k)
        escapes = AT_FIRST_STALL if self.assign else None
        if exact and n_slices >= 10 * k and not self.assign:
            escapes = escapes_for(k)
        return Accelerated(n_slices, self.objective, self.share, not exact, escapes)

    def tolerance(self, given: float | Literal["auto"] | None, problem: Problem) -> float | None:
        """How still a run must be to count as arrived."""
        number = isinstance(given, (int, float)) and 0 <= given < math.inf
        if given is not None and given != "auto" and not number:
            raise ValueError(
                f"tolerance = {given}: give a share of the data's size, 'auto' or None"
            )
        if given is None or isinstance(given, (int, float)):
            return given
        return None if not self.auto else 1e-9 if problem.x.dtype == torch.float64 else 1e-6


def slices_for_rank(k: int) -> int:
    """How many slices a step in k dimensions takes: 50, in whole frames, and no fewer than 7 for each.

    From 5 to 10 for each the time to arrive is the same, in fewer steps; with less, momentum is lost.
    """
    return 50 if k <= 3 else k * max(7, -(-50 // k))
