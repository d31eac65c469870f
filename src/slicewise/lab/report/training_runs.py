"""The trainings of one experiment, in groups of runs that may be compared, and samples of the best."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewise.judging import MIN_VARIANCE_RATIO
from slicewise.lab.data import Array
from slicewise.lab.experiments import (
    ADAM,
    COMPUTED,
    DISPLACEMENT,
    ELEVEN,
    GENERATION,
    TIMED_PREFIX,
    UNTRAINED,
)
from slicewise.lab.report.best import Best, Row
from slicewise.lab.study import Store, as_json

# Names of tasks in the paper's tables.
PAPER_NAMES = {
    "generation": "unconditional",
    "male to female": "male_to_female",
    "adult to child": "adult_to_child",
}
# What trainings are called that are named after something else than the objective.
NAMES = {COMPUTED: "no rate", ADAM: "Adam, linear decay"}


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
        """Return the mean of a measure over seeds, at each rate; one without a rate where steps are computed."""
        found: dict[float | None, list[Row]] = {}
        for row in self.some(variant, objective):
            found.setdefault(row["lr"], []).append(row)
        order = sorted(found, key=lambda rate: rate or 0.0)
        return [_best(rate, found[rate], measure) for rate in order]

    def best(self, variant: str, objective: str, measure: str = "sw2") -> Best | None:
        """Return the rate with the least measure among eligible ones; by W_2 all are eligible, as in the paper."""
        every = self.at_rates(variant, objective, measure)
        may = [
            one for one in every if one.mean < math.inf and (measure == "w2" or is_eligible(one))
        ]
        return min(may, key=lambda one: one.mean, default=None)

    def least(self, variant: str, objective: str, measure: str = "sw2") -> Best | None:
        """Return the rate with the least measure, eligible or not."""
        finite = [one for one in self.at_rates(variant, objective, measure) if one.mean < math.inf]
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


def _best(rate: float | None, rows: list[Row], measure: str) -> Best:
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
    there = {row["objective"] for row in group.rows}
    return [name for name in ("root", "mean_root", "power", ADAM) if name in there]


@dataclass(frozen=True)
class NoRate:
    """A variant trained without a rate, beside the best of its searched rates by the same measure.

    Attributes:
        variant: its name.
        ours: the runs without a rate.
        best: those at the best searched rate.
        objective: that the best searched rate is of.
    """

    variant: str
    ours: Best
    best: Best
    objective: str

    @property
    def ratio(self) -> float:
        """The mean without a rate divided by that at the best rate; NaN if that is not positive, as an energy may be."""
        return self.ours.mean / self.best.mean if self.best.mean > 0 else math.nan

    @property
    def no_worse(self) -> bool:
        """Whether the mean is at most that at the best rate, and no run has collapsed unless one there has, too."""
        return self._eligible and self.ours.mean <= self.best.mean

    @property
    def within_noise(self) -> bool:
        """Whether it is no worse, or worse by at most two standard errors of the difference of the means."""
        error = math.sqrt(sum(one.std**2 / len(one.runs) for one in (self.ours, self.best)))
        return self._eligible and self.ours.mean <= self.best.mean + 2 * error

    @property
    def _eligible(self) -> bool:
        return is_eligible(self.ours) or not is_eligible(self.best)


def without_a_rate(group: Group, measure: str, searched: Sequence[str]) -> list[NoRate]:
    """Compare trainings without a rate with the best searched rate, for each variant that has both.

    The best rate is chosen by the measure itself, on the samples that are judged, among all rates of the objectives: it is
    the strictest rival that there is. An infinite mean stands for runs that diverged.

    Args:
        group: the runs of one task.
        measure: "sw2", "energy" or another of the measures.
        searched: the objectives whose rates count.
    """
    found = []
    for variant in ELEVEN:
        ours = group.at_rates(variant, COMPUTED, measure)
        rivals = [(objective, group.best(variant, objective, measure)) for objective in searched]
        if all(one is None for _, one in rivals):
            # At every rate a run has collapsed.
            rivals = [(o, group.least(variant, o, measure)) for o in searched]
        there = [(objective, one) for objective, one in rivals if one is not None]
        if ours and there:
            objective, best = min(there, key=lambda pair: pair[1].mean)
            found.append(NoRate(variant, ours[0], best, objective))
    return found


def count_no_worse(found: Sequence[NoRate]) -> str:
    """Return for how many variants no rate is no worse than the best searched one, as words."""
    words = f"{sum(one.no_worse for one in found)} of {len(found)} variants"
    if any(len(best.runs) > 1 for one in found for best in (one.ours, one.best)):
        words += f" ({sum(one.within_noise for one in found)} within two standard errors)"
    return words


def no_rate_lines(store: Store, experiment: str) -> list[str]:
    """Return a line for each task of an experiment: how trainings without a rate compare with the best searched rate."""
    lines = []
    for group in groups(store, experiment)[0]:
        searched = objectives(group)
        by = [
            f"by {words} for {count_no_worse(found)}"
            for measure, words in (("sw2", "SW₂"), ("energy", "energy"))
            if (found := without_a_rate(group, measure, searched))
        ]
        if by:
            lines.append(
                f"{group.words}: no rate is no worse than the best searched one {', '.join(by)}"
            )
    return lines


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples (n, ...) of a variant, and the sources of a translation."""

    label: str
    made: Array
    source: Array | None = None


def samples(
    store: Store, group: Group, name: str, ways: Sequence[str] | None = None
) -> list[Samples]:
    """Return stored samples of each variant at its best rate, also of variants that are not eligible.

    Args:
        store: of the runs.
        group: the runs of one task.
        name: of the arrays: "end" has latents, "pictures" decoded ones.
        ways: the objectives that are looked at, the first one with runs is taken; None: searched rates come before those
            that were not searched.
    """
    found = []
    ways = (*objectives(group), DISPLACEMENT, COMPUTED) if ways is None else ways
    for variant in ELEVEN:
        chosen = _chosen(group, variant, ways)
        if chosen is None:
            continue
        objective, best, words = chosen
        arrays = (store.array(row["key"], name) for row in best.runs)
        kept = next((one for one in arrays if one is not None), None)  # of the first seed alone
        if kept is None:
            continue
        source, made = (None, kept) if group.setting == GENERATION else kept
        way = NAMES.get(objective, objective) + ("" if best.rate is None else f" {best.rate:g}")
        found.append(Samples(f"{variant}, {way}{words}", made, source))
    return found


def _chosen(group: Group, variant: str, ways: Sequence[str]) -> tuple[str, Best, str] | None:
    """Return objective, rate and a remark if it cannot win, of the first objective that has an eligible one."""
    for objective in ways:
        best = group.best(variant, objective)
        if best is not None:
            return objective, best, ""
    for objective in ways:
        least = group.least(variant, objective)
        if least is not None:
            return objective, least, ", cannot win"
    return None
