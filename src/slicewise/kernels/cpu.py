"""`match_slices` on the CPU: through loops compiled by numba, or with NumPy alone; rows are shared among threads."""

from __future__ import annotations

import functools
import importlib
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.kernels.products import multiply
from slicewise.kernels.threads import share
from slicewise.support import broadcast
from slicewise.transport import Match, PricingMatcher, Wanted, project
from slicewise.transport import match_slices as plain_match_slices

Array = Any


@functools.cache
def numba_loops() -> Any:
    """The compiled loops, imported when they are first needed: numba takes half a second."""
    return importlib.import_module("slicewise.kernels.numba_loops")


def joint_shape(u: Tensor, v: Tensor, *weights: Tensor | None) -> tuple[int, ...]:
    """The shape (*batch, L) of the costs; weights are (*batch, n)."""
    given = [(*w.shape[:-1], 1) for w in weights if w is not None and w.dim() > 1]
    if u.dim() == v.dim() == 2 and not given:
        return u.shape[:1]
    return broadcast(u.shape[:-1], v.shape[:-1], *given)


def as_rows(projections: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(rows, n), contiguous; a copy where memory was shared between rows."""
    if projections.dim() == 2 and len(shape) == 1 and projections.is_contiguous():
        return projections
    n = projections.shape[-1]
    if projections.shape[:-1] == shape:
        return projections.contiguous().view(-1, n)
    return projections.expand(*shape, n).clone(memory_format=torch.contiguous_format).view(-1, n)


# Up to this many samples NumPy's vectorised sort of packed words beats a radix sort.
_PACKED_UP_TO = 1024
# Words by bytes of a number, integers of the same size, their bits, and the bits of a value's place in its row's range that survive arithmetic in it.
_WORDS = {
    4: (np.uint32, np.int32, 32, 23),
    8: (np.uint64, np.int64, 64, 52),
}
_NO_WEIGHTS = np.empty((1, 0))


# What sorting and pricing take for each number, in nanoseconds of one core: up to 512 in a row (NumPy sorts those by
# a network), up to 1024, and beyond.
_SHORT_NS, _PACKED_NS, _RADIX_NS = 4.0, 8.0, 7.0
# Up to this dimension gradients are taken back by a loop of our own.
_SMALL_DIMENSION = 8


class NumbaMatcher(PricingMatcher):
    """`transport.match_slices` through compiled kernels; gradients to weights by the plain version."""

    def __call__(
        self,
        x: Tensor,
        y: Tensor,
        slices: Tensor,
        x_weights: Tensor | None = None,
        y_weights: Tensor | None = None,
        *,
        p: float,
        wanted: Wanted = Wanted(),
        y_sorted: Tensor | None = None,
    ) -> Match:
        """See `transport.match_slices`."""
        if wanted.u_weights or wanted.v_weights:
            return plain_match_slices(x, y, slices, x_weights, y_weights, p=p, wanted=wanted)
        costs, u, v, shape = _rows(x, y, slices, x_weights, y_weights, p, wanted, y_sorted)
        u_grad = torch.from_numpy(u.reshape(*shape, -1)) if wanted.u else None
        v_grad = torch.from_numpy(v.reshape(*shape, -1)) if wanted.v else None
        return Match(torch.from_numpy(costs.reshape(shape)), u_grad, v_grad, None, None)

    def priced(
        self,
        x: Tensor,
        y: Tensor,
        slices: Tensor,
        x_weights: Tensor | None,
        y_weights: Tensor | None,
        coefficients: Tensor | None,
        *,
        p: float,
        root: bool,
        y_sorted: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """See `PricingMatcher.priced`."""
        loops = numba_loops()
        costs, u, _, shape = _rows(x, y, slices, x_weights, y_weights, p, _ONLY_X, y_sorted)
        *batch, n_lines = shape
        elements, n = math.prod(batch), u.shape[1]
        values, factors = np.empty(elements, u.dtype), np.empty((elements, n_lines), u.dtype)
        costs = costs.reshape(elements, n_lines)
        loops.weigh(costs, _weights(coefficients, shape), p, root, values, factors)
        gradient = _taken_back(loops, u.reshape(elements, n_lines, n), slices, factors, batch)
        return torch.from_numpy(values.reshape(batch)), gradient


match_by_numba = NumbaMatcher()
_ONLY_X = Wanted(True, False)


def _taken_back(
    loops: Any, on_lines: Array, slices: Tensor, factors: Array, batch: list[int]
) -> Tensor:
    """Σ_l factors_l · on_lines_l ⊗ slices_l, (*batch, n, d), of on_lines (B, L, n) and factors (B, L)."""
    elements, n_lines, n = on_lines.shape
    d = slices.shape[-1]
    if slices.dim() > 2:
        slices = slices.expand(*batch, n_lines, d)
    if n < d:  # the smaller side is multiplied by the factors
        rows = on_lines.reshape(-1, n)
        loops.scale_rows(rows, factors.reshape(-1), rows)
        return multiply(torch.from_numpy(on_lines.reshape(*batch, n_lines, n)).mT, slices)
    lines = slices.detach().contiguous().numpy().reshape(-1, d)
    scaled = np.empty((elements, n_lines, d), lines.dtype)
    loops.scale_rows(lines, factors.reshape(-1), scaled.reshape(-1, d))
    if d > _SMALL_DIMENSION:
        u, factor = on_lines.reshape(*batch, n_lines, n), scaled.reshape(*batch, n_lines, d)
        return multiply(torch.from_numpy(u).mT, torch.from_numpy(factor))
    out = np.empty((elements, n, d), lines.dtype)
    share(
        lambda start, stop: loops.take_back(on_lines, scaled, start, stop, out),
        elements * -(-n // loops.TILE),
        each_ns=n_lines * d * min(n, loops.TILE) * 0.1,
    )
    return torch.from_numpy(out.reshape(*batch, n, d))


def _rows(
    x: Tensor,
    y: Tensor,
    slices: Tensor,
    x_weights: Tensor | None,
    y_weights: Tensor | None,
    p: float,
    wanted: Wanted,
    y_sorted: Tensor | None,
) -> tuple[Array, Array, Array, tuple[int, ...]]:
    """Costs (rows,), wanted gradients on the lines (rows, n) and (rows, m), and the shape (*batch, L) of the rows."""
    u = multiply(slices, x.mT)
    ordered = wanted.v or y_weights is not None  # must it be known which sample of y is which?
    known = y_sorted is not None and not ordered
    v = y_sorted if known and y_sorted is not None else multiply(slices, y.mT)
    shape = joint_shape(u, v, x_weights, y_weights)
    u_rows = as_rows(u, shape)
    # A target shared by the whole batch is sorted once; gradients to it need a row for each.
    shared = v.dim() == 2 and len(shape) > 1 and not ordered
    v_rows = v.contiguous() if shared else as_rows(v, shape)
    us, vs = u_rows.numpy(), v_rows.numpy()
    costs = np.empty(len(us), us.dtype)
    a, b = _weights(x_weights, shape), _weights(y_weights, shape)
    _match_rows(us, vs, known, a, b, p, wanted, costs)
    return costs, us, vs, shape


def _match_rows(
    us: Array,
    vs: Array,
    v_is_sorted: bool,
    a: Array,
    b: Array,
    p: float,
    wanted: Wanted,
    out: Array,
) -> None:
    """Price rows (rows, n) against rows (rows, m); gradients take the place of the projections."""
    loops = numba_loops()
    (rows, n), (v_rows, m) = us.shape, vs.shape
    word, whole, size, precision = _WORDS[us.itemsize]
    ordered = wanted.v or b.shape[1] > 0
    paired = n == m and p == 2.0 and not ordered and a.shape[1] == 0
    packed = max(n, m) <= _PACKED_UP_TO
    v_bits = vs.view(whole)

    def sort_v(start: int, stop: int) -> None:
        # As integers of the same order: NumPy sorts those in two thirds of the time.
        loops.mirror(v_bits, start, stop)
        v_bits[start:stop].sort(axis=1)
        loops.mirror(v_bits, start, stop)

    if not v_is_sorted and not ordered and v_rows < rows:
        share(sort_v, v_rows, each_ns=m * (_SHORT_NS if packed else 2 * _RADIX_NS))
        v_is_sorted = True
    if not packed:

        def radix(start: int, stop: int) -> None:
            if paired:
                loops.pair_radix(us, vs, start, stop, v_is_sorted, wanted.u, out)
            else:
                loops.price_radix(
                    us, vs, start, stop, v_is_sorted, a, b, p, wanted.u, wanted.v, out
                )

        share(radix, rows, each_ns=_RADIX_NS * (n + m))
        return
    shift = max(1, (max(n, m) - 1).bit_length())
    # A little under the last level, so that rounding cannot carry into the next bit.
    levels = 2.0 ** min(precision, size - shift) * (1 - 2.0**-20)
    mask = (1 << shift) - 1
    u_bits, u_words = us.view(whole), np.empty(us.shape, word)
    v_words = np.empty(vs.shape if ordered else (0, 0), word)

    def by_words(start: int, stop: int) -> None:
        loops.pack(us, u_bits, u_words, start, stop, shift, levels)
        u_words[start:stop].sort(axis=1)
        if ordered:
            loops.pack(vs, v_bits, v_words, start, stop, shift, levels)
            v_words[start:stop].sort(axis=1)
        elif not v_is_sorted:
            sort_v(start, stop)
        if paired:
            loops.pair_packed(us, u_words, vs, start, stop, mask, wanted.u, out)
        else:
            loops.price_packed(
                us, u_words, vs, v_words, start, stop, mask, a, b, p, wanted.u, wanted.v, out
            )

    share(by_words, rows, each_ns=(_SHORT_NS if max(n, m) <= 512 else _PACKED_NS) * (n + m))


def _weights(weights: Tensor | None, shape: tuple[int, ...]) -> Array:
    """One row for all, or one for each element of the batch, in float64."""
    if weights is None:
        return _NO_WEIGHTS
    n = weights.shape[-1]
    rows = weights.detach().double()
    if weights.dim() > 1:
        rows = rows.expand(*shape[:-1], n)
    return rows.reshape(-1, n).contiguous().numpy()


_NO_ORDER = np.empty((0, 0), np.int64)


def match_by_numpy(
    x: Tensor,
    y: Tensor,
    slices: Tensor,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    *,
    p: float,
    wanted: Wanted = Wanted(),
    y_sorted: Tensor | None = None,
) -> Match:
    """`transport.match_slices` by NumPy, where it is the faster."""
    weighted = x_weights is not None or y_weights is not None
    if weighted or x.dtype != torch.float32 or x.shape[-2] != y.shape[-2]:
        return plain_match_slices(
            x, y, slices, x_weights, y_weights, p=p, wanted=wanted, y_sorted=y_sorted
        )
    known = y_sorted is not None and not wanted.v
    u = project(x, slices)
    v = y_sorted if known and y_sorted is not None else project(y, slices)
    shape = joint_shape(u, v)
    us, vs = as_rows(u, shape).numpy(), as_rows(v, shape).numpy()
    costs = np.empty(len(us), np.float32)

    def work(start: int, stop: int) -> None:
        _match(us[start:stop], vs[start:stop], known, p, wanted, costs[start:stop])

    share(work, len(us), each_ns=20.0 * us.shape[1])
    u_grad = torch.from_numpy(us).view(*shape, -1) if wanted.u else None
    v_grad = torch.from_numpy(vs).view(*shape, -1) if wanted.v else None
    return Match(torch.from_numpy(costs).view(shape), u_grad, v_grad, None, None)


def _match(u: Array, v: Array, v_is_sorted: bool, p: float, wanted: Wanted, costs: Array) -> None:
    """Price rows; gradients take the place of the projections."""
    u_sorted, u_order = _sort(u, wanted.u)
    v_sorted, v_order = (v, _NO_ORDER) if v_is_sorted else _sort(v, wanted.v)
    gap = np.subtract(u_sorted, v_sorted, out=u_sorted)
    if p == 2:
        np.einsum("rn,rn->r", gap, gap, out=costs)
        slope = gap
        slope *= np.float32(2 / u.shape[1])
    else:
        size = np.abs(gap)
        (size**p).sum(axis=1, out=costs)
        slope = np.sign(gap) * size ** (p - 1) * np.float32(p / u.shape[1])
    costs /= u.shape[1]
    if wanted.u:
        u.reshape(-1)[u_order] = slope.reshape(-1)
    if wanted.v:
        v.reshape(-1)[v_order] = -slope.reshape(-1)


def _sort(rows: Array, with_order: bool) -> tuple[Array, Array]:
    """Rows in stable order and, if wanted, the place in the whole array each value came from."""
    if not with_order:
        return np.sort(rows, axis=1), _NO_ORDER
    halves = np.empty((*rows.shape, 2), np.int32)  # of a little-endian int64: low, high
    halves[..., 0] = np.arange(rows.size, dtype=np.int32).reshape(rows.shape)
    halves[..., 1] = _mirrored((rows + np.float32(0)).view(np.int32))  # + 0: −0 is 0
    words = halves.view(np.int64)[..., 0]
    words.sort(axis=1)
    return _mirrored(halves[..., 1]).view(np.float32), (words & 0xFFFFFFFF).reshape(-1)


def _mirrored(bits: Array) -> Array:
    """Between the bits of a float and an integer of the same order: below zero they run backwards."""
    sign = bits >> 31
    sign &= 0x7FFFFFFF
    sign ^= bits
    return sign


class NumbaMatching:
    """The loops of `transport.matching`, compiled by numba."""

    def __init__(self) -> None:
        self._loops = importlib.import_module("slicewise.kernels.numba_matching")

    def least(self, rows: Tensor, k: int) -> Tensor:
        """The places of the k least values of each row, (r, k), in no order."""
        values = rows.contiguous().numpy()
        found = np.empty((len(values), k), np.int64)
        share(
            lambda start, stop: self._loops.least(values, start, stop, found),
            len(values),
            each_ns=values.shape[1],
        )
        return torch.from_numpy(found)

    def auction(self, *given: Any) -> int:
        """Bids, one after another, until every row has a partner or the budget is spent."""
        return int(self._loops.auction(*given))
