"""Random numbers of runs: what a run draws at a step depends on its seed and the step, nothing else."""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

from slicewise.sampling.generators import Generators, Randomness, as_generators
from slicewise.sampling.philox import Counted
from slicewise.support import check_generator


class Stream(IntEnum):
    """What random numbers are for. The draws of one seed at one step differ from stream to stream.

    The values are part of what a seed means: changing one changes every flow or training that draws from it. A flow
    and a training never share a stream, so two members may have one value.
    """

    SLICES = 0  # of a step of a flow or a training
    ESCAPES = 1  # random bases for flows that are stuck
    LEARNED_PARTS = 2  # the initial state of a slicer or lift that learns
    ARRIVAL_CHECK = 3  # slices of flows that confirm that a run has arrived
    NOISE = 3  # inputs of a generator in training
    TARGET_BATCHES = 4  # which samples of the target a training step takes
    SOURCE_BATCHES = 5  # and which of the source
    CALLS = 6  # slices of a single call on a device, by its ticket


class RunSeeds:
    """Random numbers for a batch of runs, one seed each. Runs that share a seed share their draws.

    Not the batch a run sits in, nor what was drawn before, nor who else has ended, nor the device can
    change them: a resumed run, or one taken out of a sweep, sees the slices it would have seen.
    """

    def __init__(self, seeds: Tensor, device: torch.device) -> None:
        distinct, which = seeds.unique(return_inverse=True)
        self._distinct = distinct.tolist()
        self.each = distinct.to(device)  # (D,), the distinct ones
        self._seeds = seeds.to(device)  # (R,)
        self.which = which.to(device)  # (R,), of the distinct seeds, the one of each run
        # (distinct,), one run that has it
        self.first = torch.tensor(
            [which.tolist().index(i) for i in range(len(distinct))], device=device
        )
        self.one_each = bool((which == torch.arange(len(which))).all())  # in the order of the runs

    @property
    def counts_on_device(self) -> bool:
        """Are numbers made where they are used, so that a CUDA graph can draw fresh ones?"""
        return self.at(0).fused is not None

    @property
    def distinct(self) -> int:
        """How many different seeds there are, D."""
        return len(self._distinct)

    def across(self, steps: Tensor, stream: int = Stream.SLICES) -> Randomness:
        """The draws of several steps (S,) at once, for S · D "runs": each step's of each distinct seed."""
        seeds = self.each.repeat(len(steps))
        own = steps.repeat_interleave(self.distinct)
        which = torch.arange(len(seeds), device=seeds.device)
        return Counted(seeds, which, self._distinct * len(steps), own, stream)

    def at(self, step: int | Tensor, stream: int = Stream.SLICES) -> Randomness:
        """The draws of a step, from their beginning."""
        return Counted(self._seeds, self.which, self._distinct, step, stream)


def draw_seeds(n: int, generator: Generators) -> Tensor:
    """A seed for each of n runs (n,), each from its own generator where a list is given."""
    check_generator(generator)
    source = as_generators(generator)
    if source is None or isinstance(source, torch.Generator):
        device = None if source is None else source.device
        return torch.randint(2**62, (n,), generator=source, device=device).cpu()
    if len(source) != n:
        raise ValueError(
            f"generator holds {len(source)} generators for {n} runs: give one for each, or one"
        )
    return torch.cat([draw_seeds(1, one) for one in source])
