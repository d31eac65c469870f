"""Sharing the rows of one call among threads, in few, long pieces."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

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
