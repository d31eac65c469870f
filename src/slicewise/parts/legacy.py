"""Published behaviour that is a mistake, kept apart so that published numbers can be reproduced.

Nothing here runs unless `legacy=True` is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from slicewise.parts.slicers import interleave
from slicewise.problem import BuiltIn, Move, Problem, Slicer, SlicerPart
from slicewise.sampling import Randomness, sphere


class RaisingMove(Protocol):
    """A move that shows where it goes before it returns to the sphere, as `Ascend` does."""

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor: ...

    def raised(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor: ...


@dataclass(frozen=True, repr=False)
class AliasedTrace(BuiltIn, SlicerPart):
    """The chains of the published iMSW and viMSW code, whose record of visited slices is overwritten.

    The record refers to storage that the next update changes in place before it is normalised, so all
    slices but the last are stored as the un-normalised θ + rate · gradient of the step after them.
    """

    start: Slicer
    ascend: RaisingMove
    n_steps: int
    after: Move | None = None
    burn_in: int = 0
    thin: int = 1

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        slices = self.start(problem, rng)
        stored = []
        for _ in range(self.n_steps - 1):
            raised = self.ascend.raised(slices, problem, rng)
            stored.append(raised)
            slices = sphere.normalize(raised)
            if self.after is not None:
                slices = self.after(slices, problem, rng)
        return interleave([*stored, slices][self.burn_in :: self.thin])


def von_mises_fisher(directions: Tensor, kappa: sphere.Number, rng: Randomness) -> Tensor:
    """The published vMF sampler, whose proposal is approximate for kappa > 11.

    It is right only for kappa far above d; once d passes kappa every proposal is accepted and the
    mean cosine drifts, at d = 512 and kappa = 50 to −0.437 instead of +0.097.
    """
    d = directions.shape[-1]
    if d == 1:
        return directions
    approximate = (d - 1) / (4 * kappa)
    above = kappa - 10
    blend = above.clamp(0, 1) if isinstance(above, Tensor) else min(max(above, 0), 1)
    b = blend * approximate + (1 - blend) * sphere.vmf_proposal(kappa, d)
    return sphere.vmf_around(directions, sphere.vmf_law(kappa, b, d), rng)
