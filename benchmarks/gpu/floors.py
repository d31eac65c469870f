"""The limits of a CUDA device, measured once, and the least time of a step that follows from them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from benchmarks.speed.workloads import Workload

# Cycles a second that a Hopper chip reaches under load, and compare-exchanges it takes at once on each
# multiprocessor: 64 lanes for integers, four instructions for one exchange.
CLOCK = 1.98e9
LANES = 64
EXCHANGE = 4
# Up to here a row fits one block and is sorted by a network; above, by radix passes through memory.
LONGEST_NETWORK = 4096
RADIX_PASSES = 5
KEY_BYTES = 8
WORD = 4


@dataclass(frozen=True)
class Ceilings:
    """Bandwidth, arithmetic and launch time of a device."""

    bytes_per_second: float  # of a copy, read and written
    flops: float  # of a float32 product, without TF32
    node_seconds: float  # of a tiny kernel in a CUDA graph that waits for the one before
    processors: int

    def record(self) -> dict[str, Any]:
        """Return the limits for the record, with what was assumed."""
        return {**asdict(self), "assumed_clock_hz": CLOCK, "assumed_lanes": LANES}


def measure(*, quick: bool = False) -> Ceilings:
    """Measure a large copy, a large product, and a long chain of tiny kernels."""
    numbers = 2**26 if quick else 2**28
    source, target = torch.zeros(2, numbers, device="cuda")
    copy = _event_seconds(lambda: target.copy_(source))
    side = 4096 if quick else 8192
    a, b = torch.randn(2, side, side, device="cuda")
    product = _event_seconds(lambda: torch.mm(a, b))
    return Ceilings(
        2 * WORD * numbers / copy,
        2 * side**3 / product,
        _node_seconds(),
        torch.cuda.get_device_properties(0).multi_processor_count,
    )


def _event_seconds(work: Callable[[], Any], repeats: int = 7) -> float:
    work()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def _node_seconds(nodes: int = 1000) -> float:
    number = torch.zeros(1, device="cuda")
    number.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(nodes):
            number.add_(1)
    return _event_seconds(graph.replay) / nodes


def floor(workload: Workload, ceilings: Ceilings) -> float:
    """Return the least seconds of a step: draw slices, project, sort both sides, project back.

    Four things that wait for each other; each takes what its bytes, its arithmetic or its launch in a graph
    takes, whichever is longest. An estimate of what good code would reach, not a proof.
    """
    n, d, slices = workload.n, workload.d, workload.n_slices * workload.batch
    samples = WORD * n * d * (workload.batch + 1)
    directions, gradient = WORD * slices * d, WORD * n * d * workload.batch
    projections, residuals = 2 * WORD * slices * n, WORD * slices * n

    def node(n_bytes: float, flops: float = 0.0) -> float:
        moved, computed = n_bytes / ceilings.bytes_per_second, flops / ceilings.flops
        return max(ceilings.node_seconds, moved, computed)

    draw = node(directions)
    project = node(samples + directions + projections, 2 * slices * d * 2 * n)
    pull = node(residuals + directions + gradient, 2 * slices * d * n)
    if n > LONGEST_NETWORK:
        keys = 2 * slices * n
        passes = 2 * RADIX_PASSES * KEY_BYTES * keys
        return draw + project + node(passes) + node(KEY_BYTES * keys + residuals) + pull
    used = min(slices, ceilings.processors)
    exchanging = 2 * slices * exchanges(n) * EXCHANGE / (used * LANES * CLOCK)
    return draw + project + max(exchanging, node(projections + residuals)) + pull


def exchanges(n: int) -> int:
    """Return the compare-exchanges of a bitonic network for n keys, padded to a power of two."""
    stages = math.ceil(math.log2(n)) if n > 1 else 0
    return 2**stages // 2 * (stages * (stages + 1) // 2)
