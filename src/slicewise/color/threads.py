"""One thread of arithmetic, where more would gain nothing and could lose much."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch work by itself for a while.

    The many small steps of a fit wait for the slowest thread each: two gain a tenth on a quiet machine, and took twenty
    times as long beside two other busy programs. Sums in one order are also the same sums everywhere.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
