"""Write TIFF files of 8 and 16 bits with EXIF.

Pillow cannot write 16-bit color, tifffile cannot write EXIF, and libtiff writes no EXIF with compressed pixels.
"""

from __future__ import annotations

import io
import zlib

from slicewise.lab.data import Array
from slicewise.lab.images.metadata import DENSITY_UNIT, X_DENSITY, Y_DENSITY, photo_tags

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _KIND = 256, 257, 258, 259, 262
_PLACES, _CHANNELS, _ROWS, _SIZES = 273, 277, 278, 279
_PREDICTOR, _EXTRA, _PROFILE = 317, 338, 34675
_DEFLATE, _DIFFERENCES, _STRAIGHT_ALPHA, _INCH = 8, 2, 2, 2
_STRIP_BYTES = 2**18


def encode_tiff(
    pixels: Array,
    profile: bytes | None,
    exif: bytes | None,
    dpi: tuple[float, float] | None,
) -> bytes:
    """Return a losslessly compressed TIFF file.

    Args:
        pixels: (H, W, 1 | 2 | 3 | 4), uint8 or uint16; the last channel of 2 or 4 is straight alpha.
        profile: ICC profile.
        exif: EXIF block.
        dpi: dots per inch, across and down.
    """
    from PIL import Image, TiffImagePlugin

    height, width, channels = pixels.shape
    tags = TiffImagePlugin.ImageFileDirectory_v2(b"II*\0\0\0\0\0")
    if exif is not None:
        found = Image.Exif()
        found.load(exif)
        for tag, told in photo_tags(found).items():
            tags[tag] = told
    rows = max(1, _STRIP_BYTES // (width * channels * pixels.itemsize))
    strips = [_packed(pixels[first : first + rows]) for first in range(0, height, rows)]
    sizes = [len(strip) for strip in strips]
    tags[_WIDTH], tags[_HEIGHT], tags[_CHANNELS] = width, height, channels
    tags[_BITS] = (8 * pixels.itemsize,) * channels
    tags[_COMPRESSION], tags[_PREDICTOR] = _DEFLATE, _DIFFERENCES
    tags[_KIND] = 2 if channels > 2 else 1  # RGB, or gray with 0 as black
    if channels in (2, 4):
        tags[_EXTRA] = _STRAIGHT_ALPHA
    tags[_ROWS], tags[_SIZES] = rows, tuple(sizes)
    tags.tagtype[_PLACES] = tags.tagtype[_SIZES] = 4  # unsigned 32-bit integers
    tags[_PLACES] = tuple(sum(sizes[:i]) for i in range(len(sizes)))
    if dpi is not None:
        tags[X_DENSITY], tags[Y_DENSITY], tags[DENSITY_UNIT] = *dpi, _INCH
    if profile is not None:
        tags.tagtype[_PROFILE] = 7  # opaque bytes
        tags[_PROFILE] = profile
    file = io.BytesIO()
    tags.save(file)
    return file.getvalue() + b"".join(strips)


def _packed(rows: Array) -> bytes:
    """Compress some rows as a strip of differences to the left neighbor."""
    change = rows.copy()
    change[:, 1:] -= rows[:, :-1]
    return zlib.compress(change.astype(rows.dtype.newbyteorder("<")).tobytes(), 6)
