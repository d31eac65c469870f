"""CUDA kernels of our own, compiled at run time, behind one object: `CudaKernels`.

`compiler` compiles and launches; `match` sorts and prices lines of up to 4,096 numbers, `radix` longer ones; `draw`
makes random directions, `rows` works on rows of slices, `frames` orthonormalizes, `backproject` takes gradients on lines
back to samples, `plan` surrounds captured calls. `triton_sort` serves where nothing can be compiled.

Imports `support` and `transport`. Used by `slicewise.kernels`, once there is a CUDA device.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from slicewise.kernels.cuda import backproject, draw, frames, match, rows
from slicewise.kernels.cuda.compiler import Route


class CudaKernels:
    """The kernels of this folder, compiled by one route; see `support.dispatch.Kernels`."""

    def __init__(self, route: Route) -> None:
        self.route: Route = route
        self.normalize = partial(draw.normalize, route=route)
        self.orthonormalize = partial(frames.orthonormalize, route=route)
        self.ascend = partial(rows.ascend, route=route)
        self.unit_and_length = partial(rows.unit_and_length, route=route)
        self.map_gradient = partial(rows.map_gradient, route=route)
        self.adam = partial(rows.adam, route=route)

    def sort_rows(self, lines: Tensor) -> Tensor | None:
        return match.sort_rows(lines, self.route) if lines.shape[-1] <= match.LARGEST else None

    def backproject(self, on_lines: Tensor, slices: Tensor, factor: Tensor | float) -> Tensor:
        if slices.shape[-1] <= backproject.LARGEST_DIMENSION:
            return backproject.backproject(on_lines, slices, factor, self.route)
        if isinstance(factor, Tensor):
            slices, factor = factor.unsqueeze(-1) * slices, 1.0
        if on_lines.dim() == slices.dim() == 3:
            empty = on_lines.new_empty(())  # times 0
            return torch.baddbmm(empty, on_lines.mT, slices, beta=0, alpha=factor)
        return on_lines.mT @ slices if factor == 1 else on_lines.mT @ (factor * slices)

    def descend(
        self,
        base: Tensor,
        rates: Tensor,
        on_lines: Tensor,
        costs: Tensor,
        slices: Tensor,
        factor: Tensor | float,
    ) -> tuple[Tensor, Tensor]:
        means = torch.empty_like(rates)
        if slices.shape[-1] <= backproject.LARGEST_DIMENSION:
            both = (base, rates, costs, means)
            return backproject.backproject(on_lines, slices, factor, self.route, *both), means
        gradient = self.backproject(on_lines, slices, factor)
        return backproject.step(base, gradient, rates, costs, means, self.route), means

    def largest_of(self, sets: Tensor) -> Tensor:
        out = sets.new_zeros(len(sets))
        rows.largest_of(sets, out, self.route)
        return out
