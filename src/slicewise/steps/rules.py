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
from slicewise.steps.held import curvature_on_lines
from slicewise.steps.theory import best_step
from slicewise.support import check_choice, check_number, kernels_for
from slicewise.transport import Needs, project, pull_back


@dataclass(frozen=True, eq=False)
class Pull:
    """The direction in which slices move the samples of a problem, with what it was computed from.

    Every step rule is handed one. `pull_of` computes it; `moved` applies a rule to it.

    The direction is D_i = Σ_l w_l θ_l G_li, where G is the mean of |r|^(p−1) sign r over the one-dimensional plan and r
    is the offset of a sample from its partner. For p = 2, following −D moves a sample toward the mean of its partners,
    whatever its own weight. Samples of weight zero do not move.

    Attributes:
        problem: the samples that are compared, x with n samples in d dimensions.
        slices: directions θ, (*batch, L, d).
        weights: slice weights w, (*batch, L), held constant. They may be of either sign if they were differentiated.
        costs: W_p^p on each slice, (*batch, L), as means over points.
        direction: D, (*batch, n, d).
    """

    problem: Problem
    slices: Tensor  # (*batch, L, d)
    weights: Tensor  # (*batch, L), held constant; of either sign if they were differentiated
    costs: Tensor  # (*batch, L), W_p^p on each slice
    direction: Tensor  # (*batch, n, d), D

    @property
    def masses(self) -> Tensor | float:
        """Return the sample weights q, (*batch, n), or the one number 1/n if all are equal."""
        return self.problem.shares(self.direction.dtype)

    def size(self) -> Tensor:
        """Compute Σ_i q_i |D_i|², the squared length of the direction.

        Returns:
            One number for each problem of the batch, (*batch,).
        """
        here = (self.masses * self.direction.square().sum(dim=-1)).sum(dim=-1)
        return self.problem.population.total(here)

    def spread(self) -> Tensor:
        """Compute Σ_l |w_l| Σ_i q_i (θ_l · D_i)², the part of the direction that the slices see.

        Returns:
            One number for each problem of the batch, (*batch,).
        """
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
        """Return the sample weights shaped to multiply projections, (*batch, 1, n), or the one number 1/n."""
        masses = self.masses
        return masses.unsqueeze(-2) if isinstance(masses, Tensor) else masses


class Rule(Protocol):
    """The protocol of step rules: a callable that computes how far to follow a pull.

    Write a function of this form to use a step rule of your own, and give it as `step_rule`.

    Args:
        pull: the direction D, and the slices, weights and costs it was computed from.

    Returns:
        The dimensionless step a: (*batch, 1), or (*batch, n) for a separate step of each sample.
    """

    def __call__(self, pull: Pull) -> Tensor: ...


