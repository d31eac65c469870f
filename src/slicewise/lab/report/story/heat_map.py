"""The map of all flows with computed steps: variants by settings, and what opens behind each of its cells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicewise.lab.data import Array
from slicewise.lab.experiments import ELEVEN
from slicewise.lab.report.best import number
from slicewise.lab.report.curves import loss_curve
from slicewise.lab.report.flow_runs import NOT_ASKED, NOT_RUN, PUBLISHED, Flows
from slicewise.lab.report.flows import paper_value, remaining
from slicewise.lab.report.reasons import reason
from slicewise.lab.report.story.endings import Ending, computed
from slicewise.lab.report.story.opening import packed_film
from slicewise.lab.report.story.pictures import data_uri, start_and_end


@dataclass(frozen=True)
class Cell:
    """A cell of the map.

    Attributes:
        kind: "reached", "left" (over), "failed" or "none" (not run).
        text: in the cell.
        tip: in words.
        level: of its color, from 0 (fewest steps) to 1.
        key: of what opens behind it; empty if nothing does.
    """

    kind: str
    text: str
    tip: str
    level: float = 0.0
    key: str = ""


@dataclass(frozen=True)
class Column:
    """A column: the experiment and the setting."""

    experiment: str
    group: str


@dataclass(frozen=True)
class HeatMap:
    """The map, and by the keys of its cells what opens behind them."""

    columns: Sequence[Column]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    behind: dict[str, Any] = field(default_factory=dict)
    fewest: int = 0
    most: int = 0


def heat_map(every: Sequence[Flows]) -> HeatMap | None:
    """Return the map of all flows with computed steps; None if there are none."""
    endings = {(one.flows.experiment, one.group, one.variant): one for one in computed(every)}
    shown = [(flows, group) for flows in every for group in flows.groups
             if any((flows.experiment, group, v) in endings for v in ELEVEN)]  # fmt: skip
    if not shown:
        return None
    steps = [one.steps for one in endings.values() if one.reached and one.steps]
    low, high = min(steps, default=1), max(steps, default=1)
    rows, behind = [], {}
    for variant in ELEVEN:
        if not any(flows.was_asked(group, variant) for flows, group in shown):
            continue
        cells = []
        for i, (flows, group) in enumerate(shown):
            ending = endings.get((flows.experiment, group, variant))
            if ending is None:
                cells.append(_missing(flows, group, variant))
                continue
            key = f"{variant}-{i}"
            behind[key] = _behind(ending)
            cells.append(_cell(ending, low, high, key))
        rows.append((variant, cells))
    columns = [Column(flows.experiment, group) for flows, group in shown]
    return HeatMap(columns, rows, behind, low, high)


def _cell(one: Ending, low: int, high: int, key: str) -> Cell:
    tip = f"{one.variant}, {one.group}: {one.words}"
    if one.reached and one.steps is not None:
        span = math.log(max(high, 2) / low) or 1.0
        return Cell("reached", f"{one.steps:,}", tip, math.log(max(one.steps, 1) / low) / span, key)
    text = "∞" if one.best.mean == math.inf else one.told_left.replace(" %", "%")
    return Cell("left", text, tip, 0.0, key)


def _missing(flows: Flows, group: str, variant: str) -> Cell:
    why = flows.why_missing(group, variant, None)
    tip = f"{variant}, {group}: {why}"
    return Cell("none", "", tip) if why in (NOT_ASKED, NOT_RUN) else Cell("failed", "!", tip)


def _behind(one: Ending) -> dict[str, Any]:
    """Return what opens behind a cell: facts, the loss over the steps, and a film or pictures."""
    flows, group, variant = one.flows, one.group, one.variant
    found: dict[str, Any] = {
        "title": f"{variant} on {group}",
        "facts": list(_facts(one)),
        "curves": [
            [name, [[step, float(f"{loss:.3g}")] for step, loss in points]]
            for name, points in _curves(one)
            if points
        ],
    }
    first = min(one.best.runs, key=lambda row: row["seed"])
    way, end = (flows.store.array(first["key"], name) for name in ("way", "end"))
    if flows.experiment == "gradient-flow":
        if way is not None and _is_plane(way):
            found["film"] = {"steps": first["trace"]["shown"], "frames": packed_film(way), "n": way.shape[1]}  # fmt: skip
        elif end is not None and _is_plane(end):
            found["film"] = {"steps": [first["measures"]["steps"]], "frames": packed_film(end), "n": end.shape[1]}  # fmt: skip
    elif end is not None:
        before, after = start_and_end(flows, group, end)
        if before is not None:
            found["pictures"] = [data_uri(before), data_uri(after)]
    return found


def _is_plane(points: Array) -> bool:
    return points.ndim == 3 and points.shape[-1] == 2


def _facts(one: Ending) -> Iterator[tuple[str, str]]:
    flows, group, variant = one.flows, one.group, one.variant
    yield "computed step", f"{one.words}; W₂ {number(one.best.mean)}"
    for objective in flows.objectives(group):
        if flows.best(group, variant, objective) is not None:
            yield f"best rate, {objective}", f"W₂ {remaining(flows, group, variant, objective)}"
    if flows.experiment in PUBLISHED and flows.published(variant, group) is not None:
        why = reason(flows, group, variant)
        yield "the paper", f"W₂ {paper_value(flows, variant, group)}{f' ({why})' if why else ''}"


def _curves(one: Ending) -> Iterator[tuple[str, list[tuple[int, float]]]]:
    yield "computed step", loss_curve(one.best)
    for objective in one.flows.objectives(one.group):
        best = one.flows.best(one.group, one.variant, objective)
        if best is not None and best.mean < math.inf:
            yield f"best rate, {objective}", loss_curve(best)
