"""Loops for the CPU, compiled by numba: sort, price and differentiate one row of projections after another.

Short rows become fixed-point numbers over the row's own range with the index in the low bits, one word each, for NumPy's
vectorized sort; an insertion pass on the true values then repairs what rounding tied. Long rows are radix-sorted here,
their order-preserving bits above the index. Both end in the order of a stable sort. The loops work serially and without
the GIL, so that threads can share the rows of a call. Gradients overwrite the projections they belong to.

What everybody runs (p = 2, as many samples on both sides, equal weights) has functions of its own, `pair_packed` and
`pair_radix`: their loops vectorize, and they compile in a third of the time that all other cases take.

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
inline = njit(cache=CACHE, nogil=True, error_model="numpy", inline="always")
# Sums in float64 may be taken in any order, which lets them vectorize; NaN and infinity still count.
sums = njit(cache=CACHE, nogil=True, error_model="numpy", fastmath={"reassoc", "nsz"})

_RADIX_BITS = 11
BUCKETS = 1 << _RADIX_BITS


@jit
def pack(
    rows: Array, bits: Array, words: Array, start: int, stop: int, shift: int, levels: float
) -> None:
    """Each value's place in its row's range, in the high bits; its index in the low `shift` bits.

    `bits` are the rows seen as integers of the same size.
    """
    n = rows.shape[1]
    zero = rows.dtype.type(0)
    sign = bits.dtype.type(8 * bits.itemsize - 1)
    others = bits.dtype.type((np.int64(1) << np.int64(sign)) - np.int64(1))  # all but the sign
    ends = np.empty(2, rows.dtype)
    end_bits = ends.view(bits.dtype)
    for r in range(start, stop):
        # The least and the largest, as integers of the same order: a loop that vectorizes, and in which NaN counts.
        row_bits = bits[r]
        low_key = high_key = row_bits[0] ^ ((row_bits[0] >> sign) & others)
        for i in range(n):
            key = row_bits[i] ^ ((row_bits[i] >> sign) & others)
            low_key = min(low_key, key)
            high_key = max(high_key, key)
        end_bits[0] = low_key ^ ((low_key >> sign) & others)
        end_bits[1] = high_key ^ ((high_key >> sign) & others)
        low, high = ends[0], ends[1]
        scale = rows.dtype.type(levels) / (high - low) if high > low else zero
        # No usable range (subnormal, infinite, NaN): leave all of the order to the repair.
        if not (scale < np.inf and high - low < np.inf):
            scale = zero
        row, out = rows[r], words[r]
        for i in range(n):
            place = (row[i] - low) * scale
            level = words.dtype.type(bits.dtype.type(place)) if place > 0 else words.dtype.type(0)
            out[i] = (level << words.dtype.type(shift)) | words.dtype.type(i)


@jit
def mirror(bits: Array, start: int, stop: int) -> None:
    """The bits of floats as integers of the same order, in place: below zero they run backwards. And back again."""
    sign = bits.dtype.type(8 * bits.itemsize - 1)
    others = bits.dtype.type((np.int64(1) << np.int64(sign)) - np.int64(1))
    for r in range(start, stop):
        row = bits[r]
        for i in range(len(row)):
            row[i] ^= (row[i] >> sign) & others


@jit
def unpack(row: Array, words: Array, mask: int, values: Array) -> None:
    """A row's values in order, by its sorted words; what rounding tied is repaired, also in the words' indices."""
    of_index = words.dtype.type(mask)
    n = len(row)
    for i in range(n):
        values[i] = row[np.int64(words[i] & of_index)]
    tangled = False
    before, after = values[: n - 1], values[1:]
    for i in range(n - 1):
        tangled |= not after[i] >= before[i]  # also where one of them is NaN
    if tangled or values[0] != values[0]:
        index = np.empty(n, np.int32)
        for i in range(n):
            index[i] = np.int32(words[i] & of_index)
        _repair(row, values, index)
        for i in range(n):
            words[i] = words.dtype.type(index[i])


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
            break
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
    if budget < 0:
        _merge_sort(row, index)
        for i in range(n):
            values[i] = row[index[i]]


@jit
def _merge_sort(row: Array, index: Array) -> None:
    """The stable order of a row, NaN last: runs of 1, 2, 4, ... merged. NumPy's own takes a second to compile."""
    n = len(row)
    runs = index
    spare = np.empty(n, np.int32)
    for i in range(n):
        runs[i] = i
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, stop = min(start + width, n), min(start + 2 * width, n)
            i, j = start, middle
            for k in range(start, stop):
                # From the second run only what is less, or a number before NaN.
                second = i == middle
                if i < middle and j < stop:
                    a, b = row[runs[i]], row[runs[j]]
                    second = b < a or (a != a and b == b)
                if second:
                    spare[k] = runs[j]
                    j += 1
                else:
                    spare[k] = runs[i]
                    i += 1
        runs, spare = spare, runs
        width *= 2
    for i in range(n):
        index[i] = runs[i]


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


