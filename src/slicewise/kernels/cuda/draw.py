"""Random directions made on the device, by counting: what `Counted` draws, with no host in between."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from slicewise.kernels.cuda.compiler import REAL, Argument, Kernel, Route, kernel

_BLOCK = 128
_ONE_BLOCK_ROW = 1024
_OWN_STEPS = 1 << 20
_WHOLE_WARP = ("draw_around", "draw_power_around")


class DeviceDraws:
    """The draws of runs at one step; `step` may be counted on the device, as in a CUDA graph."""

    def __init__(self, seeds: Tensor, step: int | Tensor, purpose: int, route: Route) -> None:
        self._seeds, self._purpose, self._route = seeds, int(purpose), route
        if isinstance(step, int):
            step = torch.full((), step, dtype=torch.int64, device=seeds.device)
        self._step = step
        # A bit beside the draw's number: does each run have a step of its own?
        self._own_steps = _OWN_STEPS if step.dim() else 0
        self._draws = 0

    def numbers(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        """Normal numbers (float32) or uniform ones (float64), shape[0] being the runs."""
        if shape[0] != len(self._seeds):
            raise ValueError(
                f"a draw of shape {shape} for {len(self._seeds)} runs: give the batch first, "
                f"({len(self._seeds)}, ...)"
            )
        dtype = torch.float32 if kind == "normal" else torch.float64
        runs, inner = shape[0], math.prod(shape[1:])
        out = torch.empty(shape, dtype=dtype, device=self._seeds.device)
        threads = runs * -(-inner // (8 if kind == "normal" else 4))
        fill = self._kernel("draw_normals" if kind == "normal" else "draw_uniforms", dtype)
        fill(-(-threads // _BLOCK), _BLOCK, [out, *self._stream(1), runs, inner])
        return out

    def directions(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Unit rows of normal numbers."""
        if shape[-1] > _ONE_BLOCK_ROW:
            # A row to a block would leave most of the device idle: draw everywhere, then normalize.
            return normalize(self.numbers("normal", shape).to(dtype), self._route)
        out = torch.empty(shape, dtype=dtype, device=self._seeds.device)
        runs, per_run, d = shape[0], math.prod(shape[1:-1]), shape[-1]
        self._by_row("draw_directions", out, [out, *self._stream(1), runs, per_run, d])
        return out

    def orthogonal_to(self, directions: Tensor) -> Tensor:
        """For each direction, a uniform draw among those orthogonal to it."""
        directions = directions.contiguous()
        out = torch.empty_like(directions)
        arguments: list[Argument] = [out, directions, *self._stream(1), *_sizes(directions)]
        self._by_row("draw_orthogonal", out, arguments)
        return out

    def around(self, directions: Tensor, law: Tensor) -> Tensor:
        """A von Mises–Fisher draw around each direction; law = (a, b, shift) of `sphere.vmf_law`."""
        directions = directions.contiguous()
        out = torch.empty_like(directions)
        arguments: list[Argument] = [out, directions, law, *self._stream(2), *_sizes(directions)]
        self._by_row("draw_around", out, arguments)
        return out

    def power_around(self, directions: Tensor, law: Tensor, *, boost: bool) -> Tensor:
        """A power-spherical draw around each direction; law = the shapes of two gamma numbers.

        `boost` allows for shapes below 1, by a draw more for each.
        """
        directions = directions.contiguous()
        out = torch.empty_like(directions)
        stream = self._stream(7 if boost else 5)
        arguments: list[Argument] = [out, directions, law, *stream, *_sizes(directions), int(boost)]
        self._by_row("draw_power_around", out, arguments)
        return out

    def paths(self, x: Tensor, y: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Unit directions from random samples of x to random ones of y, (runs, L, d)."""
        x, y = (t.reshape(-1, *t.shape[-2:]).contiguous() for t in (x, y))
        out = torch.empty(shape, dtype=x.dtype, device=x.device)
        sizes = (*_sizes(out), x.shape[-2], y.shape[-2], x.shape[0], y.shape[0])
        self._by_row("draw_paths", out, [out, x, y, *self._stream(3), *sizes])
        return out

    def _stream(self, draws: int) -> tuple[Tensor, Tensor, int, int]:
        """Whose numbers come next; `draws` of them are then used up."""
        first = self._draws
        self._draws += draws
        return self._seeds, self._step, first | self._own_steps, self._purpose

    def _by_row(self, name: str, out: Tensor, arguments: Sequence[Argument]) -> None:
        by_row(name, out, arguments, self._route)

    def _kernel(self, name: str, dtype: torch.dtype) -> Kernel:
        return row_kernel(name, dtype, 32, self._seeds.device, self._route)


def normalize(vectors: Tensor, route: Route) -> Tensor:
    """`sphere.normalize` in one kernel."""
    vectors = vectors.contiguous()
    out = torch.empty_like(vectors)
    d = vectors.shape[-1]
    by_row("normalise_rows", out, [out, vectors, vectors.numel() // d, d], route)
    return out


def by_row(name: str, out: Tensor, arguments: Sequence[Argument], route: Route) -> None:
    """Launch a kernel with a team of threads to each row of `out`."""
    rows, team = out.numel() // out.shape[-1], _team(name, out.shape[-1])
    run = row_kernel(name, out.dtype, team, out.device, route)
    block = max(team, _BLOCK)
    run(-(-rows * team // block), block, arguments)


@functools.cache
def row_kernel(
    name: str, dtype: torch.dtype, team: int, device: torch.device, route: Route
) -> Kernel:
    """A kernel that works row by row, for a team of so many threads."""
    settings = f"typedef {REAL[dtype]} REAL;\nconstexpr int TEAM = {team};\n"
    files = "rows.cu draw.cu" if name.startswith("draw") else "rows.cu"
    return kernel(files, name, settings, device, route)


def _team(name: str, d: int) -> int:
    """Threads that share a row: each makes eight numbers at a time. Some laws try a warp of proposals."""
    if d <= 256:
        few = 1 if d <= 8 else 4 if d <= 32 else 16
        return 32 if d > 128 or name in _WHOLE_WARP else few
    return 128 if d <= 1024 else 1024


def _sizes(directions: Tensor) -> tuple[int, int, int]:
    return directions.shape[0], math.prod(directions.shape[1:-1]), directions.shape[-1]
