"""Directions: how to draw unit vectors from the laws that slicing uses.

Every function takes the full shape wanted, (*batch, L, d), and a `Randomness`; rows are directions.
All draws take a fixed number of steps, so that they can be captured in a CUDA graph.
"""

from __future__ import annotations

import functools
import math
from contextlib import nullcontext

import torch
from torch import Tensor

from slicewise.sampling.generators import Randomness, first_accepted
from slicewise.sampling.point_sets import points
from slicewise.support import kernels_for, needs_gradient, one_thread

Shape = tuple[int, ...]
Number = float | Tensor
Law = tuple[Number, Number, Number]

# The acceptance rate of Ulrich's and Wood's proposal is lowest for d = 2 and kappa to infinity,
# sqrt(pi / 2e) = 0.658 (other d and kappa measured: 0.66 to 1). 32 rounds leave a draw without an
# accepted proposal with probability at most 0.342^32 < 2e-15.
_VMF_ROUNDS = 32

_TORCH_SERIAL = 32_768


def normalize(vectors: Tensor) -> Tensor:
    """Rows scaled to length one; a zero row becomes the first axis, so no NaN can arise."""
    kernels = kernels_for(vectors)
    if kernels is not None:
        return kernels.normalize(vectors)
    # Scaling by the largest entry first keeps the squares from over- and underflowing.
    largest = vectors.detach().abs().amax(dim=-1, keepdim=True)
    scaled = vectors / torch.where(largest > 0, largest, 1)
    norm = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    unit = scaled / torch.where(norm > 0, norm, 1)
    axis = torch.zeros_like(vectors)
    axis[..., 0] = 1
    return torch.where(largest == 0, axis, unit)


def orthonormalize(frames: Tensor) -> Tensor:
    """Rows made orthonormal in order, as by Gram–Schmidt: the first keeps its direction."""
    kernels = kernels_for(frames)
    if kernels is not None:
        return kernels.orthonormalize(frames)
    q, r = torch.linalg.qr(frames.mT)
    signs = torch.where(torch.diagonal(r, dim1=-2, dim2=-1) < 0, -1, 1).to(q.dtype)
    return (q * signs.unsqueeze(-2)).mT


def uniform(shape: Shape, rng: Randomness, dtype: torch.dtype = torch.float64) -> Tensor:
    """Independent directions, uniform on the sphere."""
    if rng.fused is not None:
        return rng.fused.directions(shape, dtype)
    # Up to so many numbers torch uses one thread by itself.
    with one_thread(rng.device) if math.prod(shape) > _TORCH_SERIAL else nullcontext():
        draw = rng.normal(*shape).to(dtype)
        if shape[-1] == 1:
            return torch.where(draw < 0, -1, 1).to(dtype)
        # Normal draws are neither huge nor all zero: no need for the care of `normalize`. And they are ours
        # to overwrite, which for large d saves a third of the time.
        return draw.div_(torch.linalg.vector_norm(draw, dim=-1, keepdim=True))


