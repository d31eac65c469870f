"""Whose samples are counted: one process that has them all, or several that have a share each."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

SideName = Literal["x", "y"]


class Population:
    """One process that has all samples: there is nobody to add up with.

    Whatever looks at samples as a whole (a sum, a largest entry, a draw) asks the population of its problem. That of
    several processes gives the answer for the samples of all of them, and the same one to each; it has to be
    asked by all of them in the same order.
    """

    def agreed(self, tensor: Tensor) -> Tensor:
        """A tensor that must be the same everywhere, as the first process has it."""
        return tensor

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over processes. What is made of it must be the same on each: its gradient comes back as it is."""
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
        return rows_at(level, samples, weights)

    def swapped(self) -> Population:
        """The same population seen from y."""
        return self


ALONE = Population()


def index_at(level: Tensor, n: int, weights: Tensor | None) -> Tensor:
    """Which of n samples is at each level of [0, 1), for weights (n,) or (*batch, n)."""
    if weights is None:
        return (level * n).long().clamp(max=n - 1)
    total = weights.double().cumsum(dim=-1).expand(*level.shape[:-1], n)
    # side right: a sample of weight zero spans no levels, so it is never drawn.
    index = torch.searchsorted((total / total[..., -1:]).contiguous(), level, right=True)
    return index.clamp(max=n - 1)


def rows_at(level: Tensor, rows: Tensor, weights: Tensor | None) -> Tensor:
    """The rows (*batch, k, d) of (..., n, d) at levels (*batch, k) of [0, 1), each spanning its weight."""
    shape, (n, d) = level.shape, rows.shape[-2:]
    index = index_at(level, n, weights)
    return rows.expand(*shape[:-1], n, d).gather(-2, index.unsqueeze(-1).expand(*shape, d))


def shares_of(
    weights: Tensor | None, n: int, dtype: torch.dtype, population: Population = ALONE
) -> Tensor | float:
    """Sample weights divided by their sum, (*batch, n), or 1/n where all are equal."""
    if weights is None:
        return 1 / n
    wide = weights.double()
    return (wide / population.total(wide.sum(dim=-1, keepdim=True))).to(dtype)


def absent_to_origin(samples: Tensor, weights: Tensor | None) -> Tensor:
    """Samples, those of weight zero that are not finite moved to the origin: parts that look at all never meet NaN.

    Finite ones stay where they are: the gradient to their weight is what a little mass there would cost.
    """
    if weights is None:
        return samples
    there = weights > 0
    beyond = there.dim() - (samples.dim() - 1)
    if beyond > 0:  # samples that several sets of weights share are absent if they are in all
        there = there.flatten(0, beyond - 1).any(dim=0)
    return torch.where(there.unsqueeze(-1) | samples.isfinite(), samples, 0)


def absent_to_mean(samples: Tensor, weights: Tensor | None) -> Tensor:
    """Samples, those of weight zero moved to the mean of the others: they may lie anywhere, or be NaN."""
    if weights is None:
        return samples
    there = weights.unsqueeze(-1) > 0
    known = torch.where(there, samples, 0)
    share = shares_of(weights, samples.shape[-2], samples.dtype)
    assert isinstance(share, Tensor)
    return torch.where(there, samples, share.unsqueeze(-2) @ known)


def mean_of(
    samples: Tensor, weights: Tensor | None, population: Population = ALONE, side: SideName = "x"
) -> Tensor:
    """The mean (*batch, 1, d) of samples by their weights; those of weight zero may lie anywhere."""
    if weights is None:
        return population.total(samples.sum(dim=-2, keepdim=True)) / population.count(side, samples)
    # Two sums and then their ratio: either one's gradient is right where a process has a share of the samples.
    mass = weights.to(samples.dtype).unsqueeze(-2)  # (..., 1, n)
    there = torch.where(mass.mT > 0, samples, 0)
    return population.total(mass @ there) / population.total(mass.sum(dim=-1, keepdim=True))


def covariance_of(
    samples: Tensor, weights: Tensor | None, population: Population = ALONE, side: SideName = "x"
) -> Tensor:
    """The covariance (*batch, d, d) of samples by their weights."""
    mean = mean_of(samples, weights, population, side)
    # About a constant, less what that is off by: nothing now, but not to the second derivative.
    middle = mean.detach()
    centred, off = samples - middle, mean - middle
    if weights is None:
        moment = population.total(centred.mT @ centred) / population.count(side, samples)
    else:
        mass = weights.to(samples.dtype).unsqueeze(-1)  # (..., n, 1)
        centred = torch.where(mass > 0, centred, 0)
        moment = population.total(centred.mT @ (mass * centred)) / population.total(
            mass.sum(dim=-2, keepdim=True)
        )
    return moment - off.mT @ off
