"""Do flows under their defaults arrive, at any size, and do they say so truthfully? Resumable, run by run."""

from __future__ import annotations

import hashlib
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import slicewise as sw
from slicewise.transport import matched_distance

Row = dict[str, Any]
KINDS = ("gaussians", "mixtures", "heavy tails", "duplicates", "outlier")
# Seeds on which nothing was tuned: ten, and three of the largest size.
SEEDS = tuple(range(70310, 70320))
SIZES, DIMENSIONS = (300, 1000, 10_000), (2, 10, 50)
# Medians that are promised, in seconds on two cores, by (n, d).
PROMISED = {(1000, 10): 2.0, (10_000, 10): 40.0}
WITHIN = 1e-3  # of the target's spread
LONGEST_WAY = 1.1  # mean squared displacement, as a multiple of the exact W_2²


class Kept:
    """Runs in a file, one JSON object a line, so that an interrupted benchmark goes on where it was.

    Runs of other sources of the library are not taken up.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._source = _source()
        self._rows: dict[str, Row] = {}
        if file is not None and file.exists():
            for line in file.read_text().splitlines():
                try:
                    row = json.loads(line)
                except json.JSONDecodeError:  # cut off by the interrupt
                    continue
                if row["source"] == self._source:
                    self._rows[row["key"]] = row

    def get(self, key: str, make: Callable[[], Row]) -> Row:
        """The run of this name: from the file, or made now."""
        if key not in self._rows:
            row = {"key": key, "source": self._source, **make()}
            self._rows[key] = row
            if self._file is not None:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with self._file.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        return self._rows[key]


def _source() -> str:
    """A word for the source of what flows are made of."""
    package = Path(sw.__file__).parent
    rooms = ("flows", "kernels", "problem", "sampling", "steps", "support", "transport")
    files = sorted(file for room in rooms for file in (package / room).rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def problem(kind: str, n: int, d: int, seed: int) -> tuple[Tensor, Tensor]:
    """Samples x (n, d) to be moved onto y (n, d)."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    x = normal(n, d)
    if kind == "gaussians":
        return x, 0.5 * normal(n, d) + 2
    if kind == "mixtures":
        means = 3 * normal(2, 5, d)
        which = torch.randint(5, (2, n), generator=g)
        return 0.5 * x + means[0, which[0]], 0.3 * normal(n, d) + means[1, which[1]]
    if kind == "heavy tails":  # Student's t with two degrees of freedom
        return x, normal(n, d) / normal(n, 2).square().mean(dim=1, keepdim=True).sqrt()
    if kind == "duplicates":  # each target about ten times
        return x, normal(n // 10, d)[torch.randint(n // 10, (n,), generator=g)]
    assert kind == "outlier"
    y = 0.5 * normal(n, d) + 2
    y[0] = 1e6
    return x, y


def spread_of(y: Tensor) -> float:
    """The median distance of samples to their median."""
    y = y.double()
    return float((y - y.median(dim=0).values).norm(dim=-1).median())


def judged(x: Tensor, y: Tensor) -> float:
    """W_2 between x and y: 0 if one is a rearrangement of the other, else an upper bound by a matching."""
    if torch.equal(_sorted(x), _sorted(y)):
        return 0.0
    return matched_distance(x, y)


def _sorted(samples: Tensor) -> Tensor:
    return torch.tensor(sorted(samples.tolist()))


def _run(kind: str, n: int, d: int, seed: int, dtype: torch.dtype) -> Row:
    x, y = (t.to(dtype) for t in problem(kind, n, d, seed))
    begun = time.perf_counter()
    found = sw.flow(x, y, seeds=seed)
    seconds = time.perf_counter() - begun
    row = {
        "status": found.status,
        "by": found.by,
        "steps": int(found.n_steps),
        "seconds": seconds,
        "left": judged(found.particles, y) / spread_of(y),
    }
    if n <= 1000 and dtype == torch.float64:
        moved = float((found.particles - x).square().sum(dim=-1).mean())
        row["way"] = moved / float(sw.wasserstein(x, y)) ** 2
    return row


def arrivals(*, quick: bool, kept: Kept) -> list[Row]:
    """Default flows: every run arrives with W_2 ≤ 1e-3 of the target's spread, and those an assignment ends by a
    way at most 1.1 × W_2² (mean squared displacement)."""
    sizes: Iterable[int] = (300,) if quick else SIZES
    rows = []
    for n in sizes:
        for d in DIMENSIONS:
            for kind in KINDS:
                for dtype in (torch.float64, torch.float32):
                    seeds = SEEDS[: 1 if quick else 3 if n == 10_000 else None]
                    name = f"{kind}, n = {n}, d = {d}, {str(dtype)[6:]}"
                    runs = [
                        kept.get(f"{name}, seed {s}", partial(_run, kind, n, d, s, dtype))
                        for s in seeds
                    ]
                    rows.append(_summary(name, n, d, runs, quick=quick))
    return rows


def _summary(name: str, n: int, d: int, runs: list[Row], *, quick: bool) -> Row:
    seconds = statistics.median(run["seconds"] for run in runs)
    ways, own = (
        [run["way"] for run in runs if "way" in run and run["by"] == by]
        for by in ("assignment", "flow")
    )
    good = all(run["status"] == "arrived" and run["left"] <= WITHIN for run in runs)
    good &= not ways or max(ways) <= LONGEST_WAY
    target = f"all arrive, left ≤ {WITHIN:g}, way ≤ {LONGEST_WAY}"
    if (n, d) in PROMISED and not quick:
        good &= seconds <= PROMISED[n, d]
        target += f", median ≤ {PROMISED[n, d]:g} s"
    return {
        "what": name,
        "runs": len(runs),
        "arrived": sum(run["status"] == "arrived" for run in runs),
        "by assignment": sum(run["by"] == "assignment" for run in runs),
        "median steps": statistics.median(run["steps"] for run in runs),
        "most steps": max(run["steps"] for run in runs),
        "median s": seconds,
        "left": max(run["left"] for run in runs),
        "way": max(ways) if ways else None,
        "way by sliced steps alone": max(own) if own else None,
        "target": target,
        "met": good,
    }


def _random(seed: int) -> Row:
    """A problem whose kind, size, unit, place, precision, variant and way of ending are drawn at random."""
    g = torch.Generator().manual_seed(seed)

    def one_of(choices: Iterable[Any]) -> Any:
        choices = list(choices)
        return choices[int(torch.randint(len(choices), (), generator=g))]

    kind, d = one_of(KINDS), one_of([1, 2, 3, 5, 10, 20])
    n = int(torch.randint(20, 200, (), generator=g))
    x, y = problem(kind, n, d, seed)
    if kind == "outlier":
        y[0] = 10.0 ** one_of(range(2, 10))
    unit = 10.0 ** one_of(range(-6, 7))
    place = one_of([0.0, 1.0, 1e3])
    dtype = one_of([torch.float64, torch.float32])
    variant = one_of(["sw", "sw", "ebsw", "maxsw", "rpsw", "orthosw", "imsw"])
    assign = one_of(["auto", False])
    x, y = (((t + place) * unit).to(dtype) for t in (x, y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sw.NotArrivedWarning)  # counted here
        stopping = sw.Stopping(assign=assign)
        found = sw.flow(x, y, variant, seeds=seed, max_steps=600, stopping=stopping)
    # The outlier apart: it would hide what the others have left.
    far = spread_of(y) * 1e2 if kind == "outlier" else float("inf")
    middle = y.median(dim=0).values
    made, wanted = (t[(t - middle).norm(dim=-1) < far] for t in (found.particles, y))
    left = judged(made, wanted) if len(made) == len(wanted) else float("inf")
    # What the numbers of this precision can tell apart, at this place.
    resolution = 4 * torch.finfo(dtype).eps * float(y.double().norm(dim=-1).median())
    arrived = found.status == "arrived"
    return {
        "status": found.status,
        "by": found.by,
        "left": left / (spread_of(y) or 1.0),
        "false": arrived and left > WITHIN * spread_of(y) + resolution,
    }


def truth(*, quick: bool, kept: Kept) -> list[Row]:
    """Random problems, half of them with sliced steps alone: none says `arrived` where W_2 is not small."""
    seeds = range(80_000, 80_000 + (30 if quick else 200))
    runs = [kept.get(f"random, seed {seed}", partial(_random, seed)) for seed in seeds]
    rows: list[Row] = []
    for status in sorted({run["status"] for run in runs}):
        some = [run for run in runs if run["status"] == status]
        rows.append({"what": status, "runs": len(some), "left": max(run["left"] for run in some)})
    wrong = sum(run["false"] for run in runs)
    rows.append(
        {
            "what": "arrived falsely",
            "runs": wrong,
            "target": f"0 of {len(runs)}",
            "met": wrong == 0,
        }
    )
    return rows


def _way(n: int, d: int, *, assign: bool) -> Row:
    """Steps and seconds of one flow of normal clouds, to W_2 ≤ 1e-3 by sliced steps, or by the default."""
    x, y = problem("gaussians", n, d, SEEDS[0])
    stopping = sw.Stopping() if assign else sw.Stopping(w2=1e-3, assign=False)
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sw.NotArrivedWarning)  # its status is in the table
        found = sw.flow(x, y, seeds=0, stopping=stopping)
    seconds = time.perf_counter() - begun
    steps, left = int(found.n_steps), judged(found.particles, y)
    return {"steps": steps, "seconds": seconds, "status": found.status, "left": left}


def growth(*, quick: bool, kept: Kept) -> list[Row]:
    """How steps and seconds grow with n and d = k: the default, and sliced steps alone to W_2 ≤ 1e-3."""
    sizes = (100, 300) if quick else (100, 300, 1000, 3000, 10_000)
    rows = []
    for d in (2, 10) if quick else DIMENSIONS:
        for n in sizes:
            row: Row = {"d = k": d, "n": n}
            run = kept.get(f"growth, n = {n}, d = {d}", partial(_way, n, d, assign=True))
            row |= {"steps": run["steps"], "seconds": run["seconds"]}
            if n <= 1000:  # beyond, sliced steps alone take hours
                run = kept.get(
                    f"growth, sliced, n = {n}, d = {d}",
                    partial(_way, n, d, assign=False),
                )
                row |= {
                    "sliced steps alone": run["steps"],
                    "their seconds": run["seconds"],
                    "they end": run["status"],
                    "left": run["left"],
                }
            rows.append(row)
    return rows


def _free_support(x: Tensor, y: Tensor, rounds: int = 200) -> float:
    """W_2 after particles were moved by exact transport until they rest, each to the mean of its partners."""
    import ot

    shares = [torch.full((len(t),), 1 / len(t), dtype=torch.float64) for t in (x, y)]
    before = float("inf")
    for _ in range(rounds):
        costs = torch.cdist(x, y).square()
        plan = ot.emd(*shares, costs, numItermax=10_000_000)
        now = float((plan * costs).sum().sqrt())
        if now > before * (1 - 1e-6):
            break
        before, x = now, plan @ y * len(x)
    return now


def _minimum(kind: str, n: int, m: int, d: int, seed: int) -> Row:
    x, y = problem(kind, n, d, seed)[0], problem(kind, m, d, seed + 1000)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sw.NotArrivedWarning)  # counted here
        found = sw.flow(x, y, seeds=seed)
    after, least = float(found.w2), _free_support(found.particles, y)
    return {"status": found.status, "steps": int(found.n_steps), "w2": after, "least": least}


