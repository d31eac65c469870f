"""The displacement of every pixel, as a local linear function of its color: steep maps do not magnify grain."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad

# Pixels of the longer side of the sample of the image.
_SIDE = 480
# Three maps are fitted around each pixel of the sample, and blended. The vast one has squares of 144 × 144 pixels, of
# which only calm ones count: it turns a sky of several colors into a gradient without rims. The broad one uses every
# fourth pixel: squares of 33 × 33 pixels. It moves grain, blotches and the blocks of JPEG along with what is around
# them. The fine one uses squares of 9 × 9, and keeps what is sharp.
_RADIUS = 4
_STRIDE, _STRIDE_SIDE = 4, 128
_VAST_BLOCKS = 30  # along the longer side
# Variances of colors, in units of white: added to those in a square, so that in calmer ones all pixels move alike.
_VAST_CALM, _BROAD_CALM, _FINE_CALM = 0.06**2, 0.03**2, 0.01**2
# Largest Frobenius norms of the slopes: along any direction detail grows to at most 2.5 or 3 times its size.
_BROAD_SLOPE, _FINE_SLOPE = 1.5, 2.0
# The fine map counts where colors vary by more than this within 9 × 9 pixels: at edges and in texture, which hides grain.
_TEXTURE = 0.04**2
# The vast map counts where what is calm varies by less than this within 144 × 144 pixels: one sky, not a face and a wall.
_ONE_REGION = 0.12**2
_LEAST_CALM = 1e-4  # fraction of the pixels of a vast square
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
    There and in texture squares are small, so that one side does not bleed into the other. Where all that is calm has
    similar colors, as in a sky, squares are a third of the image, so that its colors change without a rim.
    """

    def __init__(self, sample: Tensor, moves: Tensor, block: int, *, gradual: bool = True) -> None:
        """Fit the maps of an image of which every `block`-th pixel along both axes has a color and a displacement.

        Args:
            sample: Colors (h, w, 3), float32 in [0, 1].
            moves: Their displacements (h, w, 3).
            block: Distance of the sampled pixels; the first is at `block // 2`.
            gradual: Whether calm regions of similar colors have squares of a third of the image.
        """
        self._block = block
        # (12, h, w): nine slopes (color channel, then displaced channel), three offsets.
        self._planes = _local_maps(sample.permute(2, 0, 1), moves.permute(2, 0, 1), gradual)

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


def guide(colors: Tensor, move: Callable[[Tensor], Tensor], *, gradual: bool = True) -> Tensor:
    """Return a small image (h, w, 3) with its displacements added: all of `LocalMaps` for an image that fits in memory."""
    maps = LocalMaps(colors, move(colors), 1, gradual=gradual)
    return colors + maps.rows(colors.permute(2, 0, 1), 0).permute(1, 2, 0)


