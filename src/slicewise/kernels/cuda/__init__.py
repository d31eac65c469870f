"""CUDA kernels of our own, compiled at run time, behind one object: `CudaKernels`.

`compiler` compiles and launches; `match` sorts and prices lines of up to 4,096 numbers, `radix` longer ones; `draw`
makes random directions, `rows` works on rows of slices, `frames` orthonormalizes, `backproject` takes gradients on lines
back to samples, `characteristic` has the sums of characteristic functions, `plan` copies and sums around captured calls. `triton_sort` serves where nothing can be compiled.

Imports `support` and `transport`. Used by `slicewise.kernels`, once there is a CUDA device.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from slicewise.kernels.cuda import backproject, characteristic, draw, frames, match, plan, rows
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
        if on_lines.dim() == slices.dim() and on_lines.dim() in (2, 3):
            empty = on_lines.new_empty(())  # times 0
            multiply = torch.addmm if on_lines.dim() == 2 else torch.baddbmm
            return multiply(empty, on_lines.mT, slices, beta=0, alpha=factor)
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

    def sums_on_lines(
        self, on_lines: Tensor, seen: Tensor, weights: Tensor, lighter: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        batch, lines = on_lines.shape[:-2], on_lines.shape[-2:]
        g, at = (t.reshape(-1, *lines) for t in (on_lines, seen))
        masses = 1.0 if lighter is None else lighter.expand(*batch, 1, lines[1]).squeeze(-2)
        each = weights.expand(*batch, lines[0])
        above, below = plan.cauchy_sums(g, at, each, masses, route=self.route)
        return above.view(batch), below.view(batch)

    def characteristic_sums(self, lines: Tensor, step: float, n_points: int) -> Tensor | None:
        if n_points > characteristic.MOST_POINTS:
            return None
        return characteristic.sums(lines, step, n_points, self.route)

    def characteristic_slopes(
        self, lines: Tensor, step: float, of_cosine: Tensor, of_sine: Tensor
    ) -> Tensor | None:
        if of_cosine.shape[-1] > characteristic.MOST_POINTS:
            return None
        return characteristic.slopes(lines, step, of_cosine, of_sine, self.route)

    def copier(self, buffers: Sequence[Tensor], numbers: Tensor | None) -> plan.BufferCopier | None:
        possible = self.route == "bindings" and len(buffers) <= plan.MOST_COPIES
        return plan.BufferCopier(buffers, numbers) if possible else None