@dataclass(frozen=True, repr=False)
class Cauchy(BuiltIn):
    """Compute the step by exact line search along the direction, with the plans at hand held fixed.

    This is the default rule of `displacement`. It serves every p and every variant with linear slices. For p = 2,

        a = Σ q|D|² / Σ_l |w_l| Σ q (θ_l·D)².

    With its one-dimensional plans held fixed, the cost is a quadratic in x that lies above the true cost and touches it
    at the present samples, so the sampled loss cannot increase. The step is about a* (`best_step`) for uniform slices,
    1 for MaxSW, and the number of slices for an orthonormal frame. If there is no move (0/0), the step is 0.

    For p ≠ 2 the curvature of the plans replaces the curvature 1 of p = 2: H is the mean of max(|r|, eps)^(p−2) over
    the plan, for p > 2 with eps = 0 and times p − 1. For p < 2, eps is the root mean square of r, and the quadratic
    majorizes the loss smoothed at that length. For p > 2 each sample takes its own step, because the curvature vanishes
    near a match and one step for all samples is then very slow.

    Args:
        pull: the direction, with what it was computed from.

    Returns:
        The dimensionless step: (*batch, 1), or (*batch, n) for p > 2.

    >>> from slicewise.problem import Problem
    >>> problem = Problem(torch.zeros(4, 4), torch.ones(4, 4))
    >>> frame = torch.eye(4)  # an orthonormal frame: the step is its size
    >>> Cauchy()(pull_of(problem, frame, torch.full((4,), 1 / 4)))
    tensor([4.])
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
        p, curvature = pull.problem.p, curvature_on_lines(pull.problem, pull.slices)
        seen = curvature * project(pull.direction, pull.slices).square()
        seen = (pull.weights.abs().unsqueeze(-1) * seen).sum(dim=-2)  # (*batch, n)
        if p > 2:
            return _ratio(pull.direction.square().sum(dim=-1), seen)
        return _ratio(pull.size(), (pull.masses * seen).sum(dim=-1)).unsqueeze(-1)


def step_on_lines(
    on_lines: Tensor, gradient: Tensor, slices: Tensor, weights: Tensor, masses: Tensor | float
) -> Tensor:
    """Compute the step of `Cauchy` for p = 2 from gradients on lines, without the direction D.

    With g = Σ_l w_l θ_l ⊗ G_l the gradient in x, which is 2 q_i D_i at sample i, and s_l = θ_l · g what a slice sees of
    it, numerator and denominator are two sums over the same lines,

        Σ q|D|² = Σ_l w_l Σ_i G_li s_li / (4 q_i),   Σ_l |w_l| Σ q (θ_l·D)² = Σ_l |w_l| Σ_i s_li² / (4 q_i).

    Args:
        on_lines: gradients on the slices G, (*batch, L, n), as `match` gives them.
        gradient: their weighted sum g, (*batch, n, d).
        slices: directions, (*batch, L, d).
        weights: slice weights, (*batch, L).
        masses: sample weights q, (*batch, n), or one number for all.

    Returns:
        The dimensionless step, (*batch,); 0 if there is no move.
    """
    seen = project(gradient, slices)  # (*batch, L, n)
    lighter: Tensor | None = None
    if isinstance(masses, Tensor):
        heavy = torch.where(masses > 0, masses, 1)  # the others do not move
        lighter = (1 / heavy).unsqueeze(-2)
    kernels = kernels_for(on_lines, seen, weights)
    if (
        kernels is not None and on_lines.dtype == torch.float32
    ):  # whose squares are summed in double precision
        above, below = kernels.sums_on_lines(on_lines, seen, weights, lighter)
        return _ratio(above, below).to(on_lines.dtype)
    # The ratio does not depend on the size of what is seen; its squares must neither underflow nor overflow.
    largest = seen.abs().amax(dim=(-2, -1), keepdim=True)
    unit = seen / torch.where(largest > 0, largest, 1)
    weighed = unit if lighter is None else unit * lighter
    above = (weights * (on_lines * weighed).sum(dim=-1)).sum(dim=-1)
    below = (weights.abs() * (unit * weighed).sum(dim=-1)).sum(dim=-1)
    return _ratio(above, below * largest[..., 0, 0])


@dataclass(frozen=True, repr=False)
class Tempered(BuiltIn):
    """Take the step of `Cauchy`, reduced to three quarters where the full step would match every slice at once.

    Use it for flows with a single slice or with one orthonormal frame per step, in three or more dimensions; p = 2
    only. There the step of `Cauchy` is a = L. Samples then go exactly where their ranks on these few slices say,
    nothing of earlier slices is left to average, and from three dimensions on flows oscillate far from the target.
    Three quarters of the step still lower the squared error along a slice by 15/16 of what the full step does, if its
    plan is right.

    Args:
        pull: the direction, with what it was computed from.

    Returns:
        The dimensionless step, (*batch, 1).

    Raises:
        ValueError: if p is not 2.
    """

    def __call__(self, pull: Pull) -> Tensor:
        _only_squares(self, pull)
        step = Cauchy()(pull)
        # Slices that are all but orthonormal are no better off; others are well below.
        return torch.where(step >= 0.999 * pull.slices.shape[-2], 0.75 * step, step)


@dataclass(frozen=True, repr=False)
class TraceRatio(BuiltIn):
    """Compute the best step for an error of unknown direction, a = tr M / tr M².

    Use it if the step should depend on the slices alone, not on the samples; p = 2 only. M = Σ_l |w_l| θ_l θ_lᵀ. For
    uniform slices the mean of 1/a is 1/a*.

    Args:
        pull: the direction, with what it was computed from.

    Returns:
        The dimensionless step, (*batch, 1).

    Raises:
        ValueError: if p is not 2.
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
    """Compute the step to zero loss of a parabola with its minimum there, a = Σ w·cost / Σ q|D|².

    It adds no computation and is often fastest, but it assumes that the smallest loss is zero. Use it only for equal
    numbers of equally weighted samples that can all move. For few slices of high-dimensional data its step is too long.

    Args:
        pull: the direction, with what it was computed from.

    Returns:
        The dimensionless step, (*batch, 1).
    """

    def __call__(self, pull: Pull) -> Tensor:
        return _ratio((pull.weights * pull.costs).sum(dim=-1), pull.size()).unsqueeze(-1)


