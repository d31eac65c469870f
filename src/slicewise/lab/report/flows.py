"""Figures and tables of flows: for each experiment a summary, distances over rates, paths, ends and times.

Numbers stand beside the paper's where it prints any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import slicewise as sw
from slicewise.lab.data import Array
from slicewise.lab.experiments import ELEVEN, TIMED_PREFIX, published_objective, published_rate
from slicewise.lab.images import gallery, photographs
from slicewise.lab.published import find, published
from slicewise.lab.report import drawings
from slicewise.lab.report.best import Best, Row, by_rate, number, spread, steps_of
from slicewise.lab.report.curves import loss_curves
from slicewise.lab.report.flow_runs import NOT_ASKED, NOT_RUN, PUBLISHED, Flows
from slicewise.lab.report.layout import Block, Figure, Table, as_figure, file_name
from slicewise.lab.report.reasons import other_sizes, reason

TITLES = {
    "gradient-flow": "Flows to toy targets",
    "image-flow": "Flows between images",
    "color": "Color transfer",
}


def blocks(flows: Flows) -> list[Block]:
    """Return the figures and tables of one experiment on flows."""
    found: list[Block] = [*_summary_table(flows), *_paths(flows)]
    for group in flows.groups:
        found += [*_basin(flows, group), *_convergence(flows, group), _table(flows, group)]
        found += [*_ends(flows, group), *every_rate(flows, group)]
    return [*found, *runtimes(flows)]


def how_made(flows: Flows) -> list[str]:
    """Describe how the runs were made."""
    rated = [row["given"] for row in flows.rows if row["lr"] is not None]
    computed = [row["given"] for row in flows.rows if row["lr"] is None]
    sources = sorted({row["given"]["source"] for row in flows.rows if "source" in row["given"]})
    words = [f"Rates: {_how(rated)}."] if rated else []
    words += [f"Step computed: {_how(computed)}."] if computed else []
    words += [f"Images: {'; '.join(sources)}."] if sources else []
    if flows.other_variants:
        words.append(f"Also in the store, and not shown here: {', '.join(flows.other_variants)}.")
    return words + [f"{setting}: {why}." for setting, why in flows.missing_settings().items()]


def _how(given: list[dict[str, Any]]) -> str:
    most = " or ".join(f"{n:,}" for n in sorted({one["steps"] for one in given}))
    where = {True: "in the data's own dimensions", False: "in all dimensions"}
    worked = " or ".join(where[one] for one in sorted({one["reduce"] for one in given}))
    whose = " or ".join(sorted({f"{one['defaults']}'s" for one in given}))
    scale = " or ".join(sorted({one["convention"] for one in given}))
    return f"at most {most} steps, {worked}, {whose} settings of the variants, {scale} convention"


def remaining(flows: Flows, group: str, variant: str, objective: str | None) -> str:
    """Return the remaining distance at the best rate as text, or why there is none."""
    best = flows.best(group, variant, objective)
    if best is None:
        return flows.why_missing(group, variant, objective)
    rate = "" if best.rate is None else f" at {best.rate:g}{best.end_of_grid}"
    return f"{spread(best)}{rate}"


def paper_value(flows: Flows, variant: str, group: str) -> str:
    """Return the number of the paper as it is printed."""
    one = flows.published(variant, group)
    if one is None:
        return "–"
    digits, rate = (4, "") if one.lr is None else (2, f" at {one.lr:g}")
    return f"{one.mean:.{digits}f} ± {one.std:.{digits}f}{rate}"


def _table(flows: Flows, group: str) -> Table:
    objectives = flows.objectives(group)
    lines = []
    for variant in (v for v in ELEVEN if flows.was_asked(group, v)):
        computed = flows.best(group, variant, None)
        shown = [variant, remaining(flows, group, variant, None)]
        shown.append("–" if computed is None else steps_of(computed))
        shown += [remaining(flows, group, variant, objective) for objective in objectives]
        paper = [paper_value(flows, variant, group), reason(flows, group, variant)]
        lines.append([*shown, *(paper if flows.experiment in PUBLISHED else [])])
    header = [
        "variant",
        f"step computed{_reduced(flows, group)}",
        "steps",
        *(f"best rate, {o}" for o in objectives),
    ]
    header += ["the paper", "beside the paper"] if flows.experiment in PUBLISHED else []
    title = f"{group}: exact W₂ that remains"
    rated = [row["given"] for o in objectives for row in flows.some(group, "sw", o)]
    note = other_sizes(flows.experiment, rated[0]) if rated else ""
    return Table(f"{flows.experiment}-{file_name(group)}", title, header, lines, note)


def _basin(flows: Flows, group: str) -> list[Figure]:
    searched = {
        objective: found
        for objective in flows.objectives(group)
        if (found := finite(flows, group, objective))
    }
    if not searched:
        return []
    every = {v: flows.best(group, v, None) for v in ELEVEN}
    computed = {v: one for v, one in every.items() if one is not None and one.mean < float("inf")}
    name = f"{flows.experiment}-{file_name(group)}-basin"
    alt = f"{group}: remaining exact W2 over the learning rate, a line for each variant"
    caption = (
        f"{group}. Exact W₂ that remains, over the learning rate. Left of the line: computed steps, without a rate. A line "
        f"ends where the runs diverge."
    )
    drawn = drawings.basins(searched, {"computed": computed}, edges(flows, group))
    return [as_figure(drawn, name, alt, caption)]


def _reduced(flows: Flows, group: str) -> str:
    """Say in how many dimensions steps were computed, if in fewer than the searched rates."""
    computed = [r["measures"].get("rank") for r in flows.rows if r["group"] == group and r["lr"] is None]  # fmt: skip
    rated = [r["measures"].get("rank") for r in flows.rows if r["group"] == group and r["lr"] is not None]  # fmt: skip
    ranks = {rank for rank in computed if rank is not None}
    return f", in {max(ranks):.0f} dimensions" if ranks and rated and ranks != set(rated) else ""


def finite(flows: Flows, group: str, objective: str) -> dict[str, list[Best]]:
    """Return the results at each rate by variant, without variants that diverged at every rate."""
    every = {v: by_rate(flows.some(group, v, objective)) for v in ELEVEN}
    return {
        v: some
        for v, some in every.items()
        if any(one.mean < float("inf") and 0 < (one.rate or 0) < float("inf") for one in some)
    }


def _convergence(flows: Flows, group: str) -> list[Figure]:
    hows: dict[str, str | None] = {"step computed": None}
    hows |= {f"best rate, {objective}": objective for objective in flows.objectives(group)}
    drawn = {}
    for title, objective in hows.items():
        best: Mapping[str, Best] = {
            v: one
            for v in ELEVEN
            if (one := flows.best(group, v, objective)) is not None and one.mean < float("inf")
        }
        points = loss_curves(best)
        if points:
            drawn[title] = points
    if not drawn:
        return []
    caption = (
        f"{group}. The loss of the first seed over its steps, as a distance. Variants weight slices differently: compare how "
        f"lines fall, not their heights."
    )
    name = f"{flows.experiment}-{file_name(group)}-way"
    return [as_figure(drawings.convergence(drawn), name, caption, caption)]


def edges(flows: Flows, group: str) -> dict[str, float]:
    """Return the largest stable rate of "sw" on the squared objective, n L d / (L + d − 1), in the reduced dimension."""
    rows = flows.some(group, "sw", "power")
    if not rows or rows[0]["given"]["convention"] != "mean":
        return {}
    if "rank" not in rows[0]["measures"]:
        return {}
    n, d = rows[0]["given"]["task"]["n"], int(rows[0]["measures"]["rank"])
    return {"power": sw.steps.rate_of_step(sw.steps.stability_limit(50, d), n)}


def _paths(flows: Flows) -> list[Figure]:
    found = []
    for group in flows.groups:
        for row in flows.some(group, "sw", None):
            way = flows.store.array(row["key"], "way")
            if way is not None:
                searched = [r for o in flows.objectives(group) for r in flows.some(group, "sw", o)]
                found.append((group, row, way, searched))
                break
    if not found:
        return []
    if flows.experiment == "image-flow":
        return [_images(flows, *one[:3]) for one in found]
    if flows.experiment == "color":
        return [color_images(flows, *one[:3]) for one in found]
    alt = "Particles at several steps, and the exact remaining distance, for computed steps and for every rate"
    caption = "Classical sw without a rate: each step is computed from the slices it draws."
    return [as_figure(drawings.flow_paths(found), f"{flows.experiment}-ways", alt, caption)]


def _ends(flows: Flows, group: str) -> list[Figure]:
    """Return a figure of the final particles of every variant, on toy targets."""
    if flows.experiment != "gradient-flow":
        return []
    found = []
    for variant in ELEVEN:
        for row in flows.some(group, variant, None):
            end = flows.store.array(row["key"], "end")
            if end is not None:
                found.append((variant, end, f"{number(row['w2'])} in {row['measures']['steps']}"))
                break
    if not found:
        return []
    name = f"{flows.experiment}-{file_name(group)}-ends"
    alt = f"{group}: particles of each variant over the target, in the end"
    caption = f"{group}, step computed: final particles of each variant, remaining W₂ and number of steps."
    return [as_figure(drawings.ends(found), name, alt, caption)]


def _images(flows: Flows, group: str, row: Row, way: Array) -> Figure:
    shown = row["trace"]["shown"]
    lines = [(f"step {step}", images) for step, images in zip(shown, way, strict=True)]
    for variant in ELEVEN:
        ends = [flows.store.array(r["key"], "end") for r in flows.some(group, variant, None)]
        if ends and ends[0] is not None:
            lines.append((f"{variant}, end", ends[0][0]))
    name = f"{flows.experiment}-{file_name(group)}-images"
    alt = f"{group}: images along the flow of sw, and where each variant ends"
    caption = f"{group}: along the flow of sw without a rate; then the end of every variant."
    return as_figure(gallery(lines), name, alt, caption, photographs=True)


# The table with the paper's runtime of a setting, its name there, and the number of steps.
_PUBLISHED_TIMES = {
    "mnist": ("image_flow_runtime", "mnist", 200_000),
    "faces": ("image_flow_runtime", "celeba", 200_000),
    "set1": ("color_transfer_best", "all", 50_000),
}


def runtimes(flows: Flows) -> list[Table]:
    """Return tables of the times of single runs beside the paper's, for each machine."""
    by_setting: dict[str, dict[str, Row]] = {}
    for row in flows.timed:
        by_setting.setdefault(row["group"], {})[row["variant"]] = row
    return [_runtime(flows, group, rows) for group, rows in by_setting.items()]


