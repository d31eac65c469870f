"""Directions: how to draw unit vectors from the laws that slicing uses.

Every function takes the full shape wanted, (*batch, L, d), and a `Randomness`; rows are directions.
All draws take a fixed number of steps, so that they can be captured in a CUDA graph.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from slicewise.randomness import Randomness, first_accepted

Shape = tuple[int, ...]

# The acceptance rate of Ulrich's and Wood's proposal is lowest for d = 2 and kappa to infinity,
# sqrt(pi / 2e) = 0.658 (other d and kappa measured: 0.66 to 1). 32 rounds leave a draw without an
# accepted proposal with probability at most 0.342^32 < 2e-15.
_VMF_ROUNDS = 32


def normalise(vectors: Tensor) -> Tensor:
    """Rows scaled to length one; a zero row becomes the first axis, so no NaN can arise."""
    # Scaling by the largest entry first keeps the squares from over- and underflowing.
    largest = vectors.detach().abs().amax(dim=-1, keepdim=True)
    scaled = vectors / torch.where(largest > 0, largest, 1)
    norm = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    unit = scaled / torch.where(norm > 0, norm, 1)
    axis = torch.zeros_like(vectors)
    axis[..., 0] = 1
    return torch.where(largest == 0, axis, unit)


def orthonormalise(frames: Tensor) -> Tensor:
    """Rows made orthonormal in order, as by Gram–Schmidt: the first keeps its direction."""
    q, r = torch.linalg.qr(frames.mT)
    signs = torch.where(torch.diagonal(r, dim1=-2, dim2=-1) < 0, -1, 1).to(q.dtype)
    return (q * signs.unsqueeze(-2)).mT


def uniform(shape: Shape, rng: Randomness, dtype: torch.dtype = torch.float64) -> Tensor:
    """Independent directions, uniform on the sphere."""
    draw = rng.normal(*shape).to(dtype)
    if shape[-1] == 1:
        return torch.where(draw < 0, -1, 1).to(dtype)
    # Normal draws are neither huge nor all zero: no need for the care of `normalise`. And they are ours
    # to overwrite, which for large d saves a third of the time.
    return draw.div_(torch.linalg.vector_norm(draw, dim=-1, keepdim=True))


def orthonormal(shape: Shape, rng: Randomness, dtype: torch.dtype = torch.float64) -> Tensor:
    """Haar-distributed orthonormal frames, stacked when more rows than dimensions are wanted.

    Each row alone is uniform on the sphere; the last frame is cut when d does not divide L.
    """
    *batch, n, d = shape
    size = min(n, d)
    n_frames = -(-n // size)
    frames = orthonormalise(rng.normal(*batch, n_frames, size, d).to(dtype))
    return frames.reshape(*batch, n_frames * size, d)[..., :n, :]


def rotation(batch: Shape, d: int, rng: Randomness, dtype: torch.dtype = torch.float64) -> Tensor:
    """A Haar-distributed orthogonal matrix for each element of the batch, (*batch, d, d)."""
    return orthonormal((*batch, d, d), rng, dtype)


def low_discrepancy(shape: Shape, rng: Randomness, dtype: torch.dtype = torch.float64) -> Tensor:
    """Evenly spread directions under one random rotation for each element of the batch.

    Equispaced angles on the half circle (d = 2), a Fibonacci lattice on the half sphere (d = 3; a
    slice and its negative price the same), else lines that repel each other; for more than 512 of them
    Sobol points through the normal quantile function.
    The rotation makes each row uniform on the sphere, so averages over rows are unbiased.
    """
    *batch, n, d = shape
    if d == 1:
        return torch.ones(shape, dtype=dtype, device=rng.device)
    if d == 2:
        offset = rng.uniform(*batch, 1)
        angle = math.pi / n * (torch.arange(n, device=rng.device) + offset)  # (*batch, n)
        return torch.stack([angle.cos(), angle.sin()], dim=-1).to(dtype)
    lattice = _fibonacci(n) if d == 3 else _repelling(n, d) if n <= 512 else _sobol(n, d)
    points = lattice.to(rng.device)
    return normalise((points @ rotation(tuple(batch), d, rng, torch.float64)).to(dtype))


def orthogonal_to(directions: Tensor, rng: Randomness) -> Tensor:
    """For each direction, one drawn uniformly among the unit vectors orthogonal to it (d >= 2)."""
    draw = rng.normal(*directions.shape).to(directions.dtype)
    # Twice: when the draw is nearly parallel, what the first pass leaves is mostly rounding.
    for _ in range(2):
        draw = normalise(draw - (draw * directions).sum(dim=-1, keepdim=True) * directions)
    return draw


def von_mises_fisher(directions: Tensor, kappa: float, rng: Randomness) -> Tensor:
    """One draw of density ∝ exp(kappa · cos) around each of the directions (..., d), exactly.

    Differentiable in the directions: the angle to them is drawn independently of where they point.

    G. Ulrich, Computer generation of distributions on the m-sphere, 1984; A. T. A. Wood, Simulation
    of the von Mises–Fisher distribution, 1994.
    """
    d = directions.shape[-1]
    if d == 1:
        return directions
    c = math.hypot(2 * kappa, d - 1)
    # (c − 2 kappa) / (d − 1) without the cancellation.
    b = (d - 1) / (2 * kappa + c)
    return around(directions, vmf_cosine(directions.shape[:-1], kappa, b, d, rng), rng)


def vmf_cosine(shape: Shape, kappa: float, b: float, d: int, rng: Randomness) -> Tensor:
    """Cosines to the mean direction by rejection, in float64; `b` shapes the proposal."""
    a = (d - 1 + 2 * kappa + math.hypot(2 * kappa, d - 1)) / 4
    shift = 4 * a * b / (1 + b) - (d - 1) * math.log(d - 1)
    # Symmetric Beta((d − 1)/2) numbers are (1 + coordinate of a uniform point of the sphere) / 2,
    # and such a coordinate is a generalised Box–Muller draw: radius by angle.
    u, v, w = rng.uniform(*shape, 3, _VMF_ROUNDS).unbind(dim=-2)
    radius = torch.sqrt(1 - u ** (2 / (d - 2))) if d > 2 else torch.ones_like(u)
    beta = (1 + radius * torch.cos(2 * math.pi * v)) / 2
    spread = 1 - (1 - b) * beta
    cosine = (1 - (1 + b) * beta) / spread
    s = 2 * a * b / spread
    return first_accepted(cosine, (d - 1) * torch.log(s) - s + shift >= torch.log(1 - w))


def power_spherical(directions: Tensor, kappa: float, rng: Randomness) -> Tensor:
    """One draw of density ∝ (1 + cos)^kappa around each of the directions (..., d), without rejection.

    Mean cosine kappa / (kappa + d − 1): near its mode it is as concentrated as vMF(kappa / 2).

    N. De Cao, W. Aziz, The power spherical distribution, 2020.
    """
    *shape, d = directions.shape
    if d == 1:
        return directions
    half = (d - 1) / 2
    above, below = rng.gamma(half + kappa, *shape), rng.gamma(half, *shape)
    # 2 Beta − 1 as a quotient of gammas: no cancellation near cos = ±1.
    cosine = (above - below) / (above + below)
    sine = 2 * torch.sqrt(above * below) / (above + below)
    return around(directions, cosine, rng, sine)


def power_spherical_log_density(cosine: Tensor, kappa: float, d: int) -> Tensor:
    """Log-density of the power-spherical law relative to the uniform one, at given cosines."""
    # E over the sphere of (1 + cos)^kappa, by the Beta law of (1 + cos) / 2.
    half = (d - 1) / 2
    log_mean = (
        kappa * math.log(2)
        + math.lgamma(half + kappa)
        - math.lgamma(half)
        + math.lgamma(2 * half)
        - math.lgamma(2 * half + kappa)
    )
    return kappa * torch.log1p(cosine.clamp(min=-1)) - log_mean


def around(
    directions: Tensor, cosine: Tensor, rng: Randomness, sine: Tensor | None = None
) -> Tensor:
    """Directions at a given cosine from the given ones, turned about them uniformly."""
    if sine is None:
        sine = torch.sqrt((1 - cosine) * (1 + cosine))
    side = orthogonal_to(directions, rng)
    cosine, sine = (t.to(directions.dtype).unsqueeze(-1) for t in (cosine, sine))
    # Renormalise: along a chain of draws rounding would otherwise accumulate.
    return normalise(cosine * directions + sine * side)


@functools.lru_cache(maxsize=32)
def _fibonacci(n: int) -> Tensor:
    index = torch.arange(n, dtype=torch.float64)
    z = (index + 0.5) / n  # the half sphere
    angle = math.pi * (3 - math.sqrt(5)) * index
    radius = torch.sqrt(1 - z * z)
    return torch.stack([radius * angle.cos(), radius * angle.sin(), z], dim=-1)


@functools.lru_cache(maxsize=32)
def _repelling(n: int, d: int) -> Tensor:
    """n lines that minimise Σ exp(4 cos²): all even moments near those of the uniform law.

    Always the same for the same n and d; the chance of a call is in the rotation alone.
    """
    generator = torch.Generator().manual_seed(0)
    lines = normalise(torch.randn(n, d, generator=generator, dtype=torch.float64))
    n_steps = 300  # enough for four digits of the energy's minimum, in 20 ms for n = 50
    for i in range(n_steps):
        cosine = lines @ lines.mT
        force = (cosine * torch.exp(4 * cosine * cosine)) @ lines
        force = force - (force * lines).sum(dim=-1, keepdim=True) * lines
        largest = torch.linalg.vector_norm(force, dim=-1).max().clamp(min=1e-300)
        lines = normalise(lines - 0.3 * (1 - i / n_steps) ** 2 / largest * force)
    return lines


@functools.lru_cache(maxsize=32)
def _sobol(n: int, d: int) -> Tensor:
    if d > torch.quasirandom.SobolEngine.MAXDIM:
        raise ValueError(
            f"low-discrepancy directions reach d = {torch.quasirandom.SobolEngine.MAXDIM}, "
            f"got d = {d}: use orthonormal directions"
        )
    # One fixed scramble: plain Sobol points start at a corner and at the centre, which have no
    # direction, and are correlated in high d. The chance of a call is in the rotation alone.
    engine = torch.quasirandom.SobolEngine(d, scramble=True, seed=0)
    points = engine.draw(n, dtype=torch.float64)
    return torch.special.ndtri(points.clamp(1e-12, 1 - 1e-12))