def _local_maps(image: Tensor, moves: Tensor, gradual: bool) -> Tensor:
    """The affine maps (12, h, w) of colors to displacements, both (3, h, w), around each pixel."""
    height, width = image.shape[1:]
    longer = max(height, width)
    moments = _moments(image, moves)
    means = _box(moments)
    texture = _large(_variance(means), _TEXTURE)
    fine = _guided(means, _FINE_CALM, _FINE_SLOPE)
    stride = min(_STRIDE, max(1, round(longer / _STRIDE_SIDE)))
    first = min(stride // 2, height - 1, width - 1)
    means = _box(moments[:, first::stride, first::stride])
    broad = _guided(means, _BROAD_CALM, _BROAD_SLOPE)
    broad = _enlarge_both(broad, stride, height, width)
    if not gradual:
        return torch.lerp(broad, fine, texture)
    block = max(1, round(longer / _VAST_BLOCKS))
    calm = _box(_blocks((1 - texture).unsqueeze(0), block)).add_(_LEAST_CALM)
    means = _box(_blocks(moments.mul_(1 - texture), block)).div_(calm)
    vast = _guided(means, _VAST_CALM, _BROAD_SLOPE, calm)
    several = _large(_variance(means), _ONE_REGION).unsqueeze(0)
    vast = _enlarge_both(torch.cat([vast, several]), block, height, width)
    return torch.lerp(torch.lerp(vast[:12], broad, vast[12]), fine, texture)


def _moments(image: Tensor, moves: Tensor) -> Tensor:
    """Products (22, h, w) of colors and displacements, both (3, h, w), of which `_guided` takes means.

    They are the colors, the displacements, products of two colors, of a color and a displacement, and the squared length
    of the displacement.
    """
    height, width = image.shape[1:]
    products = torch.stack([image[i] * image[j] for i, j in _PAIRS])
    joint = (image.unsqueeze(1) * moves).reshape(9, height, width)
    return torch.cat([image, moves, products, joint, moves.square().sum(0, keepdim=True)])


def _variance(means: Tensor) -> Tensor:
    """The variance (h, w) of colors, summed over channels, of means (22, h, w) of moments."""
    squares = means[6:12][[i for i, (a, b) in enumerate(_PAIRS) if a == b]]
    return (squares.sum(0) - means[:3].square().sum(0)).clamp_(min=0)


def _large(variance: Tensor, usual: float) -> Tensor:
    """From 0 for small variances to 1 for large ones; 1/4 at the usual one."""
    return (variance / (variance + usual)).square_()


def _guided(means: Tensor, calm: float, max_slope: float, amount: Tensor | float = 1.0) -> Tensor:
    """The guided filter of displacements: affine maps (12, h, w), means over the squares around each pixel.

    Args:
        means: Of moments (22, h, w), over the squares.
        calm: Variance that is added to that of the colors.
        max_slope: Largest Frobenius norm of the slopes.
        amount: How much of a square counts, (1, h, w).
    """
    height, width = means.shape[1:]
    color, move, products, joint, length = means.split((3, 3, 6, 9, 1))
    covariance = [
        product - color[i] * color[j] + (calm if i == j else 0)
        for product, (i, j) in zip(products, _PAIRS, strict=True)
    ]
    joint = joint.reshape(3, 3, height, width) - color.unsqueeze(1) * move
    slopes = _solve(covariance, joint)
    error = length - move.square().sum(0) - (slopes * joint).sum((0, 1))
    weight = amount / (error.clamp_(min=0) + _GOOD_FIT)  # (1, h, w)
    slopes *= max_slope / slopes.square().sum((0, 1)).sqrt_().clamp_(min=max_slope)
    offset = move - (slopes * color.unsqueeze(1)).sum(0)
    found = torch.cat([slopes.reshape(9, height, width), offset])
    return _box(found * weight) / _box(weight)


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


def _blocks(planes: Tensor, block: int) -> Tensor:
    """The means of square blocks of pixels of planes (c, h, w); those at the right and lower borders may be smaller."""
    return avg_pool2d(planes.unsqueeze(0), block, ceil_mode=True, count_include_pad=False)[0]


def _enlarge_both(small: Tensor, block: int, height: int, width: int) -> Tensor:
    """Interpolate planes linearly along both axes to a size."""
    return _enlarge(_enlarge(small, block, range(width), axis=2), block, range(height), axis=1)


def _enlarge(small: Tensor, block: int, pixels: range, axis: int) -> Tensor:
    """Interpolate planes linearly along one axis, at these pixels, between those that were sampled."""
    last = small.shape[axis] - 1
    place = torch.arange(pixels.start, pixels.stop, dtype=torch.float64)
    place = ((place - block // 2) / block).clamp(0, last)
    low = place.long().clamp(max=max(last - 1, 0))
    part = (place - low).float().reshape([-1 if i == axis else 1 for i in range(small.dim())])
    high = (low + 1).clamp(max=last)
    return torch.lerp(small.index_select(axis, low), small.index_select(axis, high), part)
