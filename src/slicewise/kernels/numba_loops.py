"""Loops for the CPU, compiled by numba: sort, price and differentiate rows of projections.

Values become words: fixed-point numbers over the row's own range, or their order-preserving bits, with the index in the
low bits. Sorted words give the order; an insertion pass on the true values then repairs what rounding tied, so that it
is the order of a stable sort. Short rows are sorted by NumPy, vectorized, longer ones by `radix`. The loops work
serially and without the GIL, so that threads can share the rows of a call. Gradients overwrite the projections they
belong to.

What everybody runs (p = 2, as many samples on both sides, equal weights) has a function of its own, `pair`: its loops
vectorize, and it compiles in a third of the time that all other cases (`price`) take. Functions are kept few and plain,
without array expressions: compiling them is what the first call waits for.

Imports numba, which takes half a second: only to be imported once it is used.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba.core import event

from slicewise.kernels.numba_cache import keep_checked, why_not_kept

Array = Any  # numba specialises on dtypes: float32 and float64


def _can_cache() -> bool:
    """Is there a place to keep compiled code? Not where neither the package nor a home can be written."""
    if why_not_kept() is not None:
        return False
    try:
        njit(cache=True)(lambda: None)
    except RuntimeError:
        return False
    return True


class _Notice(event.Listener):
    """Says once in a process that the first call waits for a compiler."""

    said = False

    def on_start(self, event: Any) -> None:
        """Called before a function is compiled, not where compiled code was found on disk."""
        function = event.data["dispatcher"]
        if self.said or not function.py_func.__module__.startswith("slicewise."):
            return
        self.said = True
        kept = f"kept in {function.stats.cache_path}"
        if not CACHE:
            reason = why_not_kept() or "no folder to keep them in can be written"
            kept = f"in every process, since {reason} (set NUMBA_CACHE_DIR)"
        # A warning is printed to people who wait, not to the error stream of a script.
        seen = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
        level = logging.WARNING if seen else logging.INFO
        logging.getLogger("slicewise").log(
            level,
            "compiling kernels for this machine, once for each kind of call: 1 to 3 s; %s",
            kept,
        )

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


event.register("numba:compile", _Notice())

CACHE = _can_cache()


def _compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator for kernels, whose compiled code is kept in a folder of the user."""
    decorate = njit(cache=CACHE, nogil=True, error_model="numpy", **options)
    return (lambda function: keep_checked(decorate(function))) if CACHE else decorate


jit = _compiled()
inline = _compiled(inline="always")
# Sums in float64 may be taken in any order, which lets them vectorize; NaN and infinity still count.
sums = _compiled(fastmath={"reassoc", "nsz"})


@inline
def level_scale(row_bits: Array, levels: float, ends: Array, end_bits: Array) -> float:
    """How many levels a unit of a row is; the row's least number is left in `ends`. 0 where it has no usable range."""
    sign = row_bits.dtype.type(8 * row_bits.itemsize - 1)
    others = row_bits.dtype.type((np.int64(1) << np.int64(sign)) - np.int64(1))  # all but the sign
    # The least and the largest, as integers of the same order: a loop that vectorizes, and in which NaN counts.
    low_key = high_key = row_bits[0] ^ ((row_bits[0] >> sign) & others)
    for i in range(len(row_bits)):
        key = row_bits[i] ^ ((row_bits[i] >> sign) & others)
        low_key = min(low_key, key)
        high_key = max(high_key, key)
    end_bits[0] = low_key ^ ((low_key >> sign) & others)
    end_bits[1] = high_key ^ ((high_key >> sign) & others)
    low, high = ends[0], ends[1]
    zero = ends.dtype.type(0)
    scale = ends.dtype.type(levels) / (high - low) if high > low else zero
    # No usable range (subnormal, infinite, NaN): leave all of the order to the repair.
    return scale if scale < np.inf and high - low < np.inf else zero


@jit
def pack(
    rows: Array, bits: Array, words: Array, shift: int, levels: float, ends: Array, end_bits: Array
) -> None:
    """Each value's place in its row's range, in the high bits; its index in the low `shift` bits.

    `bits` are the rows seen as integers of the same size; `ends` (2,) is memory to work in, `end_bits` the same memory.
    """
    n = rows.shape[1]
    for r in range(len(rows)):
        scale = level_scale(bits[r], levels, ends, end_bits)
        low = ends[0]
        row, out = rows[r], words[r]
        for i in range(n):
            place = (row[i] - low) * scale
            level = words.dtype.type(bits.dtype.type(place)) if place > 0 else words.dtype.type(0)
            out[i] = (level << words.dtype.type(shift)) | words.dtype.type(i)


