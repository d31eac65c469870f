"""The trainings of one experiment, in groups of runs that may be compared, and samples of the best."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewise.judging import MIN_VARIANCE_RATIO
from slicewise.lab.data import Array
from slicewise.lab.experiments import DISPLACEMENT, ELEVEN, GENERATION, TIMED_PREFIX, UNTRAINED
from slicewise.lab.report.best import Best, Row
from slicewise.lab.study import Store, as_json

# Names of tasks in the paper's tables.
PAPER_NAMES = {
    "generation": "unconditional",
    "male to female": "male_to_female",
    "adult to child": "adult_to_child",
}


@dataclass(frozen=True)
class Group:
    """The runs of one task on one set of latents, which may be compared in one table."""

    words: str
    setting: str
    rows: Sequence[Row]

    @property
    def given(self) -> dict[str, Any]:
        """The settings that its trainings share."""
        trained = [row["given"] for row in self.rows if row["objective"] != UNTRAINED]
        return trained[0] if trained else self.rows[0]["given"]

    @property
    def paper_name(self) -> str:
        return PAPER_NAMES.get(self.setting, "")

    def some(self, variant: str, objective: str) -> list[Row]:
        """Return the runs of a variant on an objective."""
        return [r for r in self.rows if (r["variant"], r["objective"]) == (variant, objective)]

    def untrained(self) -> list[Row]:
        """Return the baselines without training, real samples first."""
        found = [row for row in self.rows if row["objective"] == UNTRAINED]
        return sorted(found, key=lambda row: row["variant"] != "real")

    @property
    def floor(self) -> Row | None:
        """The run that compares real samples with real ones; None if there is none."""
        return next((row for row in self.untrained() if row["variant"] == "real"), None)

    def at_rates(self, variant: str, objective: str, measure: str) -> list[Best]:
        """Return the mean of a measure over seeds, at each rate."""
        found: dict[float, list[Row]] = {}
        for row in self.some(variant, objective):
            found.setdefault(row["lr"], []).append(row)
        return [_best(rate, found[rate], measure) for rate in sorted(found)]

    def best(self, variant: str, objective: str, measure: str = "sw2") -> Best | None:
        """Return the rate with the least measure among eligible ones; by W_2 all are eligible, as in the paper."""
        every = self.at_rates(variant, objective, measure)
        may = [
            one for one in every if one.mean < math.inf and (measure == "w2" or is_eligible(one))
        ]
        return min(may, key=lambda one: one.mean, default=None)

    def least(self, variant: str, objective: str) -> Best | None:
        """Return the rate with the least SW_2, eligible or not."""
        finite = [one for one in self.at_rates(variant, objective, "sw2") if one.mean < math.inf]
        return min(finite, key=lambda one: one.mean, default=None)

    def ranks(self, measure: str, objective: str = "root") -> dict[str, int]:
        """Return the ranks of the variants, each at its best rate by a measure."""
        found = {v: self.best(v, objective, measure) for v in ELEVEN}
        there = {v: one.mean for v, one in found.items() if one is not None}
        return {v: i for i, v in enumerate(sorted(there, key=there.__getitem__), 1)}


def is_eligible(one: Best) -> bool:
    """Return whether a rate may be chosen as the best: no run has collapsed to less than 0.8 of the variance."""
    return all(value(row, "variance_ratio") >= MIN_VARIANCE_RATIO for row in one.runs)


def value(row: Row, measure: str) -> float:
    """Return a measure of a run; infinite if it is missing, as for a run that diverged."""
    found = row["w2"] if measure == "w2" else row["measures"].get(measure)
    return math.inf if found is None else float(found)


def mean(runs: Iterable[Row], measure: str) -> float:
    """Return the mean of a measure over the runs that have it."""
    found = [row["w2"] if measure == "w2" else row["measures"].get(measure) for row in runs]
    there = [float(number) for number in found if number is not None]
    return statistics.fmean(there) if there else math.nan


def _best(rate: float, rows: list[Row], measure: str) -> Best:
    numbers = [value(row, measure) for row in rows]
    average = statistics.fmean(numbers)
    std = statistics.stdev(numbers) if len(numbers) > 1 and average < math.inf else 0.0
    return Best(rate, average, std, rows)


def groups(store: Store, experiment: str) -> tuple[list[Group], list[Row]]:
    """Return the groups of an experiment, and the timed runs."""
    every = store.rows(experiment=experiment)
    timed = [row for row in every if row["setting"].startswith(TIMED_PREFIX)]
    by_task: dict[str, list[Row]] = {}
    for row in every:
        if row not in timed:
            key = as_json([row["setting"], row["given"]["task"]])
            by_task.setdefault(key, []).append(row)
    named = _told_apart([rows[0] for rows in by_task.values()])
    found = [
        Group(words, rows[0]["setting"], _longest(rows))
        for words, rows in zip(named, by_task.values(), strict=True)
    ]
    return found, timed


def _told_apart(rows: Sequence[Row]) -> list[str]:
    """Return names of groups, given one run of each: as short as tells them apart, because they become file names."""
    words = [row["setting"] for row in rows]
    for more in (_data, _network):
        many = {some for some in words if words.count(some) > 1}
        words = [
            f"{some}, {more(row['given'])}" if some in many else some
            for some, row in zip(words, rows, strict=True)
        ]
    return words


def _data(given: Mapping[str, Any]) -> str:
    task = given["task"]
    words = f"{given.get('source', '')} ({task['latents'][:6]}), batches of {task['batch']}"
    if ages := task.get("ages"):
        words += f", adults over {ages['adult']:g}, children under {ages['child']:g}"
    return words


def _network(given: Mapping[str, Any]) -> str:
    return f"network {' → '.join(map(str, given['task']['network']))}"


def _longest(rows: list[Row]) -> list[Row]:
    """Keep the runs with the most steps and the latest settings, where there are several."""
    last: dict[tuple[Any, ...], tuple[int, str, str]] = {}

    def which(row: Row) -> tuple[Any, ...]:
        return row["variant"], row["objective"]

    def rank(row: Row) -> tuple[int, str, str]:
        way = as_json({**row["given"], "source": "", "notes": ""})
        return row["given"]["steps"], row["finished"], way

    for row in rows:
        last[which(row)] = max(last.get(which(row), (-1, "", "")), rank(row))
    return [row for row in rows if rank(row)[::2] == last[which(row)][::2]]


def objectives(group: Group) -> list[str]:
    """Return the objectives with searched rates."""
    there = {row["objective"] for row in group.rows} - {UNTRAINED, DISPLACEMENT}
    return [name for name in ("root", "mean_root", "power") if name in there]


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples (n, ...) of a variant, and the sources of a translation."""

    label: str
    made: Array
    source: Array | None = None


def samples(store: Store, group: Group, name: str) -> list[Samples]:
    """Return stored samples of each variant at its best rate, also of variants that are not eligible.

    Args:
        store: of the runs.
        group: the runs of one task.
        name: of the arrays: "end" has latents, "pictures" decoded ones.
    """
    found = []
    for variant in ELEVEN:
        chosen = _chosen(group, variant)
        if chosen is None:
            continue
        objective, best, words = chosen
        arrays = (store.array(row["key"], name) for row in best.runs)
        kept = next((one for one in arrays if one is not None), None)  # of the first seed alone
        if kept is None:
            continue
        source, made = (None, kept) if group.setting == GENERATION else kept
        found.append(Samples(f"{variant}, {objective} {best.rate:g}{words}", made, source))
    return found


def _chosen(group: Group, variant: str) -> tuple[str, Best, str] | None:
    """Return objective, rate and a remark if it cannot win; searched rates come before the one that was not searched."""
    there = (*objectives(group), DISPLACEMENT)
    for objective in there:
        best = group.best(variant, objective)
        if best is not None:
            return objective, best, ""
    for objective in there:
        least = group.least(variant, objective)
        if least is not None:
            return objective, least, ", cannot win"
    return None
