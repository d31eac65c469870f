"""An image moved by a field of displacements, a few rows at a time."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from slicewise.color.detail import Broad, change
from slicewise.color.field import look_up
from slicewise.color.images import Array, Parts
from slicewise.support import progress_bar

_BAND_PIXELS = 2**18


def moved_by(
    field: Tensor, parts: Parts, strength: float, share: Array | None, bar: bool | None
) -> Array:
    """The colours (H, W, 3) of an image moved by a field, each by `share` (H, W, 1) of it; of the same dtype."""
    moved = parts.colours.copy()
    height, width = moved.shape[:2]

    def rows(first: int, end: int) -> Tensor:
        return torch.from_numpy(parts.colours[first:end].astype(np.float32)).div_(parts.whole)

    if strength == 0:
        return moved
    broad = Broad(rows, height, width)
    some = max(1, _BAND_PIXELS // width)
    with progress_bar(height, bar, "move") as tick:
        for first in range(0, height, some):
            end = min(first + some, height)
            colours = rows(first, end)
            smooth = broad.rows(colours, first)
            move = change(colours, smooth, look_up(field, colours), look_up(field, smooth))
            move = move.mul_(strength * parts.whole)
            if share is not None:
                move = move * torch.from_numpy(share[first:end])
            # Added to the pixels as they came: where nothing moves, nothing is rounded.
            band = moved[first:end] + move.numpy()
            if moved.dtype.kind == "u":
                np.round(band, out=band)
            moved[first:end] = np.clip(band, 0, parts.whole, out=band)
            tick(end, "")
    return moved
