"""What a viewer would dislike in a recolored image, as numbers: seams, hue jumps, grain, halos, blotches, lost detail."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
_LEAST_REGION, _LEAST_SKIN = 0.02, 0.05  # fractions of the image
_CLIPPED = 0.5 / 255
# Colors of skin across a blotch: the longer side of the image, over this, and how much their differences may grow.
_BLOTCH, _SKIN_GROWTH = 14, 1.5
# What may be skin, in CIELAB: hue in degrees, chroma and lightness. Fur, wood and sand have such colors as well.
_SKIN_HUE, _SKIN_CHROMA, _SKIN_LIGHTNESS = (25, 70), (12, 45), (30, 90)
# Calm colors that are alike in the source: the longer side over this apart, at most so different, and how much more
# different they may become.
_REGION, _ALIKE, _REGION_GROWTH = 4, 8.0, 1.5
_ORDER = 6  # pixels between those whose order of lightness is compared
_LEAST_ORDER = 1.0  # difference of lightness that has an order
# Lightness below which detail is lost to black, and to which part of its size it has to shrink for that.
_BLACK, _SHRUNK = 10.0, 0.25
_LEAST_USUAL = 0.01  # part of their size to which differences shrink in the whole image


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
        blotches: By how much colors of skin, a fourteenth of the longer side apart, differ more than one and a half times
            as much as in the source. Fur and wood may have these colors too.
        reversals: By how much what was darker 6 pixels apart has become lighter: rims around stars, eyes like a negative.
        unevenness: By how much smooth pixels of nearly one color differ, a quarter of the longer side apart, more than
            one and a half times as much as in the source: a gray sky that turns orange at one side.
        crushed: How much of their difference of lightness pixels 6 apart have lost that are both nearly black now, where it
            shrank to less than a quarter of what differences in the whole image keep: hair that becomes a black patch.
    """

    seams: float
    hue_jumps: float
    grain: float
    halos: float
    clipped: float
    steepness: float
    blotches: float
    reversals: float
    unevenness: float
    crushed: float


class SourceRegions:
    """A source image, prepared to compare recolored versions of it.

    Args:
        colors: The source, (H, W, 3) in [0, 1], float32.
        seen: Which pixels count, (H, W), bool; None is all.
    """

    def __init__(self, colors: Tensor, seen: Tensor | None = None) -> None:
        lab = _planes(colors)
        fine = _blur(lab, _FINE)
        gradient = _gradient(fine)
        near = max_pool2d(gradient, 7, 1, 3)
        self._smooth = near < _SMOOTH
        edges = (gradient > _EDGE).float()
        beside = max_pool2d(edges, 2 * _BESIDE + 1, 1, _BESIDE) > 0
        self._beside = beside & (max_pool2d(edges, 3, 1, 1) == 0) & (gradient < _EDGE / 3)
        self._clipped = _at_the_limits(colors)
        if seen is not None:
            self._smooth, self._beside = self._smooth & seen, self._beside & seen
        counted = torch.ones_like(self._smooth) if seen is None else seen.expand_as(self._smooth)
        self._across = max(1, round(max(colors.shape[:2]) / _BLOTCH))
        self._sizes = _distances(fine, self._across)
        self._skin = _both(counted & skin_colored(fine), self._across)
        self._far = max(1, round(max(colors.shape[:2]) / _REGION))
        self._differences = _distances(fine, self._far)
        self._alike = [
            both & (apart < _ALIKE)
            for both, apart in zip(_both(self._smooth, self._far), self._differences, strict=True)
        ]
        lightness = _steps(fine[:, :1], _ORDER)
        self._order = [_sign_of_large(step) for step in lightness]
        self._detail = [step.abs() for step in lightness]
        self._ordered = _both(counted, _ORDER)

    def compare(self, colors: Tensor) -> Artifacts:
        """Return the artifacts of a recolored version (H, W, 3) of the source."""
        lab = _planes(colors)
        fine, broad = _blur(lab, _FINE), _blur(lab, _BROAD)
        gradient = _gradient(fine)
        steps = (gradient - _gradient(broad)).clamp(min=0)
        jumps = (_hue_difference(fine) - _hue_difference(broad)).clamp(min=0)
        order = _steps(fine[:, :1], _ORDER)
        # A target of little contrast shrinks all differences: only what shrinks far more than the others is lost.
        usual = _total(order, self._ordered) / max(
            _total(self._detail, self._ordered), _LEAST_ORDER
        )
        least = _SHRUNK * min(1.0, max(usual, _LEAST_USUAL))
        black = _both(fine[:, :1] < _BLACK, _ORDER)
        lost = [
            (was - now.abs() / least) * both
            for was, now, both in zip(self._detail, order, black, strict=True)
        ]
        return Artifacts(
            seams=_mean(steps, self._smooth),
            hue_jumps=_mean(jumps, self._smooth),
            grain=_mean((lab - fine).norm(dim=1, keepdim=True), self._smooth, 2),
            halos=_mean(_gradient(lab), self._beside),
            clipped=float((_at_the_limits(colors) & ~self._clipped).float().mean()),
            steepness=_mean(gradient, self._smooth),
            blotches=_mean_of_all(
                _growth(_distances(fine, self._across), self._sizes, _SKIN_GROWTH),
                self._skin,
                _LEAST_SKIN,
            ),
            reversals=_mean_of_all(
                [-now * was for now, was in zip(order, self._order, strict=True)], self._ordered
            ),
            unevenness=_mean_of_all(
                _growth(_distances(fine, self._far), self._differences, _REGION_GROWTH),
                self._alike,
            ),
            crushed=_mean_of_all(lost, self._ordered),
        )


