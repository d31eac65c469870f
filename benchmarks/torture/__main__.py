"""`python -m benchmarks.torture --minutes 30`: run the trial, print its table, exit 1 if anything failed."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.torture.tally import Tally

Trial = Callable[[int, str], Tally]
# What is tried, and the share of the time that each trial gets.
TRIALS = {
    "values": ("fuzzed values against long double", 0.30),
    "arguments": ("hostile arguments over all faces", 0.15),
    "files": ("damaged files of every format", 0.20),
    "commands": ("command lines on good and damaged files", 0.08),
    "kills": ("kills of study, flow, training, transfer", 0.17),
    "writers": ("concurrent writers of one store", 0.06),
    "ranks": ("ranks in trouble", 0.04),
}


def _trial(name: str) -> Trial:
    from benchmarks.torture import arguments, files, kills, ranks, values

    rooms: dict[str, Trial] = {
        "values": values.values,
        "arguments": arguments.arguments,
        "files": files.files,
        "commands": files.commands,
        "kills": kills.kills,
        "writers": kills.writers,
        "ranks": ranks.ranks,
    }
    return rooms[name]


def batch(name: str, number: int, seed: int, folder: str) -> dict[str, Any]:
    """Make one batch of a trial; the same numbers make the same cases."""
    import torch

    torch.set_num_threads(1)
    start = time.perf_counter()
    place = Path(folder, f"worker-{os.getpid()}")
    place.mkdir(exist_ok=True)
    own = (seed * 1_000_003 + list(TRIALS).index(name) * 100_000_007 + number) % 2**62
    tally = _trial(name)(own, str(place))
    seconds = time.perf_counter() - start
    return {"trial": name, "batch": number, "tried": tally.tried, "kills": tally.kills,
            "failures": tally.failures, "seconds": seconds}  # fmt: skip


class Schedule:
    """Which batch is next: of the trial that is farthest behind its share of the time."""

    def __init__(self, names: list[str], done: list[dict[str, Any]]) -> None:
        self.seconds = dict.fromkeys(names, 0.0)
        self.next = dict.fromkeys(names, 0)
        for one in done:
            if one["trial"] in self.seconds:
                self.add(one)
                self.next[one["trial"]] = max(self.next[one["trial"]], one["batch"] + 1)

    def add(self, one: dict[str, Any]) -> None:
        self.seconds[one["trial"]] += one["seconds"]

    def pop(self) -> tuple[str, int]:
        name = min(self.seconds, key=lambda n: self.seconds[n] / TRIALS[n][1])
        self.seconds[name] += 1e-3  # until its time is known
        number, self.next[name] = self.next[name], self.next[name] + 1
        return name, number


def run(
    minutes: float, seed: int, jobs: int, state: Path, names: list[str]
) -> list[dict[str, Any]]:
    """Run batches until the time is over; those of an earlier run with this seed and state file count."""
    done: list[dict[str, Any]] = []
    if state.exists():
        lines = state.read_text().splitlines()
        done = [one for one in map(json.loads, lines) if one["seed"] == seed]
    schedule = Schedule(names, done)
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="torture-") as folder, state.open("a") as kept:
        while time.monotonic() < end:
            with ProcessPoolExecutor(jobs, max_tasks_per_child=None) as pool:
                waiting: dict[Future[dict[str, Any]], tuple[str, int]] = {}
                try:
                    while waiting or time.monotonic() < end:
                        while len(waiting) < jobs and time.monotonic() < end:
                            name, number = schedule.pop()
                            waiting[pool.submit(batch, name, number, seed, folder)] = (name, number)
                        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                            name, number = waiting[future]
                            found = future.result()
                            del waiting[future]
                            schedule.add(found)
                            done.append({**found, "seed": seed})
                            kept.write(json.dumps(done[-1]) + "\n")
                            kept.flush()
                except BrokenProcessPool:
                    # A case that ends its process is a failure of its batch, and of no other.
                    for name, number in waiting.values():
                        done.append({"trial": name, "batch": number, "tried": 1, "kills": 0, "seconds": 0.0, "seed": seed,
                                     "failures": [f"batch {number}: its process, or one beside it, died"]})  # fmt: skip
                        kept.write(json.dumps(done[-1]) + "\n")
    return done


def table(done: list[dict[str, Any]], names: list[str]) -> str:
    """Return the table of tried and failed, in Markdown."""
    lines = ["| trial | tried | kills | failed |", "|---|---:|---:|---:|"]
    total = [0, 0, 0]
    for name in names:
        own = [one for one in done if one["trial"] == name]
        counts = [sum(one["tried"] for one in own), sum(one["kills"] for one in own), sum(len(one["failures"]) for one in own)]  # fmt: skip
        total = [a + b for a, b in zip(total, counts, strict=True)]
        lines.append(f"| {TRIALS[name][0]} | {counts[0]:,} | {counts[1] or ''} | {counts[2]} |")
    lines.append(f"| **all** | **{total[0]:,}** | **{total[1]:,}** | **{total[2]}** |")
    return "\n".join(lines)


def main() -> int:
    """Run the trial; return 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="benchmarks.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=20261118)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--state",
        type=Path,
        default=Path("build/torture.jsonl"),
        help="where batches are kept; the same file resumes",
    )
    parser.add_argument("--only", nargs="+", choices=TRIALS, default=list(TRIALS))
    parser.add_argument(
        "--out", type=Path, help="write the table and all failures to this file, too"
    )
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    given.state.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    done = run(given.minutes, given.seed, given.jobs, given.state, given.only)
    minutes = sum(one["seconds"] for one in done) / 60
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    words = (
        f"{when}, seed {given.seed}, {given.jobs} processes, {(time.monotonic() - start) / 60:.1f} minutes "
        f"({minutes:.1f} of work), {platform.machine()}, Python {platform.python_version()}"
    )
    failures = [f"{one['trial']}: {text}" for one in done for text in one["failures"]]
    text = f"{words}\n\n{table(done, given.only)}\n"
    if failures:
        text += "\nFailures:\n\n" + "\n".join(f"- {line}" for line in failures[:200]) + "\n"
    print(text)
    if given.out is not None:
        given.out.write_text(text)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
