"""The bit depth of photographs, and the pixels of 16-bit TIFF and PNG files, which Pillow cannot read."""

from __future__ import annotations

import math
import struct
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from slicewise.lab.data import Array, check_bytes, printable
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
        # The first page by its own tags: what OME-XML and other descriptions say of sizes and further files is not asked.
        with tifffile.TiffFile(path, is_ome=False) as file:
            page: Any = file.pages.first
            check_bytes(printable(str(path)), 2 * math.prod(page.shape) * page.dtype.itemsize)
            pixels = page.asarray()
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


def deep_png(path: Path, image: Any) -> Array:
    """Return the pixels (H, W, channels) of a 16-bit PNG in uint16, upright.

    Raises:
        UserError: it is interlaced.
        ValueError: it is damaged.
    """
    held = path.read_bytes()
    width, height, _, kind, _, _, interlaced = struct.unpack(">IIBBBBB", held[16:29])
    if interlaced:
        raise UserError(
            f"{printable(str(path))} is interlaced and has 16 bits: save it without interlacing"
        )
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[kind]
    packed, place = [], 8
    while place + 8 <= len(held):
        size, name = struct.unpack(">I4s", held[place : place + 8])
        if name == b"IDAT":
            packed.append(held[place + 8 : place + 8 + size])
        place += 12 + size
    stride = 2 * channels * width
    # No more than there may be: a few bytes can unpack to gigabytes.
    unpacked = zlib.decompressobj().decompress(b"".join(packed), height * (stride + 1) + 1)
    lines = np.frombuffer(unpacked, np.uint8)
    if lines.size != height * (stride + 1):
        raise ValueError("its pixels are not complete")
    lines = lines.reshape(height, stride + 1)
    unfilter = _unfilter_plain
    if find_spec("numba") is not None:
        import numba

        unfilter = numba.njit(cache=True)(_unfilter_plain)
    rows = np.zeros((height, stride), np.uint8)
    unfilter(lines, rows, 2 * channels)
    pixels = rows.view(">u2").astype(np.uint16).reshape(height, width, channels)
    return turned_upright(pixels, orientation_of(image))


def _unfilter_plain(lines: Array, rows: Array, step: int) -> None:
    """Undo the filters of PNG (its specification, section 9), into `rows`; `step` is the bytes of a pixel."""
    for y in range(lines.shape[0]):
        kind = lines[y, 0]
        for x in range(rows.shape[1]):
            left = int(rows[y, x - step]) if x >= step else 0
            above = int(rows[y - 1, x]) if y > 0 else 0
            corner = int(rows[y - 1, x - step]) if x >= step and y > 0 else 0
            guess = 0
            if kind == 1:
                guess = left
            elif kind == 2:
                guess = above
            elif kind == 3:
                guess = (left + above) // 2
            elif kind == 4:
                a, b, c = abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)
                guess = left if a <= b and a <= c else above if b <= c else corner
            rows[y, x] = (int(lines[y, x + 1]) + guess) & 255


def encode_deep_png(
    pixels: Array,
    profile: bytes | None,
    exif: bytes | None,
    dpi: tuple[float, float] | None,
) -> bytes:
    """Return a PNG file of pixels (H, W, 1 to 4) in uint16, with ICC profile, EXIF and dots per inch."""
    height, width, channels = pixels.shape

    def chunk(name: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + checksum

    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    parts = [b"\x89PNG\r\n\x1a\n"]
    parts.append(chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)))
    if profile:
        parts.append(chunk(b"iCCP", b"ICC profile\0\0" + zlib.compress(profile)))
    if dpi is not None:
        across, down = (round(one / 0.0254) for one in dpi)
        parts.append(chunk(b"pHYs", struct.pack(">IIB", across, down, 1)))
    if exif:
        parts.append(chunk(b"eXIf", exif.removeprefix(b"Exif\0\0")))
    rows = pixels.astype(">u2").view(np.uint8).reshape(height, -1)
    # Each row as its difference to the one above: the filter that arithmetic on whole rows can do.
    change = np.empty((height, rows.shape[1] + 1), np.uint8)
    change[:, 0], change[0, 1:] = 2, rows[0]
    np.subtract(rows[1:], rows[:-1], out=change[1:, 1:])
    parts += [chunk(b"IDAT", zlib.compress(change.tobytes(), 4)), chunk(b"IEND", b"")]
    return b"".join(parts)
