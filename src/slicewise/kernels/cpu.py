"""The work of the CPU: threads, matrix products, and `match_slices` through loops compiled by numba.

Threads are our own. Work is cut into pieces that do not depend on who is there to take them, so that results are the
same bit for bit on a busy machine, and each thread takes the next piece when it has finished one: a thread that loses
its core delays one piece. torch would wake its threads for products that take microseconds, which is slower than one
thread, and waits at a barrier for all of them, also for one whose core another process has taken. After an operation
its threads wait actively for milliseconds, on the cores that ours need: they are ended first, where that pays.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import math
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slicewise.support import broadcast, was_forked
from slicewise.transport import (
    Match,
    MovedPoints,
    PointsMatcher,
    PricingMatcher,
    RoundPoints,
    Wanted,
    uniform_cells,
)
from slicewise.transport import match_slices as plain_match_slices

Array = Any

# A further thread for each so many nanoseconds of work. Waking one takes 50 µs, and two threads were measured to be
# slower than one for less than half a millisecond of work.
SERIAL_NS = 1_000_000.0
# What a thread of torch costs when its next operation starts it again: measured, 50 µs, and 16 to end it.
_RESTART_NS = 50_000.0
# Threads have paid if a call took less than this part of what this thread alone would have needed. If they have not so
# many times in a row, threads work alone for so many times as long as that call took, and twice as long each time it
# happens again, up to some seconds. Once may be chance, or the call that loaded the compiled code: to rest for that
# would leave one thread alone for the first twenty seconds of every process.
_PAID, _STRIKES = 0.9, 2
_REST, _MOST_REST = 100.0, 3200.0
_LONGEST_REST = 10.0


class _Crew:
    """Threads that help with a call, and whether they were of help in the last ones."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._size = 0
        self._alone_until = 0.0
        self._rest = _REST
        self._unpaid = 0  # calls in a row

    def number_for(self, pieces: int, nanoseconds: float) -> int:
        """How many threads shall work: as many as torch may use, as pay, and as have not been in each other's way."""
        n = min(allowed(), pieces, 1 + int(nanoseconds / SERIAL_NS))
        return 1 if n < 2 or time.perf_counter() < self._alone_until else n

    def work_off(self, work: Callable[[int], None], pieces: int, n_threads: int) -> None:
        """Call `work(k)` for each piece, on this thread and on n_threads − 1 others."""
        left = iter(range(pieces))  # `next` on it is atomic

        def take() -> int:
            taken = 0
            for k in left:
                work(k)
                taken += 1
            return taken

        began, used = time.perf_counter(), time.thread_time()
        pool = self._threads(n_threads - 1)
        others = [pool.submit(take) for _ in range(n_threads - 1)]
        taken = 0
        try:
            taken = take()
            used = time.thread_time() - used
        finally:
            for other in others:
                if not other.cancel():  # one that has not begun finds nothing left to do
                    other.result()
        ended = time.perf_counter()
        self._judge(ended, ended - began, pieces * used / max(taken, 1))

    def _judge(self, now: float, elapsed: float, alone: float) -> None:
        """Let the others rest if a call took about as long as this thread alone would have."""
        if elapsed <= _PAID * alone:
            self._rest = max(self._rest / 2, _REST)
            self._unpaid = 0
            return
        self._unpaid += 1
        if self._unpaid < _STRIKES:
            return
        self._alone_until = now + min(self._rest * elapsed, max(_LONGEST_REST, _REST / 2 * elapsed))
        self._rest = min(2 * self._rest, _MOST_REST)

    def forget(self) -> None:
        """Leave the pool behind: a forked process inherits its record but none of its threads."""
        self._pool = None

    def _threads(self, n: int) -> ThreadPoolExecutor:
        if self._pool is None or self._size < n:
            self._pool = ThreadPoolExecutor(
                n, thread_name_prefix="slicewise", initializer=_without_torch_threads
            )
            self._size = n
        return self._pool


_crew = _Crew()
# Processes of multiprocessing may be forks of one that had not imported slicewise, and could not notice.
_perhaps_forked = multiprocessing.parent_process() is not None

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _crew.forget())  # whichever crew there is then


