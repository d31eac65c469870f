"""Time the calls of both libraries alternately in one process, on one thread, and write a table.

python -m benchmarks.pot --out benchmarks/results [--quick]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import ot
import torch

import slicewise
import slicewise.pot

DATE = "2026-11-18"
GOAL = 5.0


class Row(NamedTuple):
    """A call, and its seconds by both libraries (medians)."""

    name: str
    ours: float
    pots: float
    rounds: int


def directions(n: int, d: int, rng: np.random.RandomState) -> Any:
    """n samples on the sphere of R^d."""
    x = rng.randn(n, d)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


class Call(NamedTuple):
    """A function of both libraries by name, and what it is given."""

    name: str
    given: tuple[Any, ...]
    more: dict[str, Any]

    def of(self, module: Any) -> object:
        """What a library answers."""
        return getattr(module, self.name)(*self.given, **self.more)


def workloads(quick: bool) -> dict[str, Call]:
    """The calls by what they do. Samples are normal, d = 10 (spheres: d = 3)."""
    rng = np.random.RandomState(0)
    found: dict[str, Call] = {}
    for n in (1_000,) if quick else (1_000, 10_000):
        x, y = rng.randn(n, 10), rng.randn(n, 10) + 1
        m = n - n // 10
        a, b = (w / w.sum() for w in (rng.rand(n), rng.rand(m)))
        dense = {"n_projections": 50, "seed": 0}
        how = dense | {"dense": False}
        best, mean = "min_sliced_transport_plan", "expected_sliced_plan"
        found[f"best plan, n = m = {n}"] = Call(best, (x, y), how)
        found[f"best plan, n = {n}, m = {m}, weights"] = Call(best, (x, y[:m], a, b), how)
        found[f"expected plan, β = 1, n = m = {n}"] = Call(mean, (x, y), how | {"beta": 1.0})
        if n == 1_000:
            found[f"expected plan, dense, n = m = {n}"] = Call(mean, (x, y), dense)
    u, v = directions(1_000, 3, rng), directions(1_000, 3, rng)
    how = {"n_projections": 100, "seed": 0}
    pairs = "sliced_wasserstein_sphere"
    found["spherical, n = m = 1000"] = Call(pairs, (u, v), how)
    found["spherical, n = 1000, m = 800"] = Call(pairs, (u, v[:800]), how)
    found["spherical, p = 1, n = m = 1000"] = Call(pairs, (u, v), how | {"p": 1})
    found["spherical against uniform, n = 1000"] = Call("sliced_wasserstein_sphere_unif", (u,), how)
    found["linear spherical, n = m = 1000"] = Call("linear_sliced_wasserstein_sphere", (u, v), how)
    s, t = torch.from_numpy(rng.randn(1_000, 10)), torch.from_numpy(rng.randn(1_000, 10) + 1)
    how = {"n_projections": 50, "seed": 0}
    found["sliced unbalanced, n = m = 1000"] = Call("sliced_unbalanced_ot", (s, t, 1.0), how)
    found["unbalanced sliced, n = m = 1000"] = Call("unbalanced_sliced_ot", (s, t, 1.0), how)
    return found


def measured(name: str, call: Call, seconds: float) -> Row:
    """Medians of alternate calls, after one of each that is not counted."""
    modules = (slicewise.pot, ot)
    for module in modules:
        call.of(module)
    times: tuple[list[float], list[float]] = ([], [])
    began = time.perf_counter()
    while len(times[0]) < 3 or (time.perf_counter() - began < seconds and len(times[0]) < 30):
        for module, spent in zip(modules, times, strict=True):
            start = time.perf_counter()
            call.of(module)
            spent.append(time.perf_counter() - start)
    return Row(name, statistics.median(times[0]), statistics.median(times[1]), len(times[0]))


def memory_of_a_plan(n: int) -> float:
    """Gigabytes by which the largest resident size grows, in a process of its own, for a plan of n samples a side."""
    code = (
        "import re, torch, slicewise as sw\n"
        f"x, y = torch.randn({n}, 10), torch.randn({n - n // 10}, 10)\n"
        "sw.sliced_plan(x[:100], y[:90])\n"
        "open('/proc/self/clear_refs', 'w').write('5')\n"
        "peak = lambda: int(re.search('VmHWM:[^0-9]*([0-9]+)', open('/proc/self/status').read())[1])\n"
        "before = peak()\n"
        "plan = sw.sliced_plan(x, y, n_slices=50, generator=0)\n"
        "print(peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout) / 2**20


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--quick", action="store_true", help="n = 1,000 only, half a second a call")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = [
        measured(name, call, 0.5 if given.quick else 3.0)
        for name, call in workloads(given.quick).items()
    ]
    n = 100_000
    memory = memory_of_a_plan(n)
    lines = [
        f"# slicewise.pot against POT {ot.__version__}, {DATE}",
        "",
        "Medians of alternate calls in one process, one thread, float64; 50 slices and d = 10 (spheres: 100 circles,",
        "d = 3). Unbalanced: 10 Frank–Wolfe steps. Sparse results unless it says dense.",
        "",
        "| call | slicewise, ms | POT, ms | ratio | rounds |",
        "|---|---|---|---|---|",
        *(
            f"| {row.name} | {row.ours * 1e3:.2f} | {row.pots * 1e3:.1f} | {row.pots / row.ours:.1f} | {row.rounds} |"
            for row in rows
        ),
        "",
        f"A best plan of {n} and {n - n // 10} samples (float32, d = 10, 50 slices) takes {memory:.2f} GB beyond the samples.",
        f"Below the goal of {GOAL:g}: {', '.join(r.name for r in rows if r.pots < GOAL * r.ours) or 'none'}.",
    ]
    print("\n".join(lines))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"pot-{DATE}.md").write_text("\n".join(lines) + "\n")
    machine = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "pot": ot.__version__,
    }
    record = {"rows": [row._asdict() for row in rows], "plan_gb": memory, "machine": machine}
    (given.out / f"pot-{DATE}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
