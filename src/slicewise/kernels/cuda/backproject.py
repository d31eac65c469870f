"""Slopes on lines turned back into gradients of samples."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slicewise.kernels.cuda.compiler import REAL, Route, kernel

LARGEST_DIMENSION = 16  # beyond, a matrix product is faster


def backproject(
    on_lines: Tensor,
    slices: Tensor,
    factor: Tensor | float,
    route: Route,
    base: Tensor | None = None,
    rates: Tensor | None = None,
    costs: Tensor | None = None,
    means: Tensor | None = None,
) -> Tensor:
    """Σ_l factor_l · on_lines_l ⊗ slices_l, (..., n, d), in one kernel; factor (..., L) or a number.

    With base (..., n, d) and rates (...): base − rate · that sum. With costs (..., L), too, their means are
    left in `means` (...).
    """
    *batch, n_slices, n = on_lines.shape
    d = slices.shape[-1]
    sets = math.prod(batch)
    shared = math.prod(slices.shape[:-2]) == 1
    if not shared:
        slices = slices.expand(*batch, n_slices, d)
    out = on_lines.new_empty(*batch, n, d)
    factors = None
    if isinstance(factor, Tensor):
        factors = factor.expand(*batch, n_slices).contiguous()
    settings = f"typedef {REAL[on_lines.dtype]} REAL;\nconstexpr int DIM = {d};\n"
    blocks = -(-n // 32)
    kernel("backproject.cu", "turn", settings, on_lines.device, route)(
        sets * blocks,
        256,
        [
            out,
            on_lines.contiguous(),
            slices.contiguous(),
            factors,
            None if base is None else base.contiguous(),
            None if rates is None else rates.contiguous(),
            None if costs is None else costs.contiguous(),
            means,
            1.0 if isinstance(factor, Tensor) else float(factor),
            n,
            n_slices,
            int(shared),
            blocks,
        ],
    )
    return out


def step(
    base: Tensor, gradient: Tensor, rates: Tensor, costs: Tensor, means: Tensor, route: Route
) -> Tensor:
    """base − rate · gradient, (R, n, d) for rates (R,); the means of costs (R, L) are left in `means` (R,)."""
    out = torch.empty_like(base)
    count = base.numel() // len(base)
    blocks = max(1, min(1024, -(-count // 256)))
    settings = f"typedef {REAL[base.dtype]} REAL;\nconstexpr int DIM = 1;\n"
    tensors = [out, base.contiguous(), gradient.contiguous(), rates.contiguous()]
    kernel("backproject.cu", "step", settings, base.device, route)(
        len(base) * blocks,
        256,
        [*tensors, costs.contiguous(), means, count, costs.shape[-1], blocks],
    )
    return out
