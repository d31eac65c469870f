"""Maps of several regions of an image (sky to sky, ground to ground), blended by soft masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.color.color_transfer import ColorTransfer
from slicewise.color.images import Image, join_image, mask_weights, split_image

Regions = Sequence[tuple[Image, Image]]


class RegionTransfer:
    """One map for each pair of regions, applied together to images of the size of the source's masks.

    Where masks overlap or have soft edges the displacements are blended in proportion to them; what no mask covers
    stays as it is. Use it if colors must not cross: the sky of one photograph to the sky of another.

    Args:
        options: Those of `ColorTransfer`.

    Example:
        >>> source, target = np.zeros((4, 4, 3)), np.zeros((2, 2, 3))
        >>> source[2:], target[1:] = 0.5, (1.0, 0.5, 0.0)
        >>> upper, lower = (np.zeros((4, 4)), np.zeros((2, 2))), (np.zeros((4, 4)), np.zeros((2, 2)))
        >>> upper[0][:2], upper[1][:1], lower[0][2:], lower[1][1:] = 1, 1, 1, 1
        >>> moved = RegionTransfer(generator=0).fit(source, target, [upper, lower]).transform(source)
        >>> moved[0, 0].round(2).tolist(), moved[3, 3].round(2).tolist()
        ([0.0, 0.0, 0.0], [1.0, 0.5, 0.0])
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._maps: list[ColorTransfer] = []
        self._masks: list[Image] = []

    def fit(
        self,
        source: Image | Sequence[Image],
        target: Image,
        regions: Regions,
        *,
        progress_bar: bool | None = False,
    ) -> RegionTransfer:
        """Fit the map of each region.

        Args:
            source: An image, or several of one size.
            target: An image.
            regions: Pairs of masks, of the source (H, W) and of the target, as those of `ColorTransfer.fit`.
            progress_bar: Show progress bars; None shows them on a terminal.

        Returns:
            Itself.

        Raises:
            ValueError: If there is no region, or as `ColorTransfer.fit`.
        """
        if not len(regions):
            raise ValueError(
                "regions is empty: give pairs of masks, of the source and of the target"
            )
        self._masks = [of_source for of_source, _ in regions]
        self._maps = [
            ColorTransfer(**self._options).fit(
                source, target, mask=here, target_mask=there, progress_bar=progress_bar
            )
            for here, there in regions
        ]
        return self

    def transform(
        self,
        image: Image,
        *,
        strength: float = 1.0,
        keep_luminance: bool = False,
        mask: Image | None = None,
        progress_bar: bool | None = False,
    ) -> Any:
        """Apply the maps to an image of the size of the masks; see `ColorTransfer.transform`."""
        if not self._maps:
            raise ValueError("nothing is fitted yet: call fit(source, target, regions) first")
        parts = split_image(image, "image")
        shares = [mask_weights(one, parts, "image") for one in self._masks]
        total = np.maximum(sum(shares), np.float32(1))
        outer = 1.0 if mask is None else mask_weights(mask, parts, "image")
        # In floating point: each region would be rounded by itself.
        colors = parts.colors.astype(np.float32) / np.float32(parts.white)
        moved = colors.copy()
        for one, share in zip(self._maps, shares, strict=True):
            moved += (
                one.transform(
                    colors,
                    strength=strength,
                    keep_luminance=keep_luminance,
                    mask=(share / total * outer)[:, :, 0],
                    progress_bar=progress_bar,
                )
                - colors
            )
        moved = np.clip(moved, 0, 1) * np.float32(parts.white)
        if parts.colors.dtype.kind == "u":
            moved = moved.round()
        whole = join_image(moved.astype(parts.colors.dtype), parts.alpha)
        return torch.from_numpy(whole).to(image.device) if isinstance(image, Tensor) else whole


def feather(mask: Image, radius: float) -> Any:
    """Soften the edges of a mask (H, W) over some pixels.

    Args:
        mask: As that of `ColorTransfer.fit`; uint8, bool or floating-point numbers in [0, 1].
        radius: Pixels over which an edge becomes soft, on either side; 0 leaves it as it is.

    Returns:
        The mask in float32, (H, W), from 0 to 1.

    Raises:
        ValueError: If the radius is negative.
    """
    if not radius >= 0:
        raise ValueError(f"radius = {radius}: give a number of pixels, at least 0")
    array = np.asarray(mask)
    white = {"b": 1.0, "u": float(np.iinfo(array.dtype).max) if array.dtype.kind == "u" else 1.0}
    soft = array.astype(np.float32) / white.get(array.dtype.kind, 1.0)
    # Three means of boxes are nearly a Gaussian.
    box = round(radius * 2 / 3)
    for axis in (0, 1) * 3 if box else ():
        soft = _box_mean(soft, box, axis)
    return soft


def _box_mean(image: Any, radius: int, axis: int) -> Any:
    widths = [(radius + 1, radius) if i == axis else (0, 0) for i in range(2)]
    sums = np.cumsum(np.pad(image, widths, "edge"), axis=axis, dtype=np.float64)
    side, size = 2 * radius + 1, image.shape[axis]
    ends, starts = (sums.take(range(i, i + size), axis) for i in (side, 0))
    return ((ends - starts) / side).astype(np.float32)
