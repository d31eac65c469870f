"""Evenly spread directions: fixed sets of points, each made once."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize as unit

_MOST_CHARGES = 4096
Points = Literal["sobol", "spiral", "equal_area", "coulomb"]
KINDS: tuple[Points, ...] = ("sobol", "spiral", "equal_area", "coulomb")


def _apart(make: Callable[[int, int], Tensor]) -> Callable[[int, int], Tensor]:
    """Make points in a thread of their own: what is kept must not be made under a caller's vmap, which is a thread's."""

    @functools.wraps(make)
    def made(n: int, d: int) -> Tensor:
        with ThreadPoolExecutor(max_workers=1) as other:
            return other.submit(make, n, d).result()

    return made


def points(n: int, d: int, device: torch.device) -> Tensor:
    """n directions of R^d (d >= 3) for a random rotation to turn."""
    if device.type != "cpu":
        return _kept(n, d, device)
    return fibonacci(n) if d == 3 else repelling(n, d) if n <= 512 else sobol(n, d)


def unfit_for(kind: Points, d: int) -> str | None:
    """Why there are no such points in d dimensions; None if there are."""
    if kind != "sobol" and d != 3:
        return (
            f"points = {kind!r} lie on the sphere of R^3, but samples have d = {d}: use points='sobol', which there "
            f"are in any dimension"
        )
    if kind == "sobol" and d > torch.quasirandom.SobolEngine.MAXDIM:
        return _beyond_sobol(d)
    return None


def _beyond_sobol(d: int) -> str:
    return (
        f"low-discrepancy directions reach d = {torch.quasirandom.SobolEngine.MAXDIM}, got d = {d}: use orthonormal "
        f"directions ('orthosw')"
    )


def directions(kind: Points, n: int, d: int, device: torch.device) -> Tensor:
    """n directions of R^d by the name of how they are spread; all but "sobol" live in R^3."""
    if device.type != "cpu":
        return _kept_directions(kind, n, d, device)
    return sobol(n, d) if kind == "sobol" else _ON_THE_SPHERE[kind](n)


@functools.cache  # for good: a captured graph may read them at any time
def _kept(n: int, d: int, device: torch.device) -> Tensor:
    return points(n, d, torch.device("cpu")).to(device)


@functools.cache
def _kept_directions(kind: Points, n: int, d: int, device: torch.device) -> Tensor:
    return directions(kind, n, d, torch.device("cpu")).to(device)


@functools.lru_cache(maxsize=32)
def fibonacci(n: int) -> Tensor:
    """n points of a Fibonacci spiral on the half sphere."""
    index = torch.arange(n, dtype=torch.float64)
    angle = math.pi * (3 - math.sqrt(5)) * index
    return _at_height((index + 0.5) / n, angle)  # the half sphere


@functools.lru_cache(maxsize=32)
def spiral(n: int) -> Tensor:
    """n points of the generalised spiral on the whole sphere (Rakhmanov, Saff, Zhou, 1994)."""
    z = 1 - (2 * torch.arange(1, n + 1, dtype=torch.float64) - 1) / n
    return _at_height(z, 1.8 * math.sqrt(n) * torch.arccos(z))


@functools.lru_cache(maxsize=32)
def equal_area(n: int) -> Tensor:
    """n Sobol points of the unit square on the sphere by the map that keeps areas (Lambert's)."""
    square = torch.quasirandom.SobolEngine(2).draw(n, dtype=torch.float64)
    return _at_height(1 - 2 * square[:, 1], 2 * math.pi * square[:, 0])


@functools.lru_cache(maxsize=32)
def coulomb(n: int) -> Tensor:
    """n points that repel each other as charges do: the spiral, relaxed to a minimum of Σ 1 / distance."""

    if n > _MOST_CHARGES:
        raise ValueError(
            f"points = 'coulomb' for n_slices = {n}: at most {_MOST_CHARGES}, as each repels each other; use "
            f"points='spiral', which is as even"
        )

    def force(charges: Tensor) -> Tensor:
        squares = (2 - 2 * charges @ charges.mT).fill_diagonal_(math.inf)
        inverse = squares.clamp(min=1e-30).pow(-1.5)  # 1 / distance³
        return inverse @ charges  # less a part along each charge, which has no say on the sphere

    # Neighbours are about 3.8 / √n apart: a step is a small part of that.
    return _relaxed(spiral(n), force, step=0.3 / math.sqrt(n), n_steps=200)


@functools.lru_cache(maxsize=32)
@_apart
def repelling(n: int, d: int) -> Tensor:
    """n lines that minimise Σ exp(4 cos²): all even moments near those of the uniform law.

    Always the same for the same n and d; the chance of a call is in the rotation alone.
    """
    generator = torch.Generator().manual_seed(0)
    lines = unit(torch.randn(n, d, generator=generator, dtype=torch.float64), dim=-1)

    def force(lines: Tensor) -> Tensor:
        cosine = lines @ lines.mT
        return (cosine * torch.exp(4 * cosine * cosine)) @ lines

    # Enough for four digits of the energy's minimum, in 20 ms for n = 50.
    return _relaxed(lines, force, step=0.3, n_steps=300)


@functools.lru_cache(maxsize=32)
@_apart
def sobol(n: int, d: int) -> Tensor:
    """n scrambled Sobol points through the normal quantile function."""
    if d > torch.quasirandom.SobolEngine.MAXDIM:
        raise ValueError(_beyond_sobol(d))
    # One fixed scramble: plain Sobol points start at a corner and at the centre, which have no
    # direction, and are correlated in high d. The chance of a call is in the rotation alone.
    engine = torch.quasirandom.SobolEngine(d, scramble=True, seed=0)
    points = engine.draw(n, dtype=torch.float64)
    return torch.special.ndtri(points.clamp(1e-12, 1 - 1e-12))


_ON_THE_SPHERE: dict[str, Callable[[int], Tensor]] = {
    "spiral": spiral,
    "equal_area": equal_area,
    "coulomb": coulomb,
}


def _at_height(z: Tensor, angle: Tensor) -> Tensor:
    radius = torch.sqrt(1 - z * z)
    return torch.stack([radius * angle.cos(), radius * angle.sin(), z], dim=-1)


def _relaxed(
    start: Tensor, force: Callable[[Tensor], Tensor], *, step: float, n_steps: int
) -> Tensor:
    """Unit rows moved against a force along the sphere, the largest of each step by `step`, ever less."""
    rows = start
    for i in range(n_steps):
        pull = force(rows)
        pull = pull - (pull * rows).sum(dim=-1, keepdim=True) * rows
        largest = torch.linalg.vector_norm(pull, dim=-1).max().clamp(min=1e-300)
        rows = unit(rows - step * (1 - i / n_steps) ** 2 / largest * pull, dim=-1)
    return rows
