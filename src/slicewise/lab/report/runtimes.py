"""Tables of times: one run by itself, beside the paper's."""

from __future__ import annotations

from slicewise.lab.experiments.flows import ELEVEN, LONE
from slicewise.lab.published import find
from slicewise.lab.report.best import Row
from slicewise.lab.report.pieces import Table, file_name
from slicewise.lab.report.rows import Flows

# Where the paper's runtime of a setting is printed, under which name and for how many steps.
_PUBLISHED_TIMES = {
    "mnist": ("image_flow_runtime", "mnist", 200_000),
    "faces": ("image_flow_runtime", "celeba", 200_000),
    "set1": ("color_transfer_best", "all", 50_000),
}


def runtimes(flows: Flows) -> list[Table]:
    """One run by itself beside the paper's time, on each machine."""
    by_setting: dict[str, dict[str, Row]] = {}
    for row in flows.lone:
        by_setting.setdefault(row["place"], {})[row["variant"]] = row
    return [_runtime(flows, place, rows) for place, rows in by_setting.items()]


def _runtime(flows: Flows, whole_place: str, rows: dict[str, Row]) -> Table:
    place, experiment = whole_place.removeprefix(LONE), flows.experiment
    one = next(iter(rows.values()))
    own = one["setting"].removeprefix(LONE)
    table, setting, whole = _PUBLISHED_TIMES.get(own, ("gradient_flow_best", "all", 10_000))
    lines = []
    for variant in ELEVEN:
        paper = find(table, variant, setting, "runtime_s")
        theirs = "–" if paper is None else f"{paper.mean:.2f} ± {paper.std:.2f}"
        if variant not in rows:
            lines.append([variant, flows.why_untimed(whole_place, variant), "–", theirs, "–"])
            continue
        steps = rows[variant]["measures"]["steps"]
        seconds = rows[variant]["seconds"] * whole / max(steps, 1)
        ratio = "–" if paper is None or seconds == 0 else f"{paper.mean / seconds:.1f}×"
        lines.append([variant, f"{seconds:.2f}", f"{steps:,.0f}", theirs, ratio])
    note = (
        f"Ours: {place}, n = {one['given']['task']['n']}, {one['given']['dtype']}, {one['device']}; fewer steps are "
        f"scaled up. The paper's: an RTX A6000{'' if own in _PUBLISHED_TIMES else ', n = 300, d not said'}. Another "
        f"machine is one reason for the ratio; the other is that a step here is a few fused kernels, which a GPU replays."
    )
    title = f"{place}: seconds of one run of {whole:,} steps by itself"
    header = ["variant", "ours", "from steps", "the paper", "ratio"]
    return Table(f"{experiment}-{file_name(place)}-runtime", title, header, lines, note)
