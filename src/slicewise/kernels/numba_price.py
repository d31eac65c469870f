"""Pricing kernels for the CPU, compiled by numba: sort, price and differentiate row after row.

They work serially and without the GIL, so that threads can share the rows of a call. Gradients
overwrite the projections they belong to.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from slicewise.kernels.numba_sort import BUCKETS, CACHE, Array, jit, radix, radix_values, unpack

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
