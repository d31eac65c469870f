"""Whose samples are counted: one process that has them all, or several that have a share each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import torch
from torch import Tensor

SideName = Literal["x", "y"]
Returned = TypeVar("Returned")


class Population:
    """Computes reductions over all samples: here those of a single process, which holds all of them.

    Whatever depends on all samples (a sum, a largest entry, a random draw) asks the population of its problem,
    `Problem.population`. A subclass for several processes returns the result for the samples of all of them, the same
    on each process. All processes have to call its methods in the same order.

    >>> Population().largest_entry(torch.tensor([[1.0, -3.0], [2.0, 0.0]]))
    tensor([[3.]])
    """

    def agreed(self, tensor: Tensor) -> Tensor:
        """Return a tensor that must be the same on all processes, as the first process has it.

        Args:
            tensor: a tensor of any shape, the same shape on all processes.

        Returns:
            The tensor of the first process.
        """
        return tensor

    def together(self, what: str, call: Callable[[], Returned]) -> Returned:
        """Call what may raise on one process alone, such as a part of a caller's own: then all processes raise.

        Args:
            what: its name, for the message.
            call: computes without the other processes.

        Returns:
            What the call returns.

        Raises:
            ValueError: if the call of another process raised; the message says which, and its error.
        """
        return call()

    def total(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over processes.

        What is computed from the sum must be the same on each process: the gradient of the sum is passed back
        unchanged.

        Args:
            tensor: the summand of this process, of any shape.

        Returns:
            The sum, of the same shape.
        """
        return tensor

    def largest_entry(self, tensor: Tensor) -> Tensor:
        """Compute the largest absolute value in the last two dimensions, over processes.

        Args:
            tensor: a tensor (..., n, d).

        Returns:
            The largest absolute value, (..., 1, 1).
        """
        return tensor.abs().amax(dim=(-2, -1), keepdim=True)

    def stacked(self, rows: Tensor) -> Tensor:
        """Return rows that have the Gram matrix of the rows of all processes.

        Use it for a singular value decomposition of all samples: singular values and right singular vectors are the
        same.

        Args:
            rows: the rows of this process, (..., n, d).

        Returns:
            Rows (..., k, d), whose Gram matrix (..., d, d) is that of all rows.
        """
        return rows

    def count(self, side: SideName, samples: Tensor) -> int:
        """Count the samples of one side, padding included.

        Args:
            side: "x" or "y".
            samples: the samples of this process, (..., n, d).

        Returns:
            The number of samples on all processes.
        """
        return samples.shape[-2]

    def at(self, side: SideName, samples: Tensor, weights: Tensor | None, level: Tensor) -> Tensor:
        """Return the samples of one side at given levels of their cumulative weights.

        Args:
            side: "x" or "y".
            samples: the samples of this process, (..., n, d).
            weights: their weights, (n,) or (*batch, n). None is equal weights.
            level: levels in [0, 1), (*batch, k). Each sample spans an interval as long as its weight.

        Returns:
            The samples, (*batch, k, d).
        """
        return rows_at(level, samples, weights)

    def swapped(self) -> Population:
        """Return the same population with x and y exchanged."""
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
