"""Does a second thread ever cost time? Steps with one thread and with two, in turn, alone and beside a busy process.

    python -m benchmarks.speed.threads --out benchmarks/results/threads.json

Wall time, blocks of calls of one and of two threads after each other; the record has medians and means of the blocks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

import slicewise as sw
from benchmarks.speed.timing import environment
from benchmarks.speed.workloads import WORKLOADS, Workload
from slicewise.support import write_whole

COUNTS = (1, 2)


def steps() -> dict[str, Callable[[], object]]:
    """What is timed, by name: a step of each workload, and a short flow."""

    def step(workload: Workload) -> Callable[[], object]:
        x, y = workload.samples()
        return lambda: sw.value_and_grad(x, y, n_slices=workload.n_slices)

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1000, 10, generator=generator)
    y = 1.5 * torch.randn(1000, 10, generator=generator) + 1
    last = sw.Stopping(tolerance=None)
    found = {workload.name: step(workload) for workload in WORKLOADS}
    found["flow"] = lambda: sw.flow(x, y, seeds=torch.tensor([0]), max_steps=60, stopping=last)
    return found


def compare(call: Callable[[], object], seconds: float) -> dict[str, float]:
    """Milliseconds with one thread and with two, and their ratio, over about so many seconds."""
    blocks: dict[int, list[float]] = {count: [] for count in COUNTS}
    for count in COUNTS:
        torch.set_num_threads(count)
        call()
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    calls = max(1, int(0.03 / once))
    for _ in range(max(3, min(40, int(seconds / (2 * calls * once))))):
        for count in COUNTS:
            torch.set_num_threads(count)
            start = time.perf_counter()
            for _ in range(calls):
                call()
            blocks[count].append((time.perf_counter() - start) / calls * 1e3)
    one, two = (statistics.median(blocks[count]) for count in COUNTS)
    means = [statistics.fmean(blocks[count]) for count in COUNTS]
    return {"one": one, "two": two, "ratio": two / one, "ratio_of_means": means[1] / means[0]}


@contextmanager
def beside_a_busy_process() -> Iterator[None]:
    """Another process that uses one core all the time."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def main() -> None:
    """Compare, print and, if asked, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="names of workloads, or flow")
    parser.add_argument("--seconds", type=float, default=2.5, help="for each workload")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    before = torch.get_num_threads()
    chosen = {name: call for name, call in steps().items() if name in (given.only or steps())}
    record: dict[str, object] = {"environment": environment()}
    try:
        for case in ("alone", "busy"):
            found = record[case] = {}
            for name, call in chosen.items():
                if case == "busy":
                    with beside_a_busy_process():
                        times = compare(call, given.seconds)
                else:
                    times = compare(call, given.seconds)
                found[name] = times
                print(
                    f"{case:6} {name:7} one {times['one']:10.3f} ms   two {times['two']:10.3f} ms   "
                    f"ratio {times['ratio']:.2f} (of means {times['ratio_of_means']:.2f})",
                    flush=True,
                )
    finally:
        torch.set_num_threads(before)
    if given.out is not None:
        write_whole(given.out, json.dumps(record, indent=1).encode())


if __name__ == "__main__":
    main()
