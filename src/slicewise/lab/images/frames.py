"""The photographs of a folder, read one at a time, and the distance between the colors of two images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import overload

import numpy as np
import torch

from slicewise.distance import sliced_wasserstein
from slicewise.lab.data import Array, printable
from slicewise.lab.errors import UserError
from slicewise.lab.images.files import READ, Picture, check_kind, read_picture
from slicewise.support import progress_bar
from slicewise.transport import wasserstein

_SLICES, _CELL_BITS, _MOST_PIXELS = 64, 6, 10**6


class Frames(Sequence[Array]):
    """Pixels of files, one in memory at a time; all must have one color profile, so that one map fits all."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths
        self.outputs: list[
            Path
        ] = []  # where results go, if anywhere: each must be able to hold its own
        self.mask: Array | None = None  # (H, W), if there is one: each must have its size
        self._latest: tuple[int, Picture] | None = None
        self._profile: bytes | None = None

    @classmethod
    def of_folder(cls, folder: Path) -> Frames:
        """Return the images of a folder, in the order of their names."""
        # Some systems put a hidden file with the same suffix beside each image.
        paths = sorted(
            path
            for path in folder.iterdir()
            if path.suffix.lower() in READ and not (path.name.startswith(".") or path.is_dir())
        )
        if not paths:
            raise UserError(f"{printable(str(folder))} holds no image ({', '.join(READ)})")
        return cls(paths)

    @classmethod
    def of_all(cls, sources: Sequence[Path]) -> Frames:
        """Return the images of files and folders, in the order in which they are given."""
        paths = []
        for source in sources:
            paths += cls.of_folder(source).paths if source.is_dir() else [source]
        return cls(paths)

    def picture(self, index: int) -> Picture:
        """Return one photograph with its metadata."""
        if self._latest is None or self._latest[0] != index:
            self._latest = None  # so that two are never in memory
            picture = read_picture(self.paths[index])
            if index == 0:
                self._profile = picture.profile
            elif picture.profile != self._profile:
                raise UserError(
                    f"{picture.name} has another color profile than {printable(self.paths[0].name)}: "
                    f"convert all to one"
                )
            if self.outputs:
                check_kind(self.outputs[index], picture)
            if self.mask is not None and self.mask.shape != picture.pixels.shape[:2]:
                (h, w), (height, width) = self.mask.shape, picture.pixels.shape[:2]
                raise UserError(
                    f"the mask has {w} × {h} pixels, {picture.name} has {width} × {height} when upright: "
                    f"give a mask of its size"
                )
            self._latest = index, picture
        return self._latest[1]

    def check(self, show_bar: bool | None) -> None:
        """Read every frame once, so that a frame that cannot be used is reported before anything is written."""
        with progress_bar(len(self), show_bar if len(self) > 1 else False, "read") as tick:
            for index in range(len(self)):
                self.picture(index)
                tick(index + 1, "")

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> list[Array]: ...
    def __getitem__(self, index: int | slice) -> Array | list[Array]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.picture(index).pixels

    def __len__(self) -> int:
        return len(self.paths)


def as_rgb(pixels: Array) -> Array:
    """Return pixels in 8 bits, (H, W, 3) or (H, W, 4) with alpha; gray becomes three equal channels."""
    if pixels.dtype == np.uint16:
        pixels = np.round(pixels / 257).astype(np.uint8)
    if pixels.shape[2] > 2:
        return pixels
    return np.concatenate([pixels[:, :, :1].repeat(3, 2), pixels[:, :, 1:]], axis=2)


def visible_pixels(pixels: Array, mask: Array | None) -> Array:
    """Return the pixels (n, 1, channels) that a mask (H, W) selects by at least half; without a mask, all unchanged."""
    if mask is None:
        return pixels
    most = np.iinfo(mask.dtype).max if mask.dtype.kind == "u" else 1.0
    white = 2.0 * mask >= most
    return pixels[white if white.any() else mask > 0][:, None]


def palette_sw2(first: Array, second: Array) -> float:
    """Return SW_2 between the colors of the visible pixels of two images, in levels of 0 to 255.

    All pixels count, or up to 10⁶ of a larger image, evenly spaced. Colors are put into cells of 4 levels a side, each
    of which stands at the mean of its colors, and compared on 64 fixed, even slices: nothing is drawn.

    Args:
        first: an image, (H, W, channels).
        second: another image.

    Returns:
        The distance; NaN if an image is transparent everywhere.
    """
    (x, x_weights), (y, y_weights) = _cells(first), _cells(second)
    if not (len(x) and len(y)):
        return math.nan
    weights = {"x_weights": x_weights, "y_weights": y_weights}
    return float(sliced_wasserstein(x, y, "qsw", n_slices=_SLICES, **weights))


def _cells(pixels: Array) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean colors (n, 3) of the cells that have pixels, and the fractions (n,) of pixels in them."""
    step = math.ceil(math.sqrt(pixels.shape[0] * pixels.shape[1] / _MOST_PIXELS))
    some = pixels[::step, ::step].reshape(-1, pixels.shape[2])
    if pixels.shape[2] in (2, 4):
        some = some[some[:, -1] > 0]
    colors = some[:, :3] if pixels.shape[2] > 2 else some[:, :1].repeat(3, 1)
    depth = 8 * pixels.dtype.itemsize
    code = np.zeros(len(colors), np.int64)
    for channel in colors.T:
        code = (code << _CELL_BITS) | (channel >> (depth - _CELL_BITS))
    counts = np.bincount(code, minlength=8**_CELL_BITS)
    sums = np.stack([np.bincount(code, channel, minlength=len(counts)) for channel in colors.T])
    used = counts > 0
    means = (sums[:, used] / counts[used]).T * (255 / (2**depth - 1))
    return torch.from_numpy(means), torch.from_numpy(counts[used] / max(counts.sum(), 1))


def palette_w2(first: Array, second: Array, seed: int, *, n: int = 1000, repeats: int = 1) -> float:
    """Return the exact W_2 between n random visible pixels of two images, in levels of 0 to 255.

    Args:
        first: an image, (H, W, channels).
        second: another image.
        seed: of the random pixels.
        n: pixels of either side.
        repeats: how many random samples the result is averaged over.

    Returns:
        The mean distance; NaN if an image is transparent everywhere.
    """
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(repeats):
        x, y = (_some(image, n, generator) for image in (first, second))
        if not (len(x) and len(y)):
            return math.nan
        found.append(float(wasserstein(x, y)))
    return sum(found) / repeats


def _some(pixels: Array, n: int, generator: torch.Generator) -> torch.Tensor:
    colors = as_rgb(pixels)[:, :, :3].reshape(-1, 3)
    if pixels.shape[2] in (2, 4):
        colors = colors[pixels[:, :, -1].reshape(-1) > 0]
    if len(colors):
        colors = colors[torch.randint(len(colors), (n,), generator=generator).numpy()]
    return torch.from_numpy(colors.astype(np.float64))
