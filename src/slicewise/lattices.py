"""Evenly spread directions: fixed sets of points, each made once."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor
from torch.nn.functional import normalize as unit


def points(n: int, d: int, device: torch.device) -> Tensor:
    """n directions of R^d (d >= 3) for a random rotation to turn."""
    if device.type != "cpu":
        return _kept(n, d, device)
    return fibonacci(n) if d == 3 else repelling(n, d) if n <= 512 else sobol(n, d)


@functools.cache  # for good: a captured graph may read them at any time
def _kept(n: int, d: int, device: torch.device) -> Tensor:
    return points(n, d, torch.device("cpu")).to(device)


@functools.lru_cache(maxsize=32)
def fibonacci(n: int) -> Tensor:
    """n points of a Fibonacci spiral on the half sphere."""
    index = torch.arange(n, dtype=torch.float64)
    z = (index + 0.5) / n  # the half sphere
    angle = math.pi * (3 - math.sqrt(5)) * index
    radius = torch.sqrt(1 - z * z)
    return torch.stack([radius * angle.cos(), radius * angle.sin(), z], dim=-1)


@functools.lru_cache(maxsize=32)
def repelling(n: int, d: int) -> Tensor:
    """n lines that minimise Σ exp(4 cos²): all even moments near those of the uniform law.

    Always the same for the same n and d; the chance of a call is in the rotation alone.
    """
    generator = torch.Generator().manual_seed(0)
    lines = unit(torch.randn(n, d, generator=generator, dtype=torch.float64), dim=-1)
    n_steps = 300  # enough for four digits of the energy's minimum, in 20 ms for n = 50
    for i in range(n_steps):
        cosine = lines @ lines.mT
        force = (cosine * torch.exp(4 * cosine * cosine)) @ lines
        force = force - (force * lines).sum(dim=-1, keepdim=True) * lines
        largest = torch.linalg.vector_norm(force, dim=-1).max().clamp(min=1e-300)
        lines = unit(lines - 0.3 * (1 - i / n_steps) ** 2 / largest * force, dim=-1)
    return lines


@functools.lru_cache(maxsize=32)
def sobol(n: int, d: int) -> Tensor:
    """n scrambled Sobol points through the normal quantile function."""
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