def _planes(colors: Tensor) -> Tensor:
    return 100 * to_cielab(colors).permute(2, 0, 1).unsqueeze(0)  # (1, 3, H, W)


def _at_the_limits(colors: Tensor) -> Tensor:
    return ((colors <= _CLIPPED) | (colors >= 1 - _CLIPPED)).any(-1)


def _mean(
    values: Tensor, where: Tensor, power: float = _POWER, least: float = _LEAST_REGION
) -> float:
    """The power mean of values (1, 1, H, W) in a region; 0 where that is too small to be noticed."""
    if not where.numel() or float(where.float().mean()) < least:
        return 0.0
    return float(values[where].pow(power).mean()) ** (1 / power)


def _mean_of_all(
    values: Sequence[Tensor], where: Sequence[Tensor], least: float = _LEAST_REGION
) -> float:
    """The power mean of what is positive of several planes, each in its region."""
    flat = torch.cat([value.flatten() for value in values]).clamp(min=0)
    return _mean(flat, torch.cat([part.flatten() for part in where]), least=least)


def _steps(image: Tensor, apart: int) -> list[Tensor]:
    """The differences (1, c, h, w) of pixels some pixels apart, along both axes: what is right or below less the other."""
    return [ends[1] - ends[0] for ends in _ends(image, apart)]


def _distances(image: Tensor, apart: int) -> list[Tensor]:
    """The lengths (1, 1, h, w) of `_steps`."""
    return [step.square().sum(1, keepdim=True).sqrt_() for step in _steps(image, apart)]


def _total(steps: Sequence[Tensor], where: Sequence[Tensor]) -> float:
    """The sum of the sizes of differences, each in its region."""
    return sum(float(step[part].abs().sum()) for step, part in zip(steps, where, strict=True))


def _growth(now: Sequence[Tensor], was: Sequence[Tensor], allowed: float) -> list[Tensor]:
    """By how much distances exceed what they were, times what is allowed."""
    return [after - allowed * before for after, before in zip(now, was, strict=True)]


def _both(region: Tensor, apart: int) -> list[Tensor]:
    """Where both pixels of `_steps` are in a region (1, 1, H, W)."""
    return [ends[0] & ends[1] for ends in _ends(region, apart)]


def _ends(image: Tensor, apart: int) -> list[tuple[Tensor, Tensor]]:
    """The pixels some pixels apart along both axes, half of an axis if that is less."""
    found = []
    for axis in (-1, -2):
        side = image.shape[axis]
        left = side - min(apart, side // 2) if side > 1 else 0
        found.append((image.narrow(axis, 0, left), image.narrow(axis, side - left, left)))
    return found


def _sign_of_large(step: Tensor) -> Tensor:
    """−1 or 1, and 0 where a difference is too small to have an order."""
    return torch.where(step.abs() > _LEAST_ORDER, step.sign(), 0)


def black_part(colors: Tensor) -> float:
    """Which part of the colors (m, 3), in [0, 1], is nearly black."""
    return float((100 * to_cielab(colors)[:, 0] < _BLACK).double().mean())


def skin_colored(lab: Tensor) -> Tensor:
    """Where (1, 1, H, W) colors (1, 3, H, W) of CIELAB may be those of skin."""
    lightness, a, b = lab[0]
    hue = torch.rad2deg(torch.atan2(b, a))
    found = torch.ones_like(lightness, dtype=torch.bool)
    for values, (low, high) in (
        (hue, _SKIN_HUE),
        (torch.hypot(a, b), _SKIN_CHROMA),
        (lightness, _SKIN_LIGHTNESS),
    ):
        found &= (values >= low) & (values <= high)
    return found[None, None]


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
    """Blur planes (1, c, h, w) by a Gaussian; the border is repeated."""
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