def share(work: Callable[[int, int], None], rows: int, *, each_ns: float, pieces: int = 16) -> None:
    """Call `work(start, stop)` over all rows, on as many threads as pay.

    Args:
        work: must give each row the same result whatever range it is in, and release the GIL.
        rows: how many.
        each_ns: about how many nanoseconds one row takes.
        pieces: into how many ranges to divide the rows at most.
    """
    n_threads = _crew.number_for(rows, rows * each_ns)
    if n_threads < 2:
        work(0, rows)
        return
    n_pieces = min(rows, pieces)
    share_pieces(
        lambda k: work(rows * k // n_pieces, rows * (k + 1) // n_pieces),
        n_pieces,
        each_ns=rows * each_ns / n_pieces,
        n_threads=n_threads,
    )


def share_pieces(
    work: Callable[[int], None],
    pieces: int,
    *,
    each_ns: float = 0.0,
    n_threads: int | None = None,
) -> None:
    """Call `work(k)` for each piece, on as many threads as pay or as are given."""
    if n_threads is None:
        n_threads = _crew.number_for(pieces, pieces * each_ns)
    with one_thread():
        if n_threads > 1:
            _end_torch_threads(pieces * each_ns / n_threads)
            _crew.work_off(work, pieces, n_threads)
        else:
            for k in range(pieces):
                work(k)


class _Controls(NamedTuple):
    """OpenMP's and MKL's own functions for the calling thread."""

    read: Any  # how many threads it may use
    set_: Any
    set_mkl: Any  # None where torch has no MKL
    end: Any  # those that wait for its next operation; None where that is not known to end them


@functools.cache
def _controls() -> _Controls | None:
    """What sets how many threads torch uses on the calling thread; None where it is not found.

    `torch.set_num_threads` would do the same, and also change what threads that start in the meantime are given.
    """
    suffix = "dylib" if sys.platform == "darwin" else "so"
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / f"libtorch_cpu.{suffix}"))
        read, set_ = library.omp_get_max_threads, library.omp_set_num_threads
    except (OSError, AttributeError):
        return None
    set_.restype = None
    mkl = getattr(library, "MKL_Set_Num_Threads_Local", None)  # returns what was set before
    if mkl is None and torch.backends.mkl.is_available():
        return None
    # LLVM's and Intel's libraries only note a pause, for all threads of the process. GNU's ends the caller's.
    of_gnu = getattr(library, "__kmpc_fork_call", None) is None
    end = getattr(library, "omp_pause_resource_all", None) if of_gnu else None
    return _Controls(read, set_, mkl, end)


def controlled() -> bool:
    """Can torch's products be kept to the calling thread?"""
    return _controls() is not None


def ends_threads() -> bool:
    """Can threads of torch be ended?"""
    controls = _controls()
    return controls is not None and controls.end is not None


_SOFT = 1  # settings are kept


def _end_torch_threads(nanoseconds: float) -> None:
    """End the threads that torch has started for this one, before work of so many nanoseconds, if that pays.

    Not in a forked process, which would wait forever: it inherits the record of its parent's threads, but none of them.
    """
    controls = _controls()
    if controls is None or controls.end is None or _perhaps_forked or was_forked():
        return
    if nanoseconds > _RESTART_NS * (allowed() - 1) and _more_than_pythons_threads():
        controls.end(_SOFT)


def _more_than_pythons_threads() -> bool:
    """Does this process have threads that Python did not start? Right after a fork it has not, whatever was inherited.

    For forks by `os.fork` that import slicewise themselves; those that start other threads before cannot be told.
    """
    try:
        return len(os.listdir("/proc/self/task")) > threading.active_count()
    except OSError:
        return False


def _without_torch_threads() -> None:
    """Keep torch's products on the calling thread to it, for good."""
    controls = _controls()
    if controls is not None:
        torch.get_num_threads()  # torch sets up a thread when it is first asked: before, not after
        controls.set_(1)
        if controls.set_mkl is not None:
            controls.set_mkl(1)


_local = (
    threading.local()
)  # what `one_thread` took away: how many threads torch may use outside of it


def allowed() -> int:
    """How many threads this thread may use: what torch may, also inside of `one_thread`."""
    return getattr(_local, "threads", 0) or torch.get_num_threads()


