"""Relabelings of a pool of samples: drawn at random, within blocks, or all of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray


class Relabelings:
    """The ways to say which samples of a pool are on the first side, n of them in every block as many as observed.

    Args:
        first: True where a sample is on the first side as observed, (N,).
        blocks: The block of each sample, (N,), within which labels may move. None is one block.

    >>> Relabelings(torch.tensor([True, True, False, False])).count
    6
    """

    def __init__(self, first: Tensor, blocks: Tensor | None = None) -> None:
        self.first = first.cpu().numpy().astype(bool)
        names = np.zeros(len(self.first)) if blocks is None else blocks.cpu().numpy()
        _, places = np.unique(names, return_inverse=True)
        order = np.argsort(places, kind="stable")
        self._blocks = np.split(order, np.flatnonzero(np.diff(places[order])) + 1)

    @property
    def count(self) -> int:
        """How many there are, the observed one included."""
        return math.prod(math.comb(len(b), int(self.first[b].sum())) for b in self._blocks)

    def all(self) -> Tensor:
        """Every relabeling, (count, N)."""
        each = [
            [block[list(chosen)] for chosen in itertools.combinations(range(len(block)), k)]
            for block, k in ((b, int(self.first[b].sum())) for b in self._blocks)
        ]
        labels = np.zeros((self.count, len(self.first)), bool)
        for row, chosen in zip(labels, itertools.product(*each), strict=True):
            row[np.concatenate(chosen)] = True
        return torch.from_numpy(labels)

    def drawn(self, sizes: list[int], seed: int) -> Iterator[Tensor]:
        """Batches of independent relabelings, each uniform among all: (size, N) for each size."""
        rng = np.random.default_rng(seed)
        one_size = len({len(b) for b in self._blocks}) == 1 and len(self._blocks) > 1
        grid = np.stack(self._blocks) if one_size else None  # (blocks, size): all shuffled at once
        for size in sizes:
            labels = np.tile(self.first, (size, 1))
            if grid is not None:
                labels[:, grid] = rng.permuted(labels[:, grid], axis=2)
            else:
                for block in self._blocks:
                    labels[:, block] = rng.permuted(labels[:, block], axis=1)
            yield torch.from_numpy(labels)
