"""Counting numbers in bins by their bits, compiled by numba: what `stats.counts` does for streamed tables."""

from __future__ import annotations

import numpy as np

from slicewise.kernels.numba_loops import Array, jit


@jit
def count(
    lines: Array,
    center: Array,
    scale: Array,
    counts: Array,
    start: int,
    stop: int,
    shift: int,
    offset: int,
    bins: int,
    memory: Array,
) -> None:
    """Add numbers (L, n) to counts (L, 2 bins); memory (n,) float32 is worked in."""
    bits = memory.view(np.int32)
    for line in range(start, stop):
        row, into = lines[line], counts[line]
        middle, unit = center[line], scale[line]
        for i in range(len(row)):
            memory[i] = np.float32((row[i] - middle) / unit)
        for i in range(len(row)):
            b = bits[i]
            negative = memory[i] < 0
            key = ((b & np.int32(0x7FFFFFFF)) >> shift) - offset
            key = min(max(key, 0), bins - 1)
            into[bins - 1 - key if negative else bins + key] += 1
