"""Run torch on one thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_lock = threading.Lock()
_numbers: list[
    int
] = []  # for each thread that is inside: how many were used before the first one entered


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread here and in threads that start inside; the number of before is restored afterwards.

    A fit makes many small operations, each of which waits for the slowest thread: two threads gain a tenth on an idle
    machine and took twenty times as long beside two other busy processes. Sums are also the same on every machine.
    """
    with _lock:
        # torch sets up a thread when it is first asked, by the number that was set last: that may be another fit's.
        now = torch.get_num_threads()
        _numbers.append(_numbers[0] if _numbers else now)
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            torch.set_num_threads(_numbers.pop())
