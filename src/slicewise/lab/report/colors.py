"""What the report shows of colour transfer alone: photographs, and every rate beside the paper's."""

from __future__ import annotations

from typing import Any

import numpy as np

from slicewise.lab.experiments.color import published_objective, published_rate
from slicewise.lab.experiments.flows import ELEVEN
from slicewise.lab.published import published
from slicewise.lab.report import drawings
from slicewise.lab.report.best import Best, Row, by_rate
from slicewise.lab.report.layout import Figure, Table, file_name, pictured
from slicewise.lab.report.rows import Flows


def recoloured(flows: Flows, place: str, row: Row, way: np.ndarray[Any, Any]) -> Figure:
    """The target, the source on its way, and where each variant ends."""
    found = [("target", way[0])]
    shown = row["trace"]["shown"]
    found += [(f"sw, step {step}", image) for step, image in zip(shown, way[1:], strict=True)]
    # Where sw ends is the last of its way.
    for variant in ELEVEN[1:]:
        ends = [flows.store.array(r["key"], "end") for r in flows.some(place, variant, None)]
        if ends and ends[0] is not None:
            found.append((f"{variant}, end", ends[0][1]))
    name = f"{flows.experiment}-{file_name(place)}-images"
    source = row["given"].get("source", "")
    alt = f"{place}, {source}: the photograph as its colours move, and where each variant ends"
    caption = f"{place}: {source}. Colours move as the nearest of the palette do; no rate given."
    return pictured(drawings.pictures(found), name, alt, caption, photographs=True)


def every_rate(flows: Flows, place: str) -> list[Table]:
    """Each rate the paper lists, ours on both objectives, the paper's; of colour transfer."""
    if flows.experiment != "color" or not flows.objectives(place):
        return []
    ours = {
        (variant, objective): _by_published_rate(flows, place, variant, objective)
        for variant in ELEVEN
        for objective in ("root", "power")
    }
    lines = []
    for one in published():
        if (one.table, one.setting) != ("color_transfer_full", flows.places[place]):
            continue
        assert one.lr is not None
        shown = [ours[one.variant, o].get(one.lr) for o in ("root", "power")]
        words = ["not run" if best is None else _in_colours(best) for best in shown]
        theirs = f"{one.mean:.2f} ± {one.std:.2f}"
        column = published_objective(one.variant)
        lines.append([one.variant, f"{one.lr:g}", *words, theirs, column])
    header = ["variant", "rate", "ours, root", "ours, power", "the paper", "its column is like"]
    note = (
        "Rates as the paper has them: n times the root of a sum for all variants but sw, whose column depends on its rate as the "
        "square, summed, does. W₂ of colours from 0 to 255. The photographs are others."
    )
    title = f"{place}: every rate"
    return [Table(f"color-{file_name(place)}-rates", title, header, lines, note, folded=True)]


def _by_published_rate(flows: Flows, place: str, variant: str, objective: str) -> dict[float, Best]:
    found = by_rate(flows.some(place, variant, objective))
    return {
        published_rate(one.rate, objective, one.runs[0]["given"]["task"]["n"]): one
        for one in found
        if one.rate is not None
    }


def _in_colours(best: Best) -> str:
    if best.mean == float("inf"):
        return "∞ (diverged)"
    return f"{best.mean:.3f} ± {best.std:.3f}" if len(best.runs) > 1 else f"{best.mean:.3f}"