@jit
def pack_bits(bits: Array, words: Array) -> None:
    """The bits of single-precision floats as unsigned numbers of the same order, in the high half; below, the index."""
    for r in range(len(bits)):
        row, out = bits[r], words[r]
        for i in range(len(row)):
            b = row[i] if row[i] != np.int32(-(2**31)) else np.int32(0)  # −0 is 0
            key = np.uint32(~b) if b < 0 else np.uint32(b) | np.uint32(0x80000000)
            out[i] = (np.uint64(key) << np.uint64(32)) | np.uint64(i)


@jit
def mirror(bits: Array) -> None:
    """The bits of floats as integers of the same order, in place: below zero they run backwards. And back again."""
    sign = bits.dtype.type(8 * bits.itemsize - 1)
    others = bits.dtype.type((np.int64(1) << np.int64(sign)) - np.int64(1))
    for r in range(len(bits)):
        row = bits[r]
        for i in range(len(row)):
            row[i] ^= (row[i] >> sign) & others


@jit
def radix(
    rows: Array, shift: int, digit: int, passes: int, flip: int, spare_row: Array, counts: Array
) -> None:
    """Sort rows of unsigned words by so many digits above `shift` and by nothing else, stably.

    A digit has `digit` bits. `flip` is XORed to each word that is looked at; `spare_row` (n,) and `counts` (2^digit,)
    are memory to work in.
    """
    n = rows.shape[1]
    number = rows.dtype.type
    count = counts.dtype.type
    last, flipped = number(len(counts) - 1), number(flip)
    for r in range(len(rows)):
        words, spare = rows[r], spare_row
        for k in range(passes):
            by = number(shift + digit * k)
            for bucket in range(len(counts)):
                counts[bucket] = 0
            for i in range(n):
                counts[number(number(words[i] ^ flipped) >> by) & last] += count(1)
            total = count(0)
            for bucket in range(len(counts)):  # from how many to where the first goes
                here = counts[bucket]
                counts[bucket] = total
                total = count(total + here)
            for i in range(n):
                word = words[i]
                bucket = number(number(word ^ flipped) >> by) & last
                place = counts[bucket]
                spare[place] = word
                counts[bucket] = count(place + count(1))
            words, spare = spare, words
        if passes % 2:
            for i in range(n):
                spare[i] = words[i]


@inline
def unpack(row: Array, words: Array, of_index: Any, values: Array) -> bool:
    """A row's values in order, by its sorted words. What rounding tied is repaired, in the words too.

    False where that would take too long: the range of the row hid its order, or NaN is in it.
    """
    for i in range(len(row)):
        values[i] = row[words[i] & of_index]
    return settle(values, words)


@inline
def settle(values: Array, words: Array) -> bool:
    """Values and words that are in order but for what rounding tied, put in order; see `unpack`."""
    n = len(values)
    tangled = False
    for i in range(1, n):
        tangled |= not values[i] >= values[i - 1]  # also where one of them is NaN
    if not tangled:
        return True
    budget = 64 * n
    for i in range(1, n):
        value, word = values[i], words[i]
        if value >= values[i - 1]:
            continue
        k = i - 1
        while k >= 0 and values[k] > value:
            values[k + 1] = values[k]
            words[k + 1] = words[k]
            k -= 1
        values[k + 1] = value
        words[k + 1] = word
        budget -= i - k
        if budget < 0 or value != value or values[k] != values[k]:
            return False
    return True


@sums
def _sum_of_squares(values: Array) -> float:
    total = 0.0
    if values.itemsize == 4:
        for i in range(len(values)):
            total += np.float64(values[i]) * np.float64(values[i])
        return total
    # A loop of this kind is added up in another order, more slowly: the one in which stored flows of variants that
    # amplify the last bit (vdsw, vimsw) were computed.
    for value in values:
        total += value * value
    return total


