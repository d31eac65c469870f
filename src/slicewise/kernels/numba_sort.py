"""Sorting kernels for the CPU, compiled by numba: one row of projections after another.

Short rows become fixed-point numbers over the row's own range with the index in the low bits, one word
each, for NumPy's vectorised sort; an insertion pass on the true values then repairs what rounding tied.
Long rows are radix-sorted here, their order-preserving bits above the index. Both end in the order of a
stable sort.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = Any  # numba specialises on dtypes: float32 and float64


def _can_cache() -> bool:
    """Is there a place to keep compiled code? Not where neither the package nor a home can be written."""
    try:
        njit(cache=True)(lambda: None)
    except RuntimeError:
        return False
    return True


CACHE = _can_cache()
jit = njit(cache=CACHE, nogil=True, error_model="numpy")

_RADIX_BITS = 11
BUCKETS = 1 << _RADIX_BITS


@jit
def pack(rows: Array, words: Array, start: int, stop: int, shift: int, levels: float) -> None:
    """Each value's place in its row's range, in the high bits; its index in the low `shift` bits."""
    n = rows.shape[1]
    zero = rows.dtype.type(0)
    for r in range(start, stop):
        row = rows[r]
        low = high = row[0]
        for i in range(n):
            low = min(low, row[i])
            high = max(high, row[i])
        scale = rows.dtype.type(levels) / (high - low) if high > low else zero
        # No usable range (subnormal, infinite, NaN): leave all of the order to the repair.
        if not (scale < np.inf and high - low < np.inf):
            scale = zero
        for i in range(n):
            place = (row[i] - low) * scale
            level = words.dtype.type(np.int64(place)) if place > 0 else words.dtype.type(0)
            words[r, i] = (level << words.dtype.type(shift)) | words.dtype.type(i)


@jit
def unpack(row: Array, words: Array, mask: int, values: Array, index: Array) -> None:
    """A row's values in order, and the index each came from, by its sorted words."""
    last = row[np.int64(words[0]) & mask]
    tangled = False
    for i in range(len(row)):
        j = np.int64(words[i]) & mask
        value = row[j]
        index[i] = j
        values[i] = value
        tangled |= not value >= last  # also where one of them is NaN
        last = value
    if tangled:
        _repair(row, values, index)


@jit
def _repair(row: Array, values: Array, index: Array) -> None:
    """Insertion on nearly sorted values; a row with NaN, or whose range hid its order, is sorted outright."""
    n = len(row)
    budget = 64 * n
    for i in range(n):
        if values[i] != values[i]:
            budget = -1  # insertion would stop at NaN; NaN belongs last
    for i in range(1, n):
        value = values[i]
        if budget < 0:
            order = np.argsort(row, kind="mergesort")
            for q in range(n):
                index[q] = order[q]
                values[q] = row[order[q]]
            return
        if value < values[i - 1]:
            j = index[i]
            k = i - 1
            while k >= 0 and values[k] > value:
                values[k + 1] = values[k]
                index[k + 1] = index[k]
                k -= 1
            values[k + 1] = value
            index[k + 1] = j
            budget -= i - k


@jit
def _mirrored(bits: Any) -> Any:
    """The bits of a float as a number of the same order: below zero they run backwards."""
    return ~bits if bits >> np.uint32(31) else bits | np.uint32(0x80000000)


@jit
def _accumulate(counts: Array) -> None:
    """From how many to where the first goes."""
    total = 0
    for bucket in range(len(counts)):
        here = counts[bucket]
        counts[bucket] = total
        total += here


@jit
def radix(
    row: Array, values: Array, index: Array, words: Array, spare: Array, counts: Array
) -> None:
    """Stable LSD radix sort of a row: three passes over single precision, four over double."""
    n = len(row)
    if row.itemsize == 4:
        bits = (row + row.dtype.type(0)).view(np.uint32)  # + 0 makes −0 the same bits as 0
        for i in range(n):
            words[i] = (np.uint64(_mirrored(bits[i])) << np.uint64(32)) | np.uint64(i)
        shift, passes = 32, 3
    else:
        shift = 1
        while (1 << shift) < n:
            shift += 1
        shift, passes = max(shift, 20), 4
        low, high = row.min(), row.max()
        scale = (2.0 ** min(44, 64 - shift) - 1) / (high - low) if high > low else 0.0
        if not (scale < np.inf and high - low < np.inf):
            scale = 0.0
        for i in range(n):
            place = (row[i] - low) * scale
            level = np.uint64(np.int64(place)) if place > 0 else np.uint64(0)
            words[i] = (level << np.uint64(shift)) | np.uint64(i)
    counts[:passes] = 0
    digit = np.uint64(BUCKETS - 1)
    for i in range(n):
        word = words[i] >> np.uint64(shift)
        for k in range(passes):
            counts[k, (word >> np.uint64(_RADIX_BITS * k)) & digit] += 1
    for k in range(passes):
        place_of = counts[k]
        _accumulate(place_of)
        by = np.uint64(shift + _RADIX_BITS * k)
        for i in range(n):
            bucket = (words[i] >> by) & digit
            spare[place_of[bucket]] = words[i]
            place_of[bucket] += 1
        words, spare = spare, words
    mask = np.uint64((1 << shift) - 1)
    for i in range(n):
        j = np.int64(words[i] & mask)
        index[i] = j
        values[i] = row[j]
    if row.itemsize == 8:
        _repair(row, values, index)


@jit
def radix_values(row: Array, values: Array, keys: Array, spare: Array, counts: Array) -> None:
    """A single-precision row's values in order, where nobody asks which came from where."""
    n = len(row)
    bits = (row + row.dtype.type(0)).view(np.uint32)
    for i in range(n):
        keys[i] = _mirrored(bits[i])
    counts[:3] = 0
    digit = np.uint32(BUCKETS - 1)
    for i in range(n):
        key = keys[i]
        counts[0, key & digit] += 1
        counts[1, (key >> np.uint32(_RADIX_BITS)) & digit] += 1
        counts[2, key >> np.uint32(2 * _RADIX_BITS)] += 1
    for k in range(3):
        place_of = counts[k]
        _accumulate(place_of)
        by = np.uint32(_RADIX_BITS * k)
        for i in range(n):
            bucket = (keys[i] >> by) & digit
            spare[place_of[bucket]] = keys[i]
            place_of[bucket] += 1
        keys, spare = spare, keys
    for i in range(n):
        key = keys[i]
        keys[i] = key & np.uint32(0x7FFFFFFF) if key >> np.uint32(31) else ~key
    values[:] = keys[:n].view(np.float32)
