"""What a viewer would dislike in a recolored image, as numbers: seams, hue jumps, grain, halos, clipping."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import conv2d, max_pool2d, pad

from slicewise.color.spaces import to_cielab

# Differences are in ΔE of CIELAB: 1 is about what one can see side by side. Gradients are per pixel.
_SMOOTH = 1.0  # largest gradient, within 3 pixels, of a region that counts as smooth
_EDGE = 6.0  # gradient of a silhouette
_BESIDE = 6  # pixels from a silhouette in which halos are looked for
_APART = 4  # pixels between the colors whose hues are compared
_FINE, _BROAD = 1.5, 6.0  # blurs in pixels: without grain, and of the surroundings
_POWER = 4  # of the means over pixels: few strong artifacts count more than many weak ones
_LEAST_REGION = 0.02  # fraction of the image
_CLIPPED = 0.5 / 255


class Artifacts(NamedTuple):
    """Measures of one image against another of the same size; all but `clipped` in ΔE of CIELAB.

    Attributes:
        seams: Where the source is smooth, by how much the gradient (after a blur of 1.5 pixels, without grain) exceeds
            that of the surroundings (a blur of 6): a step does, a slope that is steep all over does not.
        hue_jumps: The same of the difference ΔH in hue between colors 4 pixels apart.
        grain: Fine detail (what a blur of 1.5 pixels removes) where the source is smooth.
        halos: Gradient within 6 pixels of silhouettes of the source, on either side of them.
        clipped: Fraction of pixels of which a channel became 0 or 1.
        steepness: The gradient itself where the source is smooth (after the blur of 1.5 pixels). A stronger contrast
            raises it as a seam does.
    """

    seams: float
    hue_jumps: float
    grain: float
    halos: float
    clipped: float
    steepness: float


class SourceRegions:
    """A source image, prepared to compare recolored versions of it.

    Args:
        colors: The source, (H, W, 3) in [0, 1], float32.
        seen: Which pixels count, (H, W), bool; None is all.
    """

    def __init__(self, colors: Tensor, seen: Tensor | None = None) -> None:
        lab = _planes(colors)
        gradient = _gradient(_blur(lab, _FINE))
        near = max_pool2d(gradient, 7, 1, 3)
        self._smooth = near < _SMOOTH
        edges = (gradient > _EDGE).float()
        beside = max_pool2d(edges, 2 * _BESIDE + 1, 1, _BESIDE) > 0
        self._beside = beside & (max_pool2d(edges, 3, 1, 1) == 0) & (gradient < _EDGE / 3)
        self._clipped = _at_the_limits(colors)
        if seen is not None:
            self._smooth, self._beside = self._smooth & seen, self._beside & seen

    def compare(self, colors: Tensor) -> Artifacts:
        """Return the artifacts of a recolored version (H, W, 3) of the source."""
        lab = _planes(colors)
        fine, broad = _blur(lab, _FINE), _blur(lab, _BROAD)
        gradient = _gradient(fine)
        steps = (gradient - _gradient(broad)).clamp(min=0)
        jumps = (_hue_difference(fine) - _hue_difference(broad)).clamp(min=0)
        return Artifacts(
            seams=_mean(steps, self._smooth),
            hue_jumps=_mean(jumps, self._smooth),
            grain=_mean((lab - fine).norm(dim=1, keepdim=True), self._smooth, 2),
            halos=_mean(_gradient(lab), self._beside),
            clipped=float((_at_the_limits(colors) & ~self._clipped).float().mean()),
            steepness=_mean(gradient, self._smooth),
        )


def _planes(colors: Tensor) -> Tensor:
    return 100 * to_cielab(colors).permute(2, 0, 1).unsqueeze(0)  # (1, 3, H, W)


def _at_the_limits(colors: Tensor) -> Tensor:
    return ((colors <= _CLIPPED) | (colors >= 1 - _CLIPPED)).any(-1)


def _mean(values: Tensor, where: Tensor, power: float = _POWER) -> float:
    """The power mean of values (1, 1, H, W) in a region; 0 where that is too small to be noticed."""
    if float(where.float().mean()) < _LEAST_REGION:
        return 0.0
    return float(values[where].pow(power).mean()) ** (1 / power)


def _gradient(image: Tensor) -> Tensor:
    """The length (1, 1, H, W) of the gradient over all channels, by central differences."""
    across = pad(image, (1, 1, 0, 0), "replicate")
    down = pad(image, (0, 0, 1, 1), "replicate")
    dx, dy = (across[..., 2:] - across[..., :-2]) / 2, (down[..., 2:, :] - down[..., :-2, :]) / 2
    return (dx.square() + dy.square()).sum(1, keepdim=True).sqrt()


def _hue_difference(image: Tensor) -> Tensor:
    """The larger ΔH (1, 1, H, W) of CIELAB to the pixel on the right and to the one below."""
    opponents = image[:, 1:]
    chroma = opponents.square().sum(1, keepdim=True).sqrt_()
    found = torch.zeros_like(chroma)
    height, width = image.shape[-2:]
    for down, right in ((0, _APART), (_APART, 0)):
        if height <= down or width <= right:
            continue

        def apart(plane: Tensor, down: int = down, right: int = right) -> Tensor:
            moved = plane[..., down:, right:] - plane[..., : height - down, : width - right]
            return moved.square_().sum(1, keepdim=True)

        part = found[..., : height - down, : width - right]
        torch.maximum(part, apart(opponents) - apart(chroma), out=part)  # squares; 0 at least
    return found.sqrt_()


def _blur(image: Tensor, sigma: float) -> Tensor:
    radius = math.ceil(2.5 * sigma)
    line = torch.exp(-((torch.arange(-radius, radius + 1) / sigma) ** 2) / 2)
    line = (line / line.sum()).to(image)
    channels = image.shape[1]
    for shape, around in (
        ((1, 1, 1, -1), (radius, radius, 0, 0)),
        ((1, 1, -1, 1), (0, 0, radius, radius)),
    ):
        kernel = line.reshape(shape).expand(channels, -1, -1, -1)
        image = conv2d(pad(image, around, "replicate"), kernel, groups=channels)
    return image
