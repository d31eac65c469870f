"""Read and write photographs: pixels unchanged and upright, with profile, EXIF and resolution."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.lab.data import Array, printable, with_image
from slicewise.lab.errors import UserError
from slicewise.lab.images.bit_depth import bits_of, deep_png, deep_tiff, encode_deep_png
from slicewise.lab.images.metadata import dpi_of, exif_of, exif_of_size
from slicewise.lab.images.tiff import encode_tiff

if TYPE_CHECKING:
    from PIL import Image

READ = (
    *(".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp", ".avif"),
    *(".heic", ".heif"),
)
WRITTEN = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".avif", ".bmp")
_WITH_ALPHA = (".png", ".webp", ".tif", ".tiff", ".avif")
_DEEP = (".tif", ".tiff", ".png")
# The longest side that a format can store.
_LONGEST = {".jpg": 65500, ".jpeg": 65500, ".webp": 16383}
_LONGEST_EXIF = 65_533  # bytes, of JPEG
_GRAY, _COLORED = (
    ("1", "L", "LA", "La"),
    ("RGB", "RGBA", "RGBa", "RGBX", "P", "PA", "YCbCr", "HSV"),
)


@dataclass(frozen=True, eq=False)
class Picture:
    """A photograph: its pixels, and the metadata that are written back with them."""

    name: str
    pixels: Array  # (H, W, 1 | 2 | 3 | 4), uint8 or uint16; the last of 2 or 4 is alpha
    profile: bytes | None = None  # ICC, of RGB
    exif: bytes | None = None
    dpi: tuple[float, float] | None = None  # dots per inch, across and down

    @property
    def has_alpha(self) -> bool:
        return self.pixels.shape[2] in (2, 4)

    @property
    def deep(self) -> bool:
        """Whether it has 16 bits per channel."""
        return self.pixels.dtype == np.uint16


def read_picture(path: Path, *, reduce: bool = False) -> Picture:
    """Read a photograph of 8 or 16 bits and turn it upright.

    Args:
        path: the file.
        reduce: whether 16 bits may become 8, for callers that only need the colors.

    Raises:
        UserError: the file is missing, damaged, an animation, or of a kind that is not supported.
    """
    # Pixels of 16 bits, and a copy of them.
    picture = with_image(
        path, lambda image: _read(path, image, reduce), bytes_per_pixel=16, large=True
    )
    if reduce and picture.deep:
        return replace(picture, pixels=np.round(picture.pixels / 257).astype(np.uint8))
    return picture


def _read(path: Path, image: Image.Image, reduce: bool) -> Picture:
    from PIL import ImageOps

    shown = printable(str(path))
    profile = _rgb_profile(image.info.get("icc_profile"))
    deep = bits_of(path, image) > 8
    kept = image.format in ("TIFF", "PNG")
    if deep and not image.mode.startswith("I;16") and not kept and not reduce:
        raise UserError(
            f"{shown} has 16 bits a channel, kept of TIFF and PNG files only: save it as TIFF, or with 8 bits"
        )
    # Read before any pixel: afterwards Pillow no longer has these of a TIFF.
    name, dpi, exif = printable(path.name), dpi_of(image), exif_of(image)
    if deep and image.format == "TIFF":
        return Picture(name, deep_tiff(path, image), profile, exif, dpi)
    if deep and image.format == "PNG" and image.mode in ("RGB", "RGBA", "LA"):
        return Picture(name, deep_png(path, image), profile, exif, dpi)
    upright: Image.Image = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I;16"):
        return Picture(name, np.asarray(upright, np.uint16)[:, :, None], None, exif, dpi)
    if upright.mode not in _GRAY + _COLORED:
        raise UserError(
            f"{shown} has pixels of kind {upright.mode}: give 8 or 16 bits, gray or RGB"
        )
    clear = upright.mode.endswith(("A", "a")) or "transparency" in upright.info
    kind = ("LA" if clear else "L") if upright.mode in _GRAY else "RGBA" if clear else "RGB"
    pixels = np.asarray(upright.convert(kind))
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    return Picture(name, pixels, profile, exif, dpi)


def _rgb_profile(profile: bytes | None) -> bytes | None:
    """Return an RGB profile; a gray one cannot be used for the colors of the result."""
    return profile if profile and profile[16:20] == b"RGB " else None


def convert_profile(target: Picture, source: Picture) -> Picture:
    """Convert the target to the color profile of the source, or to sRGB if it has none.

    The target is converted and not the source, so that the pixels of the source do not change.
    """
    if target.profile == source.profile or target.pixels.shape[2] < 3:
        return target
    from PIL import Image, ImageCms

    def opened(profile: bytes | None) -> Any:
        if profile is None:
            return ImageCms.createProfile("sRGB")
        return ImageCms.ImageCmsProfile(io.BytesIO(profile))

    try:
        image = Image.fromarray(np.ascontiguousarray(target.pixels[:, :, :3]))
        turned = ImageCms.profileToProfile(image, opened(target.profile), opened(source.profile))
    except (ImageCms.PyCMSError, OSError) as wrong:
        raise UserError(
            f"the color profile of {target.name} or {source.name} cannot be used: {wrong}; remove it"
        ) from None
    assert turned is not None
    pixels = np.concatenate([np.asarray(turned), target.pixels[:, :, 3:]], axis=2)
    return replace(target, pixels=pixels, profile=source.profile)


def read_mask(path: Path) -> Array:
    """Read a mask (H, W): how much of each pixel is changed, in gray."""
    pixels = read_picture(path, reduce=True).pixels
    if pixels.shape[2] in (2, 4):
        raise UserError(
            f"{printable(str(path))} has transparency: give a mask in black, gray and white"
        )
    if pixels.shape[2] == 3 and (pixels != pixels[:, :, :1]).any():
        raise UserError(f"{printable(str(path))} is colored: give a mask in black, gray and white")
    return np.asarray(pixels[:, :, 0])


def check_kind(out: Path, picture: Picture) -> None:
    """Check that a file of this name can hold a picture without losing depth, transparency or its profile.

    Raises:
        UserError: it cannot; the message names a suffix that can.
    """
    suffix, shown = out.suffix.lower(), printable(str(out))
    if picture.deep and suffix not in _DEEP:
        raise UserError(
            f"{picture.name} has 16 bits, {shown} would keep 8 of them: give a name in .tif or .png"
        )
    if picture.has_alpha and suffix not in _WITH_ALPHA:
        raise UserError(
            f"{picture.name} is transparent in places, which {shown} cannot be: give a name that ends in "
            f"{' or '.join(_WITH_ALPHA[:3])}"
        )

    if suffix in (".jpg", ".jpeg") and len(picture.exif or b"") > _LONGEST_EXIF:
        raise UserError(
            f"{picture.name} has EXIF of {len(picture.exif or b'')} bytes, {shown} has room for {_LONGEST_EXIF}: give a "
            f"name in .png"
        )
    longest = max(picture.pixels.shape[:2])
    if longest > _LONGEST.get(suffix, longest):
        raise UserError(
            f"{picture.name} is {longest} pixels long, {shown} can be {_LONGEST[suffix]}: give a name in .png"
        )
    if picture.profile is not None and suffix == ".bmp":
        raise UserError(
            f"{picture.name} has a color profile, {shown} has no room for it: give a name in .png"
        )


def encode_picture(picture: Picture, suffix: str) -> bytes:
    """Return the content of a file of this suffix, at the best quality of its format."""
    from PIL import Image

    if suffix in (".tif", ".tiff"):
        return encode_tiff(picture.pixels, picture.profile, picture.exif, picture.dpi)
    if picture.deep and suffix == ".png":
        return encode_deep_png(picture.pixels, picture.profile, picture.exif, picture.dpi)
    kind = {".jpg": "JPEG", ".jpeg": "JPEG"}.get(suffix, suffix[1:])
    best: dict[str, dict[str, Any]] = {
        "JPEG": {"quality": 95, "subsampling": 0},
        "png": {"compress_level": 3},
        "webp": {"quality": 95, "exact": True},
        "avif": {"quality": 90, "subsampling": "4:4:4"},
    }
    told = {"icc_profile": picture.profile, "exif": picture.exif, "dpi": picture.dpi}
    if kind == "webp" and picture.exif is None and picture.dpi is not None:
        told["exif"] = exif_of_size(picture.dpi)
    file = io.BytesIO()
    options = best.get(kind, {}) | {name: found for name, found in told.items() if found}
    pixels = picture.pixels if picture.pixels.shape[2] > 1 else picture.pixels[:, :, 0]
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()
