"""Studies of the tests: how often they err where there is no difference, and how often they find one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import slicewise as sw
from benchmarks.stats.cells import Cell, Row, added, chunks, run

Array = Any
LEVELS = (0.01, 0.05, 0.1)
PERMUTATIONS = 199
# name: (n, m, d, what samples are, early_stop, further settings)
NULLS: dict[str, tuple[int, int, int, str, int | None, dict[str, Any]]] = {
    "normal, d = 2, n = m": (30, 30, 2, "normal", None, {}),
    "normal, d = 20, n ≠ m": (40, 25, 20, "normal", None, {}),
    "normal, d = 200, n ≠ m": (20, 35, 200, "normal", None, {}),
    "Cauchy, d = 5, n ≠ m": (30, 45, 5, "cauchy", None, {}),
    "ties, d = 3, n ≠ m": (25, 35, 3, "ties", None, {}),
    "normal, d = 5, stopping": (30, 40, 5, "normal", 10, {}),
    "ties, d = 3, stopping": (25, 35, 3, "ties", 10, {}),
    "p = 1, d = 5": (30, 40, 5, "normal", None, {"p": 1}),
    "ebsw, d = 5": (30, 40, 5, "normal", None, {"variant": "ebsw"}),
    "max, d = 5": (30, 40, 5, "cauchy", None, {"statistic": "max"}),
    "standardized, d = 5": (30, 40, 5, "normal", None, {"statistic": "standardized", "coordinates": True}),
    "energy, d = 5": (30, 40, 5, "normal", None, {"statistic": "energy"}),
    "normal, d = 20, n ≠ m, stopping": (40, 25, 20, "normal", 20, {}),
    "normal, d = 200, n ≠ m, stopping": (20, 35, 200, "normal", 10, {}),
    "Cauchy, d = 5, n ≠ m, stopping": (30, 45, 5, "cauchy", 10, {}),
    "ties, d = 20, n ≠ m": (40, 25, 20, "ties", None, {}),
    "Cauchy, d = 50, n ≠ m": (25, 40, 50, "cauchy", None, {}),
    "paired, d = 3": (30, 30, 3, "pairs", None, {"paired": True}),
    "blocks, d = 3": (30, 45, 3, "blocks", None, {}),
}  # fmt: skip


def null_samples(
    rng: Any, n: int, m: int, d: int, kind: str
) -> tuple[Array, Array, dict[str, Any]]:
    """Draw both sets from one distribution."""
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    if kind == "cauchy":
        x, y = rng.standard_cauchy((n, d)), rng.standard_cauchy((m, d))
    if kind == "ties":
        x, y = np.round(x), np.round(y)
    if kind == "pairs":  # pairs share most of what they are
        common = 3 * rng.normal(size=(n, d))
        x, y = x + common, y + common
    if kind == "blocks":  # blocks lie apart, and the sides hold them in unequal shares
        a, b = np.arange(n) % 3, np.sort(np.arange(m) % 5 % 3)
        return x + 4 * a[:, None], y + 4 * b[:, None], {"blocks": (a.tolist(), b.tolist())}
    return x, y, {}


def calibrated(name: str, repeats: int) -> Row:
    """How often p-values lie at or below each level where there is no difference."""
    from scipy import stats

    n, m, d, kind, stop, more = NULLS[name]
    rng, found = np.random.default_rng(7), np.empty(repeats)
    start = time.perf_counter()
    for k in range(repeats):
        x, y, blocks = null_samples(rng, n, m, d, kind)
        found[k] = sw.two_sample_test(
            x, y, n_slices=20, permutations=PERMUTATIONS, early_stop=stop, generator=k,
            **{"coordinates": False, **more, **blocks},
        ).p_value  # fmt: skip
    row = {"setting": name, "seconds": time.perf_counter() - start, **kept_levels(found)}
    if stop is None and kind != "ties":
        # Spread evenly between the values that 199 relabelings can give, p-values are uniform.
        spread = found - rng.random(repeats) / (PERMUTATIONS + 1)
        row["KS p"] = float(stats.kstest(spread, "uniform").pvalue)
    return row


def kept_levels(found: Array) -> Row:
    """How often p-values lie at or below each level, and whether that is at most the level plus two standard errors."""
    row: Row = {"repeats": len(found)}
    for level in LEVELS:
        share = float((found <= level + 1e-12).mean())
        error = (level * (1 - level) / len(found)) ** 0.5
        row[f"P(p <= {level})"] = share
        row[f"within {level}"] = bool(share <= level + 2 * error)
    return row


def calibration(repeats: int, jobs: int, kept: Path) -> list[Row]:
    """p-values of two-sample tests under no difference, in many settings."""
    return run([(name, calibrated, (name, repeats)) for name in NULLS], jobs, kept)


ALTERNATIVES: dict[str, dict[int, float]] = {
    "shift": {2: 0.40, 20: 0.75, 200: 1.3},
    "scale": {2: 0.30, 20: 0.10, 200: 0.035},
    "correlation": {2: 0.55, 20: 0.30, 200: 0.08},
    "sparse": {2: 0.45, 20: 0.70, 200: 0.90},
}


def alternative(rng: Any, name: str, d: int, n: int) -> tuple[Array, Array]:
    """Draw two sets that differ: in the mean, the spread, the correlation, or the mean of one coordinate."""
    size = ALTERNATIVES[name][d]
    x, y = rng.normal(size=(n, d)), rng.normal(size=(n, d))
    if name == "shift":
        y = y + size / d**0.5
    elif name == "scale":
        y = (1 + size) * y
    elif name == "correlation":
        y = (1 - size) ** 0.5 * y + size**0.5 * rng.normal(size=(n, 1))
    else:
        y[:, 0] += size
    return x, y


def contestants() -> dict[str, Callable[[Array, Array, int], float]]:
    """p-values by name: ours, hyppo's energy and MMD tests, and SciPy's Kolmogorov–Smirnov test by coordinate."""
    from hyppo.ksample import MMD, Energy
    from scipy import stats

    def ours(**settings: Any) -> Callable[[Array, Array, int], float]:
        return lambda x, y, k: sw.two_sample_test(
            x, y, n_slices=100, permutations=PERMUTATIONS, generator=k, **{"coordinates": False, **settings}
        ).p_value  # fmt: skip

    def peer(test: Any) -> Callable[[Array, Array, int], float]:
        def p_value(x: Array, y: Array, k: int) -> float:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about its own deprecations
                return float(test.test(x, y, auto=True)[1])

        return p_value

    def by_coordinate(x: Array, y: Array, k: int) -> float:
        least = min(stats.ks_2samp(x[:, j], y[:, j]).pvalue for j in range(x.shape[1]))
        return min(1.0, least * x.shape[1])

    return {
        "sw mean": ours(),
        "sw max": ours(statistic="max"),
        "sw standardized": ours(statistic="standardized", coordinates=True),
        "sliced energy": ours(statistic="energy"),
        "energy (hyppo)": peer(Energy()),
        "MMD (hyppo)": peer(MMD()),
        "KS by coordinate (SciPy)": by_coordinate,
    }


SAMPLES = 100  # on each side


def detected(name: str, d: int, start: int, end: int) -> Row:
    """How often each test finds a difference at level 0.05, counted over some repeats."""
    tests = contestants()
    row: Row = {"alternative": name, "d": d, "repeats": end - start, **dict.fromkeys(tests, 0)}
    for k in range(start, end):
        x, y = alternative(np.random.default_rng([11, k]), name, d, SAMPLES)
        for test, p_value in tests.items():
            row[test] += int(p_value(x, y, k) <= 0.05)
    return row


def power(repeats: int, dimensions: tuple[int, ...], jobs: int, kept: Path) -> list[Row]:
    """How often each test finds a difference."""
    cells: list[Cell] = [
        (f"{name}, d = {d}, {start} to {end}", detected, (name, d, start, end))
        for start, end in chunks(repeats, 50)
        for name in ALTERNATIVES
        for d in dimensions
    ]
    rows = added(run(cells, jobs, kept), ("alternative", "d"))
    for row in rows:
        row["n"], row["size"] = SAMPLES, ALTERNATIVES[row["alternative"]][row["d"]]
        for test in contestants():
            row[test] /= row["repeats"]
    return rows


def more_slices(start: int, end: int) -> Row:
    """How often 1,000 slices find the dense shift in d = 200, of which 100 find little, counted over some repeats."""
    row: Row = {"repeats": end - start, "sw mean": 0, "sliced energy": 0}
    for k in range(start, end):
        x, y = alternative(np.random.default_rng([11, k]), "shift", 200, SAMPLES)
        for test, statistic in (("sw mean", "mean"), ("sliced energy", "energy")):
            found = sw.two_sample_test(
                x, y, n_slices=1000, permutations=PERMUTATIONS, generator=k, coordinates=False, statistic=statistic
            )  # fmt: skip
            row[test] += int(found.p_value <= 0.05)
    return row


def power_of_more_slices(repeats: int, jobs: int, kept: Path) -> Row:
    """The dense shift in d = 200, with 1,000 slices."""
    rows = run([(f"{start} to {end}", more_slices, (start, end)) for start, end in chunks(repeats, 50)], jobs, kept)  # fmt: skip
    whole: Row = {name: sum(row[name] for row in rows) for name in rows[0]}
    shares = {name: whole[name] / whole["repeats"] for name in ("sw mean", "sliced energy")}
    return {"alternative": "shift", "d": 200, "slices": 1000, "repeats": whole["repeats"], **shares}
