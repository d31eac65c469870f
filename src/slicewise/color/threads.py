"""Run torch on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread; the number of before is restored afterwards.

    A fit makes many small operations, each of which waits for the slowest thread: two threads gain a tenth on an idle
    machine and took twenty times as long beside two other busy processes. Sums are also the same on every machine.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
