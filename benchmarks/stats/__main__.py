"""Measure what the statistics promise: calibration, power, coverage, speed, and tables that memory does not hold.

python -m benchmarks.stats --out benchmarks/results [--only calibration power …] [--jobs 2] [--quick] [--tables FOLDER]

Studies of many repeats keep each finished piece in build/stats and go on from there when they are started again; delete
that folder to measure changed code.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.stats import drift, intervals, large_tables, speed, studies
from slicewise.support import write_whole


def parts(quick: bool, jobs: int, tables: Path, kept: Path) -> dict[str, Callable[[], Any]]:
    """What is measured, by name."""
    repeats = 100 if quick else 2000
    rows = 200_000 if quick else 100_000_000

    def lines(name: str) -> Path:
        path = kept / f"{name}{'-quick' if quick else ''}.jsonl"
        if quick:  # which is to show that everything runs
            path.unlink(missing_ok=True)
        return path

    return {
        "calibration": lambda: studies.calibration(repeats, jobs, lines("calibration")),
        "drift": lambda: drift.calibration(repeats, jobs, lines("drift")),
        "drift-command": lambda: drift.calibration_of_the_command(
            20 if quick else 500, jobs, lines("drift-command")
        ),
        "power": lambda: studies.power(
            5 if quick else 1000, (2, 20) if quick else (2, 20, 200), jobs, lines("power")
        ),
        "power-slices": lambda: studies.power_of_more_slices(
            5 if quick else 1000, jobs, lines("power-slices")
        ),
        "coverage": lambda: intervals.coverage(
            250 if quick else 2000, jobs, lines("coverage"), brief=quick
        ),
        "auto": lambda: intervals.coverage_of_auto(20 if quick else 2000, jobs, lines("auto")),
        "test": lambda: speed.permutation_test(permutations=100 if quick else 1000),
        "pairwise": lambda: speed.pairwise(k=40 if quick else 200),
        "barycenter": lambda: speed.barycenters(((2, 300),)) if quick else speed.barycenters(),
        "tables": lambda: large_tables.run(tables, rows, rows // 10),
        "cluster": lambda: large_tables.run_on_a_cluster(
            tables, rows, rows // 10, kill_after=3.0 if quick else 300.0
        ),
    }


def main() -> None:
    """Measure, and write one JSON file for each part; a figure of the power."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument(
        "--only", nargs="+", choices=list(parts(True, 1, Path(), Path())), default=None
    )
    parser.add_argument("--quick", action="store_true", help="few repeats: less than a minute")
    parser.add_argument(
        "--tables", type=Path, default=Path("build/tables"), help="where large tables are written"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes for studies of many repeats")
    parser.add_argument(
        "--kept", type=Path, default=Path("build/stats"), help="where finished pieces are kept"
    )
    given = parser.parse_args()
    today = datetime.date.today().isoformat()
    for name, measure in parts(given.quick, given.jobs, given.tables, given.kept).items():
        if given.only is not None and name not in given.only:
            continue
        print(name, flush=True)
        found = {"part": name, "date": today, "threads": torch.get_num_threads(), "torch": torch.__version__,
                 "quick": given.quick, "found": measure()}  # fmt: skip
        print(found["found"], flush=True)
        write_whole(
            given.out / f"stats-{name}-{today}.json",
            json.dumps(found, indent=1, default=float) + "\n",
        )
        if name == "power":
            from benchmarks.stats.picture import draw_power

            draw_power(found["found"], given.out / f"stats-power-{today}.png")


if __name__ == "__main__":
    main()
