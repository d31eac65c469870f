"""Sections on flows: the verdict, what is left at the best rate, basins, pictures of the way."""

from __future__ import annotations

from typing import Any

import numpy as np

import slicewise as sw
from slicewise.lab.experiments.flows import ELEVEN, LONE
from slicewise.lab.published import find
from slicewise.lab.report import drawings
from slicewise.lab.report.pieces import (
    Best,
    Figure,
    Row,
    Section,
    Table,
    best_of,
    file_name,
    number,
)
from slicewise.lab.report.rows import Flows

TITLES = {
    "gradient-flow": "Flows to toy targets",
    "image-flow": "Flows between images",
}
# Where the paper's runtime of a setting is printed, under which name and for how many steps.
_PUBLISHED_TIMES = {
    "mnist": ("image_flow_runtime", "mnist", 200_000),
    "faces": ("image_flow_runtime", "celeba", 200_000),
}


def verdict(flows: Flows) -> Table | None:
    """For "sw", in every place: the computed step against the best searched rate against the paper."""
    lines = []
    for place in flows.places:
        computed = best_of(flows.some(place, "sw", None))
        searched = {o: best_of(flows.some(place, "sw", o)) for o in ("root", "power")}
        if computed is None and not any(searched.values()):
            continue
        shown = [place, _left(computed), _steps(computed)]
        shown += [_left(searched[o]) for o in ("root", "power")]
        lines.append([*shown, flows.published("sw", place)])
    if not lines:
        return None
    header = [
        "sw on",
        "step computed: W₂ left",
        "steps",
        "best rate, root",
        "best rate, power",
        "the paper",
    ]
    title = TITLES[flows.experiment]
    return Table(f"{flows.experiment}-verdict", title, header, lines, _sizes(flows))


def _sizes(flows: Flows) -> str:
    """What numbers beside each other were made from."""
    sizes = sorted({row["given"]["task"]["n"] for row in flows.rows})
    steps = sorted({row["given"]["steps"] for row in flows.rows if row["lr"] is not None})
    published = (
        "n = 300, 10,000 steps" if flows.experiment == "gradient-flow" else "n = 50, 200,000 steps"
    )
    ours = f"n = {', '.join(map(str, sizes))}"
    ours += f", {', '.join(f'{count:,}' for count in steps)} steps of each rate" if steps else ""
    return f"Ours: {ours}. The paper's: {published}."


def section(flows: Flows) -> Section | None:
    """All there is of an experiment on flows; None if there is nothing."""
    if not flows.rows and not flows.lone:
        return None
    pieces: list[Figure | Table] = [*_ways(flows)]
    for place in flows.places:
        pieces += [*_basin(flows, place), _table(flows, place)]
    pieces += _runtimes(flows)
    return Section(TITLES[flows.experiment], _words(flows), pieces)


def _words(flows: Flows) -> list[str]:
    """What was run, column by column."""
    rated = [row["given"] for row in flows.rows if row["lr"] is not None]
    computed = [row["given"] for row in flows.rows if row["lr"] is None]
    sources = sorted({row["given"]["source"] for row in flows.rows if "source" in row["given"]})
    words = [
        "Distances are exact W₂ in double precision of all particles: the mean over seeds, at the best rate where "
        "there are several. A run that diverged is infinitely far."
    ]
    words += [f"Rates: {_how(rated)}."] if rated else []
    words += [f"Step computed: {_how(computed)}."] if computed else []
    return words + ([f"Images: {'; '.join(sources)}."] if sources else [])


def _how(given: list[dict[str, Any]]) -> str:
    most = " or ".join(f"{n:,}" for n in sorted({one["steps"] for one in given}))
    where = {True: "in the data's own dimensions", False: "in all dimensions"}
    worked = " or ".join(where[one] for one in sorted({one["reduce"] for one in given}))
    whose = " or ".join(sorted({f"{one['defaults']}'s" for one in given}))
    scale = " or ".join(sorted({one["convention"] for one in given}))
    return f"at most {most} steps, {worked}, {whose} settings of the variants, {scale} convention"


def _left(best: Best | None) -> str:
    if best is None:
        return "not run"
    rate = "" if best.rate is None else f" at {best.rate:g}{best.end_of_grid}"
    spread = f" ± {number(best.std)}" if len(best.runs) > 1 else ""
    return f"{number(best.mean)}{spread}{rate}"


def _steps(best: Best | None) -> str:
    if best is None:
        return "–"
    made = sorted(int(row["measures"]["steps"]) for row in best.runs)
    return f"{made[0]}" if made[0] == made[-1] else f"{made[0]}–{made[-1]}"


