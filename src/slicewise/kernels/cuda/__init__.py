"""CUDA kernels of our own, compiled at run time, behind one object: `CudaKernels`.

`compiler` compiles and launches; `match` sorts and prices lines of up to 4,096 numbers, `radix` longer ones; `draw`
makes random directions, `rows` works on rows of slices, `frames` orthonormalizes, `backproject` takes gradients on lines
back to samples. `triton_sort` serves where nothing can be compiled.

Imports `support` and `transport`. Used by `slicewise.kernels`, once there is a CUDA device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.kernels.cuda import backproject, draw, frames, match, rows
from slicewise.kernels.cuda.compiler import Route


@dataclass(frozen=True)
class CudaKernels:
    """The kernels of this folder, compiled by one route; see `support.dispatch.Kernels`."""

    route: Route

    def normalize(self, vectors: Tensor) -> Tensor:
        return draw.normalize(vectors, self.route)

    def orthonormalize(self, frames_: Tensor) -> Tensor:
        return frames.orthonormalize(frames_, self.route)

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

    def ascend(
        self,
        slices: Tensor,
        gradient: Tensor,
        costs: Tensor,
        *,
        rate: float | None,
        p: float,
        points: int,
        coupled: bool,
        back_to_sphere: bool,
    ) -> Tensor:
        return rows.ascend(
            slices,
            gradient,
            costs,
            rate=rate,
            p=p,
            points=points,
            coupled=coupled,
            back_to_sphere=back_to_sphere,
            route=self.route,
        )

    def unit_and_length(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        return rows.unit_and_length(raw, self.route)

    def map_gradient(
        self,
        slices: Tensor,
        ascent: Tensor,
        closeness: Tensor,
        length: Tensor,
        means: Tensor,
        *,
        p: float,
        points: int,
        penalty: float,
    ) -> Tensor:
        given = (slices, ascent, closeness, length, means)
        return rows.map_gradient(*given, p=p, points=points, penalty=penalty, route=self.route)

    def adam(
        self,
        value: Tensor,
        first: Tensor,
        second: Tensor,
        gradient: Tensor,
        steps: Tensor,
        *,
        rate: float,
        betas: tuple[float, float],
    ) -> tuple[Tensor, Tensor, Tensor]:
        return rows.adam(
            value, first, second, gradient, steps, rate=rate, betas=betas, route=self.route
        )

    def largest_of(self, sets: Tensor) -> Tensor:
        out = sets.new_zeros(len(sets))
        rows.largest_of(sets, out, self.route)
        return out