def _runtime(flows: Flows, whole_group: str, rows: dict[str, Row]) -> Table:
    group, experiment = whole_group.removeprefix(TIMED_PREFIX), flows.experiment
    one = next(iter(rows.values()))
    own = one["setting"].removeprefix(TIMED_PREFIX)
    table, setting, whole = _PUBLISHED_TIMES.get(own, ("gradient_flow_best", "all", 10_000))
    lines = []
    for variant in ELEVEN:
        paper = find(table, variant, setting, "runtime_s")
        theirs = "–" if paper is None else f"{paper.mean:.2f} ± {paper.std:.2f}"
        if variant not in rows:
            why = flows.why_untimed(whole_group, variant)
            if why not in (NOT_ASKED, NOT_RUN):
                lines.append([variant, why, "–", theirs, "–"])
            continue
        steps = rows[variant]["measures"]["steps"]
        seconds = rows[variant]["seconds"] * whole / max(steps, 1)
        ratio = "–" if paper is None or seconds == 0 else f"{paper.mean / seconds:.1f}×"
        lines.append([variant, f"{seconds:.2f}", f"{steps:,.0f}", theirs, ratio])
    note = (
        f"Ours: {group}, n = {one['given']['task']['n']}, {one['given']['dtype']}, {one['device']}; fewer steps are "
        f"scaled up. The paper's: an RTX A6000{'' if own in _PUBLISHED_TIMES else ', n = 300, d not said'}. Another "
        f"machine is one reason for the ratio; the other is that a step here is a few fused kernels, replayed as a graph on a GPU."
    )
    title = f"{group}: seconds of a single run of {whole:,} steps"
    header = ["variant", "ours", "from steps", "the paper", "ratio"]
    return Table(f"{experiment}-{file_name(group)}-runtime", title, header, lines, note)


