"""Escapes from dead ends: notice that a run is stuck, and set it free."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.problem import BuiltIn, Problem, State
from slicewise.sampling import RunSeeds, Stream, sphere

# A loss is at rest unless its least value in the second half of the patience is below this part of that in the first.
_AT_REST = 0.95
# Steps of an escape are not enlarged once the loss is this many times what it was at rest.
_LARGEST_RISE = 16


@dataclass(frozen=True)
class EscapeRule(BuiltIn):
    """When a run escapes, and how: steps on one random orthonormal basis each.

    A run whose loss has not halved for `patience` steps sits where slices disagree and cancel, or is merely slow. It
    escapes for `first` steps, and for twice as many after each escape that found the loss at rest. From the second of
    those on an escape is "hot": it starts with twice the computed step, and returns to once the step at its end.
    Doubling a step reflects the particles about the minimizer: the loss stays, the assignment is reshuffled.

    A loss that still falls gets neither longer nor hot escapes, which would undo what it has reached. Nor is a step
    enlarged while the loss is far above its value at rest: reflections on one basis raise the loss on others, most for
    elongated samples.

    Attributes:
        patience: Steps without halving the loss after which a run escapes.
        needs: Slices a step must have. With fewer the loss falls so slowly that an escape undoes more than it frees.
        first: Steps of the first escape.
    """

    patience: int
    needs: int = 0
    first: int = 20

    def start(self, like: Tensor) -> State:
        """The state of runs at the start, given ones (R,)."""
        return {
            "mark": like * math.inf,  # the loss from which the next halving is counted
            "since": torch.zeros_like(like),  # steps since then
            "early": like * math.inf,  # the least loss in the first half of the patience,
            "late": like * math.inf,  # and in the second
            "escape": like * self.first,  # steps of the next escape
            "escaping": torch.zeros_like(like),  # steps left of the present one,
            "length": like * self.first,  # of how many
            "hot": torch.zeros_like(like),  # 1 if it is hot
            "rest": like * math.inf,  # the least loss before it
        }

    def update(self, loss: Tensor, state: State) -> State:
        """The state after a step of this loss, (R,)."""
        escaping = state["escaping"] > 0
        halved = loss <= state["mark"] / 2
        mark = torch.where(halved, loss, state["mark"])
        since = torch.where(halved, 0, state["since"] + 1)
        second = since > self.patience / 2
        early = torch.where(second, state["early"], torch.minimum(state["early"], loss))
        late = torch.where(second, torch.minimum(state["late"], loss), math.inf)
        stuck = ~escaping & (since >= self.patience)
        at_rest = late >= _AT_REST * early
        hot = at_rest & (state["escape"] > self.first)
        reset = stuck | escaping  # what is measured on one basis says nothing about the loss
        left = (state["escaping"] - 1).clamp(min=0)
        return {
            "mark": torch.where(reset, math.inf, mark),
            "since": torch.where(reset, 0, since),
            "early": torch.where(reset | halved, math.inf, early),
            "late": torch.where(reset | halved, math.inf, late),
            "escaping": torch.where(stuck, state["escape"], left),
            "length": torch.where(stuck, state["escape"], state["length"]),
            "escape": torch.where(stuck & at_rest, 2 * state["escape"], state["escape"]),
            "hot": torch.where(stuck, hot.to(loss.dtype), state["hot"]),
            "rest": torch.where(stuck, torch.minimum(early, late), state["rest"]),
        }

    def step_factor(self, loss: Tensor, state: State) -> Tensor:
        """By what to multiply the computed step, (R,), given the loss where it starts: 1 outside hot escapes."""
        enlarged = (state["escaping"] > 0) & (loss <= _LARGEST_RISE * state["rest"])
        return torch.where(enlarged, 1 + state["hot"] * state["escaping"] / state["length"], 1)

    def basis(self, problem: Problem, seeds: RunSeeds, t: int | Tensor) -> Tensor:
        """A random orthonormal basis for each run, (R, k, k)."""
        rng = seeds.at(t, Stream.ESCAPES)
        return sphere.rotation(problem.batch, problem.d, rng, problem.x.dtype)


def patience_for(steps: int, k: int, n_slices: int | None) -> int:
    """How many steps say as much as so many with two slices for each of k dimensions: more, where slices see few."""
    return steps if n_slices is None else math.ceil(steps * max(1.0, 2 * k / n_slices))


def escape_rule(k: int) -> EscapeRule:
    """The rule for runs in k dimensions; in the plane a random basis sees as much as any slices."""
    return EscapeRule(50 if k <= 3 else 17 * k, needs=10 * k if k > 2 else 0)
