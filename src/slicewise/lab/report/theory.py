"""Checks of theory and of estimators: each statement, its measurements and its figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slicewise.lab.experiments import CHECKS, Check, Measured, task_from
from slicewise.lab.images import blank
from slicewise.lab.report.best import Row
from slicewise.lab.report.layout import Block, Table, as_figure
from slicewise.lab.study import Store, as_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

TITLES = {"theory": "Theory, measured", "estimators": "Estimators: bias, variance and time"}


def blocks(store: Store, experiment: str = "theory") -> list[Block]:
    """Return a table of the statements with their measurements, and a figure of each; nothing if none was run."""
    rows = store.rows(experiment=experiment)
    figures: list[Block] = []
    lines = []
    for name, check in CHECKS[experiment].items():
        found = of_one_preset(check, [r for r in rows if r["setting"] == name])
        if found:
            figures.append(
                as_figure(drawn(check, found), f"{experiment}-{name}", check.title, check.title)
            )
            lines.append([check.title, check.statement, check.verdict(found)])
    if not figures:
        return []
    header = ["", "tested", "measured"]
    return [Table(f"{experiment}-verdicts", TITLES[experiment], header, lines), *figures]


def of_one_preset(check: Check, rows: list[Row]) -> list[Measured]:
    """Return the measurements of one preset: the paper's if complete, else the one with more tasks. Presets share tasks."""
    by_task = {as_json(task_from(row["given"])): row["measures"] for row in rows}
    found = {
        preset: [task for task in check.tasks(preset) if as_json(task) in by_task]
        for preset in ("paper", "quick")
    }
    whole = [preset for preset in found if len(found[preset]) == len(check.tasks(preset))]
    chosen = whole[0] if whole else max(found, key=lambda preset: len(found[preset]))
    return [Measured(task, by_task[as_json(task)]) for task in found[chosen]]


def drawn(check: Check, found: list[Measured]) -> Drawing:
    """Draw the measurements of a check."""
    drawing = blank(*check.size)
    (whole,) = drawing.subfigures(1, 1, squeeze=False).flat
    check.draw(whole, found)
    return drawing
