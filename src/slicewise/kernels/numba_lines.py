"""Loops on sorted lines and circles, compiled by numba: orders, cuts of circles, dual potentials, costs of couplings.

They do what `transport.circle`, `transport.one_dim` and `transport.couplings` do in plain PyTorch, row by row. Imports
numba, which takes half a second: only to be imported once it is used.
"""

from __future__ import annotations

import numpy as np

from slicewise.kernels.numba_loops import Array, inline, jit, unpack
from slicewise.transport import TIED


@jit
def orders(rows: Array, words: Array, mask: int, values: Array, out: Array, known: Array) -> None:
    """The order of each row from its sorted words into `out`; rows whose words do not tell it are marked as not known."""
    of_index = words.dtype.type(mask)
    for r in range(len(rows)):
        known[r] = unpack(rows[r], words[r], of_index, values)
        if known[r]:
            for i in range(rows.shape[1]):
                out[r, i] = words[r, i] & of_index


@inline
def _power(gap: float, p: float) -> float:
    if p == 2.0:
        return gap * gap
    return abs(gap) if p == 1.0 else abs(gap) ** p


@jit
def _rotated(us: Array, vs: Array, k: int, p: float) -> float:
    """Σ |u_i − v_(i+k)|^p, v continued periodically."""
    n = len(us)
    lap = k // n  # numba floors as Python does
    first = k - lap * n
    total = 0.0
    for i in range(n - first):
        total += _power(np.float64(us[i]) - (np.float64(vs[i + first]) + lap), p)
    for i in range(n - first, n):
        total += _power(np.float64(us[i]) - (np.float64(vs[i + first - n]) + (lap + 1)), p)
    return total


@jit
def rotations(us: Array, vs: Array, p: float, start: int, stop: int, out: Array) -> None:
    """The rotation of least cost, for rows (rows, n) of sorted positions; a bisection, since the cost is convex in it."""
    n = us.shape[1]
    for r in range(start, stop):
        low, high = -n, n
        while low < high:
            middle = (low + high) // 2
            if _rotated(us[r], vs[r], middle + 1, p) >= _rotated(us[r], vs[r], middle, p):
                high = middle
            else:
                low = middle + 1
        out[r] = high


@jit
def _slope(us: Array, vs: Array, a: Array, b: Array, shift: float, p: float) -> float:
    """The right derivative of the cost on a circle in its cut, as `circle._slope_at`."""
    n, m = len(us), len(vs)
    total = 0.0
    lap = np.ceil(b[0] - shift) - 1.0
    i = 0
    for j in range(m):
        at = b[j] - shift
        if at - lap > 1.0:
            lap = np.ceil(at) - 1.0
            i = 0
        inside = at - lap
        while i < n - 1 and a[i] < inside:
            i += 1
        here = np.float64(us[i]) + lap
        there = np.float64(vs[j + 1]) if j < m - 1 else np.float64(vs[0]) + 1.0
        total += _power(here - there, p) - _power(here - np.float64(vs[j]), p)
    return total


@jit
def shifts(
    us: Array, vs: Array, a: Array, b: Array, p: float, start: int, stop: int, out: Array
) -> None:  # fmt: skip
    """The cut of least cost, for rows of sorted positions and their knots; knots may be one row for all."""
    for r in range(start, stop):
        low, high = -1.0, 1.0
        ar, br = a[r % len(a)], b[r % len(b)]
        for _ in range(56):  # beyond what double precision resolves
            middle = (low + high) / 2
            if _slope(us[r], vs[r], ar, br, middle, p) >= 0:
                high = middle
            else:
                low = middle
        out[r] = high


@jit
def shifted_costs(
    us: Array, vs: Array, a: Array, b: Array, shifts: Array, start: int, stop: int, out: Array
) -> None:
    """∫ d(u(q), v(q + θ))² dq of the quantiles of sorted positions on circles, d the distance on the circle.

    Knots may be one row for all; shifts (rows,) are any numbers.
    """
    n, m = us.shape[1], vs.shape[1]
    for r in range(start, stop):
        u, v, ar, br = us[r], vs[r], a[r % len(a)], b[r % len(b)]
        at = shifts[r] - np.floor(shifts[r])  # where v begins, in [0, 1)
        j = 0
        while j < m - 1 and br[j] <= at:
            j += 1
        i, turn = 0, 0.0
        done = total = 0.0
        while done < 1.0:
            u_end = ar[i] if i < n - 1 else 1.0
            v_end = min(br[j] - at + turn, 1.0)
            end = min(u_end, v_end)
            if end > done:
                gap = np.float64(u[i]) - np.float64(v[j])
                gap -= np.round(gap)
                total += (end - done) * gap * gap
                done = end
            if u_end <= v_end:
                if i == n - 1:
                    break
                i += 1
            else:
                j += 1
                if j == m:
                    j = 0
                    turn += 1.0
        out[r] = total