# Color transfer alone: photographs, and every rate beside the paper's.


def color_images(flows: Flows, group: str, row: Row, way: Array) -> Figure:
    """Return a figure of the target, the source along its path, and the end of each variant."""
    found = [("target", way[0])]
    shown = row["trace"]["shown"]
    found += [(f"sw, step {step}", image) for step, image in zip(shown, way[1:], strict=True)]
    # Where sw ends is the last of its way.
    for variant in ELEVEN[1:]:
        ends = [flows.store.array(r["key"], "end") for r in flows.some(group, variant, None)]
        if ends and ends[0] is not None:
            found.append((f"{variant}, end", ends[0][1]))
    name = f"{flows.experiment}-{file_name(group)}-images"
    source = row["given"].get("source", "")
    alt = f"{group}, {source}: the photograph as its colors move, and where each variant ends"
    caption = (
        f"{group}: {source}. Colors move like the nearest ones of the palette; steps are computed."
    )
    return as_figure(photographs(found), name, alt, caption, photographs=True)


def every_rate(flows: Flows, group: str) -> list[Table]:
    """Return a table of each rate of the paper: our results on both objectives, and the paper's; for color transfer only."""
    if flows.experiment != "color" or not flows.objectives(group):
        return []
    ours = {
        (variant, objective): _by_published_rate(flows, group, variant, objective)
        for variant in ELEVEN
        for objective in ("root", "power")
    }
    lines = []
    for one in published():
        if (one.table, one.setting) != ("color_transfer_full", flows.groups[group]):
            continue
        assert one.lr is not None
        shown = [ours[one.variant, o].get(one.lr) for o in ("root", "power")]
        words = ["not run" if best is None else _in_colors(best) for best in shown]
        theirs = f"{one.mean:.2f} ± {one.std:.2f}"
        column = published_objective(one.variant)
        lines.append([one.variant, f"{one.lr:g}", *words, theirs, column])
    header = [
        "variant",
        "rate",
        "ours, root",
        "ours, power",
        "the paper",
        "objective of its column",
    ]
    note = (
        "Rates on the scale of the paper, whose losses are n times the root of a sum; for sw the column depends on the rate as a "
        "sum of squares does. W₂ of colors from 0 to 255. The photographs are not the paper's."
    )
    title = f"{group}: every rate"
    return [Table(f"color-{file_name(group)}-rates", title, header, lines, note, apart=True)]