@jit
def pair(
    u: Array, u_words: Array, v: Array, first: int, mask: int, trusted: bool, want_u: bool,
    values: Array, costs: Array,
) -> int:  # fmt: skip
    """`price` for p = 2, equal weights, as many samples on both sides, and v sorted; `values` (n,) is to work in."""
    n = u.shape[1]
    of_index = u_words.dtype.type(mask)
    left = 0
    for r in range(len(u)):
        row, words = u[r], u_words[r]
        if not unpack(row, words, of_index, values) and not trusted:
            costs[r] = -1
            left += 1
            continue
        others = v[(first + r) % len(v)]
        for i in range(n):
            values[i] -= others[i]
        costs[r] = _sum_of_squares(values) / n
        if want_u:
            rate = u.dtype.type(2.0 / n)
            for i in range(n):
                row[words[i] & of_index] = rate * values[i]
    return left


@inline
def _price_moved(
    values: Array, words: Array, of_index: Any, points: Array, at: float, wide: float, want_u: bool, row: Array
) -> float:  # fmt: skip
    """The cost of values in order against points at `at` + `wide` · points; slopes by the words' indices into the row."""
    n = len(values)
    for i in range(n):
        values[i] -= at + wide * points[i]
    if want_u:
        rate = row.dtype.type(2.0 / n)
        for i in range(n):
            row[words[i] & of_index] = rate * values[i]
    return _sum_of_squares(values) / n


@jit
def pair_moved(
    u: Array, u_words: Array, points: Array, loc: Array, scale: Array, mask: int, trusted: bool, want_u: bool,
    values: Array, costs: Array,
) -> int:  # fmt: skip
    """`pair` against loc + scale · points, for one row of points (n,) and loc and scale of each row of u."""
    of_index = u_words.dtype.type(mask)
    left = 0
    for r in range(len(u)):
        row, words = u[r], u_words[r]
        if not unpack(row, words, of_index, values) and not trusted:
            costs[r] = -1
            left += 1
            continue
        costs[r] = _price_moved(values, words, of_index, points, loc[r], scale[r], want_u, row)
    return left


@jit
def sort_and_pair_moved(
    u: Array, bits: Array, points: Array, loc: Array, scale: Array, shift: int, digit: int, want_u: bool,
    ends: Array, end_bits: Array, words: Array, spare: Array, counts: Array, values: Array, costs: Array,
) -> int:  # fmt: skip
    """`pack`, `radix` and `pair_moved` in one, by two digits of so many bits: how many rows are left undone.

    Nobody asks for the words in order afterwards. So both digits are counted while words are made, and the second pass
    puts values in order instead of words. `words`, `spare` and `values` (n,), `ends` (2,) and `counts` (2, 2^digit) are
    memory to work in; `bits` and `end_bits` are u and `ends` seen as integers.
    """
    n = u.shape[1]
    word, count = words.dtype.type, counts.dtype.type
    index_bits, digit_bits, both = word(shift), word(digit), word(shift + digit)
    of_index, of_digit = word((1 << shift) - 1), word((1 << digit) - 1)
    levels = 2.0 ** (2 * digit) * (1 - 2.0**-20)  # rounding must not carry into the next bit
    low_counts, high_counts = counts[0], counts[1]
    left = 0
    for r in range(len(u)):
        row = u[r]
        unit = level_scale(bits[r], levels, ends, end_bits)
        low = ends[0]
        for i in range(n):  # apart from counting, so that it vectorizes
            place = (row[i] - low) * unit
            words[i] = word(bits.dtype.type(place)) if place > 0 else word(0)
        for bucket in range(len(low_counts)):
            low_counts[bucket] = 0
            high_counts[bucket] = 0
        for i in range(n):
            level = words[i]
            low_counts[level & of_digit] += count(1)
            high_counts[level >> digit_bits] += count(1)
            words[i] = (level << index_bits) | word(i)
        lower = higher = count(0)
        for bucket in range(len(low_counts)):  # from how many to where the first goes
            here, there = low_counts[bucket], high_counts[bucket]
            low_counts[bucket], high_counts[bucket] = lower, higher
            lower, higher = count(lower + here), count(higher + there)
        for i in range(n):
            bucket = (words[i] >> index_bits) & of_digit
            to = low_counts[bucket]
            spare[to] = words[i]
            low_counts[bucket] = count(to + count(1))
        for i in range(n):
            bucket = spare[i] >> both
            to = high_counts[bucket]
            index = spare[i] & of_index
            words[to] = index
            values[to] = row[index]
            high_counts[bucket] = count(to + count(1))
        if not settle(values, words):
            costs[r] = -1
            left += 1
            continue
        costs[r] = _price_moved(values, words, of_index, points, loc[r], scale[r], want_u, row)
    return left


