"""Color spaces, to and from sRGB."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# Oklab (Björn Ottosson, 2020): linear sRGB to cone responses, their cube roots to L, a, b.
_CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
_OPPONENTS = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)


class Space(NamedTuple):
    """The conversions of a color space from and to sRGB in [0, 1], both (..., 3)."""

    enter: Callable[[Tensor], Tensor]
    leave: Callable[[Tensor], Tensor]


def to_linear(srgb: Tensor) -> Tensor:
    """Convert sRGB to linear light."""
    return torch.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def from_linear(light: Tensor) -> Tensor:
    """Convert linear light to sRGB; channels outside of [0, 1] are clipped."""
    light = light.clamp(0, 1)
    # The power has an infinite slope at 0.
    curved = 1.055 * light.clamp(min=0.0031308) ** (1 / 2.4) - 0.055
    return torch.where(light <= 0.0031308, 12.92 * light, curved)


def to_oklab(srgb: Tensor) -> Tensor:
    """Convert sRGB to Oklab: lightness and two opponent colors, in which equal distances look about equal.

    >>> to_oklab(torch.tensor([1.0, 1.0, 1.0], dtype=torch.float64)).round(decimals=3).abs()
    tensor([1., 0., 0.], dtype=torch.float64)
    """
    cones = to_linear(srgb) @ _matrix(_CONES, srgb).T
    return cones.clamp(min=0) ** (1 / 3) @ _matrix(_OPPONENTS, srgb).T


def from_oklab(lab: Tensor) -> Tensor:
    """Convert Oklab to sRGB; colors outside of the gamut are clipped."""
    cones = (lab @ torch.linalg.inv(_matrix(_OPPONENTS, lab)).T) ** 3
    return from_linear(cones @ torch.linalg.inv(_matrix(_CONES, lab)).T)


def _matrix(rows: tuple[tuple[float, ...], ...], like: Tensor) -> Tensor:
    return torch.tensor(rows, dtype=like.dtype, device=like.device)


SPACES = {
    "srgb": Space(lambda c: c, lambda c: c.clamp(0, 1)),
    "linear": Space(to_linear, from_linear),
    "oklab": Space(to_oklab, from_oklab),
}
