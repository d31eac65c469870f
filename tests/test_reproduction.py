"""docs/reproduction.md and its details against results/ and the paper: both pages are what the records make of them.

`benchmarks.study` writes the pages; what it computes is computed here a second time, from the files alone.
"""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import pytest

from benchmarks.study.details import updated
from benchmarks.study.facts import Facts, rank, short
from benchmarks.study.page import rendered, wrapped
from slicewise.lab.coverage import coverage
from slicewise.lab.experiments import color
from slicewise.lab.experiments.flows import ELEVEN
from slicewise.lab.published import published
from slicewise.lab.report.best import number

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reproduction.md").read_text()
TEXT = (ROOT / "docs" / "reproduction-details.md").read_text()
PROSE = " ".join(PAGE.split())  # sentences without their line breaks
DETAILS = " ".join(TEXT.split())
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
    wanted = (setting, variant, objective, "mean")
    names = ("setting", "variant", "objective", "convention")
    found = [row for row in rows if tuple(row[name] for name in names) == wanted]
    return [row for row in found if (row["lr"] == "") == computed]


@pytest.fixture(scope="module")
def facts():
    return Facts()


def test_the_pages_are_what_the_records_make_of_them(facts):
    assert rendered(facts) == PAGE
    assert updated(TEXT, facts) == TEXT


def test_paragraphs_are_wrapped_and_nothing_else():
    long = "word " * 40
    text = f"# {long}\n\n{long}\n{long}\n\n- {long}\n- {long}\n\n| {long} |\n\n```sh\n{long}\n```\n"
    found = wrapped(text)
    assert found.split() == text.split()
    kept = [line for line in found.splitlines() if len(line) > 120]
    assert [line[:1] for line in kept] == ["#", "|", "w"]
    assert wrapped(found) == found


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
        if (one.mean, one.std) == (12500.0, 0.0):  # a placeholder
            assert row["ratio"] == "–"
        else:
            assert float(row["ratio"].rstrip("×")) == pytest.approx(one.mean / whole, rel=2e-3, abs=0.06)  # fmt: skip
    assert not rows


def test_the_summary_follows_from_the_results():
    whole = results("gradient-flow")
    flows = [r for r in whole if r["setting"] in TOYS and r["convention"] == "mean"]
    computed = [row for row in flows if row["lr"] == ""]
    assert sum(int(row["seeds"]) for row in computed) == 297
    worst = max(float(row["w2_most"]) for row in computed)
    assert f"all 297 toy flows end at W₂ ≤ {number(worst).replace('e-0', 'e-')}" in PROSE
    plain = [row for row in computed if row["variant"] == "sw"]
    least = min(int(row["steps_least"]) for row in plain)
    most = max(int(row["steps_most"]) for row in plain)
    assert f"`sw` in {least} to {most} steps" in PROSE
    squared = [
        best(some(flows, setting, variant, "power", computed=False))
        for setting in TOYS
        for variant in ELEVEN
    ]
    converged = sum(float(row["w2_mean"]) < 1e-12 for row in squared)
    assert f"end below 1e-12 in {converged} of {len(squared)} columns" in PROSE
    assert sum(int(row["seeds"]) for row in flows if row["lr"]) == 23_166
    assert "23,166 runs" in DETAILS


def test_places_of_plain_sw():
    """By the best rate on the root, in the order that the table of claims names."""
    measured = results("gradient-flow")
    places = []
    for toy in ("swiss", "8gaussians", "knot"):
        for d in (2, 50, 100):
            ends = sorted(
                (
                    float(
                        best(some(measured, f"{toy} d={d}", v, "root", computed=False))["w2_mean"]
                    ),
                    v,
                )
                for v in ELEVEN
            )
            places.append([v for _, v in ends].index("sw") + 1)
    words = " / ".join(", ".join(map(str, places[i : i + 3])) for i in (0, 3, 6))
    assert f"in d = 2, 50, 100: {words};" in PROSE
    assert rank(2.0, [1.0, 2.0, 2.0, 3.0]) == 2


def test_every_published_number_is_counted():
    found = coverage(ROOT / "results")
    assert [one.number for one in found] == list(published())
    by = {status: [one for one in found if one.status == status] for status in ("paper", "reduced", "none")}  # fmt: skip
    words = f"**{len(by['paper']):,} have ours beside them at the paper's settings**"
    assert words in PROSE
    assert f"{len(by['reduced'])} at reduced ones, {len(by['none'])} none" in PROSE
    assert len(by["paper"]) >= 900
    # Against the files: some of each kind, looked up another way.
    colors = results("color")
    toys = results("gradient-flow")
    for one in by["paper"]:
        n = one.number
        if n.table == "color_transfer_full":
            objective = color.published_objective(n.variant)
            rows = [r for r in some(colors, n.setting, n.variant, objective, computed=False) if int(r["limit"]) == 50_000]  # fmt: skip
            (row,) = (
                r for r in rows if float(r["lr"]) == color.on_mean_scale(n.lr, objective, 3000)
            )
            assert one.ours == float(row["w2_mean"] or "inf")
        if (n.table, n.metric) == ("gradient_flow_best", "W2"):
            row = best(some(toys, n.setting, n.variant, "root", computed=False))
            assert (one.ours, one.rate) == (float(row["w2_mean"]), float(row["lr"]))
    assert all(one.why for one in by["reduced"])
    assert not any(one.seeds for one in by["none"])


