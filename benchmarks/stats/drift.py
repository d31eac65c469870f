"""How often `DriftDetector` and `slicewise drift` raise an alarm where nothing has drifted."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stats.cells import Cell, Row, run
from benchmarks.stats.studies import kept_levels
from slicewise.lab.cli import DRIFT, main
from slicewise.stats import DriftDetector

Columns = dict[str, Any]
PERMUTATIONS, SLICES = 199, 20
LEVEL = 0.05  # of verdicts


def numbers(rng: Any, n: int) -> Columns:
    """Five columns of normal numbers of unequal spread, two of them correlated."""
    x = rng.normal(size=(n, 5)) * [1, 10, 0.1, 3, 1]
    x[:, 4] += 0.9 * x[:, 0]
    return {f"c{j}": x[:, j] for j in range(5)}


def heavy(rng: Any, n: int) -> Columns:
    """Eight columns with Cauchy tails."""
    return {f"c{j}": rng.standard_cauchy(n) for j in range(8)}


def rounded(rng: Any, n: int) -> Columns:
    """Counts, with many ties."""
    return {"visits": rng.poisson(1.5, n), "stars": rng.integers(1, 6, n), "flag": rng.integers(0, 2, n)}  # fmt: skip


def categories(rng: Any, n: int) -> Columns:
    """150 equally likely categories, most of which a batch has once or not at all, and a few unequal ones."""
    return {"zip": rng.integers(0, 150, n).astype(str), "tier": rng.choice(["a", "b", "c"], n, p=[0.7, 0.25, 0.05])}  # fmt: skip


def gaps(rng: Any, n: int) -> Columns:
    """Missing numbers: many, few, and where another column is large."""
    a, b, c = rng.normal(size=(3, n))
    return {
        "often": np.where(rng.random(n) < 0.4, np.nan, a),
        "rarely": np.where(rng.random(n) < 0.02, np.nan, b),
        "if large": np.where(b > 1, np.nan, c),
    }


def mixed(rng: Any, n: int) -> Columns:
    """Numbers, counts, categories, gaps, and a column that never changes."""
    same = {"version": np.full(n, 3.0)}
    return {**numbers(rng, n), **rounded(rng, n), **categories(rng, n), **gaps(rng, n), **same}


KINDS: dict[str, Callable[[Any, int], Columns]] = {
    "numbers": numbers, "heavy tails": heavy, "ties": rounded, "categories": categories, "gaps": gaps, "mixed": mixed,
}  # fmt: skip
# Rows of the reference and of the batch; the last pair has more of both than a detector is told to keep.
SIZES = {"120 and 80 rows": (120, 80, 5000), "60 and 200 rows": (60, 200, 5000), "400 and 300 rows, 100 kept": (400, 300, 100)}  # fmt: skip


def scored(kind: str, size: str, repeats: int, seed: int = 21) -> Row:
    """p-values of `DriftDetector.score`, and how often it says drift."""
    (n, m, most), rng, start = SIZES[size], np.random.default_rng(seed), time.perf_counter()
    found, alarms = np.empty(repeats), 0
    for k in range(repeats):
        detector = DriftDetector(
            KINDS[kind](rng, n), level=LEVEL, permutations=PERMUTATIONS, n_slices=SLICES, max_rows=most, generator=1000 * (seed - 21) + k
        )  # fmt: skip
        drift = detector.score(KINDS[kind](rng, m))
        found[k] = drift.p_value
        alarms += drift.drifted
    again = "" if seed == 21 else f", seed {seed}"
    return _row(f"DriftDetector, {kind}, {size}{again}", found, alarms, start)


def in_windows(kind: str, repeats: int) -> Row:
    """How often any of five windows says drift, by a detector that was saved and loaded."""
    rng, start, alarms = np.random.default_rng(22), time.perf_counter(), 0
    least = np.empty(repeats)
    with tempfile.TemporaryDirectory() as folder:
        for k in range(repeats):
            path = Path(folder) / "detector.pt"
            DriftDetector(
                KINDS[kind](rng, 100), level=LEVEL, permutations=PERMUTATIONS, n_slices=SLICES, generator=k
            ).save(path)  # fmt: skip
            batch = KINDS[kind](rng, 150)
            found = DriftDetector.load(path).score_windows(batch, n_windows=5)
            alarms += found.drifted
            least[k] = min(1.0, 5 * min(window.drift.p_value for window in found.windows))
    return _row(f"saved DriftDetector, five windows, {kind}", least, alarms, start)


def by_command(kind: str, repeats: int) -> Row:
    """p-values that `slicewise drift --json` prints for two files, and how often its exit status says drift."""
    rng, start, alarms = np.random.default_rng(23), time.perf_counter(), 0
    found = np.empty(repeats)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("reference.csv", "new.csv")]
        for k in range(repeats):
            for path, n in zip(paths, (120, 80), strict=True):
                _write(path, KINDS[kind](rng, n))
            printed = io.StringIO()
            words = [*map(str, paths), "--level", LEVEL, "--permutations", PERMUTATIONS, "--n-slices", SLICES, "--seed", k]  # fmt: skip
            with contextlib.redirect_stdout(printed):
                status = main(["drift", *map(str, words), "--json"])
            assert status in (0, DRIFT), status
            alarms += status == DRIFT
            found[k] = json.loads(printed.getvalue())["p_value"]
    return _row(f"slicewise drift, {kind}", found, alarms, start)


def _write(path: Path, columns: Columns) -> None:
    """A CSV file; missing numbers are empty."""
    cells = [["" if isinstance(v, float) and np.isnan(v) else str(v) for v in c.tolist()] for c in columns.values()]  # fmt: skip
    lines = [",".join(columns), *(",".join(row) for row in zip(*cells, strict=True))]
    path.write_text("\n".join(lines) + "\n")


def _row(setting: str, found: Any, alarms: int, start: float) -> Row:
    error = (LEVEL * (1 - LEVEL) / len(found)) ** 0.5
    share = alarms / len(found)
    return {"setting": setting, "seconds": time.perf_counter() - start, **kept_levels(found), "level": LEVEL,
            "alarms": share, "alarms within": bool(share <= LEVEL + 2 * error)}  # fmt: skip


def calibration(repeats: int, jobs: int, kept: Path) -> list[Row]:
    """Detectors over several kinds of columns; a quarter of the repeats for five windows of saved ones."""
    cells: list[Cell] = [
        (f"{kind}, {size}", scored, (kind, size, repeats)) for size in SIZES for kind in KINDS
    ]
    # With 60 comparisons one is expected above two standard errors by chance. This one was, once; other tables tell.
    again = ("heavy tails", "60 and 200 rows", 5 * repeats, 121)
    cells += [("heavy tails, 60 and 200 rows, again", scored, again)]
    cells += [
        (f"windows, {kind}", in_windows, (kind, repeats // 4)) for kind in ("mixed", "heavy tails")
    ]
    return run(cells, jobs, kept)


def calibration_of_the_command(repeats: int, jobs: int, kept: Path) -> list[Row]:
    """The same through two files and the command line."""
    return run([(f"command, {kind}", by_command, (kind, repeats)) for kind in KINDS], jobs, kept)
