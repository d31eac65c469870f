"""Run torch on one thread in each of a pool's threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread here and in all threads that start meanwhile, as those of a pool; restored afterwards.

    Each band of rows, or frame, is many small operations, of which torch's threads gain nothing beside others of a pool.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
