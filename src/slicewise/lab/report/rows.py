"""The runs of one experiment on flows, sorted into what may be compared."""

from __future__ import annotations

from typing import Any

from slicewise.lab.data import TOYS
from slicewise.lab.published import find
from slicewise.lab.report.pieces import Row
from slicewise.lab.study.store import Store

LONE = "runtime, "


class Flows:
    """The rows of one experiment on flows, by setting, variant and how."""

    def __init__(self, store: Store, experiment: str) -> None:
        self.store, self.experiment = store, experiment
        rows = store.rows(experiment=experiment)
        self.lone = [row for row in rows if row["setting"].startswith(LONE)]
        self.rows = [row for row in rows if not row["setting"].startswith(LONE)]
        self.rows = _longest(self.rows)
        _name_places(self.rows)
        self.rows.sort(key=_order)
        self.places = {row["place"]: row["setting"] for row in self.rows}

    def some(self, place: str, variant: str, objective: str | None) -> list[Row]:
        """Runs of a variant by rates on an objective, or, with None, with the step computed."""
        return [
            row
            for row in self.rows
            if (row["place"], row["variant"]) == (place, variant)
            and (row["lr"] is None if objective is None else
                 row["lr"] is not None and row["objective"] == objective)
        ]  # fmt: skip

    def objectives(self, place: str) -> list[str]:
        """Those searched there, the paper's first."""
        found = {
            row["objective"] for row in self.rows if row["place"] == place and row["lr"] is not None
        }
        return [objective for objective in ("root", "power") if objective in found]

    def published(self, variant: str, place: str) -> str:
        """What the paper prints for it."""
        one = find("gradient_flow_best", variant, self.places[place], "W2")
        return "–" if one is None else f"{one.mean:.4f} ± {one.std:.4f}"


def _order(row: Row) -> tuple[int, int, str]:
    """Targets as the paper lists them, then the dimension."""
    task = row["given"]["task"]
    place = list(TOYS).index(task["toy"]) if task.get("toy") in TOYS else len(TOYS)
    return place, task.get("d", 0), row["place"]


def _longest(rows: list[Row]) -> list[Row]:
    """Where rates were run for several numbers of steps, those of most."""
    most: dict[tuple[Any, ...], int] = {}
    for row in rows:
        if row["lr"] is not None:
            most[_kind(row)] = max(most.get(_kind(row), 0), row["given"]["steps"])
    return [row for row in rows if row["lr"] is None or row["given"]["steps"] == most[_kind(row)]]


def _kind(row: Row) -> tuple[Any, ...]:
    """Runs of other sizes or conventions are not to be compared."""
    given = row["given"]
    task = {name: value for name, value in given["task"].items() if name != "d"}
    return (row["setting"], given["convention"], *(str(value) for value in task.values()))


def _name_places(rows: list[Row]) -> None:
    """A place is a setting, with what tells it from others of that name."""
    kinds: dict[str, set[tuple[Any, ...]]] = {}
    for row in rows:
        kinds.setdefault(row["setting"], set()).add(_kind(row))
    for row in rows:
        given, words = row["given"], row["setting"]
        if len(kinds[words]) > 1:
            words += f", n = {given['task']['n']}, {given['convention']} convention"
            words += f", {given['task']['images']}" if "images" in given["task"] else ""
        row["place"] = words
