"""What can be done without training: a constant, a Gaussian, one vector added, the Gaussian optimal map.

Every table of trained networks shows these beside, since a network that does no better has learned nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.judging.judging import Judge, Judgement, floor
from slicewise.judging.measures import mean_and_root

# Directions of a variance below this share of the largest are taken for empty.
_EMPTY = 1e-10


def constant(train: Tensor, n: int) -> Tensor:
    """The mean of the data, n times: what a collapsed generator answers."""
    return train.mean(dim=0).expand(n, -1)


def gaussian(train: Tensor, n: int, *, seed: int = 0) -> Tensor:
    """n samples of the Gaussian that has the data's mean and covariance."""
    mean, root = mean_and_root(train.double())
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(n, len(root), generator=generator, dtype=torch.float64)
    return (mean + noise.to(root.device) @ root).to(train.dtype)


def baselines(
    train: Tensor, held_out: Tensor, *, seed: int = 0, exact: bool = True
) -> dict[str, Judgement]:
    """Real data (the floor), a constant and a fitted Gaussian, as many samples as are held out, judged."""
    n, judge = len(held_out), Judge(held_out, seed)
    pair = [gaussian(train, n, seed=seed + k) for k in range(2 if exact else 1)]
    mean = constant(train, n)
    return {
        "real": floor(train, held_out, seed=seed, exact=exact),
        "constant mean": judge(mean, exact=exact, another=mean if exact else None),
        "Gaussian": judge(pair[0], exact=exact, another=pair[1] if exact else None),
    }


@dataclass(frozen=True, eq=False)
class Affine:
    """The map x ↦ centre + (x − origin) A, of samples (*batch, n, d)."""

    origin: Tensor  # (d,)
    centre: Tensor  # (d,)
    matrix: Tensor | None = None  # (d, d), symmetric; None is the identity

    def __call__(self, x: Tensor) -> Tensor:
        moved = x.to(self.origin) - self.origin
        if self.matrix is not None:
            moved = moved @ self.matrix
        return (self.centre + moved).to(x.dtype)


def mean_shift(source: Tensor, target: Tensor) -> Affine:
    """One vector for all: the difference of the means."""
    return Affine(source.double().mean(dim=0), target.double().mean(dim=0))


def gaussian_map(source: Tensor, target: Tensor) -> Affine:
    """The optimal map between the Gaussians of both means and covariances: A = C^-½ (C^½ C' C^½)^½ C^-½.

    Where the source has no variance nothing can be stretched: there, C^-½ is 0 and what is left is carried to the
    target's centre.
    """
    (m, r), (n, s) = (mean_and_root(samples.double()) for samples in (source, target))
    # From the factor R itself: its singular values are exact where the eigenvalues of C have lost half their digits.
    _, values, axes = torch.linalg.svd(r, full_matrices=False)
    kept = values > values[0] * _EMPTY**0.5
    values, axes = values[kept], axes[kept]  # C^½ = axesᵀ · values · axes
    # C^½ C' C^½ = BᵀB with B = S C^½; within the axes of C its root is V σ Vᵀ.
    _, sigma, v = torch.linalg.svd((s @ axes.mT) * values, full_matrices=False)
    scaled = (v / values) @ axes
    return Affine(m, n, scaled.mT @ (sigma.unsqueeze(-1) * scaled))
