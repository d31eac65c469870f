"""The displacement of every pixel, as a local linear function of its color: steep maps do not magnify grain."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

# Pixels of the longer side of the sample of the image.
_SIDE = 480
# Two maps are fitted around each pixel of the sample, and blended. The broad one uses every fourth pixel: squares of 33 ×
# 33 pixels. It moves grain, blotches and the blocks of JPEG along with what is around them. The fine one uses squares of
# 9 × 9, and keeps what is sharp.
_STRIDE, _STRIDE_SIDE, _RADIUS = 4, 128, 4
# Variances of colors, in units of white: added to those in a square, so that in calmer ones all pixels move alike.
_BROAD_CALM, _FINE_CALM = 0.03**2, 0.01**2
# Largest Frobenius norms of the slopes: along any direction detail grows to at most 2.5 or 5 times its size.
_BROAD_SLOPE, _FINE_SLOPE = 1.5, 4.0
# The fine map counts where colors vary by more than this within 9 × 9 pixels: at edges and in texture, which hides grain.
_TEXTURE = 0.04**2
# Squares count by how well a linear function describes the displacements in them: those with a larger variance of the
# error count less. If all but exact fits counted little, a fringe would be moved by the squares of its own color.
_GOOD_FIT = 0.02
_PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


class LocalMaps:
    """A map of colors near each pixel of an image: displacement = slopes · color + offset.

    This is the guided filter (He, Sun and Tang, 2013) of the displacements with the image as its guide, computed on a
    sample of the pixels and interpolated, so that an image of any size is processed a few rows at a time. In calm areas
    slopes are small and squares are large: grain, blotches and the steps of 8 bits move along with what is around them.
    At an edge the pixels between its two colors, and the ringing beside it, are moved between what moves the two sides.
    There and in texture squares are small, so that one side does not bleed into the other.
    """

    def __init__(self, sample: Tensor, moves: Tensor, block: int) -> None:
        """Fit the maps of an image of which every `block`-th pixel along both axes has a color and a displacement.

        Args:
            sample: Colors (h, w, 3), float32 in [0, 1].
            moves: Their displacements (h, w, 3).
            block: Distance of the sampled pixels; the first is at `block // 2`.
        """
        self._block = block
        # (12, h, w): nine slopes (color channel, then displaced channel), three offsets.
        self._planes = _local_maps(sample.permute(2, 0, 1), moves.permute(2, 0, 1))

    def widen(self, width: int, strength: float) -> None:
        """Interpolate along rows, for an image of this width, and multiply all displacements by `strength`."""
        self._planes = _enlarge(strength * self._planes, self._block, range(width), axis=2)

    def rows(self, planes: Tensor, first: int) -> Tensor:
        """Return the displacements (3, r, width) of the rows, colors (3, r, width), that begin at row `first`."""
        maps = _enlarge(self._planes, self._block, range(first, first + planes.shape[1]), axis=1)
        moves = maps[9:]
        for channel in range(3):
            moves.addcmul_(maps[3 * channel : 3 * channel + 3], planes[channel])
        return moves


def sample_spacing(height: int, width: int) -> int:
    """Return how many pixels apart an image of this size is sampled."""
    return max(1, round(max(height, width) / _SIDE))


def guide(colors: Tensor, move: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a small image (h, w, 3) with its displacements added: all of `LocalMaps` for an image that fits in memory."""
    maps = LocalMaps(colors, move(colors), 1)
    return colors + maps.rows(colors.permute(2, 0, 1), 0).permute(1, 2, 0)


