"""Loops for the CPU, compiled by numba: sort, price and differentiate one row of projections after another.

Short rows become fixed-point numbers over the row's own range with the index in the low bits, one word each, for NumPy's
vectorized sort; an insertion pass on the true values then repairs what rounding tied. Long rows are radix-sorted here,
their order-preserving bits above the index. Both end in the order of a stable sort. The loops work serially and without
the GIL, so that threads can share the rows of a call. Gradients overwrite the projections they belong to.

Imports numba, which takes half a second: only to be imported once it is used.
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


inline = njit(cache=CACHE, nogil=True, error_model="numpy", inline="always")
# Sums in float64 may be taken in any order, which lets them vectorise; NaN and infinity still count.
sums = njit(cache=CACHE, nogil=True, error_model="numpy", fastmath={"reassoc", "nsz"})


@jit
def price_packed(
    u: Array, u_words: Array, v: Array, v_words: Array, start: int, stop: int, mask: int,
    a: Array, b: Array, p: float, want_u: bool, want_v: bool, costs: Array,
) -> None:  # fmt: skip
    """Price rows whose packed words are sorted. Where v has no words, it is sorted itself."""
    n, m = u.shape[1], v.shape[1]
    us, ui = np.empty(n, u.dtype), np.empty(n, np.int32)
    vs, vi = np.empty(m, v.dtype), np.arange(m).astype(np.int32)
    for r in range(start, stop):
        unpack(u[r], u_words[r], mask, us, ui)
        row = v[r % v.shape[0]]
        sorted_row = row
        if len(v_words):
            unpack(row, v_words[r], mask, vs, vi)
            sorted_row = vs
        aw, bw = a[r * len(a) // len(u)], b[r * len(b) // len(u)]
        costs[r] = _price(us, ui, sorted_row, vi, aw, bw, p, want_u, want_v, u[r], row)


@jit
def price_radix(
    u: Array, v: Array, start: int, stop: int, v_is_sorted: bool,
    a: Array, b: Array, p: float, want_u: bool, want_v: bool, costs: Array,
) -> None:  # fmt: skip
    """Sort and price rows, one at a time so that all of a row's work stays in the cache."""
    n, m = u.shape[1], v.shape[1]
    us, ui = np.empty(n, u.dtype), np.empty(n, np.int32)
    vs, vi = np.empty(m, v.dtype), np.arange(m).astype(np.int32)
    words, spare = np.empty(max(n, m), np.uint64), np.empty(max(n, m), np.uint64)
    counts = np.empty((4, BUCKETS), np.int64)
    bare = u.itemsize == 4 and not want_v and b.shape[1] == 0
    keys, spare_keys = np.empty(m, np.uint32), np.empty(m, np.uint32)
    for r in range(start, stop):
        radix(u[r], us, ui, words, spare, counts)
        row = v[r % v.shape[0]]
        sorted_row = row
        if not v_is_sorted:
            if bare:
                radix_values(row, vs, keys, spare_keys, counts)
            else:
                radix(row, vs, vi, words, spare, counts)
            sorted_row = vs
        aw, bw = a[r * len(a) // len(u)], b[r * len(b) // len(u)]
        costs[r] = _price(us, ui, sorted_row, vi, aw, bw, p, want_u, want_v, u[r], row)


@jit
def _price(
    us: Array, ui: Array, vs: Array, vi: Array, a: Array, b: Array, p: float,
    want_u: bool, want_v: bool, u_out: Array, v_out: Array,
) -> float:  # fmt: skip
    """Cost of one line from its sorted sides; gradients into u_out and v_out in the order of samples.

    Empty weights mean equal ones. Equal sizes pair up; else the knots of both sides are merged, as whole
    numbers for equal weights and as running sums divided by their end for given ones.
    """
    n, m = len(us), len(vs)
    total = 0.0
    if n == m and p == 2.0 and len(a) == 0 and len(b) == 0:
        # The case that everybody runs, in loops that vectorise.
        for i in range(n):
            us[i] -= vs[i]
        total = _sum_of_squares(us)
        rate = us.dtype.type(2.0 / n)
        if want_u:
            for i in range(n):
                u_out[ui[i]] = rate * us[i]
        if want_v:
            for i in range(n):
                v_out[vi[i]] = -rate * us[i]
        return total / n
    if n == m and len(a) == 0 and len(b) == 0:
        for i in range(n):
            gap = us[i] - vs[i]
            total += _power(gap, p)
            slope = us.dtype.type(_slope(gap, p) / n)
            if want_u:
                u_out[ui[i]] = slope
            if want_v:
                v_out[vi[i]] = -slope
        return total / n
    if want_u:
        u_out[:] = 0
    if want_v:
        v_out[:] = 0
    # Mass is counted in whole numbers up to n·m, or if weights are given as a share of 1.
    weighted = len(a) > 0 or len(b) > 0
    whole = 1.0 if weighted else np.float64(n) * np.float64(m)
    u_total, v_total = _total(a, ui), _total(b, vi)
    i = j = 0
    u_sum = a[ui[0]] if len(a) else 0.0
    v_sum = b[vi[0]] if len(b) else 0.0
    u_end = _knot(0, n, u_sum, u_total, len(a) > 0, whole)
    v_end = _knot(0, m, v_sum, v_total, len(b) > 0, whole)
    done = 0.0
    u_slope = v_slope = 0.0  # of the two samples at hand, in float64
    while True:
        end = min(u_end, v_end)
        width = end - done
        if width > 0:
            gap = us[i] - vs[j]
            total += width * _power(gap, p)
            slope = width * _slope(gap, p) / whole
            u_slope += slope
            v_slope -= slope
            done = end
        if u_end <= v_end:
            if want_u:
                u_out[ui[i]] = u_slope
            u_slope = 0.0
            if i == n - 1:
                if want_v:
                    v_out[vi[j]] = v_slope
                return total / whole
            i += 1
            u_sum += a[ui[i]] if len(a) else 0.0
            u_end = _knot(i, n, u_sum, u_total, len(a) > 0, whole)
        else:
            if want_v:
                v_out[vi[j]] = v_slope
            v_slope = 0.0
            j += 1
            v_sum += b[vi[j]] if len(b) else 0.0
            v_end = _knot(j, m, v_sum, v_total, len(b) > 0, whole)


@inline
def _knot(i: int, n: int, running: float, total: float, weighted: bool, whole: float) -> float:
    """Where the i-th of n sorted masses ends; the last one at exactly the whole."""
    if i == n - 1:
        return whole
    return running / total if weighted else (i + 1) * whole / n


@sums
def _sum_of_squares(values: Array) -> float:
    total = 0.0
    for value in values:
        total += np.float64(value) * np.float64(value)
    return total


@jit
def _total(weights: Array, order: Array) -> float:
    """The sum in the order in which it will be met, so that trailing zeros end at exactly one."""
    total = 0.0
    for i in order:
        total += weights[i] if len(weights) else 0.0
    return total if len(weights) else 1.0


@inline
def _power(gap: float, p: float) -> float:
    if p == 2.0:
        return np.float64(gap) * np.float64(gap)
    return abs(gap) if p == 1.0 else abs(gap) ** p


@inline
def _slope(gap: float, p: float) -> float:
    if p == 2.0:
        return 2.0 * gap
    return np.sign(gap) if p == 1.0 else p * abs(gap) ** (p - 1.0) * np.sign(gap)