def _table(flows: Flows, place: str) -> Table:
    objectives = flows.objectives(place)
    lines = []
    for variant in ELEVEN:
        computed = best_of(flows.some(place, variant, None))
        searched = [_left(best_of(flows.some(place, variant, o))) for o in objectives]
        shown = [variant, _left(computed), _steps(computed), *searched]
        lines.append([*shown, flows.published(variant, place)])
    header = [
        "variant",
        "step computed",
        "steps",
        *(f"best rate, {o}" for o in objectives),
        "the paper",
    ]
    file = file_name(place)
    return Table(f"{flows.experiment}-{file}", place, header, lines)


def _basin(flows: Flows, place: str) -> list[Figure]:
    searched = {
        objective: {v: rows for v in ELEVEN if (rows := flows.some(place, v, objective))}
        for objective in flows.objectives(place)
    }
    if not searched:
        return []
    computed = {v: rows for v in ELEVEN if (rows := flows.some(place, v, None))}
    file = file_name(place)
    png = drawings.basins(searched, computed, edges(flows, place))
    alt = f"{place}: exact W2 that is left over the learning rate, a line for each variant"
    caption = "Marks left of the line: no rate given, the step computed. A line ends where the runs diverge."
    return [Figure(f"{flows.experiment}-{file}-basin", png, alt, f"{place}. {caption}")]


def edges(flows: Flows, place: str) -> dict[str, float]:
    """Where "sw" on the squared objective stops contracting: n L d / (L + d − 1), of the dimension worked in."""
    rows = flows.some(place, "sw", "power")
    if not rows or rows[0]["given"]["convention"] != "mean":
        return {}
    n, d = rows[0]["given"]["task"]["n"], int(rows[0]["measures"]["rank"])
    return {"power": sw.steps.rate_of_step(sw.steps.stability_limit(50, d), n)}


def _ways(flows: Flows) -> list[Figure]:
    found = []
    for place in flows.places:
        for row in flows.some(place, "sw", None):
            way = flows.store.array(row["key"], "way")
            if way is not None:
                searched = [r for o in flows.objectives(place) for r in flows.some(place, "sw", o)]
                found.append((place, row, way, searched))
                break
    if not found:
        return []
    if flows.experiment == "image-flow":
        return [_images(flows, *one[:3]) for one in found]
    alt = "Particles at several steps, and the exact distance that is left, for the computed step and for every rate"
    caption = (
        "Classical sw, no rate given: the step is computed from the slices that each step draws."
    )
    return [Figure(f"{flows.experiment}-ways", drawings.ways(found), alt, caption)]


def _images(flows: Flows, place: str, row: Row, way: np.ndarray[Any, Any]) -> Figure:
    shown = row["trace"]["shown"]
    lines = [(f"step {step}", images) for step, images in zip(shown, way, strict=True)]
    for variant in ELEVEN:
        ends = [flows.store.array(r["key"], "end") for r in flows.some(place, variant, None)]
        if ends and ends[0] is not None:
            lines.append((f"{variant}, end", ends[0][0]))
    file = file_name(place)
    alt = f"{place}: images along the flow of sw, and where each variant ends"
    caption = f"{place}: along the flow of sw, no rate given; then the end of every variant so run."
    return Figure(f"{flows.experiment}-{file}-images", drawings.gallery(lines), alt, caption)


def _runtimes(flows: Flows) -> list[Table]:
    """One run by itself beside the paper's time."""
    by_setting: dict[str, dict[str, Row]] = {}
    for row in flows.lone:
        by_setting.setdefault(row["place"].removeprefix(LONE), {})[row["variant"]] = row
    return [_runtime(flows.experiment, place, rows) for place, rows in by_setting.items()]


def _runtime(experiment: str, place: str, rows: dict[str, Row]) -> Table:
    one = next(iter(rows.values()))
    own = one["setting"].removeprefix(LONE)
    table, setting, whole = _PUBLISHED_TIMES.get(own, ("gradient_flow_best", "all", 10_000))
    lines = []
    for variant in (variant for variant in ELEVEN if variant in rows):
        paper = find(table, variant, setting, "runtime_s")
        steps = rows[variant]["measures"]["steps"]
        seconds = rows[variant]["seconds"] * whole / steps
        published, ratio = (
            ("–", "–") if paper is None else (f"{paper.mean:.2f}", f"{paper.mean / seconds:.1f}×")
        )
        lines.append([variant, f"{seconds:.2f}", f"{steps:.0f}", published, ratio])
    note = (
        f"Ours: {place}, n = {one['given']['task']['n']}, {one['given']['dtype']}, {one['device']}; fewer steps are "
        f"scaled up. The paper's: an RTX A6000{'' if own in _PUBLISHED_TIMES else ', n = 300, d not said'}."
    )
    title = f"Seconds of one run of {whole:,} steps by itself"
    header = ["variant", "ours", "from steps", "the paper", "ratio"]
    return Table(f"{experiment}-{file_name(place)}-runtime", title, header, lines, note)