def _local_maps(image: Tensor, moves: Tensor) -> Tensor:
    """The affine maps (12, h, w) of colors to displacements, both (3, h, w), around each pixel."""
    height, width = image.shape[1:]
    stride = min(_STRIDE, max(1, round(max(height, width) / _STRIDE_SIDE)))
    first = min(stride // 2, height - 1, width - 1)
    some = slice(first, None, stride)
    broad = _guided(image[:, some, some], moves[:, some, some], _BROAD_CALM, _BROAD_SLOPE)
    broad = _enlarge(broad, stride, range(width), axis=2)
    broad = _enlarge(broad, stride, range(height), axis=1)
    fine = _guided(image, moves, _FINE_CALM, _FINE_SLOPE)
    mean = _box(image)
    variance = (_box(image.square()) - mean.square()).sum(0).clamp_(min=0)
    return torch.lerp(broad, fine, (variance / (variance + _TEXTURE)).square_())


def _guided(image: Tensor, moves: Tensor, calm: float, max_slope: float) -> Tensor:
    """The guided filter of displacements (3, h, w): affine maps (12, h, w), means over the squares around each pixel."""
    height, width = image.shape[1:]
    color, move = _box(image), _box(moves)
    products = _box(torch.stack([image[i] * image[j] for i, j in _PAIRS]))
    covariance = [
        product.addcmul_(color[i], color[j], value=-1).add_(calm if i == j else 0)
        for product, (i, j) in zip(products, _PAIRS, strict=True)
    ]
    joint = _box((image.unsqueeze(1) * moves).reshape(9, height, width))
    joint = joint.reshape(3, 3, height, width).addcmul_(color.unsqueeze(1), move, value=-1)
    slopes = _solve(covariance, joint)
    spread = (_box(moves.square()) - move.square()).sum(0)
    error = (spread - (slopes * joint).sum((0, 1))).clamp_(min=0)  # (h, w)
    slopes *= max_slope / slopes.square().sum((0, 1)).sqrt_().clamp_(min=max_slope)
    offset = move - (slopes * color.unsqueeze(1)).sum(0)
    weight = 1 / (error + _GOOD_FIT)
    found = torch.cat([slopes.reshape(9, height, width), offset])
    return _box(found * weight) / _box(weight.unsqueeze(0))


def _solve(matrix: list[Tensor], right: Tensor) -> Tensor:
    """Solve A x = b at each pixel, for the planes (h, w) of symmetric positive matrices A and b (3, k, h, w).

    A is factored as L D Lᵀ, plane by plane: many times as fast as a solver of single matrices.
    """
    a00, a01, a02, a11, a12, a22 = matrix
    l10, l20 = a01 / a00, a02 / a00
    d1, below = a11 - l10 * a01, a12 - l20 * a01
    l21 = below / d1
    d2 = a22 - l20 * a02 - l21 * below
    y0 = right[0]
    y1 = right[1] - l10 * y0
    x2 = (right[2] - l20 * y0 - l21 * y1) / d2
    x1 = y1 / d1 - l21 * x2
    return torch.stack([y0 / a00 - l10 * x1 - l20 * x2, x1, x2])


def _box(image: Tensor) -> Tensor:
    """The mean of the square of 9 × 9 pixels around each pixel of planes (c, h, w); the border is repeated."""
    planes = pad(image.unsqueeze(0), (_RADIUS,) * 4, "replicate")[0]
    for axis in (2, 1):
        planes = _sums_of_nine(planes, axis)
    return planes.div_((2 * _RADIUS + 1) ** 2)


def _sums_of_nine(planes: Tensor, axis: int) -> Tensor:
    """The sums of every nine consecutive numbers along an axis: of two, four and eight, and one more."""

    def shifted(one: Tensor, by: int) -> Tensor:
        return one.narrow(axis, by, one.shape[axis] - by)

    sums = planes
    for by in (1, 2, 4):
        sums = sums.narrow(axis, 0, sums.shape[axis] - by) + shifted(sums, by)
    return sums.narrow(axis, 0, sums.shape[axis] - 1).add_(shifted(planes, 8))


def _enlarge(small: Tensor, block: int, pixels: range, axis: int) -> Tensor:
    """Interpolate planes linearly along one axis, at these pixels, between those that were sampled."""
    last = small.shape[axis] - 1
    place = torch.arange(pixels.start, pixels.stop, dtype=torch.float64)
    place = ((place - block // 2) / block).clamp(0, last)
    low = place.long().clamp(max=max(last - 1, 0))
    part = (place - low).float().reshape([-1 if i == axis else 1 for i in range(small.dim())])
    high = (low + 1).clamp(max=last)
    return torch.lerp(small.index_select(axis, low), small.index_select(axis, high), part)
