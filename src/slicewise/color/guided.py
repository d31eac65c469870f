"""The displacement of every pixel, as a local linear function of its color: steep maps do not magnify grain."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad

# Pixels of the longer side of the sample of the image, and the radius of the squares used there.
_SIDE, _RADIUS = 512, 4
# Variance of colors, in units of white, below which a square is calm: all its pixels move alike, and grain stays as it is.
_CALM = 0.015**2
# Squares count by how well a linear function describes the displacements in them: those with a larger variance of the
# error count less. If all but exact fits counted little, a fringe would be moved by the squares of its own color.
_GOOD_FIT = 0.02
# Largest Frobenius norm of the slopes: along any direction detail grows to at most 2.5 times its size.
_MAX_SLOPE = 1.5
_PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


class LocalMaps:
    """A map of colors near each pixel of an image: displacement = slopes · color + offset.

    This is the guided filter (He, Sun and Tang, 2013) of the displacements with the image as its guide, computed on a
    sample of the pixels and interpolated, so that an image of any size is processed a few rows at a time. In calm areas
    slopes are small: grain and the steps of 8 bits move along with what is around them. At an edge the pixels between
    its two colors, and the ringing beside it, are moved between what moves the two sides. Squares that cross an edge of
    more than two colors count little, so that one side does not bleed into the other.
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
    color, move = _box(image), _box(moves)
    products = _box(torch.stack([image[i] * image[j] for i, j in _PAIRS]))
    covariance = image.new_empty(height, width, 3, 3)
    for product, (i, j) in zip(products, _PAIRS, strict=True):
        covariance[..., i, j] = covariance[..., j, i] = product - color[i] * color[j]
    joint = _box((image.unsqueeze(1) * moves).reshape(9, height, width))
    joint = (joint - (color.unsqueeze(1) * move).reshape(9, height, width)).permute(1, 2, 0)
    joint = joint.reshape(height, width, 3, 3)
    slopes = torch.linalg.solve(covariance + _CALM * torch.eye(3), joint)
    spread = (_box(moves.square()) - move.square()).sum(0)
    error = (spread - (slopes * joint).sum((-1, -2))).clamp(min=0)  # (h, w)
    steep = slopes.flatten(-2).norm(dim=-1).clamp(min=_MAX_SLOPE)
    slopes = (slopes * (_MAX_SLOPE / steep)[..., None, None]).permute(2, 3, 0, 1)
    offset = move - (slopes * color.unsqueeze(1)).sum(0)
    weight = 1 / (error + _GOOD_FIT)
    found = torch.cat([slopes.reshape(9, height, width), offset])
    return _box(found * weight) / _box(weight.unsqueeze(0))


def _box(image: Tensor) -> Tensor:
    """The mean of the square around each pixel of planes (c, h, w); the border is repeated."""
    side, planes = 2 * _RADIUS + 1, image.unsqueeze(0)
    planes = avg_pool2d(pad(planes, (_RADIUS, _RADIUS, 0, 0), "replicate"), (1, side), 1)
    return avg_pool2d(pad(planes, (0, 0, _RADIUS, _RADIUS), "replicate"), (side, 1), 1)[0]


def _enlarge(small: Tensor, block: int, pixels: range, axis: int) -> Tensor:
    """Interpolate planes linearly along one axis, at these pixels, between those that were sampled."""
    last = small.shape[axis] - 1
    place = torch.arange(pixels.start, pixels.stop, dtype=torch.float64)
    place = ((place - block // 2) / block).clamp(0, last)
    low = place.long().clamp(max=max(last - 1, 0))
    part = (place - low).float().reshape([-1 if i == axis else 1 for i in range(small.dim())])
    high = (low + 1).clamp(max=last)
    return torch.lerp(small.index_select(axis, low), small.index_select(axis, high), part)
