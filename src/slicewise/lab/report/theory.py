"""The sections on theory and on estimators: each statement, its measurements and its figure."""

from __future__ import annotations

from slicewise.lab.experiments import CHECKS, Check, Measured, task_from
from slicewise.lab.images import blank
from slicewise.lab.report.best import Row
from slicewise.lab.report.layout import Block, Figure, Section, Table, as_figure
from slicewise.lab.study import Store, as_json

TITLES = {
    "theory": "Statements of the theory, measured",
    "estimators": "Estimators: bias, variance and time",
}


def section(store: Store, experiment: str = "theory") -> Section | None:
    """Return the section of an experiment of checks; None if none was run."""
    rows = store.rows(experiment=experiment)
    blocks: list[Block] = []
    verdicts = []
    for name, check in CHECKS[experiment].items():
        found = of_one_preset(check, [r for r in rows if r["setting"] == name])
        if not found:
            continue
        blocks.append(_figure(experiment, check, found))
        verdicts.append([check.title, check.statement, check.verdict(found)])
    if not blocks:
        return None
    header = ["", "the statement", "measured"]
    table = Table(f"{experiment}-verdicts", "What holds", header, verdicts)
    return Section(TITLES[experiment], (), [table, *blocks])


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


def _figure(experiment: str, check: Check, found: list[Measured]) -> Figure:
    drawing = blank(11, 4.2)
    (whole,) = drawing.subfigures(1, 1, squeeze=False).flat
    check.draw(whole, found)
    words = f"{check.title}. {check.statement}"
    return as_figure(drawing, f"{experiment}-{check.name}", check.title, words)
