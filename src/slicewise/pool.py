"""Whose samples are counted: one process that has them all, or several that have a share each."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

SideName = Literal["x", "y"]


class Pool:
    """One process that has all samples: there is nobody to add up with.

    Whatever looks at samples as a whole (a sum, a largest entry, a draw) asks the pool of its problem. That of
    several processes gives the answer for the samples of all of them, and the same one to each; it has to be
    asked by all of them in the same order.
    """

    def agreed(self, tensor: Tensor) -> Tensor:
        """A tensor that must be the same everywhere, as the first process has it."""
        return tensor

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over processes."""
        return tensor

    def largest_entry(self, tensor: Tensor) -> Tensor:
        """The largest absolute value (..., 1, 1) in the last two dimensions, over processes."""
        return tensor.abs().amax(dim=(-2, -1), keepdim=True)

    def stacked(self, rows: Tensor) -> Tensor:
        """Rows (..., k, d) with the Gram matrix of the rows (..., n, d) of all processes."""
        return rows

    def count(self, side: SideName, samples: Tensor) -> int:
        """How many samples there are on one side."""
        return samples.shape[-2]

    def at(self, side: SideName, samples: Tensor, weights: Tensor | None, level: Tensor) -> Tensor:
        """The samples (*batch, k, d) at levels (*batch, k) of [0, 1), each spanning its weight."""
        shape, (n, d) = level.shape, samples.shape[-2:]
        index = index_at(level, n, weights)
        return samples.expand(*shape[:-1], n, d).gather(-2, index.unsqueeze(-1).expand(*shape, d))

    def swapped(self) -> Pool:
        """The same pool seen from y."""
        return self


ALONE = Pool()


def index_at(level: Tensor, n: int, weights: Tensor | None) -> Tensor:
    """Which of n samples is at each level of [0, 1), for weights (n,) or (*batch, n)."""
    if weights is None:
        return (level * n).long().clamp(max=n - 1)
    total = weights.double().cumsum(dim=-1).expand(*level.shape[:-1], n)
    # side right: a sample of weight zero spans no levels, so it is never drawn.
    index = torch.searchsorted((total / total[..., -1:]).contiguous(), level, right=True)
    return index.clamp(max=n - 1)


def shares_of(
    weights: Tensor | None, n: int, dtype: torch.dtype, pool: Pool = ALONE
) -> Tensor | float:
    """Sample weights divided by their sum, (*batch, n), or 1/n where all are equal."""
    if weights is None:
        return 1 / n
    wide = weights.double()
    return (wide / pool.total(wide.sum(dim=-1, keepdim=True))).to(dtype)
