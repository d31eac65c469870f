"""Slices that climb: one kernel for what is a dozen small operations in plain torch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slicewise.kernels.cuda.compiler import Route
from slicewise.kernels.cuda.draw import by_row, row_kernel

_BLOCK = 128


def ascend(
    slices: Tensor,
    gradient: Tensor,
    costs: Tensor,
    *,
    rate: float | None,
    p: float,
    points: int,
    coupled: bool,
    back_to_sphere: bool,
    route: Route,
) -> Tensor:
    """`moves.Ascend.raised` from costs (..., L) and their gradients (..., L, d); unit rows if asked for."""
    slices, gradient, costs = slices.contiguous(), gradient.contiguous(), costs.contiguous()
    out = torch.empty_like(gradient)
    n_slices, d = slices.shape[-2:]
    numbers = (-1.0 if rate is None else float(rate), float(p), float(points))
    sizes = (int(coupled), int(back_to_sphere), costs.numel(), n_slices, d)
    by_row("ascend_rows", out, [out, slices, gradient, costs, *numbers, *sizes], route)
    return out


def unit_and_length(raw: Tensor, route: Route) -> tuple[Tensor, Tensor]:
    """Rows (..., d) to unit length, and that length (..., 1): 1 for a zero row."""
    raw = raw.contiguous()
    out, length = torch.empty_like(raw), raw.new_empty(*raw.shape[:-1], 1)
    by_row("unit_rows", out, [out, length, raw, length.numel(), raw.shape[-1]], route)
    return out, length


def map_gradient(
    slices: Tensor,
    ascent: Tensor,
    closeness: Tensor,
    length: Tensor,
    means: Tensor,
    *,
    p: float,
    points: int,
    penalty: float,
    route: Route,
) -> Tensor:
    """The gradient that `parts.PushForward` climbs, in the vectors behind its slices."""
    out = torch.empty_like(slices)
    tensors = [slices.contiguous(), ascent.contiguous(), closeness.contiguous(), length, means]
    numbers = (float(p), float(points), float(penalty))
    sizes = (length.numel(), slices.shape[-2], slices.shape[-1])
    by_row("turn_rows", out, [out, *tensors, *numbers, *sizes], route)
    return out


def adam(
    value: Tensor,
    first: Tensor,
    second: Tensor,
    gradient: Tensor,
    steps: Tensor,
    *,
    rate: float,
    betas: tuple[float, float],
    route: Route,
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of Adam uphill: the new value and moments. `steps` (*batch,) counts this one, too."""
    new = tuple(torch.empty_like(value) for _ in range(3))
    count = value.numel()
    run = row_kernel("adam", value.dtype, 32, value.device, route)
    old = [t.contiguous() for t in (value, first, second, gradient)]
    numbers = (float(rate), float(betas[0]), float(betas[1]))
    sizes = (count, count // max(1, math.prod(steps.shape)))
    run(-(-count // _BLOCK), _BLOCK, [*new, *old, steps.contiguous(), *numbers, *sizes])
    return new[0], new[1], new[2]


def largest_of(sets: Tensor, out: Tensor, route: Route) -> None:
    """The largest size of a number in each of sets (R, ...), into out (R,), which must hold zeros."""
    count = sets.numel() // len(sets)
    blocks = min(512, -(-count // (4 * _BLOCK)))
    run = row_kernel("largest_of", sets.dtype, 32, sets.device, route)
    run(len(sets) * blocks, _BLOCK, [out, sets.contiguous(), count, blocks])