def _by_published_rate(flows: Flows, group: str, variant: str, objective: str) -> dict[float, Best]:
    found = by_rate(flows.some(group, variant, objective))
    return {
        published_rate(one.rate, objective, one.runs[0]["given"]["task"]["n"]): one
        for one in found
        if one.rate is not None
    }


def _in_colors(best: Best) -> str:
    if best.mean == float("inf"):
        return "∞ (diverged)"
    return f"{best.mean:.3f} ± {best.std:.3f}" if len(best.runs) > 1 else f"{best.mean:.3f}"


# The computed step of "sw", the best searched rates and the paper's numbers, in all groups.


def _summary_table(flows: Flows) -> list[Table]:
    """Return a table for "sw" in every group."""
    lines = []
    for group in flows.groups:
        computed = flows.best(group, "sw", None)
        searched = [flows.best(group, "sw", objective) for objective in ("root", "power")]
        if computed is None and not any(searched):
            continue
        shown = [
            group,
            remaining(flows, group, "sw", None) if computed is None else spread(computed),
        ]
        shown.append("–" if computed is None else steps_of(computed))
        shown += [remaining(flows, group, "sw", objective) for objective in ("root", "power")]
        lines.append([*shown, paper_value(flows, "sw", group)])
    if not lines:
        return []
    header = [
        "sw on",
        "step computed: W₂ that remains",
        "steps",
        "best rate, root",
        "best rate, power",
        "the paper",
    ]
    title = TITLES[flows.experiment]
    return [Table(f"{flows.experiment}-verdict", title, header, lines, _sizes(flows))]


def _sizes(flows: Flows) -> str:
    """Say with which sizes the numbers were made."""
    sizes = sorted({row["given"]["task"]["n"] for row in flows.rows})
    steps = sorted({row["given"]["steps"] for row in flows.rows if row["lr"] is not None})
    published = {
        "gradient-flow": "n = 300, 10,000 steps",
        "image-flow": "n = 50, 200,000 steps; it prints times and pictures, no distances",
        "color": "n = 3,000, 50,000 steps, other photographs; colors from 0 to 255",
    }[flows.experiment]
    ours = f"n = {', '.join(map(str, sizes))}"
    ours += f", {', '.join(f'{count:,}' for count in steps)} steps of each rate" if steps else ""
    return f"Ours: {ours}. The paper's: {published}."
