"""Broad colours apart from fine detail, so that a steep map magnifies colours but not grain."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad

# The broad picture is made on a copy of about so many pixels a side, from squares of 2 × 4 + 1 of them.
_SIDE, _RADIUS = 512, 4
# Contrast in a square, as a share of black to white, that counts as an edge rather than as grain.
_EDGE = 0.02
# How many times a map may magnify detail. Twice a step of 1/255 is still hard to see.
MAGNIFIED = 2.0


class Broad:
    """The picture without its grain: the mean around each pixel where little happens, the pixel itself at edges.

    A guided filter (He, Sun and Tang, 2010) with the image as its own guide, its coefficients found on a
    small copy and drawn large, so that an image of any size is worked through a few rows at a time.
    """

    def __init__(self, rows: Callable[[int, int], Tensor], height: int, width: int) -> None:
        """Of an image of which `rows(first, end)` gives the colours (r, width, 3), float32 in [0, 1]."""
        self._block = block = max(1, round(max(height, width) / _SIDE))
        # Whole blocks at a time, the last ones perhaps cut off.
        some = block * max(1, 2**20 // (width * block))
        pieces = [
            _mean_blocks(rows(first, min(first + some, height)), block)
            for first in range(0, height, some)
        ]
        small = torch.cat(pieces, dim=2)  # (1, 3, h, w)
        mean = _box(small)
        spread = (_box(small**2) - mean**2).clamp(min=0).sum(1, keepdim=True)
        contrast = (spread / _EDGE**2) ** 3  # a steep power: grain just below an edge is grain
        own = contrast / (contrast + 1)
        coefficients = _box(torch.cat([own, (1 - own) * mean], 1))[0].permute(1, 2, 0)  # (h, w, 4)
        self._lines = _between(coefficients, block, range(width), axis=1)  # (h, width, 4)

    def rows(self, colours: Tensor, first: int) -> Tensor:
        """The broad colours of these rows (r, width, 3) of the image."""
        large = _between(self._lines, self._block, range(first, first + len(colours)), axis=0)
        return (large[..., :1] * colours + large[..., 1:]).clamp(0, 1)


def change(colours: Tensor, broad: Tensor, move: Tensor, broad_move: Tensor) -> Tensor:
    """The displacement of pixels: the map's own, but detail grows to at most `MAGNIFIED` times what it was.

    Detail is what tells a pixel from its broad colour. The map makes it detail + move − broad_move; where that is too
    long it is cut, where it shrinks or grows a little it is left. No move is no change, exactly.
    """
    detail = colours - broad
    mapped = detail + (move - broad_move)
    length = mapped.norm(dim=-1, keepdim=True)
    kept = (MAGNIFIED * detail.norm(dim=-1, keepdim=True) / length.clamp(min=1e-12)).clamp(max=1)
    return kept * move + (1 - kept) * (broad_move - detail)


def _mean_blocks(colours: Tensor, block: int) -> Tensor:
    image = colours.permute(2, 0, 1).unsqueeze(0)
    return avg_pool2d(image, block, ceil_mode=True, count_include_pad=False)


def _box(image: Tensor) -> Tensor:
    """The mean of the square around each pixel; beyond the border lies the border."""
    side = 2 * _RADIUS + 1
    image = avg_pool2d(pad(image, (_RADIUS, _RADIUS, 0, 0), "replicate"), (1, side), 1)
    return avg_pool2d(pad(image, (0, 0, _RADIUS, _RADIUS), "replicate"), (side, 1), 1)


def _between(small: Tensor, block: int, pixels: range, axis: int) -> Tensor:
    """A small image drawn large along one axis: at these pixels, linear between the middles of blocks."""
    last = small.shape[axis] - 1
    place = (torch.arange(pixels.start, pixels.stop, dtype=torch.float64) + 0.5) / block - 0.5
    place = place.clamp(0, last)
    low = place.long().clamp(max=max(last - 1, 0))
    part = (place - low).float().reshape([-1 if i == axis else 1 for i in range(small.dim())])
    high = (low + 1).clamp(max=last)
    return torch.lerp(small.index_select(axis, low), small.index_select(axis, high), part)
