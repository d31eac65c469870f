"""Whole evaluations as CUDA graphs: what a training loop asks for again and again becomes one launch.

Launching takes longer than computing for all but large problems. A call that has been made a few times with the same
shapes and settings is captured. From then on its samples are copied in with the ticket of the call, by one kernel; the
graph draws slices by that ticket; and one kernel copies the results out.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from slicewise.sampling import ByTicket, Randomness, Ticket
from slicewise.support import CapturedGraph, kernels_for, side_stream

# Beyond so many numbers, of samples or on lines, launching is the smaller part; and no more than this many on
# lines in all the graphs that are kept, which hold their memory.
LARGEST = 2**25
_KEPT_LINES = 2**26
_KEPT = 16
_CALLS_BEFORE = 2

Evaluate = Callable[[Sequence[Tensor | None], Randomness], Sequence[Tensor]]


class Graph:
    """A function of samples and random numbers, captured: called with other samples, it gives their results.

    Without tickets it draws from torch's global generator.
    """

    @torch.inference_mode(False)  # its buffers outlive the mode they are made in
    def __init__(
        self,
        evaluate: Evaluate,
        given: Sequence[Tensor | None],
        batch: tuple[int, ...],
        *,
        lines: int,
        by_ticket: bool,
    ) -> None:
        self.lines = lines
        self._evaluate, self._batch = evaluate, batch
        self._static = [
            None if t is None else t.detach().clone(memory_format=torch.contiguous_format)
            for t in given
        ]
        self._buffers = [t for t in self._static if t is not None]
        device = self._buffers[0].device
        self._ticket = torch.zeros(2, dtype=torch.int64, device=device) if by_ticket else None
        with torch.random.fork_rng(devices=[device]), side_stream():
            self._evaluated()  # once for nothing; it must not cost a draw
        self._graph = CapturedGraph(self._capture)
        self._copy_in = self._copy_out = None
        kernels = kernels_for(*self._buffers)
        if kernels is not None and by_ticket:
            self._copy_in = kernels.copier(self._buffers, self._ticket)
            self._copy_out = kernels.copier(self._found, None)

    def _evaluated(self) -> Sequence[Tensor]:
        with torch.no_grad():
            if self._ticket is not None:
                ticket = ByTicket(self._ticket[:1], self._ticket[1:], self._batch)
                return self._evaluate(self._static, ticket)
            device = self._buffers[0].device
            return self._evaluate(self._static, Randomness(None, device, self._batch))

    def _capture(self) -> None:
        self._found = [t.contiguous() for t in self._evaluated()]

    def __call__(self, given: Sequence[Tensor | None], ticket: Ticket | None) -> list[Tensor]:
        """The results for other samples, as tensors of their own."""
        sources = [t for t in given if t is not None]
        if self._copy_in is not None and self._copy_out is not None:
            self._copy_in([t if t.is_contiguous() else t.contiguous() for t in sources], ticket)
            self._graph.replay()
            return self._copy_out.fresh()
        with torch.no_grad():  # buffers are no part of anyone's graph of gradients
            for buffer, source in zip(self._buffers, sources, strict=True):
                buffer.copy_(source)
            if self._ticket is not None and ticket is not None:
                self._ticket[0], self._ticket[1] = ticket  # fills, which wait for nothing
            self._graph.replay()
            return [t.clone() for t in self._found]  # the next replay overwrites


class _Kept(threading.local):
    """The graphs of a thread, the least recently used going first; and how often others were asked for."""

    def __init__(self) -> None:
        self.graphs: OrderedDict[Any, Graph] = OrderedDict()
        self.asked: OrderedDict[Any, int] = OrderedDict()


_kept = _Kept()


def circumstances(device: torch.device) -> tuple[Any, ...]:
    """What one graph cannot serve several of: streams, and settings that a captured product would not follow.

    Asked for without torch's own wrappers: these would take a sixth of a call.
    """
    return (
        torch._C._cuda_getCurrentRawStream(device.index),
        torch._C._get_float32_matmul_precision(),
        torch._C._get_deterministic_algorithms(),
    )


def graph_for(key: Any, make: Callable[..., Graph], *given: Any) -> Graph | None:
    """The graph of a key; None for its first calls, which are no fewer where it is asked for seldom."""
    graphs = _kept.graphs
    graph = graphs.get(key)
    if graph is not None:
        graphs.move_to_end(key)
        return graph
    times = _kept.asked.get(key, 0)
    _kept.asked[key] = times + 1
    _trim(_kept.asked, 16 * _KEPT)
    if times < _CALLS_BEFORE:
        return None
    graph = make(*given)
    while graphs and sum(g.lines for g in graphs.values()) + graph.lines > _KEPT_LINES:
        graphs.popitem(last=False)
    graphs[key] = graph
    _trim(graphs, _KEPT)
    return graph


def _trim(kept: OrderedDict[Any, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)
