"""The flows of one experiment, in groups of runs that may be compared."""

from __future__ import annotations

from typing import Any

from slicewise.lab.data import TOYS
from slicewise.lab.experiments import ELEVEN, TIMED_PREFIX
from slicewise.lab.published import Published, find
from slicewise.lab.report.best import Best, Row, best_of
from slicewise.lab.study import Store, as_json

# The tables of the paper with remaining distances.
PUBLISHED = {"gradient-flow": "gradient_flow_best", "color": "color_transfer_best"}

NOT_ASKED, NOT_RUN = "not asked for", "not run"


class Flows:
    """The flows of one experiment, in groups that may be compared.

    A group is a setting with whatever tells it from others of that name (size, convention, dtype, machine). `groups` has the
    settings by the names of groups, `rows` all runs but those that were timed, which are in `timed`; `starts` has the exact
    distance of a group before the first step, if it is known; `other_variants` names variants in the store that are not the
    paper's.
    """

    def __init__(self, store: Store, experiment: str) -> None:
        self.store, self.experiment = store, experiment
        self.asked = [row for row in store.asked() if row["experiment"] == experiment]
        found = store.rows(experiment=experiment)
        self.other_variants = sorted({row["variant"] for row in found} - set(ELEVEN))
        rows = _latest(_longest([row for row in found if row["variant"] in ELEVEN]))
        _name_groups(rows)
        rows.sort(key=_order)
        self.timed = [row for row in rows if row["setting"].startswith(TIMED_PREFIX)]
        self.rows = [row for row in rows if not row["setting"].startswith(TIMED_PREFIX)]
        self.groups = {row["group"]: row["setting"] for row in self.rows}
        self.starts = _starts(self.rows)

    @property
    def asked_or_run(self) -> bool:
        """Whether there is anything to show: runs, or cells that should have some."""
        return bool(self.rows or self.timed or self.asked)

    def some(self, group: str, variant: str, objective: str | None) -> list[Row]:
        """Return the runs of a variant at searched rates on an objective, or with computed steps if it is None."""
        return [
            row
            for row in self.rows
            if (row["group"], row["variant"]) == (group, variant)
            and (row["lr"] is None if objective is None else
                 row["lr"] is not None and row["objective"] == objective)
        ]  # fmt: skip

    def objectives(self, group: str) -> list[str]:
        """Return the objectives with searched rates, the paper's first."""
        found = {
            row["objective"] for row in self.rows if row["group"] == group and row["lr"] is not None
        }
        return [objective for objective in ("root", "power") if objective in found]

    def best(self, group: str, variant: str, objective: str | None) -> Best | None:
        """Return the best rate of a variant on an objective, or the computed step if it is None."""
        return best_of(self.some(group, variant, objective))

    def was_asked(self, group: str, variant: str) -> bool:
        """Return whether a group has runs of a variant, or should have."""
        if any((row["group"], row["variant"]) == (group, variant) for row in self.rows):
            return True
        words = [self.why_missing(group, variant, how) for how in (None, *self.objectives(group))]
        return any(one not in (NOT_ASKED, NOT_RUN) for one in words)

    def published(self, variant: str, group: str) -> Published | None:
        """Return the number of the paper for a variant and group."""
        table = PUBLISHED.get(self.experiment)
        return None if table is None else find(table, variant, self.groups[group], "W2")

    def why_missing(self, group: str, variant: str, objective: str | None) -> str:
        """Say why a group has no runs of a variant."""
        of = [row for row in self.rows if row["group"] == group]
        return self._why({kind(row) for row in of}, variant, objective)

    def why_untimed(self, group: str, variant: str) -> str:
        """Say why a group has no timed run of a variant."""
        return self._why(
            {kind(row) for row in self.timed if row["group"] == group}, variant, "root"
        )

    def _why(self, kinds: set[tuple[Any, ...]], variant: str, objective: str | None) -> str:
        errors = [
            row["error"]
            for row in self.asked
            if row["variant"] == variant
            and bool(row["computed"]) == (objective is None)
            and objective in (None, row["objective"])
            and kind(row) in kinds
        ]
        if any(errors):
            return f"failed: {' '.join(next(filter(None, errors)).split())}"
        if errors:
            return "not made yet: the sweep was stopped"
        return NOT_ASKED if self.asked else NOT_RUN

    def missing_settings(self) -> dict[str, str]:
        """Return the settings that were asked for but have no runs, and why."""
        there = {kind(row) for row in [*self.rows, *self.timed]}
        missing = [row for row in self.asked if kind(row) not in there]
        found: dict[str, str] = {}
        for row in sorted(missing, key=lambda row: row["error"]):
            said = " ".join(row["error"].split())
            found[row["setting"]] = f"failed: {said}" if said else "not made yet"
        return found


def _starts(rows: list[Row]) -> dict[str, float]:
    """Return the exact distance of each group before the first step, from a run whose path was recorded."""
    found: dict[str, float] = {}
    for row in rows:
        trace = row["trace"]
        if trace.get("w2_at", [None])[0] == 0 and trace.get("w2", [0])[0]:
            found.setdefault(row["group"], float(trace["w2"][0]))
    return found


def _order(row: Row) -> tuple[int, int, str]:
    """Sort targets as in the paper, then by dimension."""
    task = row["given"]["task"]
    toy = list(TOYS).index(task["toy"]) if task.get("toy") in TOYS else len(TOYS)
    return toy, task.get("d", 0), row["group"]


def _longest(rows: list[Row]) -> list[Row]:
    """Keep the runs with the most steps, where there are several numbers."""
    most: dict[tuple[Any, ...], int] = {}
    for row in rows:
        most[_series(row)] = max(most.get(_series(row), 0), row["given"]["steps"])
    return [row for row in rows if row["given"]["steps"] == most[_series(row)]]


def _latest(rows: list[Row]) -> list[Row]:
    """Keep the runs of the latest settings (recipe, reduced or not), where there are several."""
    last: dict[tuple[Any, ...], tuple[str, str]] = {}
    for row in rows:
        last[_series(row)] = max(
            last.get(_series(row), ("", "")), (row["finished"], _settings(row))
        )
    return [row for row in rows if _settings(row) == last[_series(row)][1]]


def _settings(row: Row) -> str:
    names = ("recipe", "defaults", "reduce", "draws", "computed")
    return as_json([row["given"].get(name) for name in names])


def _series(row: Row) -> tuple[Any, ...]:
    return (*kind(row), row["variant"], row["objective"], row["lr"] is None)


def kind(row: Row) -> tuple[Any, ...]:
    """Return what must be equal for runs to be compared; of timed runs the machine, too."""
    given = row["given"]
    return (
        row["setting"],
        given["convention"],
        given["dtype"],
        as_json(given["task"]),
        given.get("machine", ""),
    )


def _name_groups(rows: list[Row]) -> None:
    """Name the group of each run: its setting, and whatever tells it from others of that setting."""
    kinds: dict[str, set[tuple[Any, ...]]] = {}
    for row in rows:
        kinds.setdefault(row["setting"], set()).add(kind(row))
    for row in rows:
        given, words = row["given"], row["setting"]
        differs = [len(set(values)) > 1 for values in zip(*kinds[words], strict=True)]
        if differs[3]:
            words += f", n = {given['task']['n']}"
            told_apart = given["task"].get("images") or given["task"].get("photographs")
            if told_apart:
                words += f", {given['source']} ({told_apart[0][:6]})"
        words += f", {given['convention']} convention" if differs[1] else ""
        words += f", {given['dtype']}" if differs[2] else ""
        words += f", {given['machine']}" if differs[4] else ""
        row["group"] = words
