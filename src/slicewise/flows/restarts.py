"""Out of dead ends: noticing that a run is stuck, and shaking it loose."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.problem import BuiltIn, Problem, State
from slicewise.sampling import RunSeeds, sphere

# A loss that in the second half of the patience got below this share of its least in the first is falling.
_AT_REST = 0.95
# An escape is not heated further once the loss is this many times what it was at rest.
_HOTTEST = 16


@dataclass(frozen=True)
class Escapes(BuiltIn):
    """Steps on one random orthonormal basis each, for runs whose loss has not halved for `patience` steps.

    Such a run sits where slices disagree and cancel, or is merely slow. An escape takes 20 steps, and twice as
    many after each one that found the loss at rest. From the second of those on they start with twice the
    computed step: a reflection, which keeps the loss and forgets the arrangement. It cools to one within the
    escape. A loss that still falls gets neither heat nor longer escapes, which would undo what it has reached.
    Nor is one heated that has risen far above its rest: reflections on one basis raise the loss on others, most
    for elongated samples, and a long escape would undo all steps before it.
    """

    patience: int
    needs: int = (
        0  # slices: fewer make losses fall so slowly that an escape would undo more than it frees
    )
    first: int = 20

    def start(self, like: Tensor) -> State:
        """What runs remember for it, from a tensor of as many ones."""
        return {
            "mark": like * math.inf,  # the loss from which the next half is counted
            "since": torch.zeros_like(like),  # steps since
            "early": like * math.inf,  # the least loss in the first half of the patience,
            "late": like * math.inf,  # and in the second
            "escape": like * self.first,  # how long the next escape will be
            "escaping": torch.zeros_like(like),  # steps of one that are left,
            "length": like * self.first,  # of how many
            "hot": torch.zeros_like(like),  # is it a hot one?
            "rest": like * math.inf,  # the least loss before it
        }

    def watch(self, loss: Tensor, state: State) -> State:
        """Who has halved the loss, who is stuck, and who is done escaping."""
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
        anew = stuck | escaping  # what is measured on one basis says nothing about the loss
        left = (state["escaping"] - 1).clamp(min=0)
        return {
            "mark": torch.where(anew, math.inf, mark),
            "since": torch.where(anew, 0, since),
            "early": torch.where(anew | halved, math.inf, early),
            "late": torch.where(anew | halved, math.inf, late),
            "escaping": torch.where(stuck, state["escape"], left),
            "length": torch.where(stuck, state["escape"], state["length"]),
            "escape": torch.where(stuck & at_rest, 2 * state["escape"], state["escape"]),
            "hot": torch.where(stuck, hot.to(loss.dtype), state["hot"]),
            "rest": torch.where(stuck, torch.minimum(early, late), state["rest"]),
        }

    def heat(self, loss: Tensor, state: State) -> Tensor:
        """How much further than computed a step goes, (R,), from the loss where it begins: 1 outside an escape."""
        heated = (state["escaping"] > 0) & (loss <= _HOTTEST * state["rest"])
        return torch.where(heated, 1 + state["hot"] * state["escaping"] / state["length"], 1)

    def basis(self, problem: Problem, seeds: RunSeeds, t: int | Tensor) -> Tensor:
        """A random orthonormal basis for each run, (R, k, k)."""
        return sphere.rotation(problem.batch, problem.d, seeds.at(t, purpose=1), problem.x.dtype)


def escapes_for(k: int) -> Escapes:
    """Escapes for runs in k dimensions; in the plane a random basis sees as much as any slices."""
    return Escapes(50 if k <= 3 else 17 * k, needs=10 * k if k > 2 else 0)
