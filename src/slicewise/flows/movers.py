"""The default for the plain distance: computed steps with momentum, on evenly spread slices.

Ways to move particles: by a given rate, by a step that a rule computes (and see `accelerated`).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from slicewise.distance import Objective, differentiated, stepped
from slicewise.flows.restarts import Escapes
from slicewise.flows.slices import (
    Ahead,
    Foresight,
    anew,
    blind_slices,
    cold,
    drawn,
    foresee,
    named,
    sliced,
)
from slicewise.parts import Orthonormal, Uniform, Weights, weights_for
from slicewise.problem import BuiltIn, Problem, State
from slicewise.sampling import Randomness, RunSeeds, sphere
from slicewise.steps import Cauchy, Pull, Rule, pull_of
from slicewise.transport import project, root, root_slope, sorted_lines
from slicewise.variants import Recipe


class Advance(NamedTuple):
    """One step of all runs: R of them, whatever batch they came in."""

    x: Tensor  # (R, n, d), where the particles are now
    loss: Tensor  # (R,), the objective on the slices of this step, where it began
    step: Tensor  # (R,), how far it went: the rate, or the mean of a
    move: Tensor | None  # (R, n, d), the way each particle was asked to go; None: the way it went
    state: State  # tensors that begin with R, for the next step


class Course(Protocol):
    """How particles move. Everything a run remembers is in its state."""

    def start(self, problem: Problem, seeds: RunSeeds) -> State: ...

    def foresee(self, problem: Problem, seeds: RunSeeds, steps: Tensor) -> Foresight | None:
        """What can be drawn ahead for some steps, on a device."""
        ...

    def advance(
        self,
        problem: Problem,
        seeds: RunSeeds,
        t: int | Tensor,
        state: State,
        ahead: Ahead | None = None,
    ) -> Advance:
        """One step. On a CUDA device it must not look at its numbers: it is captured and replayed."""
        ...


@dataclass(frozen=True)
class Descent(BuiltIn):
    """Plain gradient steps on the value, of a given rate for each run; particles held above a floor, if any."""

    recipe: Recipe
    objective: Objective
    at_least: float | None = None

    def start(self, problem: Problem, seeds: RunSeeds) -> State:
        return cold(self.recipe, problem, seeds, 0)

    def foresee(self, problem: Problem, seeds: RunSeeds, steps: Tensor) -> Foresight | None:
        return blind_slices(self.recipe, problem, seeds, steps, order_y=True)

    def advance(
        self,
        problem: Problem,
        seeds: RunSeeds,
        t: int | Tensor,
        state: State,
        ahead: Ahead | None = None,
    ) -> Advance:
        rate = state["rate"]
        if not self.recipe.closed_form_gradient:
            return self._by_autograd(problem, seeds, t, state)
        slices, learned, problem = sliced(self.recipe, problem, seeds, t, state, ahead)
        if self._shares_y(problem, seeds):
            # Runs of one seed see one and the same target: sort it once for all of them.
            known = sorted_lines(project(problem.y, slices[seeds.first]))[seeds.which]
            problem = dataclasses.replace(problem, y_sorted=known)
        value, x = stepped(self.recipe, problem, slices, self.objective, rate)
        return Advance(self._floored(x), value, rate, None, {"rate": rate} | named(learned))

    def _by_autograd(
        self, problem: Problem, seeds: RunSeeds, t: int | Tensor, state: State
    ) -> Advance:
        rate = state["rate"]
        value, gradient, found = differentiated(
            self.recipe, problem, self.objective, lambda p: drawn(self.recipe, p, seeds, t, state)
        )
        x = problem.x - rate[:, None, None].to(gradient.dtype) * gradient
        return Advance(self._floored(x), value, rate, None, {"rate": rate} | named(found.state))

    def _floored(self, x: Tensor) -> Tensor:
        return x if self.at_least is None else x.clamp(min=self.at_least)

    def _shares_y(self, problem: Problem, seeds: RunSeeds) -> bool:
        alike = isinstance(self.recipe.slicer, Uniform | Orthonormal)  # whatever the particles do
        shared = problem.y.dim() == 2 and problem.y_weights is None and problem.x_weights is None
        same_size = problem.x.shape[-2] == problem.y.shape[-2]
        if problem.y_sorted is not None:
            return False
        return alike and shared and same_size and 2 * len(seeds.first) <= len(seeds.which)


@dataclass(frozen=True)
class Computed(BuiltIn):
    """Steps whose length a rule computes from the slices drawn; any variant.

    A run that is stuck takes some steps on random bases, and a learned slicer begins anew: it may have
    narrowed to directions that see no difference any more.
    """

    recipe: Recipe
    objective: Objective
    rule: Rule
    share: float
    hold_weights: bool
    settle: bool
    escapes: Escapes | None

    def start(self, problem: Problem, seeds: RunSeeds) -> State:
        state = cold(self.recipe, problem, seeds, 0)
        if self.escapes is None:
            return state
        return state | self.escapes.start(problem.x.new_ones(problem.x.shape[0]))

    def foresee(self, problem: Problem, seeds: RunSeeds, steps: Tensor) -> Foresight | None:
        return blind_slices(self.recipe, problem, seeds, steps, order_y=problem.p == 2)

    def advance(
        self,
        problem: Problem,
        seeds: RunSeeds,
        t: int | Tensor,
        state: State,
        ahead: Ahead | None = None,
    ) -> Advance:
        whole = problem
        slices, learned, problem = sliced(self.recipe, problem, seeds, t, state, ahead)
        weighting = self.recipe.weighting
        weights = weights_for(weighting, slices, problem, hold=self.hold_weights)
        if self.objective == "mean_root":
            weights = _of_roots(weights, problem.p)
        pull = pull_of(problem, slices, weights)
        loss = _value(self.recipe, pull, self.objective)
        step = self.rule(pull) * self.share  # (R, 1) or (R, n)
        if self.settle:
            step = step * settled(problem)
        move = -step.unsqueeze(-1) * pull.direction
        after = {**state, **named(learned)}
        if self.escapes is not None and slices.shape[-2] >= self.escapes.needs:
            if happens(state["escaping"]):
                escaping = (state["escaping"] > 0).unsqueeze(-1)
                other, away = self._escape(whole, seeds, t, state)
                step = torch.where(escaping, other, step)
                move = torch.where(escaping.unsqueeze(-1), away, move)
            after |= self.escapes.watch(loss, state)
            stuck = (after["escaping"] > 0) & (state["escaping"] == 0)
            if learned is not None and happens(stuck):
                after |= anew(stuck, cold(self.recipe, problem, seeds, t), after)
        return Advance(problem.x + move, loss, step.mean(dim=-1), move, after)

    def _escape(
        self, problem: Problem, seeds: RunSeeds, t: int | Tensor, state: State
    ) -> tuple[Tensor, Tensor]:
        """A step on one random basis, (R, 1), and the moves it makes."""
        assert self.escapes is not None
        basis = self.escapes.basis(problem, seeds, t)
        equal = basis.new_full(basis.shape[:-1], 1 / problem.d)
        pull = pull_of(problem, basis, equal)
        heat = self.escapes.heat((equal * pull.costs).sum(dim=-1), state)
        step = Cauchy()(pull) * heat.unsqueeze(-1)
        return step, -step.unsqueeze(-1) * pull.direction


@dataclass(frozen=True)
class Settling:
    """Shorter and shorter steps over the last 40 % of a run: averages out the noise of fresh slices.

    For losses whose minimum is not zero (n ≠ m, unequal weights), around which full steps keep jittering.
    Not for runs so short that they are still on their way, which takes some 15 steps a dimension.
    """

    k: int
    total: int

    def __call__(self, progress: float) -> float:
        if progress <= 0.6 or 0.6 * self.total < 15 * self.k:
            return 1.0
        return 10 / (10 + self.total * (progress - 0.6))


def settled(problem: Problem) -> float | Tensor:
    """By how much steps are shortened now."""
    assert problem.moment is not None
    return problem.moment.of(Settling(problem.d, problem.moment.total))


def happens(flags: Tensor) -> bool:
    """Is any of them set? A device is not asked: what hardly ever happens is then computed always."""
    return flags.is_cuda or bool(flags.any())


def _of_roots(weights: Weights, p: float) -> Weights:
    """Σ w · cost^(1/p) lies below its tangent in the costs, and that is a weighted sum to follow."""

    def follow(costs: Tensor) -> Tensor:
        each = weights(costs) if callable(weights) else weights
        return each * root_slope(costs, p)

    return follow


def _value(recipe: Recipe, pull: Pull, objective: Objective) -> Tensor:
    """The objective on the slices of a pull, (R,)."""
    weights = weights_for(recipe.weighting, pull.slices, pull.problem, hold=True)
    weights = weights(pull.costs) if callable(weights) else weights
    costs = pull.costs if objective != "mean_root" else pull.costs ** (1 / pull.problem.p)
    return stated((weights * costs).sum(dim=-1), pull.problem, objective)


def stated(total: Tensor, problem: Problem, objective: Objective) -> Tensor:
    """Σ weights · costs, costs as means over points, as the value of an objective: in its convention."""
    p, published = problem.p, problem.convention == "reference"
    n = problem.n_points() if published else 1
    n = n if isinstance(n, int) else n.squeeze(-1)
    if objective == "power":
        return n * n * total if published else total
    value = total if objective == "mean_root" else root(total, p)
    return n * n ** (1 / p) * value if published else value


def sliced_distance(value: Tensor, problem: Problem, objective: Objective) -> Tensor:
    """Undoes `stated`, as a distance: SW_p, or the mean W_p, in the unit of the samples."""
    n: Tensor | float = problem.n_points() if problem.convention == "reference" else 1
    n = n.squeeze(-1) if isinstance(n, Tensor) else n
    if objective == "power":
        return (value / (n * n)) ** (1 / problem.p)
    return value / (n * n ** (1 / problem.p))


# Beyond, orthonormal frames are as even as slices that repel each other, and need no preparation.
_SPREAD_UP_TO = 10


@dataclass(frozen=True)
class Accelerated(BuiltIn):
    """Cauchy steps with Nesterov's momentum, restarts, and escapes from dead ends.

    Particles step from a point z ahead of them. Slices are fresh at every step, so a loss that rises may
    be noise: momentum starts anew when it rises by more than two standard errors (one, beyond three
    dimensions). It carries no further than 2a/k − 1, which is 0 for one slice and nearly 1 for isotropic
    ones, and needs 5 slices for each dimension.
    """

    n_slices: int
    objective: Objective
    share: float
    settle: bool
    escapes: Escapes | None

    def start(self, problem: Problem, seeds: RunSeeds) -> State:
        ones = problem.x.new_ones(problem.x.shape[0])
        state = {"ahead": problem.x, "pace": ones, "loss": ones * math.inf}
        return state if self.escapes is None else state | self.escapes.start(ones)

    def foresee(self, problem: Problem, seeds: RunSeeds, steps: Tensor) -> Foresight | None:
        # Not the target's order: a run that escapes takes other slices.
        return foresee(
            lambda batch, rng: self._draw(batch, problem, rng),
            self.n_slices,
            problem,
            seeds,
            steps,
            order_y=self.escapes is None,
        )

    def _draw(self, batch: tuple[int, ...], problem: Problem, rng: Randomness) -> Tensor:
        draw = sphere.low_discrepancy if problem.d <= _SPREAD_UP_TO else sphere.orthonormal
        return draw((*batch, self.n_slices, problem.d), rng, problem.x.dtype)

    def advance(
        self,
        problem: Problem,
        seeds: RunSeeds,
        t: int | Tensor,
        state: State,
        ahead: Ahead | None = None,
    ) -> Advance:
        k = problem.d
        if ahead is None:
            ahead = Ahead(self._draw((len(problem.x),), problem, seeds.at(t)), None)
        problem = dataclasses.replace(problem, y_sorted=ahead.y_sorted)
        slices, weights, escaping = self._slices(ahead.slices, problem, seeds, t, state)
        pull = pull_of(dataclasses.replace(problem, x=state["ahead"]), slices, weights)
        loss = (weights * pull.costs).sum(dim=-1)  # (R,)
        step = Cauchy()(pull).squeeze(-1) * self.share
        if self.settle:
            step = step * settled(problem)
        if escaping is not None and self.escapes is not None:
            step = step * self.escapes.heat(loss, state)
        move = -step[:, None, None] * pull.direction
        x = state["ahead"] + move

        # One slice says nothing of its own error: any rise then counts.
        error = pull.costs.std(dim=-1) / math.sqrt(self.n_slices) if self.n_slices > 1 else 0.0
        restart = loss > state["loss"] + (2 if k <= 3 else 1) * error
        if escaping is not None:
            restart = restart | escaping
        pace = torch.where(restart, 1, state["pace"])
        faster = (1 + (1 + 4 * pace * pace).sqrt()) / 2
        onward = x
        if self.n_slices >= 5 * k:
            carry = torch.minimum((pace - 1) / faster, (2 * step / k - 1).clamp(min=0))
            onward = x + carry[:, None, None] * (x - problem.x)
        after = {**state, "ahead": onward, "pace": faster, "loss": loss}
        if escaping is not None:
            after["loss"] = torch.where(escaping, math.inf, loss)
        if self.escapes is not None:
            after |= self.escapes.watch(loss, state)
        return Advance(x, stated(loss, problem, self.objective), step, move, after)

    def _slices(
        self,
        slices: Tensor,
        problem: Problem,
        seeds: RunSeeds,
        t: int | Tensor,
        state: State,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Slices and their weights; and which runs are escaping, if any is."""
        runs, _, k = problem.x.shape
        weights = slices.new_full((runs, self.n_slices), 1 / self.n_slices)
        if self.escapes is None or not happens(state["escaping"]):
            return slices, weights, None
        escaping = state["escaping"] > 0
        # The basis over and over fills the same L places; what is left over weighs nothing.
        copies = self.n_slices // k
        filled, even = torch.zeros_like(slices), torch.zeros_like(weights)
        filled[:, : copies * k] = self.escapes.basis(problem, seeds, t).repeat(1, copies, 1)
        even[:, : copies * k] = 1 / (copies * k)
        slices = torch.where(escaping[:, None, None], filled, slices)
        return slices, torch.where(escaping[:, None], even, weights), escaping