def orthonormal(shape: Shape, rng: Randomness, dtype: torch.dtype = torch.float64) -> Tensor:
    """Haar-distributed orthonormal frames, stacked when more rows than dimensions are wanted.

    Each row alone is uniform on the sphere; the last frame is cut when d does not divide L.
    """
    *batch, n, d = shape
    size = min(n, d)
    n_frames = -(-n // size)
    frames = orthonormalize(rng.normal(*batch, n_frames, size, d).to(dtype))
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
    turned = points(n, d, rng.device) @ rotation(tuple(batch), d, rng, torch.float64)
    return normalize(turned.to(dtype))


def orthogonal_to(directions: Tensor, rng: Randomness) -> Tensor:
    """For each direction, one drawn uniformly among the unit vectors orthogonal to it (d >= 2)."""
    if rng.fused is not None and not needs_gradient(directions):
        return rng.fused.orthogonal_to(directions)
    draw = rng.normal(*directions.shape).to(directions.dtype)
    # Twice: when the draw is nearly parallel, what the first pass leaves is mostly rounding.
    for _ in range(2):
        draw = normalize(draw - (draw * directions).sum(dim=-1, keepdim=True) * directions)
    return draw


def von_mises_fisher(directions: Tensor, kappa: Number, rng: Randomness) -> Tensor:
    """One draw of density ∝ exp(kappa · cos) around each of the directions (..., d), exactly.

    Differentiable in the directions: the angle to them is drawn independently of where they point.

    G. Ulrich, Computer generation of distributions on the m-sphere, 1984; A. T. A. Wood, Simulation
    of the von Mises–Fisher distribution, 1994.
    """
    d = directions.shape[-1]
    if d == 1:
        return directions
    return vmf_around(directions, vmf_law(kappa, vmf_proposal(kappa, d), d), rng)


def vmf_proposal(kappa: Number, d: int) -> Number:
    """The shape b of Ulrich's and Wood's proposal that fits best."""
    # (c − 2 kappa) / (d − 1) without the cancellation.
    return (d - 1) / (2 * kappa + (4 * kappa * kappa + (d - 1) ** 2) ** 0.5)


def vmf_law(kappa: Number, b: Number, d: int) -> Law:
    """(a, b, shift): the numbers of the rejection step."""
    a = (d - 1 + 2 * kappa + (4 * kappa * kappa + (d - 1) ** 2) ** 0.5) / 4
    return a, b, 4 * a * b / (1 + b) - (d - 1) * math.log(d - 1)


def vmf_around(directions: Tensor, law: Law, rng: Randomness) -> Tensor:
    """One draw around each of the directions, by a law with its proposal (d >= 2)."""
    if rng.fused is not None and not needs_gradient(directions):
        return rng.fused.around(directions, _on_device(law, directions.device))
    cosine = vmf_cosine(directions.shape[:-1], law, directions.shape[-1], rng)
    return around(directions, cosine, rng)


def vmf_cosine(shape: Shape, law: Law, d: int, rng: Randomness) -> Tensor:
    """Cosines to the mean direction by rejection, in float64."""
    a, b, shift = law
    # Symmetric Beta((d − 1)/2) numbers are (1 + coordinate of a uniform point of the sphere) / 2,
    # and such a coordinate is a generalised Box–Muller draw: radius by angle.
    u, v, w = rng.uniform(*shape, 3, _VMF_ROUNDS).unbind(dim=-2)
    radius = torch.sqrt(1 - u ** (2 / (d - 2))) if d > 2 else torch.ones_like(u)
    beta = (1 + radius * torch.cos(2 * math.pi * v)) / 2
    spread = 1 - (1 - b) * beta
    cosine = (1 - (1 + b) * beta) / spread
    s = 2 * a * b / spread
    return first_accepted(cosine, (d - 1) * torch.log(s) - s + shift >= torch.log(1 - w))


def power_spherical(directions: Tensor, kappa: Number, rng: Randomness) -> Tensor:
    """One draw of density ∝ (1 + cos)^kappa around each of the directions (..., d), without rejection.

    Mean cosine kappa / (kappa + d − 1): near its mode it is as concentrated as vMF(kappa / 2).

    N. De Cao, W. Aziz, The power spherical distribution, 2020.
    """
    *shape, d = directions.shape
    if d == 1:
        return directions
    half = (d - 1) / 2
    if rng.fused is not None and not needs_gradient(directions):
        law = _on_device((half + kappa, half), directions.device)
        return rng.fused.power_around(directions, law, boost=half < 1)
    above, below = (rng.gamma(a, *shape, boost=half < 1) for a in (half + kappa, half))
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
    return normalize(cosine * directions + sine * side)


def _on_device(law: tuple[Number, ...], device: torch.device) -> Tensor:
    constant = [number for number in law if not isinstance(number, Tensor)]
    if len(constant) == len(law):
        return _constants(tuple(constant), device)
    return torch.stack([n if isinstance(n, Tensor) else _constants((n,), device)[0] for n in law])


@functools.cache
def _constants(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    """Numbers that stay on a device for good: a captured graph may read them at any time."""
    return torch.tensor(numbers, dtype=torch.float64, device=device)
