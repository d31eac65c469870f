"""Distances between sets of samples that need no transport plan: energy and Fréchet distance, and the variance."""

from __future__ import annotations

import torch
from torch import Tensor

# Pairs of samples compared at a time: 128 MB of distances in double precision.
_PAIRS_AT_ONCE = 2**24


def energy_distance(x: Tensor, y: Tensor) -> Tensor:
    """Estimate the energy distance 2 E‖X − Y‖ − E‖X − X'‖ − E‖Y − Y'‖, without a root.

    The estimate is unbiased, since no sample is compared with itself: for equal distributions it is 0 on average and
    may be negative.

    Args:
        x: Samples (*batch, n, d).
        y: Samples (m, d).

    Returns:
        The distances (*batch,).

    Example:
        >>> energy_distance(torch.tensor([[0.0], [1.0]]), torch.tensor([[3.0], [4.0]]))
        tensor(4.)

    Reference:
        G. J. Székely, M. L. Rizzo, Energy statistics: a class of statistics based on distances, 2013.
    """
    return 2 * _mean_distance(x, y) - _mean_distance(x) - _mean_distance(y)


def frechet_distance(x: Tensor, y: Tensor) -> Tensor:
    """Compute the squared Fréchet distance ‖m − m'‖² + tr(C + C' − 2 (C C')^½) of means and covariances.

    With C = RᵀR and C' = SᵀS, from QR factors of centered samples, tr (C C')^½ is the sum of the singular values of
    R Sᵀ. No covariance is formed and no matrix root taken, so that singular covariances are no special case.

    Args:
        x: Samples (*batch, n, d), n ≥ 2.
        y: Samples (m, d), m ≥ 2.

    Returns:
        The distances (*batch,).

    Example:
        >>> x = torch.tensor([[0.0], [2.0]])
        >>> frechet_distance(x, x + 3).round(decimals=4)
        tensor(9.)

    Reference:
        D. C. Dowson, B. V. Landau, The Fréchet distance between multivariate normal distributions, 1982.
    """
    (m, r), (n, s) = (mean_and_root(samples) for samples in (x, y))
    shared = torch.linalg.svdvals(r @ s.mT).sum(dim=-1)
    spread = r.square().sum(dim=(-2, -1)) + s.square().sum(dim=(-2, -1))
    return (m - n).square().sum(dim=-1) + (spread - 2 * shared).clamp_min(0)


def mean_and_root(samples: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean (*batch, d) of samples (*batch, n, d), and R (*batch, min(n, d), d) with RᵀR their covariance.

    Example:
        >>> mean, root = mean_and_root(torch.tensor([[0.0], [2.0]]))
        >>> mean, root.square().round(decimals=4)
        (tensor([1.]), tensor([[2.]]))
    """
    mean = samples.mean(dim=-2)
    centered = samples - mean.unsqueeze(-2)
    root = torch.linalg.qr(centered, mode="r").R
    return mean, root / (samples.shape[-2] - 1) ** 0.5


def total_variance(samples: Tensor) -> Tensor:
    """Return the trace of the covariance (*batch,) of samples (*batch, n, d).

    Example:
        >>> total_variance(torch.tensor([[0.0, 1.0], [2.0, 1.0]]))
        tensor(2.)
    """
    return samples.var(dim=-2).sum(dim=-1)


def _mean_distance(x: Tensor, y: Tensor | None = None) -> Tensor:
    """The mean distance (*batch,) between samples of x and y, or between two different ones of x."""
    if x.dim() > 2:
        every = [_mean_distance(one, y) for one in x.flatten(0, -3)]
        return torch.stack(every).reshape(x.shape[:-2])
    # Distances by matrix products are many times faster; around the mean they round least.
    middle = x.mean(dim=0)
    x, others = x - middle, (x if y is None else y) - middle
    total = x.new_zeros(())
    at_once = max(1, _PAIRS_AT_ONCE // len(others))
    for start in range(0, len(x), at_once):
        distances = torch.cdist(x[start : start + at_once], others)
        if y is None:
            distances.diagonal(start).zero_()
        total += distances.sum()
    return total / (len(x) * (len(others) - (y is None)))
