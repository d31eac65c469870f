"""Metadata of photographs: EXIF (camera, date, place), resolution and orientation."""

from __future__ import annotations

import logging
import math
import struct
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from slicewise.lab.data import Array

# EXIF tags about the photograph that a TIFF may have among its own; nested tables of the camera and the place.
_PHOTO_TAGS, _NESTED_TAGS = (270, 271, 272, 282, 283, 296, 305, 306, 315, 33432), (0x8769, 0x8825)
# In the table of the camera: a pointer to a table about the EXIF version.
_INTEROP = 40965
X_DENSITY, Y_DENSITY, DENSITY_UNIT = 282, 283, 296
_TURNED = 274
_PER_INCH = {2: 1.0, 3: 2.54}  # of dots per inch, and per centimetre
_HEAD = b"Exif\0\0"
_log = logging.getLogger("slicewise")


def orientation_of(image: Any) -> int:
    """Return the EXIF orientation, 1 to 8; 1 is upright."""
    turn = image.getexif().get(_TURNED, 1)
    return turn if turn in range(1, 9) else 1


def turned_upright(pixels: Array, turn: int) -> Array:
    """Return pixels (H, W, ...) rotated and mirrored from an EXIF orientation to upright."""
    if turn in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    down, right = turn in (3, 4, 7, 8), turn in (2, 3, 6, 7)
    return np.ascontiguousarray(pixels[:: -1 if down else 1, :: -1 if right else 1])


def dpi_of(image: Any) -> tuple[float, float] | None:
    """Return dots per inch, across and down when upright, or None if the file does not have them."""
    found = image.info.get("dpi")
    if found is None:
        exif = image.getexif()
        unit = _PER_INCH.get(exif.get(DENSITY_UNIT, 2), 0.0)
        found = [_number(exif.get(tag, 0)) * unit for tag in (X_DENSITY, Y_DENSITY)]
    across, down = map(float, found)
    if not (1 < across < 1e6 and 1 < down < 1e6):  # programs write 1 if they do not know
        return None
    return (down, across) if orientation_of(image) in (5, 6, 7, 8) else (across, down)


def _number(found: Any) -> float:
    """Return a float; NaN for values that are not one number."""
    try:
        return float(found)
    except (TypeError, ValueError):
        return math.nan


def exif_of(image: Any) -> bytes | None:
    """Return the EXIF block, marked as upright and without its thumbnail; of a TIFF, collected from its tags."""
    if image.format == "TIFF":
        return _collected(image.getexif())
    image.getexif()  # reads the pixels: a PNG may have EXIF after them
    found: bytes | None = image.info.get("exif")
    if not found:
        return None
    try:
        return _upright_without_thumbnail(found.removeprefix(_HEAD))
    except struct.error:  # truncated, or not EXIF
        return None


def exif_of_size(dpi: tuple[float, float]) -> bytes:
    """Return an EXIF block with the resolution only, for formats that store it nowhere else."""
    from PIL import Image

    exif = Image.Exif()
    exif[X_DENSITY], exif[Y_DENSITY], exif[DENSITY_UNIT] = *dpi, 2
    return exif.tobytes()


def _upright_without_thumbnail(found: bytes) -> bytes:
    """Mark EXIF as upright and drop its thumbnail, which would show the old colors.

    The bytes are changed in place: tables in a camera's own format hold offsets, and break if anything moves.
    """
    held = bytearray(found)
    if found[:4] not in (b"II*\0", b"MM\0*"):
        raise struct.error("no EXIF")
    order = "<" if held[:2] == b"II" else ">"
    (first,) = struct.unpack_from(f"{order}L", held, 4)
    (count,) = struct.unpack_from(f"{order}H", held, first)
    for entry in range(first + 2, first + 2 + 12 * count, 12):
        tag, kind = struct.unpack_from(f"{order}HH", held, entry)
        if tag == _TURNED:
            struct.pack_into(f"{order}L" if kind == 4 else f"{order}H", held, entry + 8, 1)
    struct.pack_into(
        f"{order}L", held, first + 2 + 12 * count, 0
    )  # no next table, which is the thumbnail
    return _HEAD + bytes(held)


def _collected(exif: Any) -> bytes | None:
    from PIL import Image

    told = photo_tags(exif)
    kept = Image.Exif()
    kept.update({tag: value for tag, value in told.items() if tag not in _NESTED_TAGS})
    for tag in _NESTED_TAGS:
        kept.get_ifd(tag).update(told.get(tag, {}))
    return kept.tobytes() if told else None


def photo_tags(exif: Any) -> Mapping[int, Any]:
    """Return the EXIF tags about the photograph, not about the file; two of them hold nested tags."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        told = _writable({tag: exif[tag] for tag in _PHOTO_TAGS if tag in exif})
        inside = {tag: _writable(exif.get_ifd(tag), tag) for tag in _NESTED_TAGS}
    for what in dict.fromkeys(str(one.message) for one in heard):
        _log.warning("EXIF is odd: %s", what)  # such as several numbers where one belongs
    return {**told, **{tag: found for tag, found in inside.items() if found}}


class _Text(str):
    """Text that is written byte for byte as it was read; Pillow would replace non-ASCII letters by ?."""

    __slots__ = ()

    def encode(self, encoding: str = "", errors: str = "") -> bytes:
        return super().encode("latin-1", "replace")


def _writable(told: Mapping[int, Any], inside: int | None = None) -> dict[int, Any]:
    """Return the tags that can be written; others, such as words where a number belongs, are dropped with a warning."""
    from PIL import TiffImagePlugin

    kept = {}
    for tag, found in told.items():
        if tag == _INTEROP:
            continue
        value = _Text(found) if isinstance(found, str) else found
        alone = TiffImagePlugin.ImageFileDirectory_v2(group=inside)
        try:
            alone[tag] = value
            alone.tobytes()
        except Exception as wrong:  # a malformed value may cause any error
            _log.warning("EXIF: tag %d is left out, it cannot be written (%s)", tag, wrong)
            continue
        kept[tag] = value
    return kept
