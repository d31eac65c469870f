"""Random numbers for one call: from torch's global generator, a given one, or one for each run."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from numbers import Integral
from typing import cast

import torch
from torch import Tensor

from slicewise.support import DeviceDraws

# One source of draws: an int is a seed, a list holds one source for each element of the batch, None is torch's own.
Generators = int | torch.Generator | Sequence[int | torch.Generator] | None

# Marsaglia and Tsang accept at least 95.1 % of their proposals for shapes >= 1: ten rounds leave a
# draw without an accepted proposal with probability below 1e-13.
_GAMMA_ROUNDS = 10


class Randomness:
    """Draws in float32 (directions) or float64 (scalars) on whatever device the generator lives.

    With a sequence of generators, each element of the batch draws from its own: what a run sees
    then depends on its generator alone, never on the batch it happens to sit in.
    """

    def __init__(
        self, generator: Generators, device: torch.device, batch: tuple[int, ...] = ()
    ) -> None:
        self.device = device
        generator = as_generators(generator)
        self._one = generator if isinstance(generator, torch.Generator) else None
        self._runs: list[Randomness] | None = None
        if generator is not None and not isinstance(generator, torch.Generator):
            generators = list(generator)
            if len(generators) != math.prod(batch):
                raise ValueError(
                    f"generator holds {len(generators)} generators, but the batch {tuple(batch)} has "
                    f"{math.prod(batch)} elements: give one for each, or a single generator"
                )
            self._runs = [Randomness(g, device) for g in generators]
        self._batch = batch

    @property
    def fused(self) -> DeviceDraws | None:
        """Whole laws drawn in one go, where that is possible."""
        return None

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers, float32."""
        return self._draw("normal", shape)

    def uniform(self, *shape: int) -> Tensor:
        """Numbers uniform on [0, 1), float64."""
        return self._draw("uniform", shape)

    def gamma(self, concentration: float | Tensor, *shape: int, boost: bool = True) -> Tensor:
        """Gamma(concentration, 1) numbers, float64, in a fixed number of proposal rounds.

        `boost` allows for shapes below 1, and takes a draw more whether this one is or not: the draws of a
        schedule must not depend on what it says.

        G. Marsaglia, W. W. Tsang, A simple method for generating gamma variables, 2000.
        """
        a = concentration
        if not isinstance(a, Tensor):
            a = torch.full((), a, dtype=torch.float64, device=self.device)
        # Gamma(a) = Gamma(a + 1) · U^(1/a) carries shapes below 1, where the method does not apply.
        small = a < 1
        factor = torch.where(small, self.uniform(*shape) ** (1 / a), 1) if boost else 1
        d = torch.where(small, a + 1, a) - 1 / 3
        normal = self.normal(*shape, _GAMMA_ROUNDS).double()
        cube = (1 + normal / (9 * d).sqrt()) ** 3
        log_u = torch.log(1 - self.uniform(*shape, _GAMMA_ROUNDS))  # of (0, 1]
        positive = cube > 0
        bound = 0.5 * normal**2 + d * (1 - cube + torch.log(torch.where(positive, cube, 1)))
        draw = first_accepted(d * cube.clamp(min=0), positive & (log_u < bound))
        return draw * factor

    def _draw(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        if self._runs is not None:
            inner = shape[len(self._batch) :]
            return torch.stack([run._draw(kind, inner) for run in self._runs]).reshape(shape)
        # A generator draws only on its own device: draw there, then carry the numbers over.
        device = self.device if self._one is None else self._one.device
        draw, dtype = (
            (torch.randn, torch.float32) if kind == "normal" else (torch.rand, torch.float64)
        )
        drawn = draw(shape, generator=self._one, device=device, dtype=dtype)
        return drawn if self._one is None else drawn.to(self.device)


def as_generators(generator: Generators) -> torch.Generator | list[torch.Generator] | None:
    """Seeds as fresh generators on the CPU; generators, a list of them and None as they are."""
    if generator is None or isinstance(generator, torch.Generator):
        return generator
    if isinstance(generator, Integral):
        return torch.Generator().manual_seed(int(generator))
    many = (as_generators(one) for one in cast("Sequence[int | torch.Generator]", generator))
    return [one for one in many if isinstance(one, torch.Generator)]


def first_accepted(proposals: Tensor, accepted: Tensor) -> Tensor:
    """The first accepted proposal along the last dimension (the first of all if none was)."""
    first = accepted.int().argmax(dim=-1, keepdim=True)
    return proposals.gather(-1, first).squeeze(-1)


def one_generator(generator: object) -> torch.Generator | None:
    """Return the one generator to draw from: an int seeds a new one on the CPU, None is torch's global one."""
    if generator is None or isinstance(generator, torch.Generator):
        return generator
    if isinstance(generator, bool) or not isinstance(generator, numbers.Integral):
        raise ValueError(
            f"generator = {generator!r}: give an int (a seed), a torch.Generator, or None for torch's global one"
        )
    return torch.Generator().manual_seed(int(generator))
