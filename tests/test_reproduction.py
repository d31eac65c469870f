"""docs/reproduction.md against results/ and the paper: every row is there, and every number is what was measured."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import pytest

from slicewise.lab.experiments import color
from slicewise.lab.experiments.flows import ELEVEN
from slicewise.lab.published import published
from slicewise.lab.report.best import number

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "reproduction.md").read_text()
PROSE = " ".join(TEXT.split())  # sentences without their line breaks
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
        assert row["beside the paper"]
        for objective in ("root", "power"):
            ours = best(some(measured, setting, one.variant, objective, computed=False))
            shown = f"{float(ours['w2_mean']):.1e} ± {float(ours['w2_std']):.1e} at {float(ours['lr']):g}"
            assert same(row[f"best rate, {objective}"], shown)
        (ours,) = some(measured, setting, one.variant, "power", computed=True)
        column = "step computed" if d == "2" else "step computed, in 2 dimensions"
        assert same(row[column], f"{float(ours['w2_mean']):.1e} ± {float(ours['w2_std']):.1e}")
        least, most = (f"{int(ours[name]):,}" for name in ("steps_least", "steps_most"))
        assert row["steps"] == (least if least == most else f"{least}–{most}")
    assert not rows


def same(shown, wanted):
    """Both are rounded, from the same number or from one of six digits: the last digit may be one off."""
    ours, theirs = ([float(part) for part in re.findall(r"\d[\d.]*(?:e[-+]\d+)?", words)] for words in (shown, wanted))  # fmt: skip
    assert len(ours) == len(theirs)
    return all(abs(a - b) <= 0.11 * 10 ** exponent(b) for a, b in zip(ours, theirs, strict=True))


def exponent(value):
    """Of the leading digit; nothing but 0 is the same as 0."""
    return int(f"{value:e}".split("e")[1]) if value else -math.inf


def test_what_is_called_the_same():
    assert same("1.4e-16 ± 3.5e-18 at 800", "1.3e-16 ± 3.5e-18 at 800")
    assert not same("1.6e-16 ± 3.5e-18 at 800", "1.3e-16 ± 3.5e-18 at 800")
    assert not same("5.0e-02 ± 0.0e+00 at 300", "0.0e+00 ± 0.0e+00 at 300")


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
    assert f"W₂ ≤ {number(worst).replace('e-0', 'e-')}" in PROSE
    plain = [row for row in computed if row["variant"] == "sw"]
    least = min(int(row["steps_least"]) for row in plain)
    most = max(int(row["steps_most"]) for row in plain)
    assert f"`sw` takes {least} to {most} steps" in PROSE
    squared = [
        best(some(flows, setting, variant, "power", computed=False))
        for setting in TOYS
        for variant in ELEVEN
    ]
    converged = sum(float(row["w2_mean"]) < 1e-12 for row in squared)
    assert f"end below 1e-12 in {converged} of {len(squared)} cases" in PROSE
    assert sum(int(row["seeds"]) for row in flows) == 23_463
    assert "23,463 toy runs" in PROSE


def test_what_single_precision_would_see():
    found = [row for row in results("theory") if row["setting"] == "evaluation"]
    noise = {}
    for row in found:
        given, measures = json.loads(row["given"]), json.loads(row["measures"])
        noise[f"{given['toy']} d={given['d']}"] = measures["measured"]
    assert f"{min(noise.values()):.1e}".replace("e-0", "e-") in PROSE
    assert f"{max(noise.values()):.1e}".replace("e-0", "e-") in PROSE
    printed = [o for o in published() if (o.table, o.metric) == ("gradient_flow_best", "W2")]
    counts = [sum(o.mean <= factor * noise[o.setting] for o in printed) for factor in (1, 2)]
    assert f"{counts[0]} of the {len(printed)} printed distances are not above that, {counts[1]} not above twice" in PROSE  # fmt: skip
    large = [o.variant for o in printed if o.mean > 3 * noise[o.setting]]
    last = sum(large.count(name) for name in ("maxsw", "maxksw", "imsw"))
    assert f"{len(large)} are more than three times as large, {last} of them MaxSW" in PROSE
    below = sum(o.mean + 5e-5 < noise[o.setting] for o in printed)
    assert f"But {below} are smaller than that noise" in PROSE


def test_reasons_are_counted_right():
    whole = re.findall(r"^\| .*$", TEXT[TEXT.index("### swiss, d = 2") : TEXT.index("### Seconds of 10,000")], re.M)  # fmt: skip
    counts = [sum(words in line for line in whole) for words in (
        "agrees, within", "a particle in a wrong mode |", "some seeds arrive", "too slow for", "the rate of its number |", "stuck at every rate")]  # fmt: skip
    assert sum(counts) == 99
    agree, mode, seeds, slow, smaller, stuck = counts
    assert f"{agree} of 99. {mode + seeds + slow} of ours are larger" in PROSE
    assert f"8 gaussians ({mode}), some seeds are stuck ({seeds}), or 10,000 steps are too few ({slow}). {smaller} of ours are smaller. {stuck} are" in PROSE  # fmt: skip


def test_widths_and_largest_rates():
    measured = results("gradient-flow")
    first = TEXT[TEXT.index("W₂ left / rate") : TEXT.index("Largest rate of the grid")]
    widths = re.findall(r"^\| (\w+) \| ([\d.e, -]+) \| ([\d.e, -]+) \|$", first, re.M)
    assert sorted(line[0] for line in widths) == sorted(ELEVEN)
    for line in widths:
        variant, *columns = line
        for d, column in zip((50, 100), columns, strict=True):
            for toy, shown in zip(("swiss", "8gaussians", "knot"), column.split(", "), strict=True):
                at = best(some(measured, f"{toy} d={d}", variant, "root", computed=False))
                width = float(at["w2_mean"]) / float(at["lr"])
                assert float(shown) == pytest.approx(width, rel=0.06), (variant, toy, d)
    part = TEXT[TEXT.index("Largest rate of the grid") : TEXT.index("## Color transfer")]
    rows = re.findall(r"^\| ([a-z, ]+) \| ([\d, ]+) \| ([\d, ]+) \| ([\d, ]+) \|$", part, re.M)
    names = [name for names, *_ in rows for name in names.split(", ")]
    assert sorted(names) == sorted(ELEVEN)
    for names, *columns in rows:
        for variant in names.split(", "):
            for d, column in zip((2, 50, 100), columns, strict=True):
                for toy, shown in zip(("swiss", "8gaussians", "knot"), column.split(", "), strict=True):  # fmt: skip
                    runs = some(measured, f"{toy} d={d}", variant, "power", computed=False)
                    most = max(float(r["lr"]) for r in runs if float(r["w2_mean"]) < 0.5)
                    assert float(shown.replace(",", "")) == most, (variant, toy, d)


LATENT = {
    "Generation, displacement 0.1": ("generate", "generation"),
    "Male to female, displacement 0.1": ("translate", "male to female"),
    "Adult to child, displacement 0.1": ("translate", "adult to child"),
}


@pytest.mark.parametrize("heading", LATENT)
def test_networks_score_what_was_measured(heading):
    name, setting = LATENT[heading]
    shown = table_under(heading)
    kinds = ("displacement", "untrained")
    rows = [r for r in results(name) if r["setting"] == setting and r["objective"] in kinds]
    assert sorted(shown) == sorted(row["variant"] for row in rows)
    assert set(ELEVEN) < set(shown)
    for row in rows:
        line = shown[row["variant"]]
        columns = {"SW₂": "sw2", "energy": "energy", "W₂": "w2", "variance": "variance", "Fréchet": "frechet"}  # fmt: skip
        if name == "translate" and row["variant"] != "real":
            columns |= {"W₂ excess removed": "w2_removed", "Fréchet excess removed": "frechet_removed",
                "taken for the target": "probe", "move / mean shift": "move", "own source nearest": "own_nearest"}  # fmt: skip
        for column, measure in columns.items():
            measure = f"{measure}_mean"
            digits = len(line[column].partition(".")[2])
            assert float(line[column]) == round(float(row[measure]), digits), (row, column)


GRIDS = {
    "SW₂ on held-out data": ("generate", "generation"),
    "W₂, and beside it the variance": ("generate", "generation"),
    "Energy:": ("generate", "generation"),
    "Male to female, SW₂": ("translate", "male to female"),
    "Male to female, W₂": ("translate", "male to female"),
    "Adult to child, SW₂": ("translate", "adult to child"),
    "Adult to child, W₂": ("translate", "adult to child"),
}


def table_after(words):
    """The table that follows a paragraph which begins so: a list of cells for each row, the heading's first."""
    (part,) = re.findall(rf"^{re.escape(words)}.*\n(?:.+\n)*\n((?:\|.*\n)+)", TEXT, re.M)
    lines = [line.strip("|").split(" | ") for line in part.splitlines() if "---" not in line]
    return [[cell.strip(" |") for cell in line] for line in lines]


