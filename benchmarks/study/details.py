"""The tables of docs/reproduction-details.md: what is measured is written into them from the records, words stay as they are."""

from __future__ import annotations

import re
from collections.abc import Callable

from benchmarks.study.facts import TASKS, TOYS, Facts
from benchmarks.study.page import wrapped
from slicewise.lab.experiments import CHECKS
from slicewise.lab.names import GENERATE, GRADIENT_FLOW, IMAGE_FLOW, TRANSLATE
from slicewise.lab.published import find

PAGE = "reproduction-details.md"
Row = dict[str, str]
# Headings of times: table and setting of the paper, our experiment and setting, the paper's steps.
TIMES = {
    "### Seconds of 10,000 steps": ("gradient_flow_best", "all", GRADIENT_FLOW, "swiss d=50", 10_000),
    "### MNIST 0 → 1": ("image_flow_runtime", "mnist", IMAGE_FLOW, "mnist", 200_000),
    "### Noise → faces": ("image_flow_runtime", "celeba", IMAGE_FLOW, "faces", 200_000),
    "### Generation: seconds of 10,000 steps": ("generative_best", "unconditional", GENERATE, "generation", 10_000),
}  # fmt: skip
# Beginnings of paragraphs before tables by rate: experiment, setting, and how a cell is written.
GRIDS = {
    "SW₂ on held-out data": (GENERATE, "generation", "sw2"),
    "W₂, and beside it the variance": (GENERATE, "generation", "w2 and variance"),
    "Energy:": (GENERATE, "generation", "energy"),
    "Male to female, SW₂": (TRANSLATE, TASKS[0], "sw2"),
    "Male to female, W₂": (TRANSLATE, TASKS[0], "w2 beside"),
    "Adult to child, SW₂": (TRANSLATE, TASKS[1], "sw2"),
    "Adult to child, W₂": (TRANSLATE, TASKS[1], "w2 beside"),
}
# A time of the paper that stands for none.
PLACEHOLDER = ("image_flow_runtime", "mnist", "dsw")


def updated(text: str, facts: Facts) -> str:
    """Return the page with its tables as they follow from the records."""
    for setting in TOYS:
        toy, d = setting.split(" d=")
        heading = f"### {toy.replace('8gaussians', '8 gaussians')}, d = {d}\n"
        text = _rewritten(text, heading, _computed(facts, setting))
    for heading, place in TIMES.items():
        text = _rewritten(text, heading, _timed(facts, *place))
    for words, (experiment, setting, kind) in GRIDS.items():
        text = _rewritten(text, words, _by_rate(facts, experiment, setting, kind))
    return wrapped(_theory(text, facts))


def _computed(facts: Facts, setting: str) -> Callable[[str, Row], Row]:
    def change(variant: str, row: Row) -> Row:
        line = facts.records.computed(setting, variant)
        (column,) = (name for name in row if name.startswith("step computed"))
        least, most = (f"{int(line[name]):,}" for name in ("steps_least", "steps_most"))
        ends = f"{float(line['w2_mean']):.1e} ± {float(line['w2_std'] or 0):.1e}"
        return {**row, column: ends, "steps": least if least == most else f"{least}–{most}"}

    return change


def _timed(
    facts: Facts, table: str, setting: str, experiment: str, ours: str, steps: int
) -> Callable[[str, Row], Row]:
    def seconds(variant: str) -> float:
        line = facts.records.timed(experiment, ours, variant)
        return float(line["seconds"]) * steps / int(line["limit"])

    def change(variant: str, row: Row) -> Row:
        theirs, plain = (
            find(table, variant, setting, "runtime_s"),
            find(table, "sw", setting, "runtime_s"),
        )
        assert theirs is not None
        assert plain is not None
        ratio = f"{theirs.mean / seconds(variant):.1f}×"
        changed = {
            "ours": f"{seconds(variant):.2f}",
            "from steps": f"{int(facts.records.timed(experiment, ours, variant)['limit']):,}",
            "ratio": "–" if (table, setting, variant) == PLACEHOLDER else ratio,
            "ours / sw": f"{seconds(variant) / seconds('sw'):.2f}",
        }
        return {**row, **{name: value for name, value in changed.items() if name in row}}

    return change


def _by_rate(facts: Facts, experiment: str, setting: str, kind: str) -> Callable[[str, Row], Row]:
    def change(variant: str, row: Row) -> Row:
        lines = {
            float(x["lr"]): x for x in facts.records.searched(experiment, setting, variant, "root")
        }
        shown = [name for name in row if re.fullmatch(r"[\d.]+", name)]
        found = {}
        for name in shown:
            line = lines[float(name)]
            w2 = f"{float(line['w2_mean']):.2f}"
            if kind == "w2 and variance":
                found[name] = f"{w2} ({float(line['variance_mean']):.2f})"
            elif kind == "w2 beside":
                found[name] = f"{w2} / {row[name].split(' / ')[1]}"
            else:
                found[name] = f"{float(line[f'{kind}_mean']):.4f}"
        if "over the best" in row:
            least = min(float(lines[float(name)]["sw2_mean"]) for name in shown)
            (one,) = facts.records.lines(experiment, setting, variant, "displacement")
            found["displacement 0.1"] = f"{float(one['sw2_mean']):.4f}"
            found["over the best"] = f"{float(one['sw2_mean']) / least:.2f}"
        return {**row, **found}

    return change


def _rewritten(text: str, beginning: str, change: Callable[[str, Row], Row]) -> str:
    """Return the text with every row changed of the first table below a line that begins so."""
    at = text.index(f"\n{beginning}")
    begin = text.index("\n|", at) + 1
    end = text.index("\n\n", begin)
    header, rule, *rows = text[begin:end].splitlines()
    names = _cells(header)
    lines = [header, rule]
    for row in rows:
        cells = dict(zip(names, _cells(row), strict=True))
        changed = change(cells[names[0]], cells)
        lines.append("| " + " | ".join(changed[name] for name in names) + " |")
    return text[:begin] + "\n".join(lines) + text[end:]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def _theory(text: str, facts: Facts) -> str:
    """Return the text with the table of checks written anew."""
    begin = text.index("\n|", text.index("\n## The theory")) + 1
    end = text.index("\n\n", begin)
    rows = [
        f"| {check.title} | {check.statement.replace('|', chr(92) + '|')} | {facts.checks[name.replace('-', '_')]} |"
        for name, check in CHECKS["theory"].items()
    ]
    head = ["|  | the statement | measured |", "| --- | --- | --- |"]
    return text[:begin] + "\n".join([*head, *rows]) + text[end:]
