"""Fields of stars: a dark ground of one color, whose faint light is spread so that it can take many colors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

from slicewise.color.artifacts import blur

# What a field of stars is: a dark ground of nearly one brightness, and lights all over it. In units of white.
_DARK, _EVEN = 0.2, 0.08  # the median of the ground, and the range of the middle half of the pixels
_LIGHT = 0.15  # by how much a light is brighter than the median
_WITHIN, _BARE = (
    0.08,
    0.05,
)  # of the longer side, and of the image: how much may have no light so near
# Blur of the brightness, over the longer side: what is left is smooth, and changes over a fifth of the image.
_BLUR = 0.1
# How much of the light that is missing to white the brightest parts of the ground get.
GLOW = 0.9


def is_star_field(image: Tensor) -> bool:
    """Tell whether an image (h, w, 3) is a dark ground of one brightness with lights all over it."""
    brightness = image.mean(-1)
    low, median, high = torch.quantile(_some(brightness), torch.tensor([0.25, 0.5, 0.75])).tolist()
    if median > _DARK or high - low > _EVEN:
        return False
    lights = (brightness > median + _LIGHT).float()[None, None]
    reach = max(1, round(_WITHIN * max(image.shape[:2])))
    near = max_pool2d(lights, 2 * reach + 1, 1, reach)
    return float(1 - near.mean()) < _BARE and float(lights.mean()) < 0.25


def faint_light(image: Tensor) -> Tensor:
    """Return how bright the surroundings of each pixel are, (h, w), evenly distributed from 0 to 1.

    It is the rank of the blurred rank of brightness: stars count by their number and not by their light, so that they have
    no disks around them, and grain averages out.
    """
    ranks = _ranks(image.mean(-1))
    sigma = _BLUR * max(image.shape[:2])
    return _ranks(blur(ranks[None, None], sigma)[0, 0])


def add_light(image: Tensor, light: Tensor) -> Tensor:
    """Add light (h, w) in [0, 1] to an image (h, w, 3), so that no more than white comes out."""
    return torch.lerp(image, torch.ones(()), light.unsqueeze(-1))


def _ranks(values: Tensor) -> Tensor:
    """The fraction of smaller values, and half of the equal ones."""
    flat = values.flatten().contiguous()
    order = flat.sort().values
    below, up_to = (torch.searchsorted(order, flat, right=right) for right in (False, True))
    return ((below + up_to).float() / (2 * len(flat))).reshape(values.shape)


def _some(values: Tensor) -> Tensor:
    """At most some hundred thousand of the values, evenly spaced: as many as a quantile is computed of."""
    flat = values.flatten()
    return flat[:: 1 + len(flat) // 2**17]
