"""Rows made orthonormal, a block of threads to a frame."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from slicewise.kernels.cuda.compiler import REAL, Route, kernel


def orthonormalize(frames: Tensor, route: Route) -> Tensor:
    """`sphere.orthonormalize` in one kernel; frames (..., size, d), size <= d."""
    frames = frames.contiguous()
    size, d = frames.shape[-2:]
    out = torch.empty_like(frames)
    bytes_ = frames.element_size()
    whole = size * (d + 1) * bytes_
    properties: Any = torch.cuda.get_device_properties(frames.device)
    most = properties.shared_memory_per_block_optin
    on_chip = whole + 1024 <= most  # the rest is the kernel's own
    threads = min(1024, 32 * max(1, size - 1))  # a warp to each row that another is taken out of
    settings = f"typedef {REAL[frames.dtype]} REAL;\nconstexpr int THREADS = {threads};\n"
    run = kernel("frames.cu", "orthonormalize", settings, frames.device, route)
    shared = whole if on_chip else size * bytes_
    run(math.prod(frames.shape[:-2]), threads, [out, frames, size, d, int(on_chip)], shared)
    return out
