"""How far apart two sets of latents are, by measures that need no plan: energy, Fréchet, spread."""

from __future__ import annotations

import torch
from torch import Tensor

# So many pairs of samples are compared at a time: 128 MB of distances in double precision.
_PAIRS = 2**24


def energy_distance(x: Tensor, y: Tensor) -> Tensor:
    """2 E‖X − Y‖ − E‖X − X'‖ − E‖Y − Y'‖ (*batch,) of x (*batch, n, d) and y (m, d), without a root.

    Without bias: a sample is not compared with itself, so that equal laws give 0 on average, and may give less.
    """
    return 2 * _apart(x, y) - _apart(x) - _apart(y)


def frechet_distance(x: Tensor, y: Tensor) -> Tensor:
    """‖m − m'‖² + tr(C + C' − 2 (C C')^½) (*batch,) of the means and covariances of x (*batch, n, d), y (m, d).

    With C = RᵀR and C' = SᵀS, from the QR factors of centred samples, tr (C C')^½ is the sum of the singular values
    of R Sᵀ. No covariance is formed and no root of a matrix taken, so that singular ones are as good as others.
    """
    (m, r), (n, s) = (mean_and_root(samples) for samples in (x, y))
    shared = torch.linalg.svdvals(r @ s.mT).sum(dim=-1)
    spread = r.square().sum(dim=(-2, -1)) + s.square().sum(dim=(-2, -1))
    return (m - n).square().sum(dim=-1) + (spread - 2 * shared).clamp_min(0)


def mean_and_root(samples: Tensor) -> tuple[Tensor, Tensor]:
    """The mean (*batch, d) of samples (*batch, n, d), and R (*batch, min(n, d), d) with RᵀR their covariance."""
    mean = samples.mean(dim=-2)
    centred = samples - mean.unsqueeze(-2)
    root = torch.linalg.qr(centred, mode="r").R
    return mean, root / (samples.shape[-2] - 1) ** 0.5


def total_variance(samples: Tensor) -> Tensor:
    """The trace of the covariance (*batch,) of samples (*batch, n, d)."""
    return samples.var(dim=-2).sum(dim=-1)


def _apart(x: Tensor, y: Tensor | None = None) -> Tensor:
    """The mean distance (*batch,) between samples of x and y, or between two different ones of x."""
    if x.dim() > 2:
        every = [_apart(one, y) for one in x.flatten(0, -3)]
        return torch.stack(every).reshape(x.shape[:-2])
    # Distances by products of matrices are many times faster; around the mean they round least.
    middle = x.mean(dim=0)
    x, others = x - middle, (x if y is None else y) - middle
    total = x.new_zeros(())
    at_once = max(1, _PAIRS // len(others))
    for start in range(0, len(x), at_once):
        distances = torch.cdist(x[start : start + at_once], others)
        if y is None:
            distances.diagonal(start).zero_()
        total += distances.sum()
    return total / (len(x) * (len(others) - (y is None)))
