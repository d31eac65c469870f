"""Minibatches of runs: which samples, and which noise, a step sees depends on the seed and the step alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.sampling import RunSeeds

# Purposes of draws, beside those of slices (0) and of learned slicers (2).
_NOISE, _OF_TARGET, _OF_SOURCE = 3, 4, 5


@dataclass(frozen=True, eq=False)
class Drawn:
    """What is drawn for S steps and D seeds: rows of the target, and noise or rows of the source."""

    target: Tensor  # (S, D, B)
    source: Tensor  # (S, D, B), or noise (S, D, B, z)


class Deck:
    """Rows 0 … N−1, dealt B at a time: shuffled anew when no whole batch is left; with replacement if N < B."""

    def __init__(self, n: int, batch: int, purpose: int) -> None:
        self.n, self.batch, self.replaced = n, batch, n < batch
        self._in_an_epoch = 1 if self.replaced else n // batch
        self._purpose = purpose
        self._kept: tuple[int, Tensor] | None = None  # an epoch and its order, on the host

    def deal(self, seeds: RunSeeds, step: int) -> Tensor:
        """The rows of one step, (D, B)."""
        if self.replaced:
            return self._any(seeds.at(step, self._purpose).uniform(seeds.distinct, self.batch))
        epoch, place = divmod(step, self._in_an_epoch)
        if self._kept is None or self._kept[0] != epoch:
            keys = seeds.at(epoch, self._purpose).uniform(seeds.distinct, self.n)
            self._kept = (epoch, keys.argsort(dim=-1))
        first = place * self.batch
        return self._kept[1][:, first : first + self.batch]

    def deal_ahead(self, seeds: RunSeeds, steps: Tensor) -> Tensor:
        """The same for consecutive steps (S,) that are counted on the device, (S, D, B)."""
        s, d = len(steps), seeds.distinct
        if self.replaced:
            keys = seeds.across(steps, self._purpose).uniform(s * d, self.batch)
            return self._any(keys).reshape(s, d, self.batch)
        epochs = steps // self._in_an_epoch
        # Consecutive steps lie in no more epochs than this.
        some = torch.arange((s - 1) // self._in_an_epoch + 2, device=steps.device) + epochs[0]
        keys = seeds.across(some, self._purpose).uniform(len(some) * d, self.n)
        orders = keys.argsort(dim=-1).reshape(len(some), d, self.n)
        first = (steps % self._in_an_epoch) * self.batch
        places = first[:, None] + torch.arange(self.batch, device=steps.device)  # (S, B)
        which = torch.arange(d, device=steps.device)[:, None]
        return orders[(epochs - epochs[0])[:, None, None], which, places[:, None]]

    def _any(self, keys: Tensor) -> Tensor:
        return (keys * self.n).long().clamp_(max=self.n - 1)


class Batches:
    """Pairs of what a network is given and what it should come to, for R runs with D distinct seeds."""

    def __init__(
        self, target: Tensor, source: Tensor | int, batch: int, seeds: Tensor, *, single: bool
    ) -> None:
        self.target, self.source, self.batch = target, source, batch
        distinct, which = seeds.unique(return_inverse=True)
        self.seeds = RunSeeds(distinct, target.device)
        self._which = None if single else which.to(target.device)
        self.of_target = Deck(len(target), batch, _OF_TARGET)
        self.of_source = None
        if isinstance(source, Tensor):
            self.of_source = Deck(len(source), batch, _OF_SOURCE)

    def notes(self) -> list[str]:
        """What is to be said of them."""
        decks = {"target": self.of_target, "source": self.of_source}
        return [
            f"the {name} has {deck.n} rows for batches of {deck.batch}: drawn with replacement"
            for name, deck in decks.items()
            if deck is not None and deck.replaced
        ]

    def draw(self, step: int) -> Drawn:
        """What one step sees."""
        target = self.of_target.deal(self.seeds, step)
        if self.of_source is not None:
            source = self.of_source.deal(self.seeds, step)
        else:
            source = self.seeds.at(step, _NOISE).normal(self.seeds.distinct, self.batch, self._z)
        return Drawn(target.unsqueeze(0), source.unsqueeze(0))

    def draw_ahead(self, steps: Tensor) -> Drawn:
        """What consecutive steps see that are counted on the device."""
        target = self.of_target.deal_ahead(self.seeds, steps)
        if self.of_source is not None:
            return Drawn(target, self.of_source.deal_ahead(self.seeds, steps))
        s, d = len(steps), self.seeds.distinct
        noise = self.seeds.across(steps, _NOISE).normal(s * d, self.batch, self._z)
        return Drawn(target, noise.reshape(s, d, self.batch, self._z))

    @property
    def _z(self) -> int:
        assert isinstance(self.source, int)
        return self.source

    def at(self, drawn: Drawn, index: int) -> tuple[Tensor, Tensor]:
        """What the networks are given and should come to, (R, B, ·); (B, ·) each for a network by itself."""
        rows, source = drawn.target[index], drawn.source[index]
        given = self.source[source] if isinstance(self.source, Tensor) else source
        real = self.target[rows]
        given = given.to(real.dtype)
        if self._which is None:
            return given[0], real[0]
        return given[self._which], real[self._which]