def minima(*, quick: bool, kept: Kept) -> list[Row]:
    """n ≠ m: the minimum is recognized; W_2 there against exact free-support transport started from there."""
    cases = [("gaussians", 200, 300, 2), ("mixtures", 300, 200, 2), ("gaussians", 200, 300, 10)]
    cases += [] if quick else [("mixtures", 200, 300, 10), ("heavy tails", 100, 500, 5)]
    cases += [] if quick else [("mixtures", 150, 200, 50)]
    rows = []
    for kind, n, m, d in cases:
        name = f"{kind}, n = {n}, m = {m}, d = {d}"
        seeds = SEEDS[: 1 if quick else 3]
        runs = [
            kept.get(f"minimum, {name}, seed {s}", partial(_minimum, kind, n, m, d, s))
            for s in seeds
        ]
        reached = sum(run["status"] == "minimum reached" for run in runs)
        rows.append(
            {
                "what": name,
                "runs": len(runs),
                "minimum reached": reached,
                "median steps": statistics.median(run["steps"] for run in runs),
                "W_2": statistics.median(run["w2"] for run in runs),
                "above exact, %": 100 * max(run["w2"] / run["least"] - 1 for run in runs),
                "target": "all reached",
                "met": reached == len(runs),
            }
        )
    return rows
