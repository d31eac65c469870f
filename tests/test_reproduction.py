"""docs/reproduction.md against results/ and the paper: every row is there, and every number is what was measured."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from slicewise.lab.experiments.flows import ELEVEN
from slicewise.lab.published import published
from slicewise.lab.report.best import number

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "reproduction.md").read_text()
TIMES = {
    ("gradient_flow_best", "all"): ("Seconds of 10,000 steps", "gradient-flow", "runtime, swiss d=50"),
    ("image_flow_runtime", "mnist"): ("MNIST 0 → 1", "image-flow", "runtime, mnist"),
    ("image_flow_runtime", "celeba"): ("Noise → faces", "image-flow", "runtime, faces"),
}  # fmt: skip


def table_under(heading):
    """The first table below a heading that begins so: a dictionary a row, by the row's first cell."""
    (part,) = re.findall(rf"^### {re.escape(heading)}.*?\n(.*?)(?=^#|\Z)", TEXT, re.M | re.S)
    lines = [line for line in part.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0]: dict(zip(cells[0], row, strict=True)) for row in cells[2:]}


def results(name):
    with (ROOT / "results" / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def best(rows):
    return min(rows, key=lambda row: float(row["w2_mean"]))


def some(rows, setting, variant, objective, *, computed):
    wanted = (setting, variant, objective)
    found = [row for row in rows if (row["setting"], row["variant"], row["objective"]) == wanted]
    return [row for row in found if (row["lr"] == "") == computed]


TOYS = sorted({one.setting for one in published() if one.table == "gradient_flow_best"} - {"all"})


@pytest.mark.parametrize("setting", TOYS)
def test_every_distance_is_there_and_is_what_was_measured(setting):
    toy, d = setting.split(" d=")
    rows = table_under(f"{toy.replace('8gaussians', '8 gaussians')}, d = {d}\n".strip())
    measured = results("gradient-flow")
    for one in published():
        if (one.table, one.setting, one.metric) != ("gradient_flow_best", setting, "W2"):
            continue
        row = rows.pop(one.variant)
        assert row["the paper"] == f"{one.mean:.4f} ± {one.std:.4f}"
        assert row["root beside the paper"]
        for objective in ("root", "power"):
            ours = best(some(measured, setting, one.variant, objective, computed=False))
            shown = f"{float(ours['w2_mean']):.1e} ± {float(ours['w2_std']):.1e} at {float(ours['lr']):g}"
            assert same(row[f"best rate, {objective}"], shown)
        (ours,) = some(measured, setting, one.variant, "power", computed=True)
        assert same(row["step computed"], f"{float(ours['w2_mean']):.1e} ± {float(ours['w2_std']):.1e}")  # fmt: skip
    assert not rows


def same(shown, wanted):
    """Both are rounded, from the same number or from one of six digits: the last digit may be one off."""
    ours, theirs = ([float(part) for part in re.findall(r"\d[\d.]*(?:e[-+]\d+)?", words)] for words in (shown, wanted))  # fmt: skip
    assert len(ours) == len(theirs)
    return all(abs(a - b) <= 0.11 * 10 ** exponent(b) for a, b in zip(ours, theirs, strict=True))


def exponent(value):
    return int(f"{value:e}".split("e")[1])


@pytest.mark.parametrize("place", TIMES)
def test_every_time_is_there_and_is_what_was_measured(place):
    heading, experiment, setting = TIMES[place]
    rows = table_under(heading)
    assert set(rows) == set(ELEVEN)
    steps = 10_000 if place[1] == "all" else 200_000
    for one in published():
        if (one.table, one.setting, one.metric) != (*place, "runtime_s"):
            continue
        row = rows.pop(one.variant)
        assert row["the paper"] == f"{one.mean:.2f} ± {one.std:.2f}"
        (ours,) = (
            r for r in results(experiment) if (r["setting"], r["variant"]) == (setting, one.variant)
        )
        whole = float(ours["seconds"]) * steps / int(ours["limit"])
        assert float(row["ours"]) == pytest.approx(whole, rel=1e-3, abs=0.006)
        assert float(row["ratio"].rstrip("×")) == pytest.approx(one.mean / whole, rel=2e-3, abs=0.06)  # fmt: skip
    assert not rows


def test_the_summary_follows_from_the_results():
    flows = [r for r in results("gradient-flow") if not r["setting"].startswith("runtime")]
    computed = [row for row in flows if row["lr"] == ""]
    assert sum(int(row["seeds"]) for row in computed) == 297
    worst = max(float(row["w2_most"]) for row in computed)
    assert f"W₂ ≤ {number(worst).replace('e-0', 'e-')}" in TEXT
    plain = [row for row in computed if row["variant"] == "sw"]
    least = min(int(row["steps_least"]) for row in plain)
    most = max(int(row["steps_most"]) for row in plain)
    assert f"`sw` takes {least} to {most} steps" in TEXT
    squared = [
        best(some(flows, setting, variant, "power", computed=False))
        for setting in TOYS
        for variant in ELEVEN
    ]
    converged = sum(float(row["w2_mean"]) < 1e-12 for row in squared)
    assert f"end at 1e-16 in {converged} of {len(squared)} cases" in TEXT
    assert sum(int(row["seeds"]) for row in flows) == 23_463
    assert "23,463 toy runs" in TEXT
