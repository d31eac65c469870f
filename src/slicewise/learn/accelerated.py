"""The default for the plain distance: computed steps with momentum, on evenly spread slices."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise import sphere
from slicewise.gradient import Objective
from slicewise.learn.courses import Advance, happens, settled, stated
from slicewise.learn.escape import Escapes
from slicewise.learn.foresight import Ahead, Foresight, foresee
from slicewise.learn.seeds import RunSeeds
from slicewise.learned import State
from slicewise.problem import Problem
from slicewise.randomness import Randomness
from slicewise.rules import Cauchy, pull_of

# Beyond, orthonormal frames are as even as slices that repel each other, and need no preparation.
_SPREAD_UP_TO = 10


@dataclass(frozen=True)
class Accelerated:
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
