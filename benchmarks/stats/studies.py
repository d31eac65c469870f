"""Studies of the tests and intervals: how often they err under no difference, how often they find one, how often they cover."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import slicewise as sw

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


def calibration(repeats: int) -> list[dict[str, Any]]:
    """How often p-values lie at or below each level where there is no difference."""
    from scipy import stats

    rows = []
    for name, (n, m, d, kind, stop, more) in NULLS.items():
        rng, found = np.random.default_rng(7), np.empty(repeats)
        start = time.perf_counter()
        for k in range(repeats):
            x, y, blocks = null_samples(rng, n, m, d, kind)
            found[k] = sw.two_sample_test(
                x, y, n_slices=20, permutations=PERMUTATIONS, early_stop=stop, generator=k,
                **{"coordinates": False, **more, **blocks},
            ).p_value  # fmt: skip
        row: dict[str, Any] = {
            "setting": name,
            "repeats": repeats,
            "seconds": time.perf_counter() - start,
        }
        for level in LEVELS:
            share = float((found <= level + 1e-12).mean())
            error = (level * (1 - level) / repeats) ** 0.5
            row[f"P(p <= {level})"] = share
            row[f"within {level}"] = bool(share <= level + 2 * error)
        if stop is None and kind != "ties":
            # Spread evenly between the values that 199 relabelings can give, p-values are uniform.
            spread = found - rng.random(repeats) / (PERMUTATIONS + 1)
            row["KS p"] = float(stats.kstest(spread, "uniform").pvalue)
        rows.append(row)
        print(row, flush=True)
    return rows


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


def power(
    repeats: int, n: int = 100, dimensions: tuple[int, ...] = (2, 20, 200)
) -> list[dict[str, Any]]:
    """How often each test finds a difference at level 0.05."""
    tests, rows = contestants(), []
    for name in ALTERNATIVES:
        for d in dimensions:
            rng = np.random.default_rng(11)
            found: dict[str, int] = dict.fromkeys(tests, 0)
            for k in range(repeats):
                x, y = alternative(rng, name, d, n)
                for test, p_value in tests.items():
                    found[test] += p_value(x, y, k) <= 0.05
            row = {
                "alternative": name,
                "d": d,
                "n": n,
                "size": ALTERNATIVES[name][d],
                "repeats": repeats,
            }
            rows.append({**row, **{test: hits / repeats for test, hits in found.items()}})
            print(rows[-1], flush=True)
    return rows


# Every estimator that states an error, with ten slices or five chains.
STATED: dict[str, Callable[[int], int]] = {
    **dict.fromkeys(("sw", "ebsw", "rpsw", "ebrpsw", "phisw", "gsw", "lcvsw", "ucvsw", "gaussiansw"), lambda d: 10),
    **dict.fromkeys(("omsw", "rmsw", "imsw", "vimsw"), lambda d: 50),
    "orthosw": lambda d: 5 * d,
}  # fmt: skip


def problems() -> Iterator[tuple[str, Array, Array]]:
    """Pairs of sets of 200 and 150 samples that differ in several ways."""
    g = torch.Generator().manual_seed(0)

    def normal(n: int, d: int) -> torch.Tensor:
        return torch.randn(n, d, generator=g)

    x, y = normal(200, 10), normal(150, 10)
    yield "shift, d = 10", x, y + 1.5 * torch.eye(10)[0]
    yield "shift and scale, d = 10", x, 1.5 * y * torch.linspace(0.5, 2, 10) + 0.3
    yield "equal laws, d = 10", x, y
    x, y = normal(200, 3), normal(150, 3)
    yield "shift, d = 3", x, y + 2 * torch.eye(3)[0]
    x, y = normal(200, 50), normal(150, 50)
    yield "shift, d = 50", x, y + 3 * torch.eye(50)[0]


def coverage(repeats: int, batch: int = 250) -> list[dict[str, Any]]:
    """How often the 95 % interval covers the value of 40,000 slices, and how often ± 2 standard errors do."""
    rows = []
    for problem, x, y in problems():
        for variant, many in STATED.items():
            d = x.shape[-1]
            if variant == "gsw" and d > 10:
                continue  # its 22,100 monomials of degree 3 in d = 50 would take 20 GB for a batch
            size = 800 * d if variant == "orthosw" else 40_000
            truth = sw.evaluate(x, y, variant, n_slices=size, generator=1)
            hits = plain = 0
            for k in range(repeats // batch):
                found = sw.evaluate(
                    x.expand(batch, -1, -1), y, variant, n_slices=many(d), generator=100 + k
                )
                low, high = found.interval(0.95)
                hits += int(((low <= truth.value) & (truth.value <= high)).sum())
                plain += int(((found.power - truth.power).abs() <= 2 * found.stderr).sum())
            total = repeats // batch * batch
            row = {"problem": problem, "variant": variant, "slices": many(d), "repeats": total}
            rows.append({**row, "interval": hits / total, "two stderr": plain / total})
            print(rows[-1], flush=True)
    return rows


def coverage_of_auto(repeats: int, rtol: float = 0.1) -> list[dict[str, Any]]:
    """The same after `n_slices="auto"` has stopped, with the number of slices it took."""
    rows = []
    for problem, x, y in list(problems())[1:4]:
        for variant in ("sw", "orthosw", "omsw", "ebsw", "rpsw", "gsw", "lcvsw", "ucvsw"):
            truth = sw.evaluate(x, y, variant, n_slices=40_000, generator=1).value
            hits, slices = 0, 0
            for k in range(repeats):
                found = sw.evaluate(x, y, variant, n_slices="auto", rtol=rtol, generator=100 + k)
                low, high = found.interval(0.95)
                hits += bool(low <= truth <= high)
                slices += found.costs.shape[-1]
            row = {"problem": problem, "variant": variant, "rtol": rtol, "repeats": repeats}
            rows.append({**row, "interval": hits / repeats, "slices": slices / repeats})
            print(rows[-1], flush=True)
    return rows
