"""Images as arrays of colors, and samples of their pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from slicewise.support import progress_bar

Array = np.ndarray[Any, Any]
Image = Array | Tensor

_FLOATS = (torch.float16, torch.float32, torch.float64)
# Pixels of all images together that are sampled from: more do not change the result.
MAX_PIXELS = 2**18
# Pixels of the longer side of the copies on which a map is judged, and how many images of several are copied.
_COPY_SIDE, _COPIES = 320, 3


class ImageParts(NamedTuple):
    """The colors and the alpha of an image."""

    colors: Array  # (H, W, 3), of the dtype of the image
    alpha: Array | None  # (H, W, 1)
    white: float  # the value of white: 255, 65535 or 1


def split_image(image: Image, name: str) -> ImageParts:
    """Split an image (H, W), or (H, W, C) with C from 1 to 4, into colors and alpha; `name` is for errors."""
    array = _numbers(image)
    if not isinstance(array, np.ndarray):
        raise ValueError(
            f"{name} is a {type(image).__name__}: give an array or a tensor (height, width, 3); for a "
            f"file, numpy.asarray(PIL.Image.open(file))"
        )
    shape = array.shape
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 2, 3, 4) or array.size == 0:
        turned = len(shape) == 3 and shape[0] in (3, 4)
        hint = "; channels come last: permute(1, 2, 0)" if turned else ""
        hint = "; several images come as a list of them, one by one" if len(shape) == 4 else hint
        raise ValueError(
            f"{name} has shape {shape}: give (height, width), or (height, width, channels) with 1 to 4 "
            f"channels: gray or RGB, and perhaps alpha{hint}"
        )
    # In the byte order of this machine: some 16-bit files have the other.
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    white = _white(array, name)
    channels = array.shape[2]
    colors, alpha = array, None
    if channels in (2, 4):
        colors, alpha = array[:, :, :-1], array[:, :, -1:]
    if channels < 3:
        colors = np.repeat(colors[:, :, :1], 3, axis=2)
    return ImageParts(colors, alpha, white)


def join_image(colors: Array, alpha: Array | None) -> Array:
    """Put colors (H, W, 3) and alpha (H, W, 1) together again."""
    return colors if alpha is None else np.concatenate([colors, alpha], axis=2)


def _numbers(image: Image) -> Any:
    if not isinstance(image, Tensor):
        return image
    if image.is_floating_point() and image.dtype not in _FLOATS:  # not in NumPy
        raise ValueError(f"an image has dtype {image.dtype}: give image.float()")
    return image.detach().cpu().numpy()


def _white(array: Array, name: str) -> float:
    if array.dtype == np.uint8:
        return 255.0
    if array.dtype == np.uint16:
        return 65535.0
    if array.dtype.kind != "f":
        raise ValueError(
            f"{name} has dtype {array.dtype}: give uint8, uint16, or floating-point numbers in [0, 1]"
        )
    low, high = float(array.min()), float(array.max())
    if not (low >= 0 and high <= 1):  # true of NaN as well
        raise ValueError(
            f"{name} has values from {low:g} to {high:g}: give floating-point images in [0, 1], e.g. "
            f"divided by 255"
        )
    return 1.0


def mask_weights(mask: Image, parts: ImageParts, name: str) -> Array:
    """Return a mask as the fraction of the change that each pixel gets, (H, W, 1), float32 in [0, 1]."""
    array = np.asarray(_numbers(mask))
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.shape != parts.colors.shape[:2]:
        raise ValueError(
            f"mask has shape {array.shape}, {name} is {parts.colors.shape[0]} × {parts.colors.shape[1]}: "
            f"give one number for each pixel, 0 to leave it and 1 (255 of uint8) to change it"
        )
    white = 1.0 if array.dtype == np.bool_ else _white(array, "mask")
    return (array[:, :, None] / np.float32(white)).astype(np.float32)


class SmallCopy(NamedTuple):
    """An image as on a small screen, on which a map is judged."""

    colors: Tensor  # (h, w, 3), float32 in [0, 1]
    seen: Tensor  # (h, w), bool: neither transparent nor masked out


class PixelSampler:
    """Pixels of some images, sorted along a curve that fills the color cube, to draw even samples from.

    Neighbors on the curve have similar colors, so that every n-th pixel is a sample without clusters. It does not
    depend on where in the image the pixels are.
    """

    def __init__(
        self,
        images: Sequence[Image],
        name: str,
        generator: torch.Generator,
        mask: Image | None = None,
        show_bar: bool | None = False,
    ) -> None:
        if not len(images):
            raise ValueError(f"{name} holds no image: give at least one")
        max_pixels = max(MAX_PIXELS // len(images), 256)
        pixels = []
        self.copies: list[SmallCopy] = []
        chosen = set(np.linspace(0, len(images) - 1, _COPIES).round().astype(int).tolist())
        # Reading the frames of a folder may take longer than the fit.
        with progress_bar(len(images), show_bar if len(images) > 1 else False, "read") as tick:
            for done, image in enumerate(images, start=1):
                parts = split_image(image, name)
                pixels.append(_visible_pixels(parts, mask, name, max_pixels, generator))
                if done - 1 in chosen and len(pixels[-1]):
                    self.copies.append(_small_copy(parts, mask, name))
                tick(done, "")
        colors = np.concatenate(pixels)
        # One frame of several may be empty, as where a film fades in.
        if not len(colors):
            where = "all over" if mask is None else "wherever the mask is not black"
            raise ValueError(f"{name} is transparent {where}: it shows no color; remove its alpha")
        self._pixels = colors[np.argsort(_z_order(colors), kind="stable")]

    def spread(self, n: int) -> Tensor:
        """Return the colors (n, 3), float64 in [0, 1], at evenly spaced places along the curve."""
        return self.take((torch.arange(n, dtype=torch.float64) + 0.5) / n)

    def take(self, places: Tensor) -> Tensor:
        """Return the colors (n, 3), float64 in [0, 1], at places (n,) in [0, 1) along the curve."""
        index = (places.numpy() * len(self._pixels)).astype(np.int64)
        return torch.from_numpy(self._pixels[np.minimum(index, len(self._pixels) - 1)])


def _visible_pixels(
    parts: ImageParts, mask: Image | None, name: str, max_pixels: int, generator: torch.Generator
) -> Array:
    """The pixels (n, 3), float64, that are not transparent and not masked out; a random subset if there are many."""
    colors = parts.colors.reshape(-1, 3)
    seen = np.ones(len(colors), bool)
    if parts.alpha is not None:
        seen = parts.alpha.reshape(-1) > 0
    if mask is not None:
        share = mask_weights(mask, parts, name).reshape(-1)
        if not share.any():
            raise ValueError("mask is black all over: make white what is to change")
        chosen = seen & (share >= 0.5)
        seen = chosen if chosen.any() else seen & (share > 0)
    if not seen.all():
        colors = colors[seen]
    if len(colors) > max_pixels:
        chosen = torch.randint(len(colors), (max_pixels,), generator=generator).numpy()
        colors = colors[chosen]
    return colors.astype(np.float64) / parts.white


def _small_copy(parts: ImageParts, mask: Image | None, name: str) -> SmallCopy:
    """Copy an image as on a small screen: the mean of some pixels of each block."""
    longer = max(parts.colors.shape[:2])
    skipped = max(1, longer // (3 * _COPY_SIDE))  # of a block, 3 × 3 pixels are enough
    block = max(1, round(longer / skipped / _COPY_SIDE))

    def reduced(planes: Array) -> Tensor:
        some = torch.from_numpy(planes[::skipped, ::skipped].astype(np.float32)).permute(2, 0, 1)
        return avg_pool2d(some, block, ceil_mode=True, count_include_pad=False)

    seen = np.ones((*parts.colors.shape[:2], 1), np.float32)
    if parts.alpha is not None:
        seen = seen * (parts.alpha > 0)
    if mask is not None:
        seen = seen * mask_weights(mask, parts, name)
    colors = reduced(parts.colors) / parts.white
    return SmallCopy(colors.permute(1, 2, 0).contiguous(), reduced(seen)[0] >= 0.5)


def _z_order(colors: Array) -> Array:
    """Positions on the Z-order curve through the color cube, 16 bits per channel."""
    code = np.zeros(len(colors), np.uint64)
    for channel in range(3):
        bits = np.round(colors[:, channel] * 65535).astype(np.uint64)
        # Insert two empty bits between any two: each line shifts the upper half of every group of bits.
        for shift, kept in (
            (32, 0x1F00000000FFFF),
            (16, 0x1F0000FF0000FF),
            (8, 0x100F00F00F00F00F),
            (4, 0x10C30C30C30C30C3),
            (2, 0x1249249249249249),
        ):
            bits = (bits | (bits << np.uint64(shift))) & np.uint64(kept)
        code |= bits << np.uint64(channel)
    return code


def kmeans_palette(colors: Tensor, size: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return the k-means palette (k, 3) of colors (n, 3), and the fraction (k,) of them that each stands for."""
    try:
        from sklearn.cluster import MiniBatchKMeans
    except ImportError:
        raise ImportError("palette needs scikit-learn: pip install 'slicewise[lab]'") from None
    distinct = len(torch.unique(colors, dim=0))
    means = MiniBatchKMeans(
        min(size, distinct), n_init=1, batch_size=2048, random_state=seed % 2**32
    )
    labels = torch.from_numpy(means.fit_predict(colors.numpy())).long()
    counts = torch.bincount(labels, minlength=means.n_clusters).double()
    used = counts > 0
    return torch.from_numpy(means.cluster_centers_)[used], counts[used] / len(colors)
