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
# CIELAB of the white D65: linear sRGB to X, Y, Z, each divided by that of white.
_TRISTIMULUS = (
    (0.43395276, 0.37621941, 0.18982783),
    (0.21267285, 0.71515130, 0.07217585),
    (0.01775381, 0.10945087, 0.87279532),
)
# Below the threshold the cube root is continued by a line: its slope at black would be infinite.
_TOE, _TOE_SLOPE, _TOE_START = (6 / 29) ** 3, 841 / 108, 4 / 29
_ROUNDING, _BISECTIONS = (
    1e-4,
    12,
)  # of light, below a level of 255; of the chroma that the gamut has room for


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


def to_cielab(srgb: Tensor) -> Tensor:
    """Convert sRGB to CIELAB divided by 100: lightness from 0 to 1 and two opponent colors.

    Unlike Oklab it is as flat as sRGB near black, where a cube root would magnify the noise of shadows.

    >>> to_cielab(torch.tensor([1.0, 1.0, 1.0], dtype=torch.float64)).round(decimals=4).abs()
    tensor([1., 0., 0.], dtype=torch.float64)
    """
    light = to_linear(srgb) @ _matrix(_TRISTIMULUS, srgb).T
    root = light.clamp(min=_TOE) ** (1 / 3)
    f = torch.where(light > _TOE, root, _TOE_SLOPE * light + _TOE_START)
    x, y, z = f.unbind(-1)
    return torch.stack([1.16 * y - 0.16, 5 * (x - y), 2 * (y - z)], -1)


def from_cielab(lab: Tensor) -> Tensor:
    """Convert CIELAB divided by 100 to sRGB; channels outside of the gamut are clipped."""
    return from_linear(_light_of_cielab(lab))


def into_gamut(lab: Tensor) -> Tensor:
    """Convert CIELAB divided by 100 to sRGB; colors outside of the gamut keep lightness and hue and lose chroma.

    Clipping each channel would change the hue, most of all of saturated highlights.
    """
    lightness, opponents = lab[..., :1].clamp(0, 1), lab[..., 1:]

    def at(share: Tensor) -> Tensor:
        return torch.cat([lightness, share * opponents], -1)

    def shown(share: Tensor) -> Tensor:
        light = _light_of_cielab(at(share))
        return ((light >= -_ROUNDING) & (light <= 1 + _ROUNDING)).all(-1, keepdim=True)

    low, high = torch.zeros_like(lightness), torch.ones_like(lightness)
    whole = shown(high)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        inside = shown(middle)
        low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
    return from_cielab(at(torch.where(whole, 1.0, low)))


def _light_of_cielab(lab: Tensor) -> Tensor:
    """Linear sRGB, perhaps outside of [0, 1]."""
    lightness, a, b = lab.unbind(-1)
    y = (lightness + 0.16) / 1.16
    f = torch.stack([y + a / 5, y, y - b / 2], -1)
    light = torch.where(f > _TOE ** (1 / 3), f**3, (f - _TOE_START) / _TOE_SLOPE)
    return light @ torch.linalg.inv(_matrix(_TRISTIMULUS, lab)).T


def _matrix(rows: tuple[tuple[float, ...], ...], like: Tensor) -> Tensor:
    return torch.tensor(rows, dtype=like.dtype, device=like.device)


SPACES = {
    "srgb": Space(lambda c: c, lambda c: c.clamp(0, 1)),
    "linear": Space(to_linear, from_linear),
    "oklab": Space(to_oklab, from_oklab),
    "cielab": Space(to_cielab, from_cielab),
}
