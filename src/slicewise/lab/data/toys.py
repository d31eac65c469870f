"""Toy targets of the plane: the Swiss roll, eight Gaussians and a knot, also rotated into R^d."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.lab import names
from slicewise.sampling import Randomness, rotation


@dataclass(frozen=True, eq=False)
class ToyPair:
    """Two sets of samples and their names."""

    name: str
    x: Tensor  # (n, d)
    y: Tensor  # (m, d)
    x_name: str
    y_name: str


def swiss(n: int, generator: torch.Generator) -> Tensor:
    """Draw a Swiss roll (n, 2) of one and a half turns without noise, scaled to a largest coordinate of 1."""
    t = 1.5 * math.pi * (1 + 2 * torch.rand(n, generator=generator, dtype=torch.float64))
    roll = torch.stack([t * t.cos(), t * t.sin()], dim=-1)
    return roll / roll.abs().max()


def eight_gaussians(n: int, generator: torch.Generator) -> Tensor:
    """Draw (n, 2) from eight Gaussians of std 0.02/√2 on a circle of radius √2, each sample from a random one."""
    mode = torch.randint(8, (n,), generator=generator) * (math.pi / 4)
    centers = 2 * torch.stack([mode.cos(), mode.sin()], dim=-1).double()
    noise = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    return (centers + 0.02 * noise) / 1.414


def knot(n: int, generator: torch.Generator) -> Tensor:
    """Return the rose r = sin(πl) at n equal angles l of one turn, (n, 2); nothing is random."""
    angle = 2 * math.pi * torch.arange(n, dtype=torch.float64) / n
    radius = torch.sin(math.pi * angle)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1)


TOYS: dict[str, Callable[[int, torch.Generator], Tensor]] = dict(
    zip(names.TOYS, (swiss, eight_gaussians, knot), strict=True)
)


def toy(name: str, n: int = 300, d: int = 2, seed: int = 0) -> ToyPair:
    """Return a standard normal cloud of the plane and a toy target, both rotated into R^d by one random rotation."""
    generator = torch.Generator().manual_seed(seed)
    target = TOYS[name](n, generator)
    source = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    turn = torch.eye(2, dtype=torch.float64)
    if d > 2:
        turn = rotation((), d, Randomness(generator, torch.device("cpu")))[:2]
    return ToyPair(f"{name}, d = {d}", source @ turn, target @ turn, "normal cloud", name)