@pytest.mark.parametrize("words", GRIDS)
def test_every_searched_rate_of_a_network_is_what_was_measured(words):
    name, setting = GRIDS[words]
    heading, *lines = table_after(words)
    rows = [r for r in results(name) if r["setting"] == setting and r["objective"] == "root"]
    rates = [float(rate) for rate in heading[1:8]]
    assert {(r["variant"], float(r["lr"])) for r in rows} == {(v, r) for v in ELEVEN for r in rates}
    assert [line[0] for line in lines] == list(ELEVEN)
    theirs = {(o.variant, o.lr): o.mean for o in published() if (o.table, o.setting) == ("translation_full", setting.replace(" ", "_"))}  # fmt: skip
    for variant, *cells in lines:
        mine = {float(r["lr"]): r for r in rows if r["variant"] == variant}
        for rate, cell in zip(rates, cells[:7], strict=True):
            row = {key: float(value) for key, value in mine[rate].items() if key.endswith("_mean") and value}  # fmt: skip
            if "SW₂" in words:
                assert cell == f"{row['sw2_mean']:.4f}"
            elif words == "Energy:":
                assert cell == f"{row['energy_mean']:.4f}"
            elif name == "generate":
                assert cell == f"{row['w2_mean']:.2f} ({row['variance_mean']:.2f})"
            else:
                ours, paper = cell.split(" / ")
                assert ours == f"{row['w2_mean']:.2f}"
                assert float(paper) == pytest.approx(theirs[variant, rate], nan_ok=True)
        if len(cells) > 7:
            (one,) = (r for r in results(name) if (r["setting"], r["variant"], r["objective"]) == (setting, variant, "displacement"))  # fmt: skip
            least = min(float(row["sw2_mean"]) for row in mine.values())
            assert cells[7:] == [f"{float(one['sw2_mean']):.4f}", f"{float(one['sw2_mean']) / least:.2f}"]  # fmt: skip


