"""How particles move: by a given rate, by a step that a rule computes, or by computed steps with momentum."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from slicewise.distance import Objective, differentiated, stepped, value_of_means
from slicewise.flows.cooling import Cooling
from slicewise.flows.restarts import EscapeRule
from slicewise.flows.slices import (
    PredrawnSlices,
    StepSlices,
    as_run_state,
    initial_state,
    predraw,
    predraw_slices,
    prepare_step,
    reset_where,
    slices_for_step,
)
from slicewise.parts import Weights, weights_for
from slicewise.problem import BuiltIn, LiftPart, Problem, SlicerPart, State, declared
from slicewise.sampling import Randomness, RunSeeds, sphere
from slicewise.steps import Cauchy, Pull, Rule, pull_of
from slicewise.transport import project, root_slope, sorted_lines
from slicewise.variants import Recipe


class StepResult(NamedTuple):
    """One step of R runs."""

    x: Tensor  # (R, n, d), particles after it
    loss: Tensor  # (R,), the objective on the slices of this step, at its start
    step: Tensor  # (R,), the rate, or the mean computed step
    move: Tensor | None  # (R, n, d), the suggested move of each particle; None: the move it made
    state: State  # tensors whose first dimension is R, for the next step


class Mover(Protocol):
    """How particles move. All that a run remembers between steps is in its state."""

    def start(self, problem: Problem, seeds: RunSeeds) -> State:
        """The state before the first step."""
        ...

    def predraw(self, problem: Problem, seeds: RunSeeds, steps: Tensor) -> PredrawnSlices | None:
        """Slices for several steps (S,), drawn ahead on a device; None if that is not possible."""
        ...

    def advance(
        self,
        problem: Problem,
        seeds: RunSeeds,
        t: int | Tensor,
        state: State,
        ahead: StepSlices | None = None,
    ) -> StepResult:
        """Make one step. On a CUDA device it must not read a number on the host: it is captured and replayed."""
        ...


@dataclass(frozen=True)
class RateMover(BuiltIn):
    """Plain gradient steps, with a given rate for each run."""

    recipe: Recipe
    objective: Objective
    lower_bound: float | None = None  # of every coordinate

    def start(self, problem: Problem, seeds: RunSeeds) -> State:
        return initial_state(self.recipe, problem, seeds, 0)

    def predraw(self, problem: Problem, seeds: RunSeeds, steps: Tensor) -> PredrawnSlices | None:
        return predraw_slices(self.recipe, problem, seeds, steps, order_y=True)

    def advance(
        self,
        problem: Problem,
        seeds: RunSeeds,
        t: int | Tensor,
        state: State,
        ahead: StepSlices | None = None,
    ) -> StepResult:
        rate = state["rate"]
        if not self.recipe.closed_form_gradient:
            return self._by_autograd(problem, seeds, t, state)
        slices, learned, problem = slices_for_step(self.recipe, problem, seeds, t, state, ahead)
        if self._shares_y(problem, seeds):
            # Runs of one seed slice one and the same target: sort it once for all of them.
            known = sorted_lines(project(problem.y, slices[seeds.first]))[seeds.which]
            problem = dataclasses.replace(problem, y_sorted=known)
        value, x = stepped(self.recipe, problem, slices, self.objective, rate)
        after = {"rate": rate} | as_run_state(learned)
        return StepResult(self._bounded(x), value, rate, None, after)

    def _by_autograd(
        self, problem: Problem, seeds: RunSeeds, t: int | Tensor, state: State
    ) -> StepResult:
        rate = state["rate"]
        value, gradient, found = differentiated(
            self.recipe,
            problem,
            self.objective,
            lambda p: prepare_step(self.recipe, p, seeds, t, state),
        )
        x = problem.x - rate[:, None, None].to(gradient.dtype) * gradient
        after = {"rate": rate} | as_run_state(found.state)
        lift = declared(self.recipe.lift, LiftPart)
        x = lift.retract(problem.x, x)
        return StepResult(self._bounded(x), value, rate, None, after)

    def _bounded(self, x: Tensor) -> Tensor:
        return x if self.lower_bound is None else x.clamp(min=self.lower_bound)

    def _shares_y(self, problem: Problem, seeds: RunSeeds) -> bool:
        alike = not declared(self.recipe.slicer, SlicerPart).looks_at_samples
        shared = problem.y.dim() == 2 and problem.y_weights is None and problem.x_weights is None
        same_size = problem.x.shape[-2] == problem.y.shape[-2]
        if problem.y_sorted is not None or problem.law is not None:
            return False
        return alike and shared and same_size and 2 * len(seeds.first) <= len(seeds.which)


@dataclass(frozen=True)
class RuleMover(BuiltIn):
    """Steps that a rule computes from the slices drawn, for any variant.

    A run that is stuck makes some steps on random bases, and a slicer that learns is reset: it may have narrowed to
    directions along which no difference is left.
    """

    recipe: Recipe
    objective: Objective
    rule: Rule
    step_factor: float
    hold_weights: bool
    cooling: Cooling | None  # where the loss cannot be zero
    escapes: EscapeRule | None

    def start(self, problem: Problem, seeds: RunSeeds) -> State:
        state = initial_state(self.recipe, problem, seeds, 0)
        if self.cooling is not None:
            state = state | self.cooling.start(problem.x.new_ones(len(problem.x)))
        if self.escapes is None:
            return state
        return state | self.escapes.start(problem.x.new_ones(problem.x.shape[0]))

    def predraw(self, problem: Problem, seeds: RunSeeds, steps: Tensor) -> PredrawnSlices | None:
        return predraw_slices(self.recipe, problem, seeds, steps, order_y=problem.p == 2)

    def advance(
        self,
        problem: Problem,
        seeds: RunSeeds,
        t: int | Tensor,
        state: State,
        ahead: StepSlices | None = None,
    ) -> StepResult:
        whole = problem
        slices, learned, problem = slices_for_step(self.recipe, problem, seeds, t, state, ahead)
        weighting = self.recipe.weighting
        weights = weights_for(weighting, slices, problem, hold=self.hold_weights)
        if self.objective == "mean_root":
            weights = _of_roots(weights, problem.p)
        pull = pull_of(problem, slices, weights)
        loss = _value(self.recipe, pull, self.objective)
        step = self.rule(pull) * self.step_factor  # (R, 1) or (R, n)
        after = {**state, **as_run_state(learned)}
        if self.cooling is not None:
            after |= self.cooling.update(pull, step.mean(dim=-1), state)
            step = step * state["short"].unsqueeze(-1)
        move = -step.unsqueeze(-1) * pull.direction
        if self.escapes is not None and slices.shape[-2] >= self.escapes.needs:
            if any_set(state["escaping"]):
                escaping = (state["escaping"] > 0).unsqueeze(-1)
                other, away = self._escape(whole, seeds, t, state)
                step = torch.where(escaping, other, step)
                move = torch.where(escaping.unsqueeze(-1), away, move)
            after |= self.escapes.update(loss, state)
            stuck = (after["escaping"] > 0) & (state["escaping"] == 0)
            if learned is not None and any_set(stuck):
                initial = initial_state(self.recipe, problem, seeds, t)
                after |= reset_where(stuck, initial, after)
        return StepResult(problem.x + move, loss, step.mean(dim=-1), move, after)

    def _escape(
        self, problem: Problem, seeds: RunSeeds, t: int | Tensor, state: State
    ) -> tuple[Tensor, Tensor]:
        """The computed step on one random basis, (R, 1), and its moves, (R, n, k)."""
        assert self.escapes is not None
        basis = self.escapes.basis(problem, seeds, t)
        equal = basis.new_full(basis.shape[:-1], 1 / problem.d)
        pull = pull_of(problem, basis, equal)
        factor = self.escapes.step_factor((equal * pull.costs).sum(dim=-1), state)
        step = Cauchy()(pull) * factor.unsqueeze(-1)
        return step, -step.unsqueeze(-1) * pull.direction


def any_set(flags: Tensor) -> bool:
    """Whether any flag is set. True on a CUDA device, whose numbers are not read: the rare case is always computed."""
    return flags.is_cuda or bool(flags.any())


def _of_roots(weights: Weights, p: float) -> Weights:
    """Weights of the tangent of Σ w · cost^(1/p) in the costs, which lies above it."""

    def follow(costs: Tensor) -> Tensor:
        each = weights(costs) if callable(weights) else weights
        return each * root_slope(costs, p)

    return follow


def _value(recipe: Recipe, pull: Pull, objective: Objective) -> Tensor:
    """The objective on the slices of a pull, (R,)."""
    weights = weights_for(recipe.weighting, pull.slices, pull.problem, hold=True)
    weights = weights(pull.costs) if callable(weights) else weights
    costs = pull.costs if objective != "mean_root" else pull.costs ** (1 / pull.problem.p)
    return value_of_means((weights * costs).sum(dim=-1), pull.problem, objective)


# In more dimensions orthonormal frames are as evenly spread as slices that repel each other, and need no preparation.
_LOW_DISCREPANCY_UP_TO = 10


@dataclass(frozen=True)
class MomentumMover(BuiltIn):
    """Cauchy steps with Nesterov's momentum, restarts and escapes: the default for the plain distance.

    Each step is made from a point ahead of the particles. Slices are fresh at every step, so a loss that rises may be
    noise: momentum restarts when it rises by more than two standard errors (one, beyond three dimensions). Momentum is
    at most 2a/k − 1 for a computed step a, which is 0 for one slice and nearly 1 for isotropic ones, and needs 5 slices
    for each dimension.
    """

    n_slices: int
    objective: Objective
    step_factor: float
    cooling: Cooling | None  # where the loss cannot be zero
    escapes: EscapeRule | None

    def start(self, problem: Problem, seeds: RunSeeds) -> State:
        ones = problem.x.new_ones(problem.x.shape[0])
        # The point to step from, (R, n, k); Nesterov's sequence t and the loss of the last step, (R,).
        state = {"lookahead": problem.x, "nesterov": ones, "loss": ones * math.inf}
        if self.cooling is not None:
            state = state | self.cooling.start(problem.x.new_ones(len(problem.x)))
        return state if self.escapes is None else state | self.escapes.start(ones)

    def predraw(self, problem: Problem, seeds: RunSeeds, steps: Tensor) -> PredrawnSlices | None:
        # The target is not sorted ahead: a run that escapes takes other slices.
        return predraw(
            lambda batch, rng: self._draw(batch, problem, rng),
            self.n_slices,
            problem,
            seeds,
            steps,
            order_y=self.escapes is None,
        )

    def _draw(self, batch: tuple[int, ...], problem: Problem, rng: Randomness) -> Tensor:
        draw = sphere.low_discrepancy if problem.d <= _LOW_DISCREPANCY_UP_TO else sphere.orthonormal
        return draw((*batch, self.n_slices, problem.d), rng, problem.x.dtype)

    def advance(
        self,
        problem: Problem,
        seeds: RunSeeds,
        t: int | Tensor,
        state: State,
        ahead: StepSlices | None = None,
    ) -> StepResult:
        k = problem.d
        if ahead is None:
            ahead = StepSlices(self._draw((len(problem.x),), problem, seeds.at(t)), None)
        problem = dataclasses.replace(problem, y_sorted=ahead.y_sorted)
        slices, weights, escaping = self._slices(ahead.slices, problem, seeds, t, state)
        pull = pull_of(dataclasses.replace(problem, x=state["lookahead"]), slices, weights)
        loss = (weights * pull.costs).sum(dim=-1)  # (R,)
        step = Cauchy()(pull).squeeze(-1) * self.step_factor
        cooled: State = {}
        if self.cooling is not None:
            cooled = self.cooling.update(pull, step, state)
            step = step * state["short"]
        if escaping is not None and self.escapes is not None:
            step = step * self.escapes.step_factor(loss, state)
        move = -step[:, None, None] * pull.direction
        x = state["lookahead"] + move

        # The error of one slice is unknown: any rise then counts.
        error = pull.costs.std(dim=-1) / math.sqrt(self.n_slices) if self.n_slices > 1 else 0.0
        restart = loss > state["loss"] + (2 if k <= 3 else 1) * error
        if escaping is not None:
            restart = restart | escaping
        t_now = torch.where(restart, 1, state["nesterov"])
        t_next = (1 + (1 + 4 * t_now * t_now).sqrt()) / 2
        lookahead = x
        if self.n_slices >= 5 * k:
            momentum = torch.minimum((t_now - 1) / t_next, (2 * step / k - 1).clamp(min=0))
            lookahead = x + momentum[:, None, None] * (x - problem.x)
        after = {**state, "lookahead": lookahead, "nesterov": t_next, "loss": loss, **cooled}
        if escaping is not None:
            after["loss"] = torch.where(escaping, math.inf, loss)
        if self.escapes is not None:
            after |= self.escapes.update(loss, state)
        return StepResult(x, value_of_means(loss, problem, self.objective), step, move, after)

    def _slices(
        self,
        slices: Tensor,
        problem: Problem,
        seeds: RunSeeds,
        t: int | Tensor,
        state: State,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Slices, their weights, and which runs are escaping, (R,), or None if none is."""
        runs, _, k = problem.x.shape
        weights = slices.new_full((runs, self.n_slices), 1 / self.n_slices)
        if self.escapes is None or not any_set(state["escaping"]):
            return slices, weights, None
        escaping = state["escaping"] > 0
        # Copies of the basis fill the L places; those left over weigh nothing.
        copies = self.n_slices // k
        filled, even = torch.zeros_like(slices), torch.zeros_like(weights)
        filled[:, : copies * k] = self.escapes.basis(problem, seeds, t).repeat(1, copies, 1)
        even[:, : copies * k] = 1 / (copies * k)
        slices = torch.where(escaping[:, None, None], filled, slices)
        return slices, torch.where(escaping[:, None], even, weights), escaping
