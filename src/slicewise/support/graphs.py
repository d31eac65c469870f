"""CUDA graphs: one function, captured once and replayed, for distances, flows and training alike."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

# One capture at a time: torch's generators know of one.
_CAPTURING = threading.Lock()


class CapturedGraph:
    """What a function launches on a CUDA device, captured once; `replay()` launches it again.

    The function reads from buffers and writes into buffers that stay where they are. It must not read a number on the
    host. What it does the first time only (compiling kernels, allocating constants and workspaces) has to be done
    before, in `side_stream()`.
    """

    def __init__(self, function: Callable[[], None]) -> None:
        self._graph = torch.cuda.CUDAGraph()
        with _CAPTURING, torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            function()

    def replay(self) -> None:
        """Launch the whole graph."""
        self._graph.replay()


@contextmanager
def side_stream() -> Iterator[None]:
    """A stream beside the current one, for the trial run that has to precede a capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)