@jit
def potentials(
    us: Array, ui: Array, vs: Array, vi: Array, a: Array, b: Array, p: float, start: int, stop: int,
    f: Array, g: Array, costs: Array,
) -> None:  # fmt: skip
    """Dual potentials of transport on sorted lines, and its cost; as `one_dim.potentials_on_lines`.

    Weights a (rows or 1, n) and b (rows or 1, m) are those of the samples, in any scale; potentials are written in the
    order of the samples. f_i + g_j ≤ |u_i − v_j|^p, with equality where mass goes.
    """
    n, m = us.shape[1], vs.shape[1]
    for r in range(start, stop):
        u, v, iu, iv = us[r], vs[r], ui[r], vi[r]
        ar, br = a[r % len(a)], b[r % len(b)]
        a_total = b_total = 0.0
        for i in range(n):
            a_total += ar[iu[i]]
        for j in range(m):
            b_total += br[iv[j]]
        i = j = 0
        a_sum, b_sum = ar[iu[0]], br[iv[0]]
        a_end = 1.0 if n == 1 else a_sum / a_total
        b_end = 1.0 if m == 1 else b_sum / b_total
        here = _power(np.float64(u[0]) - np.float64(v[0]), p)
        fi, gj = 0.0, here
        f[r, iu[0]] = fi
        g[r, iv[0]] = gj
        done = total = 0.0
        while True:
            end = min(a_end, b_end)
            width = end - done
            if width > 0:
                total += width * here
                done = end
            if i == n - 1 and j == m - 1:
                break
            if i < n - 1 and j < m - 1 and width > TIED and abs(a_end - b_end) <= TIED:
                # Both sides step at once: the mean of one stepping first and of the other.
                ahead = _power(np.float64(u[i + 1]) - np.float64(v[j]), p)
                aside = _power(np.float64(u[i]) - np.float64(v[j + 1]), p)
                there = _power(np.float64(u[i + 1]) - np.float64(v[j + 1]), p)
                fi += ((ahead - here) + (there - aside)) / 2
                gj += ((aside - here) + (there - ahead)) / 2
                here = there
                i += 1
                j += 1
                f[r, iu[i]] = fi
                g[r, iv[j]] = gj
                a_sum += ar[iu[i]]
                b_sum += br[iv[j]]
                a_end = 1.0 if i == n - 1 else a_sum / a_total
                b_end = 1.0 if j == m - 1 else b_sum / b_total
                done = max(done, end)
                continue
            if j == m - 1 or (i < n - 1 and a_end <= b_end):
                i += 1
                here = _power(np.float64(u[i]) - np.float64(v[j]), p)
                fi = here - gj
                f[r, iu[i]] = fi
                a_sum += ar[iu[i]]
                a_end = 1.0 if i == n - 1 else a_sum / a_total
            else:
                j += 1
                here = _power(np.float64(u[i]) - np.float64(v[j]), p)
                gj = here - fi
                g[r, iv[j]] = gj
                b_sum += br[iv[j]]
                b_end = 1.0 if j == m - 1 else b_sum / b_total
        costs[r] = total


@jit
def line_plans(
    ui: Array, vi: Array, a: Array, b: Array, start: int, stop: int, rows: Array, cols: Array, mass: Array
) -> None:  # fmt: skip
    """The plan on each line from the orders of both sides; as `one_dim.plan_on_lines`, cell by cell.

    Weights are (rows or 1, n) and (rows or 1, m) in the order of samples; empty ones mean equal ones, which are counted
    in whole numbers.
    """
    n, m = ui.shape[1], vi.shape[1]
    for r in range(start, stop):
        iu, iv = ui[r], vi[r]
        ar, br = a[r % len(a)], b[r % len(b)]
        weighted = len(ar) > 0 or len(br) > 0
        whole = 1.0 if weighted else np.float64(n) * np.float64(m)
        a_total = b_total = 0.0
        for i in range(len(ar)):
            a_total += ar[iu[i]]
        for j in range(len(br)):
            b_total += br[iv[j]]
        i = j = 0
        a_sum = ar[iu[0]] if len(ar) else 0.0
        b_sum = br[iv[0]] if len(br) else 0.0
        done = 0.0
        a_end = whole if n == 1 else (a_sum / a_total if len(ar) else whole / n)
        b_end = whole if m == 1 else (b_sum / b_total if len(br) else whole / m)
        for k in range(n + m):
            end = min(a_end, b_end)
            rows[r, k] = iu[min(i, n - 1)]
            cols[r, k] = iv[min(j, m - 1)]
            mass[r, k] = max(end - done, 0.0) / whole
            done = max(done, end)
            if a_end <= b_end:
                i += 1
                if i >= n - 1:
                    a_end = whole if i == n - 1 else np.inf
                elif len(ar):
                    a_sum += ar[iu[i]]
                    a_end = a_sum / a_total
                else:
                    a_end = (i + 1) * (whole / n)
            else:
                j += 1
                if j >= m - 1:
                    b_end = whole if j == m - 1 else np.inf
                elif len(br):
                    b_sum += br[iv[j]]
                    b_end = b_sum / b_total
                else:
                    b_end = (j + 1) * (whole / m)


@jit
def pair_costs(
    x: Array, y: Array, rows: Array, cols: Array, mass: Array, p: float, norm: float, start: int, stop: int,
    out: Array,
) -> None:  # fmt: skip
    """Σ mass · ‖x_i − y_j‖^p over the pairs of each of couplings (L, K), in the given norm; empty masses mean 1/K each."""
    n, d = rows.shape[1], x.shape[1]
    for r in range(start, stop):
        total = 0.0
        for k in range(n):
            share = 1.0 / n
            if len(mass):
                share = np.float64(mass[r, k])
                if share == 0.0:
                    continue
            one, other = x[rows[r, k]], y[cols[r, k]]
            if norm == 2.0:
                square = 0.0
                for c in range(d):
                    gap = one[c] - other[c]
                    square += gap * gap
                total += share * (square if p == 2.0 else square ** (p / 2.0))
            else:
                # In units of the largest gap, whose power of the order of the norm may overflow.
                largest, size = 0.0, 0.0
                for c in range(d):
                    largest = max(largest, abs(one[c] - other[c]))
                if largest > 0.0:
                    for c in range(d):
                        size += _power((one[c] - other[c]) / largest, norm)
                    total += share * (largest * size ** (1.0 / norm)) ** p
        out[r] = total
