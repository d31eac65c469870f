"""Comparable timings: results are checked first, rounds are interleaved, medians are reported."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.contenders import Contender, contenders, torch_sort
from benchmarks.speed.workloads import Workload

ROUNDS = 3
SLOW_PEERS = ("POT", "OTT-JAX", "torch sort")


def errors(
    workload: Workload, contender: Contender, n_slices: int, device: str = "cpu"
) -> tuple[float, float]:
    """Relative errors of value and gradient against a float64 sort on the same slices."""
    x, y = (samples.to(device) for samples in workload.samples())
    drawn = torch.nn.functional.normalize(torch.randn(n_slices, workload.d), dim=-1)
    slices = drawn.to(device)
    truth, slope = torch_sort(x.double(), y.double(), n_slices, slices.double())
    value, gradient = contender(x, y, n_slices, slices)
    return (
        ((value.double() - truth).norm() / truth.norm()).item(),
        ((gradient.double() - slope).norm() / slope.norm()).item(),
    )


# A near-tie in float32 may swap two neighbors, which moves the gradient by 1e-3 at most here.
LIMITS = (1e-4, 5e-3)


def check(
    workload: Workload,
    name: str,
    contender: Contender,
    *,
    device: str = "cpu",
    limits: tuple[float, float] = LIMITS,
) -> tuple[float, float]:
    """The `errors` on a few slices; raises if one is larger than its limit."""
    few = max(2, min(workload.n_slices, 20, 4_000_000 // workload.n))
    found = errors(workload, contender, few, device)
    if not (found[0] < limits[0] and found[1] < limits[1]):
        raise RuntimeError(
            f"{name} is wrong on {workload.name}: errors {found}; no time is reported"
        )
    return found


def time_workload(
    workload: Workload, threads: int, *, quick: bool, tell: Callable[[str], None]
) -> dict[str, float]:
    """Median seconds a step of every contender: CPU time with one thread, wall time with more."""
    x, y = workload.samples()
    here = {k: c for k, c in contenders().items() if k not in workload.without}
    if workload.batch > 1:
        here.pop("OTT-JAX", None)
    clock = time.process_time if threads == 1 else time.perf_counter
    seconds: dict[str, list[float]] = {name: [] for name in here}
    with pinned(threads):
        for name, contender in here.items():
            tell(f"{workload.name}: checking {name}")
            check(workload, name, contender)
            if name != "POT" or workload.slow_repeats > 1:
                contender(x, y, workload.n_slices)  # compile, allocate, warm up
        for r in range(1 if quick else ROUNDS):
            for name, contender in here.items():
                tell(f"{workload.name}: {name}, round {r + 1}")
                repeats = workload.slow_repeats if name in SLOW_PEERS else workload.repeats
                if r > 0 and repeats == 1:
                    continue
                for _ in range(max(1, repeats // (10 if quick else 1))):
                    start = clock()
                    contender(x, y, workload.n_slices)
                    seconds[name].append(clock() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def extra_memory(workload: Workload, name: str) -> int:
    """Bytes by which one step raises the peak of a fresh process beyond its inputs."""
    code = (
        "import torch; from benchmarks.speed import timing, workloads\n"
        f"timing.print_memory({workload.name!r}, {name!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def print_memory(workload_name: str, name: str) -> None:
    """Run the process of `extra_memory`."""
    from benchmarks.speed.workloads import WORKLOADS

    workload = next(w for w in WORKLOADS if w.name == workload_name)
    contender = contenders()[name]
    x, y = workload.samples()
    few = workload.n // 100  # to load and compile what is needed
    contender(x[:few].clone(), y[:few].clone(), workload.n_slices)
    # The peak so far belongs to imports and compilers: start the kernel's record of it anew.
    Path("/proc/self/clear_refs").write_text("5")
    before = _memory("VmRSS")
    contender(x, y, workload.n_slices)
    print(_memory("VmHWM") - before)


def _memory(field: str) -> int:
    """Resident bytes of this process now (VmRSS) or at their peak (VmHWM), as Linux counts them."""
    for row in Path("/proc/self/status").read_text().splitlines():
        if row.startswith(field):
            return int(row.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status: memory can be measured on Linux only")


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Use this many threads on as many cores, inside a `with` block."""
    before = torch.get_num_threads()
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    torch.set_num_threads(threads)
    if cores is not None:
        os.sched_setaffinity(0, sorted(cores)[:threads])
    try:
        yield
    finally:
        torch.set_num_threads(before)
        if cores is not None:
            os.sched_setaffinity(0, cores)


def environment() -> dict[str, Any]:
    """Return the machine and the versions, for the record."""
    versions: dict[str, str | None] = {}
    for package in ("slicewise", "torch", "numpy", "numba", "POT", "ott-jax", "jax"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    model = platform.processor()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "versions": versions,
    }
