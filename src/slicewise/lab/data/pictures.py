"""The one way in which images are opened: formats that run no program, sizes that fit, errors in one line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from slicewise.lab.data.arrays import Array
from slicewise.lab.data.limits import check_bytes
from slicewise.lab.data.paths import printable
from slicewise.lab.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

Read = TypeVar("Read")
# Formats that Pillow may try, whatever the name of a file is; some of its other decoders run programs, as that of
# PostScript does.
_FORMATS = ("PNG", "JPEG", "MPO", "BMP", "GIF", "PPM", "TIFF", "WEBP", "AVIF", "HEIF")
_HEIF = (".heic", ".heif")


def readable_formats() -> tuple[str, ...]:
    """Return those of the formats that Pillow reads here; HEIF is a package of its own."""
    from PIL import Image

    if find_spec("pillow_heif") is not None:
        import pillow_heif

        pillow_heif.register_heif_opener()
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def with_image(
    path: Path,
    read: Callable[[Image.Image], Read],
    *,
    bytes_per_pixel: int = 8,
    large: bool = False,
) -> Read:
    """Open an image and call `read` on it; whatever error a damaged or hostile file causes becomes a UserError.

    Args:
        path: the file.
        read: what is wanted of the image, which is closed afterwards.
        bytes_per_pixel: the memory that `read` takes.
        large: whether images are read that Pillow warns of, of more than 89 million pixels.

    Raises:
        UserError: the file is missing, damaged, too large, of a kind that is not supported, holds several pictures, or
            colors that are not RGB or gray.
    """
    import PIL.Image

    shown = printable(str(path))
    if path.is_dir():
        raise UserError(f"{shown} is a folder: name an image file")
    try:
        with warnings.catch_warnings():
            # About unusual metadata; sizes are checked here.
            warnings.simplefilter("ignore")
            if not large:
                warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
            return _opened(path, shown, read, bytes_per_pixel)
    except (UserError, ImportError):
        raise
    except FileNotFoundError:
        raise UserError(f"{shown}: there is no such file") from None
    except MemoryError:
        raise UserError(
            f"{shown} is too large for this machine's memory: give a smaller one"
        ) from None
    except Exception as wrong:  # a damaged file may cause any error
        said = printable(" ".join(str(wrong).split()) or type(wrong).__name__)
        if type(wrong).__name__ == "DecompressionBombError":
            raise UserError(f"{shown} is too large: {said}; give a smaller one") from None
        if type(wrong).__name__ == "UnidentifiedImageError":
            known = readable_formats()
            kinds = ", ".join(name for name in known if name != "MPO")
            missing = path.suffix.lower() in _HEIF and "HEIF" not in known
            hint = "; for HEIC, pip install pillow-heif" if missing else ""
            raise UserError(
                f"{shown} cannot be read as an image: give one of {kinds}{hint}"
            ) from None
        raise UserError(f"{shown} cannot be read as an image: {said}; save it again") from None


def _opened(
    path: Path, shown: str, read: Callable[[Image.Image], Read], bytes_per_pixel: int
) -> Read:
    from PIL import Image

    # An open file is given because Pillow maps uncompressed TIFFs that it opens itself into memory, and scrambles rotated ones.
    with path.open("rb") as file, Image.open(file, formats=readable_formats()) as image:
        check_bytes(shown, image.width * image.height * bytes_per_pixel)
        # An MPO file of a phone has a second picture, such as a depth map: that is not an animation.
        frames = getattr(image, "n_frames", 1) if image.format != "MPO" else 1
        if frames > 1:
            raise UserError(
                f"{shown} holds {frames} pictures, an animation or pages: give one, or a folder of them"
            )
        if image.mode in ("CMYK", "LAB"):
            raise UserError(f"{shown} has {image.mode} colors: convert it to RGB first")
        return read(image)


def rgb_pixels(path: Path) -> Array:
    """Return the pixels (H, W, 3) of an image, in uint8."""
    return with_image(path, lambda image: np.asarray(image.convert("RGB")))
