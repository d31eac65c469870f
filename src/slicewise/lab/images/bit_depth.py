"""The bit depth of photographs, and the pixels of 16-bit TIFF files, which Pillow cannot read."""

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
    """Return the bits per channel in the file; Pillow may have reduced them to 8 without saying so."""
    if image.format == "PNG":
        with path.open("rb") as file:
            return file.read(25)[24]  # in the first chunk of every PNG
    if image.format == "TIFF":
        return int(max(image.tag_v2.get(_BITS, (8,))))
    if image.format == "PPM" and image.tile and isinstance(image.tile[0][3], tuple):
        return int(image.tile[0][3][-1]).bit_length()  # of the value of white
    return 16 if image.mode.startswith(("I", "F")) else 8


def deep_tiff(path: Path, image: Any) -> Array:
    """Return the pixels (H, W, channels) of a 16-bit TIFF in uint16, upright."""
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
