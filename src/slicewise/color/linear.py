"""The linear optimal-transport map between the colors of two images, with its gains bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from slicewise.color.field import lattice
from slicewise.color.spaces import SPACES, Space, into_gamut

# Along its steepest direction the bounded map stretches differences of color by at most this factor.
MAX_GAIN = 3.0
# Fraction of the source's pixels that the bounded map may take outside of the gamut.
_MAX_OUTSIDE = 0.15
_BISECTIONS = 6
_JUST_VISIBLE = 0.03  # in the units of the spaces, in which white is 1
# Added to both covariances: an image of one color, or of grays, has none along some directions.
_LEAST_VARIANCE = 1e-5


class LinearMap(NamedTuple):
    """An affine map c ↦ (c − center) matrix + goal of colors in some space."""

    matrix: Tensor  # (3, 3), symmetric
    center: Tensor  # (3,)
    goal: Tensor  # (3,)

    def __call__(self, colors: Tensor) -> Tensor:
        return (colors - self.center) @ self.matrix + self.goal


def linear_transport(x: Tensor, y: Tensor) -> LinearMap:
    """Return the optimal-transport map between Gaussians with the moments of colors x (n, 3) and y (m, 3).

    Its matrix is A^(-1/2) (A^(1/2) B A^(1/2))^(1/2) A^(-1/2) for covariances A of x and B of y (Dowson and Landau,
    1982; for colors Pitié and Kokaram, 2007).
    """
    least = _LEAST_VARIANCE * torch.eye(3, dtype=x.dtype)
    source, target = (torch.cov(c.T, correction=0) + least for c in (x, y))
    root = _root(source)
    inverse = torch.linalg.inv(root)
    return LinearMap(inverse @ _root(root @ target @ root) @ inverse, x.mean(0), y.mean(0))


def bounded_transport(x: Tensor, y: Tensor, space: str) -> LinearMap:
    """Return `linear_transport` in a color space with bounded gains, for samples x and y (n, 3) in sRGB.

    No difference of colors grows by more than `MAX_GAIN`, and gains above 1 are reduced until at most 15 % of the source
    leave the gamut, or as many as without any stretching.
    """
    enter = SPACES[space].enter
    found = linear_transport(enter(x), enter(y))
    gains, directions = torch.linalg.eigh(found.matrix)
    gains = gains.clamp(max=MAX_GAIN)

    def stretched(share: float) -> LinearMap:
        kept = torch.where(gains > 1, 1 + share * (gains - 1), gains)
        return found._replace(matrix=directions @ torch.diag(kept) @ directions.T)

    def outside(share: float) -> float:
        moved = stretched(share)(enter(x))
        back = enter(SPACES[space].leave(moved))  # clipped to the gamut
        return float(((back - moved).norm(dim=-1) > _JUST_VISIBLE).double().mean())

    if outside(1.0) <= _MAX_OUTSIDE:
        return stretched(1.0)
    allowed = max(_MAX_OUTSIDE, outside(0.0))
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if outside(middle) <= allowed else (low, middle)
    return stretched(low)


def linear_field(found: LinearMap, space: str) -> Tensor:
    """Return the displacements (S, S, S, 3) in sRGB of an affine map in a color space."""
    nodes = lattice()
    moved = found(SPACES[space].enter(nodes))
    return _shown(SPACES[space], space)(moved) - nodes


def _shown(own: Space, space: str) -> Callable[[Tensor], Tensor]:
    """The way back to sRGB; that of CIELAB keeps the hue of what no screen shows."""
    return into_gamut if space == "cielab" else own.leave


def _root(matrix: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(matrix)
    return vectors @ torch.diag(values.clamp(min=0).sqrt()) @ vectors.T