@jit
def pair_packed(
    u: Array, u_words: Array, v: Array, start: int, stop: int, mask: int, want_u: bool, costs: Array
) -> None:  # fmt: skip
    """`price_packed` for p = 2, equal weights, as many samples on both sides, and v sorted."""
    values = np.empty(u.shape[1], u.dtype)
    of_index = u_words.dtype.type(mask)
    for r in range(start, stop):
        row, words = u[r], u_words[r]
        unpack(row, words, mask, values)
        costs[r] = _pair(values, v[r % len(v)])
        if want_u:
            rate = u.dtype.type(2.0 / len(row))
            for i in range(len(row)):
                row[np.int64(words[i] & of_index)] = rate * values[i]


@sums
def _pair(values: Array, others: Array) -> float:
    """The mean square of the differences, which take the place of the values."""
    total = 0.0
    for i in range(len(values)):
        gap = values[i] - others[i]
        values[i] = gap
        total += np.float64(gap) * np.float64(gap)
    return total / len(values)


@jit
def pair_radix(
    u: Array, v: Array, start: int, stop: int, v_is_sorted: bool, want_u: bool, costs: Array
) -> None:  # fmt: skip
    """`price_radix` for p = 2, equal weights and as many samples on both sides."""
    n = u.shape[1]
    values, index = np.empty(n, u.dtype), np.empty(n, np.int32)
    others, other_index = np.empty(n, u.dtype), np.empty(n, np.int32)
    words, spare = np.empty(n, np.uint64), np.empty(n, np.uint64)
    counts = np.empty((4, BUCKETS), np.int64)
    keys, spare_keys = np.empty(n, np.uint32), np.empty(n, np.uint32)
    for r in range(start, stop):
        row, other = u[r], v[r % len(v)]
        radix(row, values, index, words, spare, counts)
        if not v_is_sorted:
            if u.itemsize == 4:
                radix_values(other, others, keys, spare_keys, counts)
            else:
                radix(other, others, other_index, words, spare, counts)
            other = others
        costs[r] = _pair(values, other)
        if want_u:
            rate = u.dtype.type(2.0 / n)
            for i in range(n):
                row[index[i]] = rate * values[i]


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
        unpack(u[r], u_words[r], mask, us)
        for i in range(n):
            ui[i] = np.int64(u_words[r, i]) & mask
        row = v[r % v.shape[0]]
        sorted_row = row
        if len(v_words):
            unpack(row, v_words[r], mask, vs)
            for i in range(m):
                vi[i] = np.int64(v_words[r, i]) & mask
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
    # Not as `_pair` adds up: in this order, stored flows of `vdsw`, which amplify the last bit, stay what they were.
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


@jit
def weigh(
    costs: Array, coefficients: Array, p: float, root: bool, values: Array, factors: Array
) -> None:
    """Values (B,) of costs (B, L): Σ coefficients · costs, or its p-th root; and the derivatives in each cost (B, L).

    Coefficients are (1, L) or (B, L); empty ones mean 1/L each.
    """
    n_lines = costs.shape[1]
    for e in range(len(costs)):
        given = coefficients[e % len(coefficients)]
        total = 0.0
        for i in range(n_lines):
            total += np.float64(costs[e, i]) * (given[i] if len(given) else 1.0)
        if len(given) == 0:
            total /= n_lines
        outer = 1.0
        if root and p != 1.0:
            # The root of zero, and of an estimate below it, is zero and flat; NaN stays NaN.
            outer = 0.0 if total <= 0 else total ** (1.0 / p - 1.0) / p
            total = 0.0 if total <= 0 else total ** (1.0 / p)
        values[e] = total
        for i in range(n_lines):
            factors[e, i] = outer * (given[i] if len(given) else 1.0 / n_lines)


@jit
def scale_rows(rows: Array, factors: Array, out: Array) -> None:
    """Each row (R, n) times its factor (R,) or, of more factors than rows, each factor times row r mod R."""
    for r in range(len(factors)):
        row, target, factor = rows[r % len(rows)], out[r], factors[r]
        for i in range(len(row)):
            target[i] = factor * row[i]


TILE = 512  # samples whose gradients are accumulated at once: they stay in the nearest cache


@jit
def take_back(on_lines: Array, scaled: Array, start: int, stop: int, out: Array) -> None:
    """Σ_l on_lines_l ⊗ scaled_l into out (B, n, d), of on_lines (B, L, n) and scaled (B or 1, L, d), for small d.

    Work is counted in tiles of samples, those of each element of the batch after another.
    """
    n_lines, n = on_lines.shape[1], on_lines.shape[2]
    d = scaled.shape[2]
    tiles = (n + TILE - 1) // TILE
    sums_of = np.empty((d, TILE), on_lines.dtype)
    for t in range(start, stop):
        e = t // tiles
        first = (t % tiles) * TILE
        last = min(n, first + TILE)
        sums_of[:] = 0
        for line in range(n_lines):
            some = on_lines[e, line, first:last]
            for k in range(d):
                factor = scaled[e % len(scaled), line, k]
                total = sums_of[k, : last - first]
                for i in range(len(some)):
                    total[i] += factor * some[i]
        for k in range(d):
            total = sums_of[k]
            for i in range(last - first):
                out[e, first + i, k] = total[i]
