"""Random numbers of runs: what a run draws at a step depends on its seed and the step, nothing else."""

from __future__ import annotations

import torch
from torch import Tensor

from slicewise.checks import check_generator
from slicewise.randomness import Generators, Randomness

_MASK = 2**64 - 1


class RunSeeds:
    """Random numbers for a batch of runs, one seed each. Runs that share a seed share their draws.

    Not the batch a run sits in, nor what was drawn before, nor who else has ended can change them: a
    resumed run, or one taken out of a sweep, sees the slices it would have seen.
    """

    def __init__(self, seeds: Tensor, device: torch.device) -> None:
        self._device = device
        distinct, which = seeds.unique(return_inverse=True)
        self._distinct = distinct.tolist()
        self.which = which.to(device)  # (R,), of the distinct seeds, the one of each run
        # (distinct,), one run that has it
        self.first = torch.tensor(
            [which.tolist().index(i) for i in range(len(distinct))], device=device
        )
        self._generators = [torch.Generator() for _ in self._distinct]

    def at(self, step: int, purpose: int = 0) -> Randomness:
        """The draws of a step, from their beginning; another purpose, other draws."""
        for seed, generator in zip(self._distinct, self._generators, strict=True):
            generator.manual_seed(_mix(seed, step, purpose))
        return _Shared(self._generators, self.which, self._device)


class _Shared(Randomness):
    """Draws made once for each seed, then dealt to the runs that have it."""

    def __init__(
        self, generators: list[torch.Generator], which: Tensor, device: torch.device
    ) -> None:
        super().__init__(None, device)
        self._seeded = [Randomness(generator, device) for generator in generators]
        self._which = which

    def _draw(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        inner = shape[1:]
        if len(self._seeded) == 1:
            one = self._seeded[0]._draw(kind, inner)
            # Expanded, then copied: callers may write into what they draw.
            return one.unsqueeze(0).repeat(shape[0], *(1,) * len(inner))
        drawn = torch.stack([seeded._draw(kind, inner) for seeded in self._seeded])
        return drawn[self._which]


def draw_seeds(n: int, generator: Generators) -> Tensor:
    """A seed for each of n runs, each from its own generator where a list is given."""
    check_generator(generator)
    if generator is None or isinstance(generator, torch.Generator):
        device = None if generator is None else generator.device
        return torch.randint(2**62, (n,), generator=generator, device=device).cpu()
    if len(generator) != n:
        raise ValueError(
            f"generator holds {len(generator)} generators for {n} runs: give one for each, or one"
        )
    return torch.cat([draw_seeds(1, one) for one in generator])


def _mix(*words: int) -> int:
    """A 64-bit hash in which every bit of every word counts (the finaliser of splitmix64)."""
    state = 0
    for word in words:
        state = (state + 0x9E3779B97F4A7C15 + (word & _MASK)) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state
