"""Baselines that need no training: a constant, a Gaussian, a shift by the means, the optimal map between Gaussians.

A table of trained networks shows these beside them: a network that scores no better has learned nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.judging.judging import Judge, Scores, mean_over_subsets
from slicewise.judging.measures import mean_and_root
from slicewise.sampling import one_generator
from slicewise.support import renamed_arguments

# Directions with less than this fraction of the largest variance count as empty.
_EMPTY = 1e-10


def constant(train: Tensor, n: int) -> Tensor:
    """Repeat the mean of samples (m, d) n times, (n, d): what a collapsed generator makes.

    Example:
        >>> constant(torch.tensor([[0.0], [2.0]]), 3).tolist()
        [[1.0], [1.0], [1.0]]
    """
    return train.mean(dim=0).expand(n, -1)


@renamed_arguments(seed="generator")
def gaussian(train: Tensor, n: int, *, generator: int | torch.Generator | None = 0) -> Tensor:
    """Draw samples of the Gaussian with the mean and covariance of samples.

    Args:
        train: Samples (m, d).
        n: How many to draw.
        generator: Draws them: an int (a seed), a `torch.Generator`, or None for torch's global generator.

    Returns:
        Samples (n, d), of the dtype and on the device of `train`.

    Example:
        >>> gaussian(torch.randn(50, 3), 20).shape
        torch.Size([20, 3])
    """
    mean, root = mean_and_root(train.double())
    source = one_generator(generator)
    device = None if source is None else source.device
    noise = torch.randn(n, len(root), generator=source, dtype=torch.float64, device=device)
    return (mean + noise.to(root.device) @ root).to(train.dtype)


@renamed_arguments(seed="generator")
def baselines(
    train: Tensor,
    held_out: Tensor,
    *,
    generator: int | torch.Generator | None = 0,
    exact: bool = True,
) -> dict[str, Scores]:
    """Score what needs no training, with as many samples as are held out.

    Args:
        train: Samples (n, d), at least as many as are held out.
        held_out: Held-out samples (m, d).
        generator: Draws slices and samples; see `Judge`.
        exact: Compute the exact W_2 as well.

    Returns:
        Scores of "real" samples, of the "constant mean" and of a fitted "Gaussian".

    Example:
        >>> real = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
        >>> found = baselines(real[:200], real[200:])
        >>> found["Gaussian"].sw2 < found["constant mean"].sw2
        True
    """
    n, judge = len(held_out), Judge(held_out, generator)
    # Two sets that differ: an int is the same draw every time.
    sources = [
        generator if generator is None or isinstance(generator, torch.Generator) else generator + k
        for k in range(2 if exact else 1)
    ]
    pair = [gaussian(train, n, generator=source) for source in sources]
    mean = constant(train, n)
    return {
        "real": mean_over_subsets(train, judge, 3, one_generator(generator), exact=exact),
        "constant mean": judge(mean, exact=exact, another=mean if exact else None),
        "Gaussian": judge(pair[0], exact=exact, another=pair[1] if exact else None),
    }


@dataclass(frozen=True, eq=False)
class AffineMap:
    """The map x ↦ center + (x − origin) A of samples (*batch, n, d).

    Attributes:
        origin: (d,).
        center: (d,).
        matrix: A, (d, d), symmetric; None is the identity.
    """

    origin: Tensor
    center: Tensor
    matrix: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        moved = x.to(self.origin) - self.origin
        if self.matrix is not None:
            moved = moved @ self.matrix
        return (self.center + moved).to(x.dtype)


def mean_shift(source: Tensor, target: Tensor) -> AffineMap:
    """Return the map that adds the difference of the means of target (m, d) and source (n, d).

    Example:
        >>> mean_shift(torch.zeros(2, 1), torch.ones(3, 1))(torch.tensor([[5.0]]))
        tensor([[6.]])
    """
    return AffineMap(source.double().mean(dim=0), target.double().mean(dim=0))


def gaussian_map(source: Tensor, target: Tensor) -> AffineMap:
    """Return the optimal map between the Gaussians with the means and covariances of two sets of samples.

    Its matrix is A = C^-½ (C^½ C' C^½)^½ C^-½ with the covariances C of the source and C' of the target. Where the
    source has no variance, C^-½ is taken as 0: these directions go to the center of the target.

    Args:
        source: Samples (n, d).
        target: Samples (m, d).

    Returns:
        The map.

    Example:
        >>> x = torch.tensor([[-1.0], [1.0]])
        >>> gaussian_map(x, 3 * x + 2)(x).flatten().round(decimals=6)
        tensor([-1.,  5.])
    """
    (m, r), (n, s) = (mean_and_root(samples.double()) for samples in (source, target))
    # By the SVD of the factor R: the eigenvalues of C itself would have lost half their digits.
    _, values, axes = torch.linalg.svd(r, full_matrices=False)
    kept = values > values[0] * _EMPTY**0.5
    values, axes = values[kept], axes[kept]  # C^½ = axesᵀ · values · axes
    # C^½ C' C^½ = BᵀB with B = S C^½; within the axes of C its root is V σ Vᵀ.
    _, sigma, v = torch.linalg.svd((s @ axes.mT) * values, full_matrices=False)
    scaled = (v / values) @ axes
    return AffineMap(m, n, scaled.mT @ (sigma.unsqueeze(-1) * scaled))
