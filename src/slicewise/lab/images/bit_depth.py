"""How many bits a photograph has, and those of TIFF files with more than Pillow reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from slicewise.lab.data import Array, printable
from slicewise.lab.errors import UserError
from slicewise.lab.images.metadata import orientation_of, turned_upright

# Tags of TIFF.
_BITS, _KIND, _PLANAR, _EXTRA = 258, 262, 284, 338


def bits_of(path: Path, image: Any) -> int:
    """Bits a channel, which Pillow may silently have brought to 8."""
    if image.format == "PNG":
        with path.open("rb") as file:
            return file.read(25)[24]  # of the first chunk, which every PNG begins with
    if image.format == "TIFF":
        return int(max(image.tag_v2.get(_BITS, (8,))))
    if image.format == "PPM" and image.tile and isinstance(image.tile[0][3], tuple):
        return int(image.tile[0][3][-1]).bit_length()  # of the number that white has
    return 16 if image.mode.startswith(("I", "F")) else 8


def deep_tiff(path: Path, image: Any) -> Array:
    """The pixels (H, W, channels) of a TIFF of 16 bits, uint16, upright."""
    import tifffile

    try:
        pixels = tifffile.imread(path)
    except ValueError as wrong:
        if "imagecodecs" not in str(wrong):
            raise
        raise UserError(
            f"{printable(str(path))} is compressed in a way that needs another package: pip install imagecodecs, or "
            f"save it with ZIP (deflate) or no compression"
        ) from None
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    tags = image.tag_v2
    plain = pixels.ndim == 3 and pixels.shape[2] in (1, 2, 3, 4) and tags.get(_PLANAR, 1) == 1
    plain = plain and tags.get(_KIND) in (1, 2)
    if pixels.dtype != np.uint16 or not plain:
        raise UserError(
            f"{printable(str(path))} is a TIFF of {pixels.dtype} {pixels.shape}: give 16 bits, gray or RGB with "
            f"channels last"
        )
    if 1 in tags.get(_EXTRA, ()):
        raise UserError(
            f"{printable(str(path))} has colors multiplied by their alpha: save it with straight alpha"
        )
    return turned_upright(np.asarray(pixels), orientation_of(image))
