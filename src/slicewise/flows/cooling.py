"""Shorter steps near a minimum that is not zero, and knowing when it is reached."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.flows.restarts import patience_for
from slicewise.problem import BuiltIn, State
from slicewise.steps import Pull

# A loss is at rest if its mean over some steps is not below this part of its mean over as many before.
_AT_REST = 0.99
# Steps are shortened by this factor each time the loss is at rest.
_SHORTER = 1 / 3
# A minimum is reached if the loss is at rest, and the noise that steps follow raises it by less than this part.
_NOISE = 5e-3


@dataclass(frozen=True)
class Cooling(BuiltIn):
    """Shortens the steps of a run each time its loss comes to rest, and says when that was for the last time.

    For losses whose minimum is not zero (n ≠ m, unequal weights). Full steps follow the noise of fresh slices there and
    jitter about the minimum: a loss at rest may be one that only jitters. Shorter steps follow the noise less. A step
    of f times the computed length a raises the loss by about f a ⟨D, D⟩ of the noise in its direction D. Near a minimum
    the noise is all there is in D; once that rise is negligible and the loss is still at rest, the minimum is reached.

    Attributes:
        patience: Steps over which the loss is averaged to see whether it still falls.
    """

    patience: int

    def start(self, like: Tensor) -> State:
        """The state of runs at the start, given ones (R,)."""
        return {
            "level": like * math.inf,  # the mean loss over the patience before,
            "sum": like * 0,  # and the sum since,
            "count": like * 0,  # of so many steps
            "short": like,  # by what steps are multiplied
            "settled": like * 0,  # 1 when the minimum is reached
        }

    def update(self, pull: Pull, step: Tensor, state: State) -> State:
        """The state after a step, given what it followed and its full length, (R,)."""
        loss = (pull.weights * pull.costs).sum(dim=-1)
        total, count = state["sum"] + loss, state["count"] + 1
        full = count >= self.patience
        mean = total / count
        resting = full & (mean > _AT_REST * state["level"])
        settled = resting & (state["short"] * step * pull.size() <= _NOISE * mean)
        return {
            "level": torch.where(full, mean, state["level"]),
            "sum": torch.where(full, 0, total),
            "count": torch.where(full, 0, count),
            "short": torch.where(resting & ~settled, _SHORTER * state["short"], state["short"]),
            "settled": settled.to(loss.dtype),
        }


def cooling_rule(k: int, n_slices: int | None) -> Cooling:
    """The rule for steps of some slices in k dimensions: where slices see few of them, the loss falls slowly."""
    return Cooling(patience_for(50, k, n_slices))
