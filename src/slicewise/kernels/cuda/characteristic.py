"""Characteristic functions on lines, by kernels that hold all points of a grid in registers."""

from __future__ import annotations

import torch
from torch import Tensor

from slicewise.kernels.cuda.compiler import REAL, Kernel, Route, kernel

MOST_POINTS = 33  # of a grid, whose sums a thread has in registers
_BLOCK = 256
_CHUNK = (
    4096  # numbers of a line that a block takes: sixteen to a thread, added in their own precision
)


def sums(lines: Tensor, step: float, n_points: int, route: Route) -> Tensor:
    """Σ cos(k · step · u) and Σ sin(k · step · u) over each line (..., n), for k below `n_points`: (2, ..., T), float64."""
    rows = lines.contiguous().view(-1, lines.shape[-1])
    chunks = -(-rows.shape[1] // _CHUNK)
    out = lines.new_empty(2, len(rows), chunks, n_points, dtype=torch.float64)
    run = _compiled("sums", lines, step, n_points, route)
    run(len(rows) * chunks, _BLOCK, [out, rows, rows.shape[1], len(rows), chunks])
    return out.sum(dim=2).view(2, *lines.shape[:-1], n_points)


def slopes(lines: Tensor, step: float, of_cosine: Tensor, of_sine: Tensor, route: Route) -> Tensor:
    """Σ_k a_k cos(k · step · u) + b_k sin(k · step · u) at each number of lines (..., n), for coefficients (..., T)."""
    rows = lines.contiguous().view(-1, lines.shape[-1])
    chunks, n_points = -(-rows.shape[1] // _CHUNK), of_cosine.shape[-1]
    given = [t.to(lines.dtype).contiguous() for t in (of_cosine, of_sine)]
    out = torch.empty_like(rows)
    run = _compiled("slopes", lines, step, n_points, route)
    run(len(rows) * chunks, _BLOCK, [out, rows, *given, rows.shape[1], chunks])
    return out.view(lines.shape)


def _compiled(name: str, lines: Tensor, step: float, n_points: int, route: Route) -> Kernel:
    settings = (
        f"typedef {REAL[lines.dtype]} REAL;\nconstexpr double STEP = {step!r};\nconstexpr int POINTS = {n_points};\n"
        f"constexpr int THREADS = {_BLOCK};\nconstexpr int CHUNK = {_CHUNK};\n"
    )
    return kernel("characteristic.cu", name, settings, lines.device, route, ("sums", "slopes"))