class one_thread:
    """A context in which torch, called from this thread, uses no other; other threads are not affected.

    torch starts its threads for any operation on more than 32,768 numbers, and waits at a barrier for all of them: with
    another process on the cores that was measured to take up to 40 times as long as one thread.
    """

    __slots__ = ("_before", "_mkl_before")

    def __enter__(self) -> None:
        controls = _controls()
        torch.get_num_threads()  # torch sets up a thread when it is first asked: before, not after
        self._before = 1 if controls is None else controls.read()
        if controls is not None and self._before > 1:
            controls.set_(1)
            self._mkl_before = None if controls.set_mkl is None else controls.set_mkl(1)
            _local.threads = self._before

    def __exit__(self, *_: object) -> None:
        controls = _controls()
        if controls is not None and self._before > 1:
            _local.threads = 0
            controls.set_(self._before)
            if controls.set_mkl is not None:
                controls.set_mkl(self._mkl_before)


# Products up to this many operations are one piece: they take less than half a millisecond. Longer ones are cut into so
# many pieces for each thread that torch may use, of at least so many operations: pieces of 512 columns cost the
# products of 2048 samples of dimension 512 one to four percent on one thread, pieces of 64 up to 16.
_WHOLE = 4e7
_PIECES_EACH, _PIECE = 2, 2.5e7
_PER_NS = 80.0  # operations a nanosecond of one core, about
_STEP = 64  # rows or columns: pieces are multiples of it


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """a (..., r, k) @ b (..., k, c).

    Its pieces depend on shapes and on how many threads torch may use, not on how many were there to help: the result
    is the same on a busy machine. Where torch has one thread, it is one product.
    """
    n_threads = allowed()
    if n_threads == 1:
        return a @ b
    if a.dim() == b.dim() == 2 and 2.0 * a.shape[0] * a.shape[1] * b.shape[1] <= _WHOLE:
        if getattr(_local, "threads", 0):  # inside of `one_thread` already
            return a @ b
        with one_thread():
            return a @ b
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    elements, r, k, c = math.prod(batch), a.shape[-2], a.shape[-1], b.shape[-1]
    operations = 2.0 * elements * r * k * c
    if operations <= _WHOLE or not controlled():
        with one_thread():
            return a @ b
    # Threads that help are in no mode of this one: what they write to must not be bound to inference.
    with torch.inference_mode(False), torch.no_grad():
        out = torch.empty(*batch, r, c, dtype=a.dtype, device=a.device)
        target = out.view(elements, r, c)
    # Nor do they know that gradients are off here.
    wide = (t.detach().expand(*batch, *t.shape[-2:]) for t in (a, b))
    left, right = (t.reshape(elements, *t.shape[-2:]) for t in wide)
    # Divided along the longest of what the product has: elements of the batch, rows or columns.
    rows = elements if elements > 1 else max(r, c)

    def work(start: int, stop: int) -> None:
        if elements > 1:
            torch.bmm(left[start:stop], right[start:stop], out=target[start:stop])
        elif r >= c:
            torch.mm(left[0, start:stop], right[0], out=target[0, start:stop])
        else:
            torch.mm(left[0], right[0, :, start:stop], out=target[0, :, start:stop])

    each = operations / rows
    step = 1 if elements > 1 else _STEP
    size = step * max(
        1, round(_PIECE / (each * step)), -(-rows // (_PIECES_EACH * n_threads * step))
    )
    share_pieces(
        lambda i: work(i * size, min(rows, (i + 1) * size)),
        -(-rows // size),
        each_ns=size * each / _PER_NS,
    )
    return out


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


# Up to this many samples NumPy's vectorized sort of words beats a radix sort; up to so many, words of 32 bits have room
# for the index and enough of the value.
_NUMPY_UP_TO, _SMALL_UP_TO = 1024, 4096
_NETWORK_UP_TO = 512  # NumPy sorts so many by a network, three times as fast
# Numbers that are worked on at once, of all rows that a thread has taken: they stay in its cache.
_BLOCK = 1 << 16
_NO_WEIGHTS = np.empty((1, 0))
# Bits of a digit where samples are sorted against a law: two of them tell numbers apart well enough, and there are fewer
# buckets than samples to clear and to add up.
_LAW_DIGIT = 10


class _Words(NamedTuple):
    """How values become words that sort as they do."""

    dtype: Any
    shift: int  # bits of the index
    levels: float  # of a value's place in its row's range; 0: the word has all bits of the value
    passes: int = 0  # of a radix sort; 0: sorted by NumPy
    digit: int = 11  # bits that one pass looks at

    @property
    def mask(self) -> int:
        """The bits of the index."""
        return (1 << self.shift) - 1


@functools.lru_cache(maxsize=1024)
def _words_for(n: int, size: int) -> _Words:
    """The words for rows of at most n numbers of 4 or 8 bytes."""
    shift = max(1, (n - 1).bit_length())
    if size == 4 and n > _SMALL_UP_TO:
        return _Words(np.uint64, 32, 0.0, passes=3)
    word: Any = np.uint32
    bits, precision, passes, digit = 32, 23, 2, (33 - shift) // 2
    if size == 8:
        word, bits, precision, passes, digit = np.uint64, 64, 52, 4, 11
    if n <= _NUMPY_UP_TO:
        passes = 0
    elif size == 8:
        shift, precision = max(shift, 20), passes * digit
    # A little under the last level, so that rounding cannot carry into the next bit.
    levels = 2.0 ** min(precision, bits - shift) * (1 - 2.0**-20)
    return _Words(word, shift, levels, passes, digit)


def _sorted_words(loops: Any, rows: Array, how: _Words) -> Array:
    """The words of rows (r, n), each row of them sorted."""
    words = np.empty(rows.shape, how.dtype)
    bits = rows.view(_INTEGERS[rows.itemsize])
    if how.levels:
        ends = np.empty(2, rows.dtype)
        loops.pack(rows, bits, words, how.shift, how.levels, ends, ends.view(bits.dtype))
    else:
        loops.pack_bits(bits, words)
    if how.passes:
        _radix(loops, words, how.shift, how.digit, how.passes, _NO_FLIP)
    else:
        words.sort(axis=1)
    return words


_INTEGERS = {4: np.int32, 8: np.int64}
_UNSIGNED = {4: (np.uint32, np.uint64(1 << 31), 3), 8: (np.uint64, np.uint64(1 << 63), 6)}
_NO_FLIP = np.uint64(0)
_NO_WORDS = {word: np.empty((0, 0), word) for word in (np.uint32, np.uint64)}


def _sort_values(loops: Any, rows: Array) -> None:
    """Sort each row in place, as integers of the same order: NumPy sorts those in two thirds of the time."""
    bits = rows.view(_INTEGERS[rows.itemsize])
    loops.mirror(bits)
    if rows.shape[1] <= _NUMPY_UP_TO:
        bits.sort(axis=1)
    else:
        word, flip, passes = _UNSIGNED[rows.itemsize]
        _radix(loops, bits.view(word), 0, 11, passes, flip)
    loops.mirror(bits)


def sort_lines(lines: Tensor) -> Tensor:
    """Each line (..., n) sorted, in new memory."""
    found = lines.detach().clone(memory_format=torch.contiguous_format)
    rows = found.numpy().reshape(-1, lines.shape[-1])
    loops, each_ns = numba_loops(), _ns_per_number(rows.shape[1])
    if rows.size:
        share(
            lambda i, j: _sort_values(loops, rows[i:j]), len(rows), each_ns=rows.shape[1] * each_ns
        )
    return found


def _radix(loops: Any, words: Array, shift: int, digit: int, passes: int, flip: Any) -> None:
    """See `numba_loops.radix`."""
    spare = np.empty(words.shape[1], words.dtype)
    loops.radix(words, shift, digit, passes, flip, spare, np.empty(1 << digit, np.uint32))


def _ns_per_number(n: int) -> float:
    """About how long it takes to sort and price a number of a row of n, in nanoseconds of one core."""
    return 4.0 if n <= _NETWORK_UP_TO else 7.0


# Up to this dimension gradients are taken back by a loop of our own, so many samples at once: they stay in the nearest
# cache.
_SMALL_DIMENSION, _TILE = 8, 512


class NumbaMatcher(PricingMatcher, PointsMatcher):
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
        y_sorted: Tensor | MovedPoints | RoundPoints | None = None,
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
        y_sorted: Tensor | MovedPoints | RoundPoints | None = None,
    ) -> tuple[Tensor, Tensor]:
        """See `PricingMatcher.priced`."""
        loops = numba_loops()
        costs, u, _, shape = _rows(x, y, slices, x_weights, y_weights, p, _ONLY_X, y_sorted)
        *batch, n_lines = shape
        elements, n, d = math.prod(batch), u.shape[1], slices.shape[-1]
        if slices.dim() > 2:
            slices = slices.expand(*batch, n_lines, d)
        values = np.empty(elements, u.dtype)
        # How much each line counts: a factor of its slopes or of its slice, whichever is shorter.
        if d > _SMALL_DIMENSION and n < d:
            rows = scaled = u
        else:
            rows = slices.detach().contiguous().numpy().reshape(-1, d)
            scaled = np.empty((elements * n_lines, d), u.dtype)
        loops.weigh(
            costs.reshape(elements, n_lines), _weights(coefficients, shape), p, root, rows, values, scaled
        )  # fmt: skip
        value = torch.from_numpy(values.reshape(batch))
        if d > _SMALL_DIMENSION:
            on_lines = torch.from_numpy(u.reshape(*batch, n_lines, n)).mT
            if n < d:
                return value, multiply(on_lines, slices)
            return value, multiply(on_lines, torch.from_numpy(scaled.reshape(*batch, n_lines, d)))
        out = np.empty((elements, n, d), u.dtype)
        on_lines, factors = u.reshape(elements, n_lines, n), scaled.reshape(elements, n_lines, d)

        def work(start: int, stop: int) -> None:
            loops.take_back(on_lines, factors, start, stop, np.empty((d, _TILE), u.dtype), out)

        each_ns = n_lines * d * min(n, _TILE) * 0.1
        share(work, elements * -(-n // _TILE), each_ns=each_ns)
        return value, torch.from_numpy(out.reshape(*batch, n, d))


match_by_numba = NumbaMatcher()
_ONLY_X = Wanted(True, False)


def _rows(
    x: Tensor,
    y: Tensor,
    slices: Tensor,
    x_weights: Tensor | None,
    y_weights: Tensor | None,
    p: float,
    wanted: Wanted,
    y_sorted: Tensor | MovedPoints | RoundPoints | None,
) -> tuple[Array, Array, Array, tuple[int, ...]]:
    """Costs (rows,), wanted gradients on the lines (rows, n) and (rows, m), and the shape (*batch, L) of the rows."""
    u = multiply(slices, x.mT)
    if isinstance(y_sorted, MovedPoints | RoundPoints):
        return _moved_rows(u, y_sorted.on(slices), wanted)
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


def _moved_rows(
    u: Tensor, moved: MovedPoints, wanted: Wanted
) -> tuple[Array, Array, Array, tuple[int, ...]]:
    """`_rows` against points that are the same on every line, but for place and scale."""
    shape = broadcast(u.shape[:-1], moved.loc.shape[:-1])
    us, points = as_rows(u, shape).numpy(), moved.points.unsqueeze(0).numpy()
    loc, scale = (
        np.ascontiguousarray(t.expand(*shape, 1).reshape(-1).numpy())
        for t in (moved.loc, moved.scale)
    )
    costs = np.empty(len(us), us.dtype)
    _match_rows(us, points, True, _NO_WEIGHTS, _NO_WEIGHTS, 2.0, wanted, costs, loc, scale)
    costs += np.square(scale) * moved.variance.numpy()
    return costs, us, points, shape


def _match_rows(
    us: Array,
    vs: Array,
    v_is_sorted: bool,
    a: Array,
    b: Array,
    p: float,
    wanted: Wanted,
    costs: Array,
    loc: Array = None,
    scale: Array = None,
) -> None:
    """Price rows (rows, n) against rows (rows, m); gradients take the place of the projections.

    With `loc` and `scale` (rows,), v is one row of points, which are moved and scaled for each line.
    """
    loops = numba_loops()
    (rows, n), (v_rows, m) = us.shape, vs.shape
    ordered = wanted.v or b.shape[1] > 0  # must it be known which number of v is which?
    paired = n == m and p == 2.0 and not ordered and a.shape[1] == 0
    how = _words_for(max(n, m), us.itemsize)
    each_ns = _ns_per_number(max(n, m))
    if (
        not v_is_sorted and not ordered and v_rows < rows
    ):  # a target that all elements of a batch share
        share(lambda i, j: _sort_values(loops, vs[i:j]), v_rows, each_ns=m * each_ns)
        v_is_sorted = True

    def price(first: int, last: int, u_words: Array, v_words: Array, trusted: bool) -> int:
        u, out = us[first:last], costs[first:last]
        if loc is not None:
            left = loops.pair_moved(
                u, u_words, vs[0], loc[first:last], scale[first:last], how.mask, trusted, wanted.u,
                np.empty(n, us.dtype), out,
            )  # fmt: skip
        elif paired:
            left = loops.pair(
                u, u_words, vs, first, how.mask, trusted, wanted.u, np.empty(n, us.dtype), out
            )
        else:
            left = loops.price(
                u, u_words, vs, v_words, first, rows, how.mask, trusted, a, b, p, wanted.u, wanted.v, out
            )  # fmt: skip
        return int(left)

    def sort_and_price(first: int, last: int) -> int:
        ends = np.empty(2, us.dtype)
        memory = (ends, ends.view(np.int32), *np.empty((2, n), how.dtype))
        counts = np.empty((2, 1 << _LAW_DIGIT), np.uint32)
        left = loops.sort_and_pair_moved(
            us[first:last], us[first:last].view(np.int32), vs[0], loc[first:last], scale[first:last], how.shift,
            _LAW_DIGIT, wanted.u, *memory, counts, np.empty(n, us.dtype), costs[first:last],
        )  # fmt: skip
        return int(left)

    def work(start: int, stop: int) -> None:
        for first in range(start, stop, block):
            last = min(first + block, stop)
            v_words = none
            if in_one:
                left = sort_and_price(first, last)
            else:
                u_words = _sorted_words(loops, us[first:last], how)
                if ordered:
                    v_words = _sorted_words(loops, vs[first:last], how)
                elif not v_is_sorted:
                    _sort_values(loops, vs[first:last])
                left = price(first, last, u_words, v_words, False)
            if left:
                for r in np.flatnonzero(costs[first:last] == -1).tolist():
                    # The range of the row hides its order, or NaN is in it.
                    u_order = us[first + r : first + r + 1].argsort(axis=1, kind="stable")
                    v_order = v_words
                    if ordered:
                        v_order = vs[first + r : first + r + 1].argsort(axis=1, kind="stable")
                        v_order = v_order.astype(how.dtype)
                    price(first + r, first + r + 1, u_order.astype(how.dtype), v_order, True)

    # Words of 32 bits that are sorted by two digits.
    in_one = loc is not None and how.passes == 2 and us.itemsize == 4
    own = n if loc is not None else n + m  # numbers of a line; a law has none of its own
    none, block = _NO_WORDS[how.dtype], max(1, _BLOCK // own)
    share(work, rows, each_ns=own * each_ns)


def _weights(weights: Tensor | None, shape: tuple[int, ...]) -> Array:
    """One row for all, or one for each element of the batch, in float64."""
    if weights is None:
        return _NO_WEIGHTS
    n = weights.shape[-1]
    rows = weights.detach().double()
    if weights.dim() > 1:
        rows = rows.expand(*shape[:-1], n)
    return rows.reshape(-1, n).contiguous().numpy()


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


class NumbaLines:
    """The loops of `numba_lines`, on as many threads as pay."""

    def __init__(self) -> None:
        self._loops = importlib.import_module("slicewise.kernels.numba_lines")

    def orders(self, lines: Tensor) -> Tensor:
        """The stable order of each line (..., n)."""
        loops, n = numba_loops(), lines.shape[-1]
        rows = lines.detach().contiguous().view(-1, n).numpy()
        found = np.empty(rows.shape, np.int64)
        how, block = _words_for(n, rows.itemsize), max(1, _BLOCK // n)

        def work(start: int, stop: int) -> None:
            for first in range(start, stop, block):
                part = slice(first, min(first + block, stop))
                words = _sorted_words(loops, rows[part], how)
                known = np.empty(len(words), np.bool_)
                values = np.empty(n, rows.dtype)
                self._loops.orders(rows[part], words, how.mask, values, found[part], known)
                for r in np.flatnonzero(~known).tolist():  # the range of a row hides its order
                    found[first + r] = rows[first + r].argsort(kind="stable")

        if rows.size:
            share(work, len(rows), each_ns=n * _ns_per_number(n))
        return torch.from_numpy(found).view(lines.shape)

    def rotations(self, u: Tensor, v: Tensor, p: float) -> Tensor:
        """The best rotation of sorted v (..., n) against sorted u, (..., 1)."""
        shape, (us, vs) = _common_rows(u, v)
        found = np.empty(len(us), np.int64)
        share(
            lambda i, j: self._loops.rotations(us, vs, p, i, j, found),
            len(us),
            each_ns=2.0 * us.shape[1] * us.shape[1].bit_length(),
        )
        return torch.from_numpy(found).view(*shape, 1)

    def shifts(self, u: Tensor, v: Tensor, a: Tensor, b: Tensor, p: float) -> Tensor:
        """The best cut of circles with sorted u (..., n), v (..., m) and knots of any weights, (..., 1)."""
        shape, (us, vs) = _common_rows(u, v, a, b)
        knots = [_few_rows(t, shape) for t in (a, b)]
        found = np.empty(len(us))
        share(
            lambda i, j: self._loops.shifts(us, vs, *knots, p, i, j, found),
            len(us),
            each_ns=150.0 * (us.shape[1] + vs.shape[1]),
        )
        return torch.from_numpy(found).view(*shape, 1)

    def shifted_costs(self, u: Tensor, v: Tensor, a: Tensor, b: Tensor, shift: Tensor) -> Tensor:
        """Squared distances on circles between quantiles q of u and q + shift of v, integrated, (...)."""
        shape, (us, vs) = _common_rows(u, v, a, b, shift)
        knots = [_few_rows(t, shape) for t in (a, b)]
        at = _every_row(shift, shape).reshape(-1)
        found = np.empty(len(us))
        share(
            lambda i, j: self._loops.shifted_costs(us, vs, *knots, at, i, j, found),
            len(us),
            each_ns=4.0 * (us.shape[1] + vs.shape[1]),
        )
        return torch.from_numpy(found).to(u.dtype).view(shape)

    def potentials(
        self, u: Tensor, v: Tensor, orders: tuple[Tensor, Tensor], a: Tensor, b: Tensor, p: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `transport.potentials_on_lines`."""
        shape, (us, vs) = _common_rows(u, v, a, b)
        ui, vi = (_every_row(t, shape) for t in orders)
        weights = [_few_rows(t.double(), shape) for t in (a, b)]
        f, g, costs = np.empty(us.shape), np.empty(vs.shape), np.empty(len(us))
        share(
            lambda i, j: self._loops.potentials(us, ui, vs, vi, *weights, p, i, j, f, g, costs),
            len(us),
            each_ns=5.0 * (us.shape[1] + vs.shape[1]),
        )
        f_out, g_out, out = (torch.from_numpy(t).to(u.dtype) for t in (f, g, costs))
        return f_out.view(*shape, -1), g_out.view(*shape, -1), out.view(shape)

    def line_plans(
        self, orders: tuple[Tensor, Tensor], a: Tensor | None, b: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The plans on lines of these orders, (..., n + m) each; masses in float64."""
        shape = broadcast(*(t.shape[:-1] for t in (*orders, a, b) if t is not None))
        ui, vi = (_every_row(t, shape) for t in orders)
        weights = [_NO_WEIGHTS if t is None else _few_rows(t.double(), shape) for t in (a, b)]
        size = (len(ui), ui.shape[1] + vi.shape[1])
        rows, cols, mass = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)
        share(
            lambda i, j: self._loops.line_plans(ui, vi, *weights, i, j, rows, cols, mass),
            len(ui),
            each_ns=5.0 * size[1],
        )
        i, j, m = (torch.from_numpy(t).view(*shape, size[1]) for t in (rows, cols, mass))
        return i, j, m

    def pair_costs(
        self, x: Tensor, y: Tensor, rows: Tensor, cols: Tensor, mass: Tensor | None, p: float, norm: float
    ) -> Tensor:  # fmt: skip
        """Σ mass · ‖x_i − y_j‖^p over the pairs of couplings (L, K), (L,); no masses mean 1/K each."""
        xs, ys = (t.detach().contiguous().numpy() for t in (x, y))
        i, j = rows.contiguous().numpy(), cols.contiguous().numpy()
        masses = np.empty((0, 0), xs.dtype) if mass is None else mass.detach().contiguous().numpy()
        found = np.empty(len(i))
        share(
            lambda a, b: self._loops.pair_costs(xs, ys, i, j, masses, p, norm, a, b, found),
            len(i),
            each_ns=i.shape[1] * (4.0 + xs.shape[1]),
        )
        return torch.from_numpy(found).to(x.dtype)


def _common_rows(u: Tensor, v: Tensor, *others: Tensor) -> tuple[tuple[int, ...], list[Array]]:
    """The leading dimensions of all, and u and v as rows (rows, n) of them."""
    shape = broadcast(*(t.shape[:-1] for t in (u, v, *others)))
    return shape, [_every_row(t, shape) for t in (u, v)]


def _every_row(t: Tensor, shape: tuple[int, ...]) -> Array:
    return t.detach().expand(*shape, t.shape[-1]).contiguous().view(-1, t.shape[-1]).numpy()


def _few_rows(t: Tensor, shape: tuple[int, ...]) -> Array:
    """One row where all are the same, else each."""
    return t.detach().contiguous().view(1, -1).numpy() if t.dim() == 1 else _every_row(t, shape)


def relabeled_costs(
    values: Tensor,
    order: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    p: float,
    energy: bool,
) -> Tensor:
    """See `transport.relabeled_costs`."""
    loops = importlib.import_module("slicewise.kernels.numba_relabeled")
    # Halves of a sum lose less in float64, and a line of the pool stays in the nearest cache either way.
    z = values.detach().double().contiguous().numpy()
    o, marks = (
        order.to(torch.int32).contiguous().numpy(),
        labels.to(torch.uint8).contiguous().numpy(),
    )
    n_lines, total = z.shape
    n = int(marks[0].sum())
    out = np.empty((len(marks), n_lines))
    if weights is not None:
        w = weights.detach().double().contiguous().numpy()

        def work(start: int, stop: int) -> None:
            sides, masses = np.empty((2, total + 1)), np.empty((2, total + 1))
            loops.by_weights(z, o, marks, w, start, stop, p, energy, sides, masses, out)

    elif energy or p == 1:

        def work(start: int, stop: int) -> None:
            loops.by_gaps(z, o, marks, start, stop, energy, out)

    elif 2 * n == total:

        def work(start: int, stop: int) -> None:
            loops.by_pairs(z, o, marks, start, stop, p, np.empty((2, total + 1)), out)

    else:
        cells = uniform_cells(n, total - n)
        u_rank, v_rank = (t.to(torch.int32).numpy() for t in (cells.u_rank, cells.v_rank))
        width = cells.width.numpy()

        def work(start: int, stop: int) -> None:
            sides = np.empty((2, total + 1))
            loops.by_cells(z, o, marks, u_rank, v_rank, width, start, stop, p, sides, out)

    share(work, n_lines, each_ns=len(marks) * total * 2.0)
    return torch.from_numpy(out)


def count_lines(
    lines: Tensor, center: Tensor, scale: Tensor, counts: Tensor, shift: int, offset: int
) -> None:
    """See `stats.counts.plain_count`."""
    loops = importlib.import_module("slicewise.kernels.numba_counts")
    rows, into = lines.detach().double().contiguous().numpy(), counts.numpy()
    middle, unit, bins = center.numpy(), scale.numpy(), counts.shape[1] // 2

    def work(start: int, stop: int) -> None:
        memory = np.empty(rows.shape[1], np.float32)
        loops.count(rows, middle, unit, into, start, stop, shift, offset, bins, memory)

    share(work, len(rows), each_ns=rows.shape[1] * 3.0)
