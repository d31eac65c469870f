"""Move the colors of an image by a field of displacements, a band of rows at a time."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from slicewise.color.detail import SmoothImage, limit_detail
from slicewise.color.field import look_up
from slicewise.color.images import Array, ImageParts
from slicewise.support import progress_bar

_BAND_PIXELS = 2**18


def apply_field(
    field: Tensor,
    parts: ImageParts,
    strength: float,
    share: Array | None,
    show_bar: bool | None,
) -> Array:
    """Move the colors (H, W, 3) of an image by `strength` times the field, each by `share` (H, W, 1) of that."""
    moved = parts.colors.copy()
    height, width = moved.shape[:2]

    def rows(first: int, end: int) -> Tensor:
        return torch.from_numpy(parts.colors[first:end].astype(np.float32)).div_(parts.white)

    if strength == 0:
        return moved
    smooth_image = SmoothImage(rows, height, width)
    band_height = max(1, _BAND_PIXELS // width)
    with progress_bar(height, show_bar, "move") as tick:
        for first in range(0, height, band_height):
            end = min(first + band_height, height)
            colors = rows(first, end)
            smooth = smooth_image.rows(colors, first)
            move = limit_detail(colors, smooth, look_up(field, colors), look_up(field, smooth))
            move = move.mul_(strength * parts.white)
            if share is not None:
                move = move * torch.from_numpy(share[first:end])
            # Added to the pixels as they came: where nothing moves, nothing is rounded.
            band = moved[first:end] + move.numpy()
            if moved.dtype.kind == "u":
                np.round(band, out=band)
            moved[first:end] = np.clip(band, 0, parts.white, out=band)
            tick(end, "")
    return moved