def test_statements_that_fail_are_counted():
    words = ("no", "one", "two", "three", "four", "five", "six", "seven")
    assert f"{words[PAGE.count('| **fails**')]} do not hold as printed" in PROSE


def test_numbers_in_short():
    assert [short(x) for x in (2.34e-8, 0.0442, 0.5, 12.3, 1234.0, float("inf"))] == ["2.3e-8", "0.044", "0.5", "12", "1,234", "∞"]  # fmt: skip


def test_what_single_precision_would_see():
    found = [row for row in results("theory") if row["setting"] == "evaluation"]
    noise = {}
    for row in found:
        given, measures = json.loads(row["given"]), json.loads(row["measures"])
        noise[f"{given['toy']} d={given['d']}"] = measures["measured"]
    least, most = (f"{of(noise.values()):.1e}".replace("e-0", "e-") for of in (min, max))
    assert f"apart look {least} to {most} apart" in PROSE
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
    assert f"{agree} of 99. {mode + seeds + slow} of ours are larger" in DETAILS
    assert f"{agree} of 99 distances agree within a factor of 2" in PROSE
    assert f"8 gaussians ({mode}), some seeds are stuck ({seeds}), or 10,000 steps are too few ({slow}). {smaller} of ours are smaller. {stuck} are" in DETAILS  # fmt: skip


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
    rows = [r for r in rows if float(r["lr"]) in rates]
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


def best_color(setting, variant, steps=50_000):
    """The best of 25 rates and the published rate, from the file; None if there are fewer."""
    objective = color.published_objective(variant)
    rows = [r for r in some(results("color"), setting, variant, objective, computed=False) if int(r["limit"]) == steps]  # fmt: skip
    if len(rows) < 25:
        return None
    row = best(rows)
    return float(row["w2_mean"]), color.published_rate(float(row["lr"]), objective, 3000)


def test_colors_at_their_best_rate():
    (part,) = re.findall(r"^### Colors\n\n((?:\|.*\n)+)", PAGE, re.M)
    lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in part.splitlines()]
    assert [line[0] for line in lines[2:]] == list(ELEVEN)
    for variant, *cells in lines[2:]:
        for setting, cell in zip(("set1", "set2", "set3"), cells, strict=True):
            ours, theirs = cell.split(" / ")
            (paper,) = (o for o in published() if (o.table, o.setting, o.variant, o.metric) == ("color_transfer_best", setting, variant, "W2"))  # fmt: skip
            assert theirs == f"{paper.mean:.2f} at {paper.lr:g}"
            short_of = " (5,000 steps)"
            found = best_color(setting, variant, 5000 if ours.endswith(short_of) else 50_000)
            left, rate = (float(one) for one in ours.removesuffix(short_of).split(" at "))
            assert (left, rate) == (pytest.approx(found[0], rel=0.06), found[1])


def test_colors_at_no_rate():
    """The table of computed steps against what was measured."""
    measured = results("color")
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
    assert f"{arrived} of {total} runs arrive" in DETAILS


def test_the_paper_against_itself():
    toys, colors = ({o.variant: (o.mean, o.std) for o in published() if (o.table, o.setting, o.metric) == (name, "all", "runtime_s")} for name in ("gradient_flow_best", "color_transfer_best"))  # fmt: skip
    assert toys == colors
    assert f"{len(toys)} of 11 means and deviations" in PROSE
    full = {(o.setting, o.variant, o.lr): o.mean for o in published() if o.table == "color_transfer_full"}  # fmt: skip
    wrong = [o for o in published() if (o.table, o.metric) == ("color_transfer_best", "W2") and full[o.setting, o.variant, o.lr] != o.mean]  # fmt: skip
    assert f"{len(wrong)} of 33 bests of colors are not what the full table has" in PROSE
    for one in wrong:
        assert f"| {one.setting} | {one.variant} | {one.mean:.2f} at {one.lr:g} |" in PAGE


def test_order_of_networks():
    rows = results("generate")
    ends = {
        v: min(float(r["w2_mean"]) for r in rows if (r["setting"], r["variant"], r["objective"]) == ("generation", v, "root"))
        for v in ELEVEN
    }  # fmt: skip
    order = sorted(ends, key=ends.get)
    assert "lowest are " + ", ".join(f"`{v}`" for v in order[:4]) in PROSE
    for name, setting in (("generate", "generation"), ("translate", "male to female"), ("translate", "adult to child")):  # fmt: skip
        timed = {r["variant"]: float(r["seconds"]) / int(r["limit"]) for r in results(name) if r["setting"] == f"runtime, {setting}"}  # fmt: skip
        first = sorted(timed, key=timed.get)[:3]
        assert f"{setting} " + ", ".join(f"`{v}`" for v in first) in PROSE
