"""Sharing the rows of one call among threads, in few, long pieces."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

# Below this many sorted numbers a thread costs more than it saves.
_SERIAL_KEYS = 20_000

_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def share(work: Callable[[int, int], None], rows: int, *, keys: int) -> None:
    """Call `work(start, stop)` over all rows, by as many threads as torch may use.

    Python threads suffice because the kernels release the GIL; a pool of their own would have to be
    coordinated with torch's, which spins on the same cores.
    """
    n_threads = min(torch.get_num_threads(), rows, 1 + keys // _SERIAL_KEYS)
    if n_threads < 2:
        work(0, rows)
        return
    edges = [rows * k // n_threads for k in range(n_threads + 1)]
    pool = _threads(n_threads - 1)
    others = [pool.submit(work, edges[k], edges[k + 1]) for k in range(1, n_threads)]
    work(edges[0], edges[1])
    for other in others:
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