def test_times_of_networks():
    shown = table_under("Generation: seconds of 10,000 steps")
    timed = [row for row in results("generate") if row["setting"] == "runtime, generation"]
    assert sorted(shown) == sorted(row["variant"] for row in timed) == sorted(ELEVEN)
    for row in timed:
        scaled = float(row["seconds"]) * 10_000 / float(row["limit"])
        assert float(shown[row["variant"]]["ours"]) == pytest.approx(scaled, abs=0.006)


def test_colors_at_every_rate_and_at_none():
    """The table of 25 rates and that of computed steps, against what was measured and published."""
    measured = results("color")
    heading, *lines = table_after("**The paper's 25 rates**")
    theirs = {(o.variant, o.lr): o.mean for o in published() if (o.table, o.setting) == ("color_transfer_full", "set1")}  # fmt: skip
    rates = [float(line[0]) for line in lines]
    assert sorted(rates) == sorted(color.RATES)
    for variant, column in zip(heading[1:], zip(*(line[1:] for line in lines), strict=True), strict=True):  # fmt: skip
        objective = color.published_objective(variant)
        rows = {color.published_rate(float(r["lr"]), objective, 3000): r for r in some(measured, "set1", variant, objective, computed=False)}  # fmt: skip
        assert sorted(rows) == sorted(rates)
        for rate, cell in zip(rates, column, strict=True):
            ours, paper = (float(one.replace("∞", "inf")) for one in cell.split(" / "))
            left = float(rows[rate]["w2_mean"])
            last = 0.01 if left >= 1e-3 else 10.0 ** exponent(left)  # what its last digit counts
            assert ours == pytest.approx(left, rel=1e-5, abs=0.51 * last)
            assert paper == pytest.approx(theirs[variant, rate])
    _, *lines = table_after("**Computed steps of every variant**")
    assert [line[0] for line in lines] == list(ELEVEN)
    arrived = 0
    for variant, *cells in lines:
        for pair, cell in enumerate(cells, 1):
            (row,) = some(measured, f"set{pair}", variant, "power", computed=True)
            shown = cell.split(", ")
            assert len(shown) == int(row["seeds"])
            left = [float(one.strip("()")) for one in shown if one.startswith("(")]
            steps = [int(one.replace(",", "")) for one in shown if not one.startswith("(")]
            arrived += len(steps)
            assert max([*steps, *(5000 for _ in left)]) == int(row["steps_most"])
            assert min([*steps, *(5000 for _ in left)]) == int(row["steps_least"])
            assert max(left, default=0) == pytest.approx(float(row["w2_most"]), abs=0.0051)
    total = sum(int(row["seeds"]) for row in measured if row["lr"] == "")
    assert f"{arrived} of {total} runs arrive" in PROSE
