"""Errors of published code, kept in one place so that published numbers can be reproduced.

Nothing in this module runs unless you ask for it with `legacy=True`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from slicewise.parts.slicers import interleave
from slicewise.problem import BuiltIn, Move, Problem, Slicer, SlicerPart
from slicewise.sampling import Randomness, sphere


class RaisingMove(Protocol):
    """A move that can also return its slices before they are normalized to the sphere, as `Ascend` does.

    `AliasedTrace` needs such a move. Calling it and `raised` both take slices (*batch, L, d), a problem and random
    numbers, and return slices of the same shape; those of `raised` are not normalized.
    """

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor: ...

    def raised(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor: ...


@dataclass(frozen=True, repr=False)
class AliasedTrace(BuiltIn, SlicerPart):
    """The chains of the published iMSW and viMSW code, whose list of visited slices is overwritten by mistake.

    Use it only to reproduce published numbers; `Trace` is the correct version. In the published code the list refers to
    memory that the next update changes in place before it normalizes. All slices but the last are therefore stored as
    θ + rate · gradient of the step after them, not normalized.

    Args:
        start: The slicer that gives the first slice of each chain.
        ascend: The move from a slice to the next, with a method `raised`, such as `Ascend`.
        n_steps: The number of slices in a chain.
        after: A move that follows each ascent, such as `Spread`, or None (default).
        burn_in: How many slices to leave out at the beginning of a chain (default 0).
        thin: Keep only each `thin`-th of the others (default 1: all).

    Returns:
        When called with a problem and random numbers: slices (*batch, chains · kept, d), chain by chain, where kept is
        the number of slices kept of a chain.

    Example:
        >>> import torch
        >>> from slicewise.parts import AliasedTrace, Ascend, Uniform
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> slicer = AliasedTrace(Uniform(2), Ascend(rate=0.1), n_steps=5)
        >>> slicer(problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([10, 3])
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
    """Draw from the published von Mises–Fisher sampler, whose proposal is approximate for kappa > 11.

    Use it only to reproduce published numbers. It is accurate only for kappa far above d. Once d is larger than kappa,
    every proposal is accepted and the mean cosine is wrong: at d = 512 and kappa = 50 it is −0.437 instead of +0.097.
    Between kappa = 10 and kappa = 11 it changes from the correct proposal to the approximate one.

    Args:
        directions: The unit vectors to draw around, (..., L, d).
        kappa: The concentration, a number or a tensor.
        rng: The source of random numbers.

    Returns:
        Unit vectors (..., L, d), one drawn around each direction.

    Example:
        >>> import torch
        >>> from slicewise.parts import von_mises_fisher
        >>> from slicewise.sampling import Randomness
        >>> von_mises_fisher(torch.eye(3), 50.0, Randomness(0, torch.device("cpu"))).shape
        torch.Size([3, 3])
    """
    d = directions.shape[-1]
    if d == 1:
        return directions
    approximate = (d - 1) / (4 * kappa)
    above = kappa - 10
    blend = above.clamp(0, 1) if isinstance(above, Tensor) else min(max(above, 0), 1)
    b = blend * approximate + (1 - blend) * sphere.vmf_proposal(kappa, d)
    return sphere.vmf_around(directions, sphere.vmf_law(kappa, b, d), rng)
