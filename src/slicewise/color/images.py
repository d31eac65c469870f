"""Images as numbers, and the pixels that speak for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slicewise.support import progress_bar

Array = np.ndarray[Any, Any]
Image = Array | Tensor

_FLOATS = (torch.float16, torch.float32, torch.float64)
# So many pixels of an image are looked at: more change no figure.
MOST_PIXELS = 2**20


class Parts(NamedTuple):
    """An image taken apart."""

    colours: Array  # (H, W, 3), of the dtype it came in
    alpha: Array | None  # (H, W, 1)
    whole: float  # the number that white has


def parts_of(image: Image, name: str) -> Parts:
    """Colours and alpha of an image: (H, W), or (H, W, 1 | 2 | 3 | 4), grey or RGB, the last perhaps alpha."""
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
            f"channels: grey or RGB, and perhaps alpha{hint}"
        )
    # As this machine has its numbers: some files have the bytes of 16 bits the other way round.
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    whole = _white(array, name)
    channels = array.shape[2]
    colours, alpha = array, None
    if channels in (2, 4):
        colours, alpha = array[:, :, :-1], array[:, :, -1:]
    if channels < 3:
        colours = np.repeat(colours[:, :, :1], 3, axis=2)
    return Parts(colours, alpha, whole)


def _numbers(image: Image) -> Any:
    if not isinstance(image, Tensor):
        return image
    if image.is_floating_point() and image.dtype not in _FLOATS:  # NumPy has no such numbers
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
    if not (low >= 0 and high <= 1):  # NaN is neither
        raise ValueError(
            f"{name} has values from {low:g} to {high:g}: give floating-point images in [0, 1], e.g. "
            f"divided by 255"
        )
    return 1.0


def mask_of(mask: Image, parts: Parts, name: str) -> Array:
    """How much of the change each pixel gets, (H, W, 1), float32 in [0, 1]."""
    array = np.asarray(_numbers(mask))
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.shape != parts.colours.shape[:2]:
        raise ValueError(
            f"mask has shape {array.shape}, {name} is {parts.colours.shape[0]} × {parts.colours.shape[1]}: "
            f"give one number for each pixel, 0 to leave it and 1 (255 of uint8) to change it"
        )
    white = 1.0 if array.dtype == np.bool_ else _white(array, "mask")
    return (array[:, :, None] / np.float32(white)).astype(np.float32)


class Pool:
    """Pixels of some images in an order in which neighbours are alike, to take even samples from.

    Along a curve that fills the colour cube every n-th pixel is a sample without clumps, and the same one
    wherever in the image its pixels lie.
    """

    def __init__(
        self,
        images: Sequence[Image],
        name: str,
        generator: torch.Generator,
        mask: Image | None = None,
        bar: bool | None = False,
    ) -> None:
        if not len(images):
            raise ValueError(f"{name} holds no image: give at least one")
        most = max(MOST_PIXELS // len(images), 256)
        pixels = []
        # Frames of a folder come from files, and may take longer to read than the map takes to fit.
        with progress_bar(len(images), bar if len(images) > 1 else False, "read") as tick:
            for done, image in enumerate(images, start=1):
                pixels.append(_visible(parts_of(image, name), mask, name, most, generator))
                tick(done, "")
        colours = np.concatenate(pixels)
        # One frame of many may well be empty, as where something fades in.
        if not len(colours):
            where = "all over" if mask is None else "wherever the mask is not black"
            raise ValueError(f"{name} is transparent {where}: it shows no colour; remove its alpha")
        self._pixels = colours[np.argsort(_along_curve(colours), kind="stable")]

    def take(self, places: Tensor) -> Tensor:
        """The colours (n, 3), float64 in [0, 1], at places (n,) in [0, 1) along the curve."""
        index = (places.numpy() * len(self._pixels)).astype(np.int64)
        return torch.from_numpy(self._pixels[np.minimum(index, len(self._pixels) - 1)])


def _visible(
    parts: Parts, mask: Image | None, name: str, most: int, generator: torch.Generator
) -> Array:
    """Pixels one can see, and that are to change: all of them, or a random subset, (n, 3) float64."""
    colours = parts.colours.reshape(-1, 3)
    seen = np.ones(len(colours), bool)
    if parts.alpha is not None:
        seen = parts.alpha.reshape(-1) > 0
    if mask is not None:
        share = mask_of(mask, parts, name).reshape(-1)
        if not share.any():
            raise ValueError("mask is black all over: make white what is to change")
        chosen = seen & (share >= 0.5)
        seen = chosen if chosen.any() else seen & (share > 0)
    if not seen.all():
        colours = colours[seen]
    if len(colours) > most:
        chosen = torch.randint(len(colours), (most,), generator=generator).numpy()
        colours = colours[chosen]
    return colours.astype(np.float64) / parts.whole


def _along_curve(colours: Array) -> Array:
    """A place on the Z-order curve through the colour cube, 16 bits a channel."""
    code = np.zeros(len(colours), np.uint64)
    for channel in range(3):
        bits = np.round(colours[:, channel] * 65535).astype(np.uint64)
        # Two empty bits are put between any two: each line moves the upper half of every group away.
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


def palette_of(colours: Tensor, size: int, seed: int) -> tuple[Tensor, Tensor]:
    """The k-means palette of colours (n, 3): (k, 3), and the share of colours each stands for."""
    try:
        from sklearn.cluster import MiniBatchKMeans
    except ImportError:
        raise ImportError("palette needs scikit-learn: pip install 'slicewise[lab]'") from None
    distinct = len(torch.unique(colours, dim=0))
    means = MiniBatchKMeans(
        min(size, distinct), n_init=1, batch_size=2048, random_state=seed % 2**32
    )
    labels = torch.from_numpy(means.fit_predict(colours.numpy())).long()
    counts = torch.bincount(labels, minlength=means.n_clusters).double()
    there = counts > 0
    return torch.from_numpy(means.cluster_centers_)[there], counts[there] / len(colours)