@jit
def price(
    u: Array, u_words: Array, v: Array, v_words: Array, first: int, rows: int, mask: int, trusted: bool,
    a: Array, b: Array, p: float, want_u: bool, want_v: bool, costs: Array,
) -> int:  # fmt: skip
    """Price rows whose words are sorted; where v has no words, it is sorted itself. How many rows are left undone.

    These are the rows `first`, ... of as many as `rows`, of which v and the weights a and b may have fewer. A row whose
    order its words do not tell is left as it is, with cost −1; unless the words are trusted.
    """
    n, m = u.shape[1], v.shape[1]
    us, ui = np.empty(n, u.dtype), np.empty(n, np.int32)
    vs, vi = np.empty(m, v.dtype), np.empty(m, np.int32)
    for j in range(m):
        vi[j] = j
    of_index = u_words.dtype.type(mask)
    left = 0
    for r in range(len(u)):
        known = unpack(u[r], u_words[r], of_index, us)
        row = v[(first + r) % len(v)]
        sorted_row = row
        if len(v_words):
            known &= unpack(row, v_words[r], of_index, vs)
            sorted_row = vs
        if not known and not trusted:
            costs[r] = -1
            left += 1
            continue
        for i in range(n):
            ui[i] = u_words[r, i] & of_index
        if len(v_words):
            for j in range(m):
                vi[j] = v_words[r, j] & of_index
        aw, bw = a[(first + r) * len(a) // rows], b[(first + r) * len(b) // rows]
        costs[r] = _price(us, ui, sorted_row, vi, aw, bw, p, want_u, want_v, u[r], row)
    return left


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
    costs: Array, coefficients: Array, p: float, root: bool, rows: Array, values: Array, scaled: Array
) -> None:  # fmt: skip
    """Values (B,) of costs (B, L): Σ coefficients · costs, or its p-th root; and rows times the derivatives in the costs.

    Coefficients are (1, L) or (B, L); empty ones mean 1/L each. Rows are (L, k), for all elements, or (B L, k), and
    `scaled` is (B L, k).
    """
    n_lines = costs.shape[1]
    for e in range(len(costs)):
        given = coefficients[e % len(coefficients)]
        total = 0.0
        for i in range(n_lines):
            total += np.float64(costs[e, i]) * (given[i] if len(given) else 1.0 / n_lines)
        outer = 1.0
        if root and p != 1.0:
            # The root of zero, and of an estimate below it, is zero and flat; NaN stays NaN.
            outer = 0.0 if total <= 0 else total ** (1.0 / p - 1.0) / p
            total = 0.0 if total <= 0 else total ** (1.0 / p)
        values[e] = total
        for i in range(n_lines):
            r = e * n_lines + i
            factor = scaled.dtype.type(outer * (given[i] if len(given) else 1.0 / n_lines))
            row, out = rows[r % len(rows)], scaled[r]
            for k in range(len(row)):
                out[k] = factor * row[k]


@jit
def take_back(
    on_lines: Array, scaled: Array, start: int, stop: int, sums_of: Array, out: Array
) -> None:
    """Σ_l on_lines_l ⊗ scaled_l into out (B, n, d), of on_lines (B, L, n) and scaled (B, L, d), for small d.

    Work is counted in tiles of samples, those of each element of the batch after another; `sums_of` (d, tile) is memory
    to work in.
    """
    n_lines, n = on_lines.shape[1], on_lines.shape[2]
    d = scaled.shape[2]
    tile = sums_of.shape[1]
    tiles = (n + tile - 1) // tile
    for t in range(start, stop):
        e = t // tiles
        first = (t % tiles) * tile
        size = min(n - first, tile)
        for k in range(d):
            total = sums_of[k]
            for i in range(size):
                total[i] = 0
        for line in range(n_lines):
            row = on_lines[e, line]
            for k in range(d):
                factor, total = scaled[e, line, k], sums_of[k]
                for i in range(size):
                    total[i] += factor * row[np.uint64(first + i)]
        for k in range(d):
            total = sums_of[k]
            for i in range(size):
                out[e, first + i, k] = total[i]
