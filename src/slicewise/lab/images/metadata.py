"""What a photograph tells beside its pixels: camera, day and place, size on paper, and which way up it is."""

from __future__ import annotations

import logging
import math
import struct
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from slicewise.lab.data import Array

# Tags of EXIF that a TIFF may have among its own: what is shown, with what, when, by whom; the camera's, the place.
_PHOTO_TAGS, _NESTED_TAGS = (270, 271, 272, 282, 283, 296, 305, 306, 315, 33432), (0x8769, 0x8825)
# Inside of the camera's: where a table is that tells nothing but what EXIF is called.
_INTEROP = 40965
X_DENSITY, Y_DENSITY, DENSITY_UNIT = 282, 283, 296
_TURNED = 274
_PER_INCH = {2: 1.0, 3: 2.54}  # of dots per inch, and per centimetre
_HEAD = b"Exif\0\0"
_log = logging.getLogger("slicewise")


def orientation_of(image: Any) -> int:
    """How the pixels are to be turned to stand upright, a number of EXIF: 1 is not at all."""
    turn = image.getexif().get(_TURNED, 1)
    return turn if turn in range(1, 9) else 1


def turned_upright(pixels: Array, turn: int) -> Array:
    """Pixels (H, W, ...) turned and mirrored as a number of EXIF says."""
    if turn in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    down, right = turn in (3, 4, 7, 8), turn in (2, 3, 6, 7)
    return np.ascontiguousarray(pixels[:: -1 if down else 1, :: -1 if right else 1])


def dpi_of(image: Any) -> tuple[float, float] | None:
    """Dots per inch across and down when upright, where the file says so."""
    found = image.info.get("dpi")
    if found is None:
        exif = image.getexif()
        unit = _PER_INCH.get(exif.get(DENSITY_UNIT, 2), 0.0)
        found = [_number(exif.get(tag, 0)) * unit for tag in (X_DENSITY, Y_DENSITY)]
    across, down = map(float, found)
    if not (1 < across < 1e6 and 1 < down < 1e6):  # 1 is what programs write that do not know
        return None
    return (down, across) if orientation_of(image) in (5, 6, 7, 8) else (across, down)


def _number(found: Any) -> float:
    """Of words, or of several numbers where one belongs, none."""
    try:
        return float(found)
    except (TypeError, ValueError):
        return math.nan


def exif_of(image: Any) -> bytes | None:
    """EXIF, with nothing to turn and no thumbnail; of a TIFF, in which it is spread, gathered."""
    if image.format == "TIFF":
        return _collected(image.getexif())
    image.getexif()  # a PNG may have it behind its pixels: that reads them
    found: bytes | None = image.info.get("exif")
    if not found:
        return None
    try:
        return _upright_without_thumbnail(found.removeprefix(_HEAD))
    except struct.error:  # cut short, or nothing of the kind: no program could read it
        return None


def exif_of_size(dpi: tuple[float, float]) -> bytes:
    """EXIF that tells the size on paper and nothing else, for formats that have no other room for it."""
    from PIL import Image

    exif = Image.Exif()
    exif[X_DENSITY], exif[Y_DENSITY], exif[DENSITY_UNIT] = *dpi, 2
    return exif.tobytes()


def _upright_without_thumbnail(found: bytes) -> bytes:
    """EXIF that stands upright and has no thumbnail, which would show the old colors.

    Changed where it lies: what cameras write in ways of their own holds places of bytes, and is lost when these move.
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
    struct.pack_into(f"{order}L", held, first + 2 + 12 * count, 0)  # the thumbnail came next
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
    """What EXIF tells of the photograph, and not of the file that held it: tags, two of them with tags inside."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        told = _writable({tag: exif[tag] for tag in _PHOTO_TAGS if tag in exif})
        inside = {tag: _writable(exif.get_ifd(tag), tag) for tag in _NESTED_TAGS}
    for what in dict.fromkeys(str(one.message) for one in heard):
        _log.warning("EXIF is odd: %s", what)  # several numbers where one belongs, say
    return {**told, **{tag: found for tag, found in inside.items() if found}}


class _Text(str):
    """Text that is written as it was read, byte for byte: Pillow would have a ? for all that is not ASCII."""

    __slots__ = ()

    def encode(self, encoding: str = "", errors: str = "") -> bytes:
        return super().encode("latin-1", "replace")


def _writable(told: Mapping[int, Any], inside: int | None = None) -> dict[int, Any]:
    """Without what cannot be written, such as words where a number belongs: a photograph is worth more than that."""
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
        except Exception as wrong:  # any error may come of what anyone wrote there
            _log.warning("EXIF: tag %d is left out, it cannot be written (%s)", tag, wrong)
            continue
        kept[tag] = value
    return kept
