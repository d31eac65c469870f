"""Step rules: how far to follow the slices that were drawn, computed from these slices themselves."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from slicewise.parts import Weights
from slicewise.problem import BuiltIn, Problem
from slicewise.steps.theory import best_step
from slicewise.support import check_choice
from slicewise.transport import Needs, plan_mean, project, pull_back


@dataclass(frozen=True, eq=False)
class Pull:
    """Where slices pull the samples of a problem: D, and what it was made of.

    D_i = Σ_l w_l θ_l G_li with G the mean over the 1-D plan of |r|^(p−1) sign r: for p = 2 the move to
    the mean of a sample's partners, whatever its own weight. Samples of weight zero are not pulled.
    """

    problem: Problem
    slices: Tensor  # (*batch, L, d)
    weights: Tensor  # (*batch, L), held constant; of either sign if they were differentiated
    costs: Tensor  # (*batch, L), W_p^p on each slice
    direction: Tensor  # (*batch, n, d), D

    @property
    def masses(self) -> Tensor | float:
        """Sample weights (*batch, n), or the one they all have."""
        return self.problem.shares(self.direction.dtype)

    def size(self) -> Tensor:
        """Σ_i q_i |D_i|², (*batch,)."""
        here = (self.masses * self.direction.square().sum(dim=-1)).sum(dim=-1)
        return self.problem.population.total(here)

    def spread(self) -> Tensor:
        """Σ_l |w_l| Σ_i q_i (θ_l · D_i)², (*batch,): how much of D the slices see."""
        d = self.direction.shape[-1]
        if d <= self.slices.shape[-2]:
            # The second moment of D says it all, and costs n d² instead of L n d.
            masses = self.masses
            heavy = masses.unsqueeze(-1) if isinstance(masses, Tensor) else masses
            moment = self.direction.mT @ (heavy * self.direction)  # (*batch, d, d)
            seen = ((self.slices @ moment) * self.slices).sum(dim=-1)
        else:
            seen = (self.masses_row() * project(self.direction, self.slices).square()).sum(dim=-1)
        return self.problem.population.total((self.weights.abs() * seen).sum(dim=-1))

    def masses_row(self) -> Tensor | float:
        """Sample weights shaped against projections, (*batch, 1, n)."""
        masses = self.masses
        return masses.unsqueeze(-2) if isinstance(masses, Tensor) else masses


class Rule(Protocol):
    """Says how far to follow a pull: a, (*batch, 1), or (*batch, n) for a step of each sample."""

    def __call__(self, pull: Pull) -> Tensor: ...


@dataclass(frozen=True, repr=False)
class Cauchy(BuiltIn):
    """The exact line search on the plans at hand: a = Σ q|D|² / Σ_l |w_l| Σ q (θ_l·D)².

    With its 1-D plans held, the cost is a quadratic in x that lies above the true one and touches it
    here, so the sampled loss cannot rise. For uniform slices a ≈ a*, for MaxSW 1, for an orthonormal
    frame its size. No move (0/0) is a step of 0.

    For p ≠ 2 the curvature of the plans takes the place of 1: H = the mean of max(|r|, eps)^(p−2). For
    p < 2, with eps the root mean square of r, it is a majoriser of the loss smoothed at that length.
    For p > 2 each sample takes its own step: near a match curvature vanishes, and one step for all crawls.
    """

    def __call__(self, pull: Pull) -> Tensor:
        if pull.problem.p != 2:
            return self._curved(pull)
        # The ratio does not depend on D's size; its squares must neither underflow nor overflow.
        largest = pull.problem.population.largest_entry(pull.direction)
        unit = pull.direction / torch.where(largest > 0, largest, 1)
        pull = dataclasses.replace(pull, direction=unit)
        return _ratio(pull.size(), pull.spread()).unsqueeze(-1)

    def _curved(self, pull: Pull) -> Tensor:
        problem = pull.problem
        p, y_weights = problem.p, problem.y_weights
        u, v = project(problem.x, pull.slices), project(problem.y, pull.slices)  # (*batch, L, n)
        plans = {
            "u_weights": None if problem.x_weights is None else problem.x_weights.unsqueeze(-2),
            "v_weights": None if y_weights is None else y_weights.unsqueeze(-2),
        }
        if p < 2:
            squares = plan_mean(u, v, torch.square, **plans)
            mean = (pull.masses_row() * squares).sum(dim=-1).mean(dim=-1)
            floor = mean.sqrt()[..., None, None].clamp(min=torch.finfo(u.dtype).tiny)
            curvature = plan_mean(u, v, lambda r: r.abs().maximum(floor) ** (p - 2), **plans)
        else:
            curvature = (p - 1) * plan_mean(u, v, lambda r: r.abs() ** (p - 2), **plans)
        seen = curvature * project(pull.direction, pull.slices).square()
        seen = (pull.weights.abs().unsqueeze(-1) * seen).sum(dim=-2)  # (*batch, n)
        if p > 2:
            return _ratio(pull.direction.square().sum(dim=-1), seen)
        return _ratio(pull.size(), (pull.masses * seen).sum(dim=-1)).unsqueeze(-1)


@dataclass(frozen=True, repr=False)
class Tempered(BuiltIn):
    """Cauchy's step, but three quarters of it where that would set every slice right at once. p = 2 only.

    So it is for one slice, and for any orthonormal frame: a = L. Samples then go where their ranks on these few slices say,
    and nothing of what earlier slices said is left to average; from three dimensions on flows rattle far from the target.
    Three quarters still lower the error along a slice by 15/16 of what the whole step does, when its plan is right.
    """

    def __call__(self, pull: Pull) -> Tensor:
        _only_squares(self, pull)
        step = Cauchy()(pull)
        # Slices that are all but orthonormal are no better off; others are well below.
        return torch.where(step >= 0.999 * pull.slices.shape[-2], 0.75 * step, step)


@dataclass(frozen=True, repr=False)
class TraceRatio(BuiltIn):
    """The best step for an error of unknown direction: a = tr M / tr M². It looks at slices alone.

    For uniform slices the mean of 1/a is 1/a*. p = 2 only.
    """

    def __call__(self, pull: Pull) -> Tensor:
        _only_squares(self, pull)
        weights = pull.weights.abs()
        scaled = pull.slices * weights.sqrt().unsqueeze(-1)
        wide = scaled.shape[-1] > scaled.shape[-2]
        gram = scaled @ scaled.mT if wide else scaled.mT @ scaled  # either has the traces of M
        trace = gram.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        step = _ratio(trace, gram.square().sum(dim=(-2, -1)))
        return step.expand(pull.direction.shape[:-2]).unsqueeze(-1)


@dataclass(frozen=True, repr=False)
class Polyak(BuiltIn):
    """The step to zero loss if the loss were a parabola with its minimum there: a = Σ w·cost / Σ q|D|².

    Free and often fastest, but it takes the smallest loss for zero: only for equal numbers of equally
    weighted samples that can all move, and too long for few slices of many-dimensional data.
    """

    def __call__(self, pull: Pull) -> Tensor:
        return _ratio((pull.weights * pull.costs).sum(dim=-1), pull.size()).unsqueeze(-1)


@dataclass(frozen=True, repr=False)
class Constant(BuiltIn):
    """One step always. None is 0.7 a* of uniform slices, right for `sw` alone. p = 2 only."""

    step: float | None = None

    def __post_init__(self) -> None:
        if self.step is not None and not 0 < self.step < math.inf:
            raise ValueError(f"step = {self.step}: give a positive, finite step, or 'cauchy'")

    def __call__(self, pull: Pull) -> Tensor:
        _only_squares(self, pull)

        step = 0.7 * best_step(*pull.slices.shape[-2:]) if self.step is None else self.step
        return pull.direction.new_full((*pull.direction.shape[:-2], 1), step)


RULES: dict[str, Rule] = {
    "cauchy": Cauchy(),
    "tempered": Tempered(),
    "trace": TraceRatio(),
    "polyak": Polyak(),
    "constant": Constant(),
}


def rule_for(step_rule: str | float | Rule) -> Rule:
    """A rule by name, a number as a constant one, or a rule as it is."""
    if isinstance(step_rule, str):
        check_choice("step_rule", step_rule, RULES)
        return RULES[step_rule]
    if isinstance(step_rule, (int, float)):
        return Constant(float(step_rule))
    if not callable(step_rule):
        raise ValueError(
            f"step_rule = {step_rule!r}: give a name ({', '.join(RULES)}), a number or a rule"
        )
    return step_rule


def pull_of(problem: Problem, slices: Tensor, weights: Weights) -> Pull:
    """Where slices pull the samples x of a problem; nothing is differentiated.

    `weights` (*batch, L), or how they follow from the costs, given as means over points.
    """
    needs = Needs(x=True)
    if problem.fits(slices, needs):
        found = problem.match(slices, needs)
        costs = found.cost
        weights = weights(costs) if callable(weights) else weights
        gradients = pull_back(found, problem.x, problem.y, slices, weights, needs)
    else:
        if callable(weights):
            weights = weights(problem.pull(slices, None, Needs())[0])
        costs, gradients = problem.pull(slices, weights, needs)
    assert gradients.x is not None
    return Pull(problem, slices, weights, costs, direction_of(problem, gradients.x))


def moved(pull: Pull, rule: Rule = Cauchy()) -> Tensor:
    """−a D, (*batch, n, d): the move suggested for each sample."""
    return -rule(pull).unsqueeze(-1) * pull.direction


def direction_of(problem: Problem, gradient: Tensor) -> Tensor:
    """D from the gradient of Σ weights · costs, costs as means over points: divide by p q_i."""
    if problem.x_weights is None:
        return gradient * (problem.n / problem.p)
    share = problem.shares(torch.float64)
    assert isinstance(share, Tensor)
    share = share.unsqueeze(-1) * problem.p
    present = share > 0
    return torch.where(present, gradient / torch.where(present, share, 1), 0).to(gradient.dtype)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """above / below, and 0 where nothing is left to move."""
    some = below > 0
    return torch.where(some, above / torch.where(some, below, 1), 0)


def _only_squares(rule: Rule, pull: Pull) -> None:
    if pull.problem.p != 2:
        raise ValueError(
            f"{rule!r} knows p = 2 only, got p = {pull.problem.p:g}: use step_rule='cauchy' or 'polyak'"
        )
