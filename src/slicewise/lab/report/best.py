"""The best of several learning rates, chosen as in the paper: by the mean final distance over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Best:
    """The runs at one rate, with mean and standard deviation over seeds."""

    rate: float | None  # None: the step was computed
    mean: float
    std: float
    runs: Sequence[Row]
    end_of_grid: str = ""  # a remark, if the best rate is the smallest or largest tried


def by_rate(rows: Iterable[Row]) -> list[Best]:
    """Return the remaining distance at each rate, from the smallest; a run that diverged counts as infinite."""
    found: dict[float | None, list[Row]] = {}
    for row in rows:
        found.setdefault(row["lr"], []).append(row)
    order = sorted(found, key=lambda rate: -1.0 if rate is None else rate)
    return [_at(rate, found[rate]) for rate in order]


def best_of(rows: Iterable[Row]) -> Best | None:
    """Return the rate with the least mean distance over seeds; None if there are no runs."""
    found = by_rate(rows)
    best = min(found, key=lambda best: best.mean, default=None)
    rates = [one.rate for one in found if one.rate is not None]
    if best is not None and len(rates) > 1 and best.rate in (rates[0], rates[-1]):
        which = "least" if best.rate == rates[0] else "largest"
        return replace(best, end_of_grid=f" (the {which} tried)")
    return best


def _at(rate: float | None, rows: list[Row]) -> Best:
    distances = [float("inf") if row["w2"] is None else row["w2"] for row in rows]
    mean = statistics.fmean(distances)
    std = statistics.stdev(distances) if len(rows) > 1 and mean != float("inf") else 0.0
    return Best(rate, mean, std, rows)


def number(value: float | None, digits: int = 2) -> str:
    """Return a short number of fixed width, such as 3.1e-04; a dash for None and NaN."""
    if value is None or value != value:
        return "–"
    return "∞ (diverged)" if value == float("inf") else f"{value:.{digits - 1}e}"


def spread(best: Best) -> str:
    """Return the mean, and the standard deviation if there are several seeds."""
    return number(best.mean) + (f" ± {number(best.std)}" if len(best.runs) > 1 else "")


def steps_of(best: Best) -> str:
    """Return how many steps its runs made, as a number or a range."""
    made = sorted(int(row["measures"]["steps"]) for row in best.runs if "steps" in row["measures"])
    if not made:
        return "–"
    return f"{made[0]:,}" if made[0] == made[-1] else f"{made[0]:,}–{made[-1]:,}"
