"""Broad colours apart from fine detail, so that a steep map magnifies colours but not grain."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, max_pool2d, pad

# The broad picture is made on a copy of about so many pixels a side, from squares of 2 × 4 + 1 of them.
_SIDE, _RADIUS = 512, 4
# Contrast in a square, as a share of black to white, up to which it is calm: what is there is grain.
_CALM = 0.015
# So far from a calm square grain is still known to be grain, though there be an edge in between.
_NEAR = 6
# What differs by more than this from its surroundings is no grain, wherever it is.
_ALIKE = 0.06
# Of the pixels around, every other one is asked; the pixel itself counts for less than any that is alike.
_EVERY, _ITSELF = 2, 0.1
# How many times a map may magnify detail. Twice a step of 1/255 is still hard to see.
MAGNIFIED = 2.0


class Broad:
    """The picture without its grain: near calm places the mean of what is alike around a pixel, else the pixel itself.

    A bilateral filter (Tomasi and Manduchi, 1998) on a small copy, which is drawn large, so that an image of any size is
    worked through a few rows at a time. Next to an edge those on its own side speak for a pixel, and grain is found there
    as it is elsewhere. Where no square nearby is calm there is texture, which is not held back.
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
        contrast = (spread / _CALM**2) ** 4  # a steep power: grain just below an edge is grain
        own = contrast / (contrast + 1)
        calmest = -max_pool2d(-own, 2 * _NEAR + 1, 1, _NEAR)
        # Those that are asked speak for their squares, where these are calm.
        whole = torch.cat([torch.lerp(mean, small, own), _box(calmest)], 1)[0].permute(1, 2, 0)
        self._margin = margin = _RADIUS * block
        self._lines = _between(whole, block, range(-margin, width + margin), axis=1)

    def rows(self, colours: Tensor, first: int) -> Tensor:
        """The broad colours of these rows (r, width, 3) of the image."""
        margin, (height, width) = self._margin, colours.shape[:2]
        # Colours as planes: sums over three numbers that lie side by side are slow.
        planes = colours.permute(2, 0, 1).contiguous()
        # The pixel itself, too, so that there is something where nothing is alike.
        weight = torch.full_like(planes[0], _ITSELF)
        total = weight * planes
        offsets = range(-margin, margin + 1, _EVERY * self._block)
        for down in offsets:
            # Only the rows that are asked: of a panorama those in between are many times the band.
            asked = range(first + down, first + down + height)
            large = _between(self._lines[..., :3], self._block, asked, axis=0)
            large = large.permute(2, 0, 1).contiguous()
            for right in offsets:
                near = large[:, :, margin + right : margin + right + width]
                apart = (near - planes).square_().sum(0).div_(_ALIKE**2)
                alike = 1 / (1 + apart**3)
                weight += alike
                total.addcmul_(alike.unsqueeze(0), near)
        middle = self._lines[:, margin : margin + width, 3:]
        own = _between(middle, self._block, range(first, first + height), axis=0).permute(2, 0, 1)
        return torch.lerp(total / weight, planes, own).permute(1, 2, 0)


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
