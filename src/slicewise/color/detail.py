"""Separate smooth colors from fine detail, so that a steep map magnifies color differences but not grain."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, max_pool2d, pad

# Pixels of the longer side of the small copy on which the image is smoothed, and the radius of the squares used there.
_SIDE, _RADIUS = 512, 4
# Standard deviation in a square, in units of white, up to which it is calm: what varies there is grain.
_CALM = 0.015
# Pixels of the small copy within which a calm square tells what is grain, across an edge as well.
_NEAR = 6
# A pixel that differs by more than this from its surroundings is not grain.
_ALIKE = 0.06
# The filter reads every second neighbor, and gives the pixel itself less weight than any similar one.
_EVERY, _OWN_WEIGHT = 2, 0.1
# How much a map may magnify detail: two steps of 1/255 are still hard to see.
MAX_GAIN = 2.0


class SmoothImage:
    """An image without its grain: near calm areas the mean of similar neighbors of a pixel, elsewhere the pixel itself.

    A bilateral filter (Tomasi and Manduchi, 1998) on a small copy, which is then enlarged, so that an image of any size
    is processed a few rows at a time. Next to an edge only neighbors on the same side count. Where no square nearby is
    calm there is texture, which is left as it is.
    """

    def __init__(self, rows: Callable[[int, int], Tensor], height: int, width: int) -> None:
        """Prepare an image of which `rows(first, end)` returns the colors (r, width, 3), float32 in [0, 1]."""
        self._block = block = max(1, round(max(height, width) / _SIDE))
        # Whole blocks at a time; the last may be smaller.
        some = block * max(1, 2**20 // (width * block))
        pieces = [
            _mean_blocks(rows(first, min(first + some, height)), block)
            for first in range(0, height, some)
        ]
        small = torch.cat(pieces, dim=2)  # (1, 3, h, w)
        mean = _box(small)
        spread = (_box(small**2) - mean**2).clamp(min=0).sum(1, keepdim=True)
        contrast = (spread / _CALM**2) ** 4  # a steep power separates grain from edges
        own = contrast / (contrast + 1)
        calmest = -max_pool2d(-own, 2 * _NEAR + 1, 1, _NEAR)
        # Where a square is calm its mean stands for its pixels.
        whole = torch.cat([torch.lerp(mean, small, own), _box(calmest)], 1)[0].permute(1, 2, 0)
        self._margin = margin = _RADIUS * block
        self._lines = _enlarge(whole, block, range(-margin, width + margin), axis=1)

    def rows(self, colors: Tensor, first: int) -> Tensor:
        """Return the smooth colors of the rows (r, width, 3) that begin at row `first`."""
        margin, (height, width) = self._margin, colors.shape[:2]
        # Channels first: sums over a last dimension of 3 are slow.
        planes = colors.permute(2, 0, 1).contiguous()
        # The pixel itself has a weight, in case nothing around it is similar.
        weight = torch.full_like(planes[0], _OWN_WEIGHT)
        total = weight * planes
        offsets = range(-margin, margin + 1, _EVERY * self._block)
        for down in offsets:
            # Only the rows that are read: in a panorama those in between are many times the band.
            needed = range(first + down, first + down + height)
            large = _enlarge(self._lines[..., :3], self._block, needed, axis=0)
            large = large.permute(2, 0, 1).contiguous()
            for right in offsets:
                near = large[:, :, margin + right : margin + right + width]
                apart = (near - planes).square_().sum(0).div_(_ALIKE**2)
                alike = 1 / (1 + apart**3)
                weight += alike
                total.addcmul_(alike.unsqueeze(0), near)
        middle = self._lines[:, margin : margin + width, 3:]
        own = _enlarge(middle, self._block, range(first, first + height), axis=0).permute(2, 0, 1)
        return torch.lerp(total / weight, planes, own).permute(1, 2, 0)


def limit_detail(colors: Tensor, smooth: Tensor, move: Tensor, smooth_move: Tensor) -> Tensor:
    """Return the displacements (..., 3) of pixels, changed so that detail grows to at most `MAX_GAIN` times its size.

    Detail is the difference between a pixel and its smooth color, which the map makes detail + move − smooth_move.
    Where that is too long it is shortened, elsewhere the displacement is that of the map. Zero displacements stay
    exactly zero.
    """
    detail = colors - smooth
    mapped = detail + (move - smooth_move)
    length = mapped.norm(dim=-1, keepdim=True)
    kept = (MAX_GAIN * detail.norm(dim=-1, keepdim=True) / length.clamp(min=1e-12)).clamp(max=1)
    return kept * move + (1 - kept) * (smooth_move - detail)


def _mean_blocks(colors: Tensor, block: int) -> Tensor:
    image = colors.permute(2, 0, 1).unsqueeze(0)
    return avg_pool2d(image, block, ceil_mode=True, count_include_pad=False)


def _box(image: Tensor) -> Tensor:
    """The mean of the square around each pixel; the border is repeated."""
    side = 2 * _RADIUS + 1
    image = avg_pool2d(pad(image, (_RADIUS, _RADIUS, 0, 0), "replicate"), (1, side), 1)
    return avg_pool2d(pad(image, (0, 0, _RADIUS, _RADIUS), "replicate"), (side, 1), 1)


def _enlarge(small: Tensor, block: int, pixels: range, axis: int) -> Tensor:
    """Enlarge a small image along one axis: at these pixels, linear between the centers of blocks."""
    last = small.shape[axis] - 1
    place = (torch.arange(pixels.start, pixels.stop, dtype=torch.float64) + 0.5) / block - 0.5
    place = place.clamp(0, last)
    low = place.long().clamp(max=max(last - 1, 0))
    part = (place - low).float().reshape([-1 if i == axis else 1 for i in range(small.dim())])
    high = (low + 1).clamp(max=last)
    return torch.lerp(small.index_select(axis, low), small.index_select(axis, high), part)
