"""Run torch on one thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_lock = threading.Lock()
# For each thread that is inside: how many threads torch used before the first of them entered.
_numbers: list[int] = []
_here = threading.local()  # `inside`: whether this thread is


@contextmanager
def torch_on_one_thread() -> Iterator[None]:
    """Let torch use one thread here and in threads that start inside; the number of before is restored afterwards.

    It may be entered again inside, and by several threads at once. Threads of a pool that lives inside begin with
    `stay_on_one_thread`.

    A fit makes many small operations, each of which waits for the slowest thread: two threads gain a tenth on an idle
    machine and took twenty times as long beside two other busy processes. Sums are also the same on every machine.
    """
    if getattr(_here, "inside", False):
        yield
        return
    with _lock:
        # torch sets up a thread when it is first asked, by the number that was set last: that may be another fit's.
        now = torch.get_num_threads()
        _numbers.append(_numbers[0] if _numbers else now)
        torch.set_num_threads(1)
    _here.inside = True
    try:
        yield
    finally:
        _here.inside = False
        with _lock:
            torch.set_num_threads(_numbers.pop())


def stay_on_one_thread() -> None:
    """Keep a thread that was started inside there: what it calls does not give it more threads when it is done."""
    _here.inside = True
