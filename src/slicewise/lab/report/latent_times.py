"""How long one network is trained by itself, beside the paper's times."""

from __future__ import annotations

from collections.abc import Sequence

from slicewise.lab.experiments.flows import ELEVEN, LONE
from slicewise.lab.published import Published, find
from slicewise.lab.report.best import Row
from slicewise.lab.report.pieces import Table, file_name
from slicewise.lab.report.trainings import PAPER_NAMES
from slicewise.lab.study.run import as_json

# Coordinates of its latents, rows of its batches.
_PAPER_SIZES = (512, 2048)


def times(experiment: str, lone: Sequence[Row]) -> list[Table]:
    """One run by itself beside the paper's time, for each task and machine."""
    by_place: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in lone:
        given = row["given"]
        how = as_json([given["task"], given["steps"], given["precision"]])
        where = (row["setting"].removeprefix(LONE), given["machine"], how)
        by_place.setdefault(where, {})[row["variant"]] = row
    tables: list[Table] = []
    for (setting, machine, _), rows in by_place.items():
        seconds = {v: 1e4 * r["seconds"] / max(r["measures"]["steps"], 1) for v, r in rows.items()}
        lines = []
        one = next(iter(rows.values()))
        task, steps = one["given"]["task"], one["given"]["steps"]
        # Small networks on digits are no match for its times.
        alike = (task["network"][-1], task["batch"]) == _PAPER_SIZES
        for variant in ELEVEN:
            if variant not in seconds:
                continue
            place = PAPER_NAMES.get(setting, "") if alike else ""
            paper = find("generative_best", variant, place, "runtime_s")
            theirs = "–" if paper is None else f"{paper.mean:.2f} ± {paper.std:.2f}"
            ratio = "–" if paper is None else f"{paper.mean / seconds[variant]:.1f}×"
            to_sw = f"{seconds[variant] / seconds['sw']:.2f}" if "sw" in seconds else "–"
            lines.append([variant, f"{seconds[variant]:.2f}", theirs, ratio, to_sw, _to_sw(paper, place)])  # fmt: skip
        note = (
            f"Ours: {machine}, network {' → '.join(map(str, task['network']))}, batches of {task['batch']:,}, "
            f"{one['given']['precision']}, from {steps:,} steps. "
        )
        note += (
            "The paper's: an RTX A6000, its network not said."
            if alike
            else "Too small to be set beside the paper's times."
        )
        header = ["", "ours", "the paper", "ratio", "ours / sw", "the paper / its sw"]
        name = f"{experiment}-{file_name(setting)}-{file_name(machine)}-time"
        name += f"-{len(tables) + 1}" if any(table.name == name for table in tables) else ""
        title = f"{setting}: seconds of one run of 10,000 steps by itself"
        tables.append(Table(name, title, header, lines, note))
    return tables


def _to_sw(paper: Published | None, place: str) -> str:
    sw = find("generative_best", "sw", place, "runtime_s")
    return "–" if paper is None or sw is None else f"{paper.mean / sw.mean:.2f}"
