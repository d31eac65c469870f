"""Loops that price the sides of relabeled pools, compiled by numba: what `transport.relabeled` does for permutation tests.

A line's labels are looked up in the order of its sorted pool. For p = 1 and for energies one pass over the pool is all;
otherwise labels split the sorted pool into two sorted sides, without branches, whose quantiles are then matched.
"""

from __future__ import annotations

from slicewise.kernels.numba_loops import Array, jit, sums


@sums
def by_gaps(
    values: Array, order: Array, labels: Array, start: int, stop: int, squared: bool, out: Array
) -> None:
    """∫ |F − G| of each labeling and line, or 2 ∫ (F − G)², for equal weights: labels (B, N), out (B, L)."""
    total = values.shape[1]
    n = 0
    for i in range(total):
        n += labels[0, i]
    m = total - n
    for line in range(start, stop):
        z, o = values[line], order[line]
        for b in range(len(labels)):
            label = labels[b]
            height = 0  # n m (F − G), exactly
            found = 0.0
            if squared:
                for i in range(total - 1):
                    height += label[o[i]] * total - n
                    found += float(height) * float(height) * (z[i + 1] - z[i])
                out[b, line] = 2.0 * found / (float(n) * m) / (float(n) * m)
            else:
                for i in range(total - 1):
                    height += label[o[i]] * total - n
                    found += abs(float(height)) * (z[i + 1] - z[i])
                out[b, line] = found / (float(n) * m)


@sums
def by_pairs(
    values: Array,
    order: Array,
    labels: Array,
    start: int,
    stop: int,
    p: float,
    sides: Array,
    out: Array,
) -> None:
    """W_p^p of each labeling and line, for equal weights and sides of one size; sides (2, N) is memory to work in."""
    total = values.shape[1]
    n = total // 2
    u, v = sides[0], sides[1]
    for line in range(start, stop):
        z, o = values[line], order[line]
        for b in range(len(labels)):
            label = labels[b]
            in_u = 0
            for i in range(total):
                first = label[o[i]]
                u[in_u] = z[i]
                v[i - in_u] = z[i]
                in_u += first
            found = 0.0
            if p == 2.0:
                for i in range(n):
                    gap = u[i] - v[i]
                    found += gap * gap
            else:
                for i in range(n):
                    found += abs(u[i] - v[i]) ** p
            out[b, line] = found / n


@sums
def by_cells(
    values: Array,
    order: Array,
    labels: Array,
    u_rank: Array,
    v_rank: Array,
    width: Array,
    start: int,
    stop: int,
    p: float,
    sides: Array,
    out: Array,
) -> None:
    """W_p^p for equal weights and sides of any sizes, matched by cells that depend on the sizes only."""
    total = values.shape[1]
    u, v = sides[0], sides[1]
    for line in range(start, stop):
        z, o = values[line], order[line]
        for b in range(len(labels)):
            label = labels[b]
            in_u = 0
            for i in range(total):
                first = label[o[i]]
                u[in_u] = z[i]
                v[i - in_u] = z[i]
                in_u += first
            found = 0.0
            if p == 2.0:
                for k in range(len(width)):
                    gap = u[u_rank[k]] - v[v_rank[k]]
                    found += width[k] * gap * gap
            else:
                for k in range(len(width)):
                    found += width[k] * abs(u[u_rank[k]] - v[v_rank[k]]) ** p
            out[b, line] = found


@jit
def by_weights(
    values: Array,
    order: Array,
    labels: Array,
    weights: Array,
    start: int,
    stop: int,
    p: float,
    energy: bool,
    sides: Array,
    masses: Array,
    out: Array,
) -> None:
    """The same with sample weights (N,); masses (2, N) is memory to work in."""
    total = values.shape[1]
    u, v, a, c = sides[0], sides[1], masses[0], masses[1]
    for line in range(start, stop):
        z, o = values[line], order[line]
        for b in range(len(labels)):
            label = labels[b]
            n, m = 0, 0
            whole_u, whole_v = 0.0, 0.0
            for i in range(total):
                w = weights[o[i]]
                if w == 0.0:
                    continue
                if label[o[i]]:
                    whole_u += w
                    u[n] = z[i]
                    a[n] = whole_u
                    n += 1
                else:
                    whole_v += w
                    v[m] = z[i]
                    c[m] = whole_v
                    m += 1
            found = 0.0
            if energy:
                f, g, i, j = 0.0, 0.0, 0, 0
                last = min(u[0], v[0])
                while i < n or j < m:
                    from_u = j >= m or (i < n and u[i] <= v[j])
                    here = u[i] if from_u else v[j]
                    found += (f - g) * (f - g) * (here - last)
                    last = here
                    if from_u:
                        f = a[i] / whole_u
                        i += 1
                    else:
                        g = c[j] / whole_v
                        j += 1
                out[b, line] = 2.0 * found
                continue
            i, j, level = 0, 0, 0.0
            while i < n and j < m:
                up, vp = a[i] / whole_u, c[j] / whole_v
                end = min(up, vp)
                if end > level:
                    gap = abs(u[i] - v[j])
                    found += (end - level) * (gap * gap if p == 2.0 else gap**p)
                    level = end
                if up <= end:
                    i += 1
                if vp <= end:
                    j += 1
            out[b, line] = found
