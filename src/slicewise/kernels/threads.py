"""Threads of the CPU kernels: how many, who takes which piece, and torch's own threads kept out of the way.

Work is cut into pieces that do not depend on who is there to take them, so that results are the same bit for bit on a
busy machine. Each thread takes the next piece when it has finished one: a thread that loses its core delays one piece, not
all of them, as it would at a barrier of OpenMP.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

# A further thread for each so many nanoseconds of work. Waking one takes 50 µs, and two threads were measured to be
# slower than one for less than half a millisecond of work.
SERIAL_NS = 1_000_000.0
# A call that lost more than this part of its time, waiting for other threads or for a core, is followed by a rest:
# threads work alone for so many times as long as that call took, and twice as long each time it happens again, up to
# so many seconds.
_LOST_PART = 0.2
_REST, _MOST_REST, _LONGEST_REST = 100.0, 3200.0, 20.0


class _Crew:
    """Threads that help with a call, and whether they were of help in the last ones."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._size = 0
        self._alone_until = 0.0
        self._rest = _REST

    def number_for(self, pieces: int, nanoseconds: float) -> int:
        """How many threads shall work: as many as torch may use, as pay, and as have not been in each other's way."""
        n = min(allowed(), pieces, 1 + int(nanoseconds / SERIAL_NS))
        return 1 if n < 2 or time.perf_counter() < self._alone_until else n

    def work_off(self, take: Callable[[], None], n_threads: int) -> None:
        """Call `take` on this thread and on n_threads − 1 others, and wait for all that have begun."""
        began, used = time.perf_counter(), time.thread_time()
        pool = self._threads(n_threads - 1)
        others = [pool.submit(take) for _ in range(n_threads - 1)]
        try:
            take()
        finally:
            for other in others:
                if not other.cancel():  # one that has not begun finds nothing left to do
                    other.result()
        ended = time.perf_counter()
        elapsed = ended - began
        if elapsed - (time.thread_time() - used) > _LOST_PART * elapsed:
            self._alone_until = ended + min(self._rest * elapsed, _LONGEST_REST)
            self._rest = min(2 * self._rest, _MOST_REST)
        else:
            self._rest = max(self._rest / 2, _REST)

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
if hasattr(os, "register_at_fork"):  # a DataLoader worker, say
    os.register_at_fork(after_in_child=_crew.forget)


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
    left = iter(range(pieces))  # `next` on it is atomic

    def take() -> None:
        for k in left:
            work(k)

    with one_thread():
        if n_threads < 2:
            take()
        else:
            _crew.work_off(take, n_threads)


@functools.cache
def _controls() -> tuple[Any, Any, Any] | None:
    """OpenMP's and MKL's own settings for the calling thread: read, set, and set MKL's; None where they are not found.

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
    return read, set_, mkl


def controlled() -> bool:
    """Can torch's products be kept to the calling thread?"""
    return _controls() is not None


def _without_torch_threads() -> None:
    """Keep torch's products on the calling thread to it, for good."""
    controls = _controls()
    if controls is not None:
        torch.get_num_threads()  # torch sets up a thread when it is first asked: before, not after
        controls[1](1)
        if controls[2] is not None:
            controls[2](1)


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
        self._before = 1 if controls is None else controls[0]()
        if controls is not None and self._before > 1:
            controls[1](1)
            self._mkl_before = None if controls[2] is None else controls[2](1)
            _local.threads = self._before

    def __exit__(self, *_: object) -> None:
        controls = _controls()
        if controls is not None and self._before > 1:
            _local.threads = 0
            controls[1](self._before)
            if controls[2] is not None:
                controls[2](self._mkl_before)