@dataclass(frozen=True, repr=False)
class Constant(BuiltIn):
    """Take the same step always.

    Use it to compare with a fixed learning rate; p = 2 only.

    Args:
        step: the dimensionless step, positive and finite. None is 0.7 a* of uniform slices (`best_step`), which is
            right for the variant `sw` only.

    Raises:
        ValueError: for a step that is not positive and finite, and when called if p is not 2.

    >>> Constant(2.0)
    Constant(step=2.0)
    """

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


# Steps of 2 and more diverge; far longer ones leave the range of float32 at once.
_LARGEST_STEP = 1e6


def rule_for(step_rule: str | float | Rule) -> Rule:
    """Return the step rule that an option `step_rule` stands for.

    Args:
        step_rule: a name in `RULES` ("cauchy", "tempered", "trace", "polyak", "constant"), a number for a constant
            step, or a rule, which is returned as it is.

    Returns:
        The rule, a callable of a `Pull`.

    Raises:
        ValueError: for an unknown name, a number that is no step, or something that cannot be called.

    >>> rule_for("cauchy"), rule_for(2)
    (Cauchy(), Constant(step=2.0))
    """
    if isinstance(step_rule, str):
        check_choice("step_rule", step_rule, RULES)
        return RULES[step_rule]
    if isinstance(step_rule, (int, float)):
        check_number("step_rule", min(step_rule, 10**300), above=0)
        if step_rule > _LARGEST_STEP:
            raise ValueError(
                f"step_rule = {step_rule:g}: give a dimensionless step, where 1 is right and 2 is too long"
            )
        return Constant(float(step_rule))
    if not callable(step_rule):
        raise ValueError(
            f"step_rule = {step_rule!r}: give a name ({', '.join(RULES)}), a number or a rule"
        )
    return step_rule


def pull_of(problem: Problem, slices: Tensor, weights: Weights) -> Pull:
    """Compute the direction in which slices move the samples x of a problem.

    Use it with `moved` to compute a displacement without a learning rate. Nothing is differentiated. If the projections
    on all slices do not fit in memory at once, the slices are processed in pieces.

    Args:
        problem: the samples that are compared, x of shape (*batch, n, d).
        slices: unit directions, (*batch, L, d).
        weights: slice weights, (*batch, L), or a function that computes them from the costs (*batch, L), given as means
            over points.

    Returns:
        A `Pull`, whose `direction` is (*batch, n, d).
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
    """Compute −a D, the displacement suggested for each sample.

    Args:
        pull: the direction D, with what it was computed from.
        rule: the step rule that computes a.

    Returns:
        The displacements, (*batch, n, d): add them to x.

    >>> from slicewise.problem import Problem
    >>> problem = Problem(torch.zeros(4, 4), torch.ones(4, 4))
    >>> moved(pull_of(problem, torch.eye(4), torch.full((4,), 1 / 4)))[0]
    tensor([1., 1., 1., 1.])
    """
    return -rule(pull).unsqueeze(-1) * pull.direction


def direction_of(problem: Problem, gradient: Tensor) -> Tensor:
    """Compute the direction D from the gradient of Σ weights · costs, by dividing by p q_i.

    Args:
        problem: the samples that are compared, with their weights q.
        gradient: the gradient in x, (*batch, n, d), of costs that are means over points.

    Returns:
        D, (*batch, n, d); zero for samples of weight zero.
    """
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
