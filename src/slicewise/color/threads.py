"""Run torch on one thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_lock = threading.Lock()
# How many threads torch used before, for each that is inside: the first one's counts once all have left.
_numbers: list[int] = []


@contextmanager
def torch_on_one_thread() -> Iterator[None]:
    """Let torch use one thread here and in threads that start inside; the number of before is restored afterwards.

    It may be entered again inside, and by several threads at once: threads that start get the number of before once the
    last one has left.

    A fit makes many small operations, each of which waits for the slowest thread: two threads gain a tenth on an idle
    machine and took twenty times as long beside two other busy processes. Sums are also the same on every machine.
    """
    with _lock:
        # torch sets up a thread when it is first asked, by the number that was set last: that may be another fit's.
        now = torch.get_num_threads()
        first = _numbers[0] if _numbers else now
        _numbers.append(first)
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _numbers.pop()
            torch.set_num_threads(now if _numbers else first)
