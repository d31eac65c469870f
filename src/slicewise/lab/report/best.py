"""The best of some rates, as the paper chooses it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Best:
    """The best of some rates: the mean over seeds is least there."""

    rate: float | None  # None: computed
    mean: float
    std: float
    runs: Sequence[Row]
    end_of_grid: str = ""  # words, where a rate beyond all that were tried might be better


def by_rate(rows: Iterable[Row]) -> list[Best]:
    """What is left at each rate, over seeds, from the least rate on; a run that diverged is infinitely far."""
    found: dict[float | None, list[Row]] = {}
    for row in rows:
        found.setdefault(row["lr"], []).append(row)
    order = sorted(found, key=lambda rate: -1.0 if rate is None else rate)
    return [_at(rate, found[rate]) for rate in order]


def best_of(rows: Iterable[Row]) -> Best | None:
    """Among rates, by the mean final distance over seeds. None of none."""
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
    """Short, and the same width everywhere: 3.1e-04; a dash where there is none."""
    if value is None or value != value:
        return "–"
    return "∞ (diverged)" if value == float("inf") else f"{value:.{digits - 1}e}"


def spread(best: Best) -> str:
    """Its mean, and, of several seeds, their standard deviation."""
    return number(best.mean) + (f" ± {number(best.std)}" if len(best.runs) > 1 else "")


def steps_of(best: Best) -> str:
    """How many steps its runs made."""
    made = sorted(int(row["measures"]["steps"]) for row in best.runs if "steps" in row["measures"])
    if not made:
        return "–"
    return f"{made[0]:,}" if made[0] == made[-1] else f"{made[0]:,}–{made[-1]:,}"
