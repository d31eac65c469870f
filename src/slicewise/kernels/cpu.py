"""`match_slices` on the CPU: through loops compiled by numba, or with NumPy alone; rows are shared among threads."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.support import broadcast
from slicewise.transport import Match, Wanted, project
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


# A further thread for each so many numbers to sort: about a millisecond's work. Waking one takes 50 µs,
# and with 30,000 numbers two threads were measured to be half as fast as one.
_SERIAL_KEYS = 200_000
# Pieces for each thread: enough to even out unequal progress, few enough to stay long.
_PIECES_EACH = 8

_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def share(work: Callable[[int, int], None], rows: int, *, keys: int) -> None:
    """Call `work(start, stop)` over all rows, by as many threads as torch may use.

    Python threads suffice because the kernels release the GIL. Each takes the next piece when it has
    finished one: torch's own threads spin for milliseconds after a matrix product, and whoever shares
    a core with them gets less done.
    """
    n_threads = min(torch.get_num_threads(), rows, 1 + keys // _SERIAL_KEYS)
    if n_threads < 2:
        work(0, rows)
        return
    n_pieces = min(rows, _PIECES_EACH * n_threads)
    edges = [rows * k // n_pieces for k in range(n_pieces + 1)]
    pieces = iter(range(n_pieces))  # `next` on it is atomic

    def take() -> None:
        for k in pieces:
            work(edges[k], edges[k + 1])

    pool = _threads(n_threads - 1)
    others = [pool.submit(take) for _ in range(n_threads - 1)]
    take()
    for other in others:
        if not other.cancel():  # one that has not begun finds nothing left to do
            other.result()


def _threads(n: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    if _pool is None or _pool_size < n:
        _pool, _pool_size = ThreadPoolExecutor(n, thread_name_prefix="slicewise"), n
    return _pool


def _forget() -> None:
    global _pool
    _pool = None


# A forked process (a DataLoader worker, say) inherits the pool's record but none of its threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# Up to this many samples NumPy's vectorised sort of packed words beats a radix sort.
_PACKED_UP_TO = 1024
# Words by precision, and the bits of a value's place in its row's range that survive arithmetic in it.
_WORDS = {torch.float32: (np.uint32, 32, 23), torch.float64: (np.uint64, 64, 52)}
_NO_WEIGHTS = np.empty((1, 0))


def match_by_numba(
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
    """`transport.match_slices` through compiled kernels; gradients to weights by the plain version."""
    if wanted.u_weights or wanted.v_weights:
        return plain_match_slices(x, y, slices, x_weights, y_weights, p=p, wanted=wanted)
    u = project(x, slices)
    ordered = wanted.v or y_weights is not None  # must it be known which sample of y is which?
    known = y_sorted is not None and not ordered
    v = y_sorted if known and y_sorted is not None else project(y, slices)
    shape = joint_shape(u, v, x_weights, y_weights)
    u_rows = as_rows(u, shape)
    # A target shared by the whole batch is sorted once; gradients to it need a row for each.
    shared = v.dim() == 2 and len(shape) > 1 and not ordered
    v_rows = v.contiguous() if shared else as_rows(v, shape)
    if shared and not known:
        v_rows.numpy().sort(axis=1)
        known = True
    costs = torch.empty(u_rows.shape[0], dtype=u.dtype)
    a, b = _weights(x_weights, shape), _weights(y_weights, shape)
    _match_rows(u_rows, v_rows, known, a, b, p, wanted, costs)
    if len(shape) == 1:
        return Match(costs, u_rows if wanted.u else None, v_rows if wanted.v else None, None, None)
    u_grad = u_rows.view(*shape, -1) if wanted.u else None
    v_grad = v_rows.view(*shape, -1) if wanted.v else None
    return Match(costs.view(shape), u_grad, v_grad, None, None)


def _match_rows(
    u: Tensor,
    v: Tensor,
    v_is_sorted: bool,
    a: Array,
    b: Array,
    p: float,
    wanted: Wanted,
    costs: Tensor,
) -> None:
    """Price rows (rows, n) against rows (rows, m); gradients take the place of the projections."""
    loops = numba_loops()
    us, vs, out = u.numpy(), v.numpy(), costs.numpy()
    rows, n, m = us.shape[0], us.shape[1], vs.shape[1]
    order_v = wanted.v or b.shape[1] > 0
    if max(n, m) > _PACKED_UP_TO:

        def radix(start: int, stop: int) -> None:
            loops.price_radix(us, vs, start, stop, v_is_sorted, a, b, p, wanted.u, wanted.v, out)

        share(radix, rows, keys=rows * (n + m))
        return
    word, size, precision = _WORDS[u.dtype]
    shift = max(1, (max(n, m) - 1).bit_length())
    # A little under the last level, so that rounding cannot carry into the next bit.
    levels = 2.0 ** min(precision, size - shift) * (1 - 2.0**-20)
    u_words = np.empty(us.shape, word)
    v_words = np.empty(vs.shape if order_v else (0, 0), word)

    def packed(start: int, stop: int) -> None:
        loops.pack(us, u_words, start, stop, shift, levels)
        u_words[start:stop].sort(axis=1)
        if order_v:
            loops.pack(vs, v_words, start, stop, shift, levels)
            v_words[start:stop].sort(axis=1)
        elif not v_is_sorted:
            vs[start:stop].sort(axis=1)
        loops.price_packed(
            us, u_words, vs, v_words, start, stop, (1 << shift) - 1, a, b, p, wanted.u, wanted.v, out
        )  # fmt: skip

    share(packed, rows, keys=rows * (n + m))


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

    share(work, len(us), keys=us.size + vs.size)
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
            keys=values.size // 8,
        )
        return torch.from_numpy(found)

    def auction(self, *given: Any) -> int:
        """Bids, one after another, until every row has a partner or the budget is spent."""
        return int(self._loops.auction(*given))
