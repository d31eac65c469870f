"""Move the colors of an image by a field of displacements, a band of rows at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from torch import Tensor

from slicewise.color.field import look_up
from slicewise.color.guided import LocalMaps, sample_spacing
from slicewise.color.images import Array, ImageParts
from slicewise.color.threads import torch_on_one_thread
from slicewise.support import progress_bar

_BAND_PIXELS = 2**17


def apply_field(
    field: Tensor,
    parts: ImageParts,
    strength: float,
    share: Array | None,
    show_bar: bool | None,
    *,
    gradual: bool,
) -> Array:
    """Move the colors (H, W, 3) of an image by `strength` times the field, each by `share` (H, W, 1) of that.

    `gradual` is that of `LocalMaps`. Bands of rows are shared among as many threads as torch may use; each band is
    computed by one.
    """
    moved = parts.colors.copy()
    height, width = moved.shape[:2]
    if strength == 0:
        return moved
    workers = torch.get_num_threads()
    band = max(1, _BAND_PIXELS // width)
    bands = [range(first, min(first + band, height)) for first in range(0, height, band)]
    with torch_on_one_thread():  # also each of the pool's
        block = sample_spacing(height, width)
        middle = min(block // 2, height - 1, width - 1)
        sample = _unit(parts.colors[middle::block, middle::block], parts.white)
        maps = LocalMaps(sample, look_up(field, sample), block, gradual=gradual)
        maps.widen(width, strength)
        work = partial(_move_rows, moved, maps, parts.white, share)
        with (
            ThreadPoolExecutor(min(workers, len(bands))) as pool,
            progress_bar(height, show_bar, "move") as tick,
        ):
            for done in pool.map(work, bands):
                tick(done, "")
    return moved


def _move_rows(
    moved: Array, maps: LocalMaps, white: float, share: Array | None, band: range
) -> int:
    """Move some rows in place; return where they end."""
    rows = moved[band.start : band.stop]
    planes = _unit(rows, white).permute(2, 0, 1).contiguous()
    move = maps.rows(planes, band.start).mul_(white)
    if share is not None:
        move *= torch.from_numpy(share[band.start : band.stop, :, 0])
    # Added to the pixels as they came: where nothing moves, nothing is rounded.
    if rows.dtype == np.float64:
        rows[...] = np.clip(rows + move.permute(1, 2, 0).numpy(), 0, white)
    else:
        planes.mul_(white).add_(move).clamp_(0, white)
        planes = planes.round_() if rows.dtype.kind == "u" else planes
        rows[...] = planes.permute(1, 2, 0).numpy()
    return band.stop


def _unit(colors: Array, white: float) -> Tensor:
    """Colors as float32 in [0, 1]."""
    return torch.from_numpy(colors.astype(np.float32)).div_(white)
