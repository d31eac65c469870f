"""The runs of one experiment on flows, sorted into what may be compared."""

from __future__ import annotations

from typing import Any

from slicewise.lab.data import TOYS
from slicewise.lab.experiments import ELEVEN, TIMED_PREFIX
from slicewise.lab.published import Published, find
from slicewise.lab.report.best import Best, Row, best_of
from slicewise.lab.study import Store, as_json

# Where the paper prints what is left.
PUBLISHED = {"gradient-flow": "gradient_flow_best", "color": "color_transfer_best"}


class Flows:
    """The rows of one experiment on flows, by place, variant and how."""

    def __init__(self, store: Store, experiment: str) -> None:
        self.store, self.experiment = store, experiment
        self.asked = [row for row in store.asked() if row["experiment"] == experiment]
        found = store.rows(experiment=experiment)
        self.other_variants = sorted({row["variant"] for row in found} - set(ELEVEN))
        rows = _last_way(_longest([row for row in found if row["variant"] in ELEVEN]))
        _name_places(rows)
        rows.sort(key=_order)
        self.timed = [row for row in rows if row["setting"].startswith(TIMED_PREFIX)]
        self.rows = [row for row in rows if not row["setting"].startswith(TIMED_PREFIX)]
        self.groups = {row["group"]: row["setting"] for row in self.rows}

    def some(self, group: str, variant: str, objective: str | None) -> list[Row]:
        """Runs of a variant by rates on an objective, or, with None, with the step computed."""
        return [
            row
            for row in self.rows
            if (row["group"], row["variant"]) == (group, variant)
            and (row["lr"] is None if objective is None else
                 row["lr"] is not None and row["objective"] == objective)
        ]  # fmt: skip

    def objectives(self, group: str) -> list[str]:
        """Those searched there, the paper's first."""
        found = {
            row["objective"] for row in self.rows if row["group"] == group and row["lr"] is not None
        }
        return [objective for objective in ("root", "power") if objective in found]

    def best(self, group: str, variant: str, objective: str | None) -> Best | None:
        """The best of those."""
        return best_of(self.some(group, variant, objective))

    def published(self, variant: str, group: str) -> Published | None:
        """What the paper prints for it."""
        table = PUBLISHED.get(self.experiment)
        return None if table is None else find(table, variant, self.groups[group], "W2")

    def why_missing(self, group: str, variant: str, objective: str | None) -> str:
        """What to say where there is no run."""
        of = [row for row in self.rows if row["group"] == group]
        return self._why({kind(row) for row in of}, variant, objective)

    def why_untimed(self, group: str, variant: str) -> str:
        """The same of runs that are made by themselves."""
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
            return "not made yet: the sweep was stopped before"
        return "not asked for" if self.asked else "not run"

    def missing_settings(self) -> dict[str, str]:
        """Settings that were asked for of which there is no run, and why."""
        there = {kind(row) for row in [*self.rows, *self.timed]}
        missing = [row for row in self.asked if kind(row) not in there]
        found: dict[str, str] = {}
        for row in sorted(missing, key=lambda row: row["error"]):
            said = " ".join(row["error"].split())
            found[row["setting"]] = f"failed: {said}" if said else "not made yet"
        return found


def _order(row: Row) -> tuple[int, int, str]:
    """Targets as the paper lists them, then the dimension."""
    task = row["given"]["task"]
    toy = list(TOYS).index(task["toy"]) if task.get("toy") in TOYS else len(TOYS)
    return toy, task.get("d", 0), row["group"]


def _longest(rows: list[Row]) -> list[Row]:
    """Where the same was run for several numbers of steps, that of most."""
    most: dict[tuple[Any, ...], int] = {}
    for row in rows:
        most[_series(row)] = max(most.get(_series(row), 0), row["given"]["steps"])
    return [row for row in rows if row["given"]["steps"] == most[_series(row)]]


def _last_way(rows: list[Row]) -> list[Row]:
    """Where a variant was run in several ways (another recipe, reduced or not), that of the last run."""
    last: dict[tuple[Any, ...], tuple[str, str]] = {}
    for row in rows:
        last[_series(row)] = max(last.get(_series(row), ("", "")), (row["finished"], _way(row)))
    return [row for row in rows if _way(row) == last[_series(row)][1]]


def _way(row: Row) -> str:
    names = ("recipe", "defaults", "reduce", "draws", "computed")
    return as_json([row["given"].get(name) for name in names])


def _series(row: Row) -> tuple[Any, ...]:
    return (*kind(row), row["variant"], row["objective"], row["lr"] is None)


def kind(row: Row) -> tuple[Any, ...]:
    """What must be equal for runs to be compared; a time is also the machine's."""
    given = row["given"]
    return (
        row["setting"],
        given["convention"],
        given["dtype"],
        as_json(given["task"]),
        given.get("machine", ""),
    )


def _name_places(rows: list[Row]) -> None:
    """A place is a setting, with whatever tells it from others of that name."""
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
