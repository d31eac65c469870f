"""How long one network is trained by itself, beside the paper's times."""

from __future__ import annotations

from collections.abc import Sequence

from slicewise.lab.experiments.flows import ELEVEN, LONE
from slicewise.lab.published import Published, find
from slicewise.lab.report.best import Row
from slicewise.lab.report.pieces import Table, file_name
from slicewise.lab.report.trainings import PAPER_NAMES


def times(experiment: str, lone: Sequence[Row]) -> list[Table]:
    """One run by itself beside the paper's time, for each task and machine."""
    by_place: dict[tuple[str, str], dict[str, Row]] = {}
    for row in lone:
        where = (row["setting"].removeprefix(LONE), row["given"]["machine"])
        by_place.setdefault(where, {})[row["variant"]] = row
    tables = []
    for (setting, machine), rows in by_place.items():
        seconds = {v: 1e4 * r["seconds"] / max(r["measures"]["steps"], 1) for v, r in rows.items()}
        lines = []
        for variant in ELEVEN:
            if variant not in seconds:
                continue
            paper = find("generative_best", variant, PAPER_NAMES.get(setting, ""), "runtime_s")
            theirs = "–" if paper is None else f"{paper.mean:.2f} ± {paper.std:.2f}"
            ratio = "–" if paper is None else f"{paper.mean / seconds[variant]:.1f}×"
            to_sw = f"{seconds[variant] / seconds['sw']:.2f}" if "sw" in seconds else "–"
            lines.append([variant, f"{seconds[variant]:.2f}", theirs, ratio, to_sw, _to_sw(paper, setting)])  # fmt: skip
        one = next(iter(rows.values()))
        task, steps = one["given"]["task"], one["given"]["steps"]
        note = (
            f"Ours: {machine}, network {' → '.join(map(str, task['network']))}, batches of {task['batch']:,}, "
            f"{one['given']['precision']}, from {steps:,} steps. The paper's: an RTX A6000, its network not said."
        )
        header = ["", "ours", "the paper", "ratio", "ours / sw", "the paper / its sw"]
        name = f"{experiment}-{file_name(setting)}-{file_name(machine)}-time"
        title = f"{setting}: seconds of one run of 10,000 steps by itself"
        tables.append(Table(name, title, header, lines, note))
    return tables


def _to_sw(paper: Published | None, setting: str) -> str:
    sw = find("generative_best", "sw", PAPER_NAMES.get(setting, ""), "runtime_s")
    return "–" if paper is None or sw is None else f"{paper.mean / sw.mean:.2f}"
