"""Time a step of slicewise against other implementations, and say which targets are met.

python -m benchmarks.speed --out benchmarks/results
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import slicewise as sw
from benchmarks.speed import scaling
from benchmarks.speed.timing import environment, extra_memory, pinned, time_workload
from benchmarks.speed.workloads import (
    LOSS_OVER_FUNCTION,
    LOSS_TARGETS,
    MEMORY_TARGET,
    NUMPY_TARGETS,
    WORKLOADS,
    Workload,
)
from slicewise.support import write_whole


def verdicts(workload: Workload, seconds: dict[str, float]) -> list[dict[str, Any]]:
    """Return each target of a workload with the ratio reached and whether it is met."""
    asked = [("slicewise", peer, ratio) for peer, ratio in workload.targets]
    if workload.name in NUMPY_TARGETS:
        asked.append(("slicewise, NumPy", "POT", NUMPY_TARGETS[workload.name]))
    if workload.name in LOSS_TARGETS:
        asked.append(("slicewise, autograd", "POT", LOSS_TARGETS[workload.name]))
    return [
        {
            "workload": workload.name,
            "who": who,
            "against": peer,
            "target": target,
            "ratio": seconds[peer] / seconds[who],
            "met": seconds[peer] / seconds[who] >= target,
        }
        for who, peer, target in asked
        if peer in seconds and who in seconds
    ]


def time_variants(*, quick: bool, tell: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """Time every variant on workload A50 in seconds per step: compiled, in plain torch, and its loss with `backward()`."""
    workload = next(w for w in WORKLOADS if w.name == "A50")
    x, y = workload.samples()
    found: dict[str, dict[str, float]] = {}
    with pinned(1):
        for name in sw.VARIANTS:
            tell(f"variants: {name}")
            found[name] = {}
            for backend in ("auto", "torch"):
                sw.value_and_grad(x, y, name, backend=backend)
                step = functools.partial(sw.value_and_grad, x, y, name, backend=backend)
                found[name][backend] = scaling.median_seconds(step, 0.05 if quick else 0.5)
            loss, live = sw.SlicedWasserstein(name), x.clone().requires_grad_()

            def train(loss: Any = loss, live: Any = live) -> None:
                live.grad = None
                loss(live, y).backward()

            train()
            found[name]["loss"] = scaling.median_seconds(train, 0.05 if quick else 0.5)
    return found


def run(only: list[str], *, quick: bool, tell: Callable[[str], None]) -> dict[str, Any]:
    """Time the chosen workloads, and return the record."""
    chosen = [w for w in WORKLOADS if not only or w.name in only]
    record: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "quick": quick,
        **environment(),
        "one_thread_cpu_seconds": {},
        "two_threads_wall_seconds": {},
        "targets": [],
        "memory_bytes": {},
    }
    for workload in chosen:
        seconds = time_workload(workload, 1, quick=quick, tell=tell)
        record["one_thread_cpu_seconds"][workload.name] = seconds
        record["targets"] += verdicts(workload, seconds)
        print(line(workload, seconds), flush=True)
    for workload in chosen if not quick else []:
        if workload.slow_repeats > 1:
            seconds = time_workload(workload, 2, quick=True, tell=tell)
            record["two_threads_wall_seconds"][workload.name] = seconds
    for workload in chosen:
        if workload.name.startswith("F") and not quick:
            for name in ("slicewise", "slicewise, autograd", "torch sort"):
                tell(f"{workload.name}: memory of {name}")
                record["memory_bytes"].setdefault(workload.name, {})[name] = extra_memory(
                    workload, name
                )
    record["variants_on_A50"] = time_variants(quick=quick, tell=tell)
    record["scaling"] = scaling.measure(quick=quick, tell=tell)
    return record


def line(workload: Workload, seconds: dict[str, float]) -> str:
    """Return a line about a workload: milliseconds of each contender, relative to slicewise."""
    ours = seconds["slicewise"]
    words = [f"{name} {1e3 * s:.3g} ({s / ours:.1f}×)" for name, s in seconds.items()]
    return (
        f"{workload.name:7} n={workload.n} d={workload.d} L={workload.n_slices}  ms: "
        + ", ".join(words)
    )


def summary(record: dict[str, Any]) -> str:
    """Return the targets, met or missed, as Markdown."""
    rows = [
        "| workload | who | against | target | reached | |",
        "|---|---|---|---|---|---|",
    ]
    for t in record["targets"]:
        mark = "met" if t["met"] else "**missed**"
        rows.append(
            f"| {t['workload']} | {t['who']} | {t['against']} | {t['target']:g}× | {t['ratio']:.1f}× | {mark} |"
        )
    for name, memory in record["memory_bytes"].items():
        if name == "F1e6":
            mark = "met" if memory["slicewise"] <= MEMORY_TARGET else "**missed**"
            rows.append(
                f"| {name} | slicewise | extra memory | {MEMORY_TARGET / 1e9:g} GB | "
                f"{memory['slicewise'] / 1e9:.2f} GB | {mark} |"
            )
    rows += [
        "",
        "| variant on A50, ms | `value_and_grad` | plain torch | loss, `backward()` | over the first | |",
    ]
    rows.append("|---|---|---|---|---|---|")
    for name, found in record["variants_on_A50"].items():
        ratio = found["loss"] / found["auto"]
        mark = "met" if ratio <= LOSS_OVER_FUNCTION else "**missed**"
        times = " | ".join(f"{1e3 * found[who]:.3g}" for who in ("auto", "torch", "loss"))
        rows.append(f"| {name} | {times} | {ratio:.2f} | {mark} |")
    return "\n".join(rows)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return its exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.speed", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks/results"), help="folder of the results"
    )
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="workloads, e.g. A2 D; default all"
    )
    parser.add_argument("--quick", action="store_true", help="a few repeats: to see that it runs")
    given = parser.parse_args(arguments)
    known = [w.name for w in WORKLOADS]
    unknown = [name for name in given.only if name not in known]
    if unknown:
        print(
            f"--only {unknown[0]}: no such workload; choose from {', '.join(known)}",
            file=sys.stderr,
        )
        return 2

    def tell(words: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{words}", end="", file=sys.stderr, flush=True)

    try:
        record = run(given.only, quick=given.quick, tell=tell)
    except ImportError as missing:
        print(f"the benchmark needs {missing.name}: pip install 'slicewise[lab]'", file=sys.stderr)
        return 2
    tell("")
    stem = "quick" if given.quick else f"cpu-{record['date']}"
    write_whole(given.out / f"{stem}.json", json.dumps(record, indent=1) + "\n")
    write_whole(given.out / f"{stem}.md", summary(record) + "\n")
    write_whole(given.out / f"{stem}-scaling.png", scaling.draw(record["scaling"]))
    print(summary(record))
    print(f"results: {given.out / stem}.json, .md, -scaling.png")
    return 0


if __name__ == "__main__":
    torch.manual_seed(0)
    raise SystemExit(main())
