"""Minibatches: the rows and the noise of a step depend on the seed and the step number alone, on every device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.sampling import RunSeeds, Stream


@dataclass(frozen=True, eq=False)
class StepDraws:
    """What is drawn for S steps and D distinct seeds."""

    target: Tensor  # (S, D, B), rows of the target
    source: Tensor  # (S, D, B), rows of the source; or noise (S, D, B, z)


class RowSampler:
    """Draws B of N rows for each step: without replacement within an epoch, with replacement if N < B."""

    def __init__(self, n: int, batch: int, stream: Stream) -> None:
        self.n, self.batch, self.with_replacement = n, batch, n < batch
        self._steps_per_epoch = 1 if self.with_replacement else n // batch
        self._stream = stream
        self._epoch: tuple[int, Tensor] | None = None  # number and order (D, N) of the last epoch

    def rows(self, seeds: RunSeeds, step: int) -> Tensor:
        """The rows of one step, (D, B)."""
        if self.with_replacement:
            return self._any_rows(seeds.at(step, self._stream).uniform(seeds.distinct, self.batch))
        epoch, place = divmod(step, self._steps_per_epoch)
        if self._epoch is None or self._epoch[0] != epoch:
            keys = seeds.at(epoch, self._stream).uniform(seeds.distinct, self.n)
            self._epoch = (epoch, keys.argsort(dim=-1))
        first = place * self.batch
        return self._epoch[1][:, first : first + self.batch]

    def rows_ahead(self, seeds: RunSeeds, steps: Tensor) -> Tensor:
        """The rows of consecutive steps (S,) whose numbers are on the device, (S, D, B)."""
        s, d = len(steps), seeds.distinct
        if self.with_replacement:
            keys = seeds.across(steps, self._stream).uniform(s * d, self.batch)
            return self._any_rows(keys).reshape(s, d, self.batch)
        epochs = steps // self._steps_per_epoch
        # As many epochs as S consecutive steps can touch: their number must not depend on values on the device.
        some = torch.arange((s - 1) // self._steps_per_epoch + 2, device=steps.device) + epochs[0]
        keys = seeds.across(some, self._stream).uniform(len(some) * d, self.n)
        orders = keys.argsort(dim=-1).reshape(len(some), d, self.n)
        first = (steps % self._steps_per_epoch) * self.batch
        places = first[:, None] + torch.arange(self.batch, device=steps.device)  # (S, B)
        which = torch.arange(d, device=steps.device)[:, None]
        return orders[(epochs - epochs[0])[:, None, None], which, places[:, None]]

    def _any_rows(self, keys: Tensor) -> Tensor:
        return (keys * self.n).long().clamp_(max=self.n - 1)


class Minibatches:
    """Pairs of network input and target rows, for R runs with D distinct seeds.

    Args:
        target: Samples (N, d).
        source: Samples (M, d_in), or the dimension z of standard normal noise.
        batch: Rows per step, B.
        seeds: One per run, (R,).
        single: One network without a leading dimension, rather than a stack.
    """

    def __init__(
        self, target: Tensor, source: Tensor | int, batch: int, seeds: Tensor, *, single: bool
    ) -> None:
        self.target, self.source, self.batch = target, source, batch
        distinct, which = seeds.unique(return_inverse=True)
        self.seeds = RunSeeds(distinct, target.device)
        self._which = None if single else which.to(target.device)
        self._target_rows = RowSampler(len(target), batch, Stream.TARGET_BATCHES)
        self._source_rows = None
        if isinstance(source, Tensor):
            self._source_rows = RowSampler(len(source), batch, Stream.SOURCE_BATCHES)

    def notes(self) -> list[str]:
        """What the user should know: which side has too few rows for a batch."""
        samplers = {"target": self._target_rows, "source": self._source_rows}
        return [
            f"the {name} has {sampler.n} rows for batches of {sampler.batch}: drawn with replacement"
            for name, sampler in samplers.items()
            if sampler is not None and sampler.with_replacement
        ]

    def draw(self, step: int) -> StepDraws:
        """The draws of one step."""
        target = self._target_rows.rows(self.seeds, step)
        if self._source_rows is not None:
            source = self._source_rows.rows(self.seeds, step)
        else:
            rng = self.seeds.at(step, Stream.NOISE)
            source = rng.normal(self.seeds.distinct, self.batch, self._noise_size)
        return StepDraws(target.unsqueeze(0), source.unsqueeze(0))

    def draw_ahead(self, steps: Tensor) -> StepDraws:
        """The draws of consecutive steps (S,) whose numbers are on the device."""
        target = self._target_rows.rows_ahead(self.seeds, steps)
        if self._source_rows is not None:
            return StepDraws(target, self._source_rows.rows_ahead(self.seeds, steps))
        s, d, z = len(steps), self.seeds.distinct, self._noise_size
        noise = self.seeds.across(steps, Stream.NOISE).normal(s * d, self.batch, z)
        return StepDraws(target, noise.reshape(s, d, self.batch, z))

    def select(self, draws: StepDraws, index: int) -> tuple[Tensor, Tensor]:
        """Network input and target rows of one of the steps drawn: (R, B, ·) each, or (B, ·) for one network."""
        rows, source = draws.target[index], draws.source[index]
        given = self.source[source] if isinstance(self.source, Tensor) else source
        real = self.target[rows]
        given = given.to(real.dtype)
        if self._which is None:
            return given[0], real[0]
        return given[self._which], real[self._which]

    @property
    def _noise_size(self) -> int:
        assert isinstance(self.source, int)
        return self.source
