"""Three ways to move particles: by a rate, by a computed step, and by computed steps with momentum."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from slicewise import sphere
from slicewise.distance import draw_slices
from slicewise.gradient import Objective, priced, root_slope
from slicewise.learn.seeds import RunSeeds
from slicewise.learned import State, is_learned
from slicewise.problem import Problem
from slicewise.recipe import Recipe
from slicewise.rules import Cauchy, Pull, Rule, pull_of
from slicewise.weighting import Weights, weights_for

# After how many steps without halving the loss a run counts as stuck, for up to 3 dimensions and for each
# further one (there losses fall more slowly, and an escape from nowhere only costs); the first escape.
PATIENCE = 50
PATIENCE_PER_DIMENSION = 17
FIRST_ESCAPE = 20
# Beyond, orthonormal frames are as even as slices that repel each other, and need no preparation.
SPREAD_UP_TO = 10


class Advance(NamedTuple):
    """One step of all runs: R of them, whatever batch they came in."""

    x: Tensor  # (R, n, d), where the particles are now
    loss: Tensor  # (R,), on the slices of this step, before it
    step: Tensor  # (R,), how far it went: the rate, or the mean of a
    reach: Tensor  # (R,), the longest way any particle was asked to go
    state: State  # tensors that begin with R, for the next step


class Course(Protocol):
    """How particles move. Everything a run remembers is in its state."""

    def start(self, problem: Problem, seeds: RunSeeds) -> State: ...

    def advance(self, problem: Problem, seeds: RunSeeds, t: int, state: State) -> Advance: ...


@dataclass(frozen=True)
class Descent:
    """Plain gradient steps on the value, of a given rate for each run."""

    recipe: Recipe
    objective: Objective

    def start(self, problem: Problem, seeds: RunSeeds) -> State:
        return _cold(self.recipe, problem, seeds)

    def advance(self, problem: Problem, seeds: RunSeeds, t: int, state: State) -> Advance:
        rate = state["rate"]
        slices, learned = draw_slices(self.recipe, problem, seeds.at(t), _learned(state))
        value, gradient = priced(self.recipe, problem, slices, self.objective)
        move = gradient.mul_(-rate[:, None, None].to(gradient.dtype))
        return Advance(
            problem.x + move, value, rate, _reach(move), {"rate": rate} | _named(learned)
        )


@dataclass(frozen=True)
class Computed:
    """Steps whose length a rule computes from the slices drawn."""

    recipe: Recipe
    objective: Objective
    rule: Rule
    share: float
    hold_weights: bool
    settle: bool

    def start(self, problem: Problem, seeds: RunSeeds) -> State:
        return _cold(self.recipe, problem, seeds)

    def advance(self, problem: Problem, seeds: RunSeeds, t: int, state: State) -> Advance:
        slices, learned = draw_slices(self.recipe, problem, seeds.at(t), _learned(state))
        weighting = self.recipe.weighting
        weights = weights_for(weighting, slices, problem, hold=self.hold_weights)
        if self.objective == "mean_root":
            weights = _of_roots(weights, problem.p)
        pull = pull_of(problem, slices, weights)
        step = self.rule(pull) * self.share  # (R, 1) or (R, n)
        if self.settle:
            step = step * settling(t, problem.progress)
        move = -step.unsqueeze(-1) * pull.direction
        loss = _loss(pull, self.objective)
        return Advance(problem.x + move, loss, step.mean(dim=-1), _reach(move), _named(learned))


@dataclass(frozen=True)
class Accelerated:
    """Computed steps on evenly spread slices, with momentum, restarts, and escapes from dead ends.

    What particles remember is Nesterov's: they step from a point z ahead of them. Slices are fresh at
    every step, so a loss that rises may be noise: momentum starts anew when it rises by more than
    `surprise` standard errors. It never carries further than 2a/k − 1, nothing for one slice and nearly all
    for isotropic ones, and needs 5 slices for each dimension.

    A run whose loss has not halved for 50 steps (more in more dimensions) sits where slices disagree and cancel. One random
    orthonormal basis at a time shakes it loose: 20 steps, twice as many and hotter each further time. That
    needs a loss that can reach zero, and 10 slices for each dimension; with fewer it does harm.
    """

    n_slices: int
    objective: Objective
    share: float = 1.0
    settle: bool = False
    escapes: bool = True

    def start(self, problem: Problem, seeds: RunSeeds) -> State:
        runs = problem.x.shape[0]
        ones = problem.x.new_ones(runs)
        return {
            "ahead": problem.x,  # z
            "pace": ones,  # Nesterov's t
            "loss": ones * math.inf,  # of the last step
            "mark": ones * math.inf,  # the loss from which the next half is counted
            "since": torch.zeros_like(ones),  # steps since
            "escape": ones * FIRST_ESCAPE,  # how long the next escape will be
            "escaping": torch.zeros_like(ones),  # steps of it that are left
        }

    def advance(self, problem: Problem, seeds: RunSeeds, t: int, state: State) -> Advance:
        k = problem.d
        escaping = state["escaping"] > 0
        slices, weights = self._slices(problem, seeds, t, escaping)
        pull = pull_of(dataclasses.replace(problem, x=state["ahead"]), slices, weights)
        loss = (weights * pull.costs).sum(dim=-1)
        step = Cauchy()(pull) * self.share  # (R, 1)
        if self.settle:
            step = step * settling(t, problem.progress)
        if self.escapes:
            step = step * torch.where(escaping, _heat(state), 1).unsqueeze(-1)
        move = -step.unsqueeze(-1) * pull.direction
        x = state["ahead"] + move

        surprise = (2 if k <= 3 else 1) * pull.costs.std(dim=-1) / math.sqrt(self.n_slices)
        restart = escaping | (loss > state["loss"] + surprise)
        pace = torch.where(restart, 1, state["pace"])
        faster = (1 + (1 + 4 * pace * pace).sqrt()) / 2
        if self.n_slices >= 5 * k:
            cap = (2 * step.squeeze(-1) / k - 1).clamp(min=0)
            carry = torch.where(escaping, 0, torch.minimum((pace - 1) / faster, cap))
            ahead = x + carry[:, None, None] * (x - problem.x)
        else:
            ahead = x
        state = {**state, "ahead": ahead, "pace": faster, "loss": loss}
        state["loss"] = torch.where(escaping, math.inf, loss)
        if self.escapes and self.n_slices >= 10 * k:
            state |= _stalls(
                loss, escaping, state, PATIENCE if k <= 3 else PATIENCE_PER_DIMENSION * k
            )
        return Advance(x, _loss(pull, self.objective), step.squeeze(-1), _reach(move), state)

    def _slices(
        self, problem: Problem, seeds: RunSeeds, t: int, escaping: Tensor
    ) -> tuple[Tensor, Tensor]:
        runs, _, k = problem.x.shape
        shape = (runs, self.n_slices, k)
        draw = sphere.low_discrepancy if k <= SPREAD_UP_TO else sphere.orthonormal
        slices = draw(shape, seeds.at(t), problem.x.dtype)
        weights = slices.new_full(shape[:-1], 1 / self.n_slices)
        if self.escapes and self.n_slices >= 10 * k and bool(escaping.any()):
            basis = sphere.rotation((runs,), k, seeds.at(t, purpose=1), problem.x.dtype)
            # The basis over and over fills the same L places; what is left over weighs nothing.
            copies = self.n_slices // k
            filled = torch.zeros_like(slices)
            filled[:, : copies * k] = basis.repeat(1, copies, 1)
            even = torch.zeros_like(weights)
            even[:, : copies * k] = 1 / (copies * k)
            slices = torch.where(escaping[:, None, None], filled, slices)
            weights = torch.where(escaping[:, None], even, weights)
        return slices, weights


def _stalls(loss: Tensor, escaping: Tensor, state: State, patience: int) -> State:
    """Who has halved the loss, who is stuck, and who is done escaping."""
    halved = loss <= state["mark"] / 2
    mark = torch.where(halved, loss, state["mark"])
    since = torch.where(halved, 0, state["since"] + 1)
    left = (state["escaping"] - 1).clamp(min=0)
    stuck = ~escaping & (since >= patience)
    fresh = stuck | escaping  # what is measured on one basis says nothing about the loss
    return {
        "mark": torch.where(fresh, math.inf, mark),
        "since": torch.where(fresh, 0, since),
        "escaping": torch.where(stuck, state["escape"], left),
        "escape": torch.where(stuck, 2 * state["escape"], state["escape"]),
    }


def _heat(state: State) -> Tensor:
    """How much further than computed an escape steps: not at all the first time, then twice.

    Twice the step is a reflection, which keeps the loss and forgets the arrangement; it cools to 1 within
    each escape. Gentle first: where a run was merely slow, heat undoes what it had reached.
    """
    length = state["escape"] / 2  # of this escape; the next one is already twice as long
    times = torch.log2(length / FIRST_ESCAPE)
    return 1 + times.clamp(max=1) * state["escaping"] / length


def settling(t: int, progress: float) -> float:
    """Shorter and shorter steps over the last 40 % of a run: averages out the noise of fresh slices.

    For losses whose minimum is not zero (n ≠ m, unequal weights), around which full steps keep jittering.
    """
    if progress <= 0.6:
        return 1.0
    return 10 / (10 + t * (1 - 0.6 / progress))


def _of_roots(weights: Weights, p: float) -> Weights:
    """Σ w · cost^(1/p) lies below Σ w · slope · cost, its tangent: that one can be followed as ever."""

    def follow(costs: Tensor) -> Tensor:
        each = weights(costs) if callable(weights) else weights
        return each * root_slope(costs, p)

    return follow


def _loss(pull: Pull, objective: Objective) -> Tensor:
    p, total = pull.problem.p, (pull.weights * pull.costs).sum(dim=-1)
    if objective == "mean_root":
        return (pull.weights * pull.costs ** (1 / p)).sum(dim=-1)
    return total if objective == "power" else total.clamp(min=0) ** (1 / p)


def _reach(move: Tensor) -> Tensor:
    return move.square().sum(dim=-1).amax(dim=-1).sqrt()


def _cold(recipe: Recipe, problem: Problem, seeds: RunSeeds) -> State:
    if not is_learned(recipe.slicer):
        return {}
    return _named(recipe.slicer.cold(problem, seeds.at(0, purpose=2)))


def _named(learned: State | None) -> State:
    return {} if learned is None else {f"slicer_{name}": t for name, t in learned.items()}


def _learned(state: State) -> State | None:
    found = {k.removeprefix("slicer_"): t for k, t in state.items() if k.startswith("slicer_")}
    return found or None
