"""The report of a store: numbers that are right, names that are text, pictures that open."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from xml.etree import ElementTree

import pytest
from PIL import Image

from slicewise.lab.errors import UserError
from slicewise.lab.experiments.check_cells import CheckCell
from slicewise.lab.experiments.flows import FlowCell
from slicewise.lab.experiments.gradient_flow import ToyTask
from slicewise.lab.experiments.image_flow import DigitTask
from slicewise.lab.experiments.theory import CHECKS
from slicewise.lab.report import theory
from slicewise.lab.report.best import best_of, number
from slicewise.lab.report.flow_runs import Flows
from slicewise.lab.report.flows import edges
from slicewise.lab.report.layout import file_name
from slicewise.lab.report.page import as_script_data, write_report
from slicewise.lab.study.run import Result, Run
from slicewise.lab.study.store import Store
from slicewise.lab.study.sweep import sweep


def small_study():
    """A little of everything."""
    toy, digits = ToyTask("swiss", 50, 30), DigitTask(10)
    how = {"dtype": "float32", "reduce": True, "suffix": ", reduced"}
    rates = (0.3, 3.0, 1e7)
    cells = [
        FlowCell("gradient-flow", toy, v, "power", None, (0, 1), 100, reduce=True)
        for v in ("sw", "ebsw")
    ]
    cells += [
        FlowCell("gradient-flow", toy, v, o, rates, (0, 1), 20)
        for v in ("sw", "ebsw")
        for o in ("root", "power")
    ]
    cells.append(
        FlowCell("gradient-flow", toy, "sw", "root", (1e-3,), (0,), 20, timed_on="a machine")
    )
    cells.append(
        FlowCell("image-flow", digits, "sw", "power", None, (0,), 50, defaults=None, **how)
    )
    return [*cells, CheckCell("gaussian", "quick")]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store, its report's folder, and the page."""
    folder = tmp_path_factory.mktemp("report")
    with Store(folder / "runs.db") as store:
        assert not sweep(small_study(), store).failed
        rows = store.rows()
    page = write_report(folder / "runs.db", folder / "out")
    return rows, folder / "out", page.read_text()


def table(folder, name):
    return list(csv.reader(io.StringIO((folder / f"{name}.csv").read_text())))


@pytest.mark.slow
def test_the_best_rate_is_that_of_the_least_mean(made):
    rows, folder, _ = made
    some = [
        r
        for r in rows
        if (r["variant"], r["objective"]) == ("sw", "root") and r["lr"] in (0.3, 3.0)
    ]
    some = [r for r in some if r["setting"] == "swiss d=50"]
    means = {lr: sum(r["w2"] for r in some if r["lr"] == lr) / 2 for lr in (0.3, 3.0)}
    best = min(means, key=means.get)
    header, *lines = table(folder, "gradient-flow-swiss-d-50")
    line = next(dict(zip(header, line, strict=True)) for line in lines if line[0] == "sw")
    values = [r["w2"] for r in some if r["lr"] == best]
    spread = abs(values[0] - values[1]) / 2**0.5  # the standard deviation of two
    assert line["best rate, root"].startswith(
        f"{number(means[best])} ± {number(spread)} at {best:g}"
    )
    assert line["the paper"] == "0.0004 ± 0.0000"
    assert [line[0] for line in lines] == ["sw", "ebsw"]  # nothing that was not asked for


def test_what_was_found_comes_first(made):
    rows, folder, page = made
    _, line = table(folder, "gradient-flow-verdict")
    assert line[0] == "swiss d=50"
    assert float(line[1].split()[0]) < 1e-6
    assert line[-1] in page
    found = html.unescape(re.search(r"<h1>(.*?)</h1>", page)[1])
    starts = {
        "gradient-flow": 1.0,
        "image-flow": 10.0,
    }  # of the order of; what is left is far from a millionth of either
    ours = [
        r for r in rows if r["variant"] == "sw" and r["lr"] is None and r["experiment"] in starts
    ]
    there = {r["experiment"] for r in ours if r["w2"] < 1e-6 * starts[r["experiment"]]}
    there -= {r["experiment"] for r in ours if r["w2"] > 1e-6 * starts[r["experiment"]]}
    which = "all 2 flows" if len(there) == 2 else f"{len(there)} of 2 flows"
    assert (
        f"plain sliced Wasserstein reaches its target in {which}; with the best searched rate, in 0 of 1."
        in found
    )
    order = ["<h1>", 'id="idea"', 'id="works"', 'id="limits"', 'id="paper"', 'id="behind"']
    places = [page.index(words) for words in order]
    assert places == sorted(places)
    assert "small demo, n = 30" in page[: places[0]]


def test_the_page_stands_alone_and_its_pictures_open(made):
    _, folder, page = made
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", markup)
    assert not re.search(r"<link|@import|url\(", markup)
    pictures = sorted(folder.glob("*.png"))
    names = {picture.stem for picture in pictures}
    assert names == {
        "gradient-flow-ways", "gradient-flow-swiss-d-50-basin", "gradient-flow-swiss-d-50-ends",
        "gradient-flow-swiss-d-50-way", "image-flow-mnist--reduced-images", "image-flow-mnist--reduced-way",
        "theory-gaussian",
    }  # fmt: skip
    for picture in pictures:
        with Image.open(picture) as image:
            assert min(image.size) > 100
            assert len(image.convert("RGB").getcolors(1 << 24)) > 20
        ElementTree.parse(picture.with_suffix(".svg"))
    # One drawing for readers without scripts, one for a claim of the theory; start and end of the digits.
    assert markup.count('<img class="drawing"') == 2
    assert markup.count("data:image/jpeg") == 2
    assert len(page) < 2e6
    assert all(re.search(r'<img[^>]*alt="[^"]+"', tag) for tag in re.findall("<img[^>]*", markup))


def test_times_are_scaled_to_the_papers_steps(made):
    rows, folder, _ = made
    (alone,) = (row for row in rows if row["setting"].startswith("runtime"))
    _, line = table(folder, "gradient-flow-swiss-d-50-runtime")
    assert float(line[1]) == pytest.approx(alone["seconds"] * 10_000 / 20, abs=0.01)
    assert line[3] == "8.62 ± 0.04"
    assert line[4] == f"{8.62 / (alone['seconds'] * 500):.1f}×"


@pytest.mark.slow
def test_what_cannot_be_compared_is_kept_apart(tmp_path):
    cells = [
        FlowCell(
            "gradient-flow", ToyTask("swiss", 2, n), "sw", "root", (1.0,), (0,), steps, convention
        )
        for n, steps, convention in (
            (20, 5, "mean"),
            (20, 10, "mean"),
            (30, 5, "mean"),
            (20, 5, "reference"),
        )
    ]
    # Another variant that ran for longer takes nothing away from this one.
    cells.append(
        FlowCell("gradient-flow", ToyTask("swiss", 2, 20), "ebsw", "root", (1.0,), (0,), 30)
    )
    with Store(tmp_path / "runs.db") as store:
        assert not sweep(cells, store).failed
        longer = next(r for r in store.rows(variant="sw") if r["given"]["steps"] == 10)
    write_report(tmp_path / "runs.db", tmp_path / "out")
    _, *lines = table(tmp_path / "out", "gradient-flow-verdict")
    assert sorted(line[0] for line in lines) == [
        "swiss d=2, n = 20, mean convention",
        "swiss d=2, n = 20, reference convention",
        "swiss d=2, n = 30, mean convention",
    ]
    shown = {line[0]: line[3] for line in lines}
    assert shown["swiss d=2, n = 20, mean convention"] == f"{number(longer['w2'])} at 1"


def test_computed_steps_of_several_lengths_are_not_averaged(tmp_path):
    task, how = DigitTask(10), {"dtype": "float32", "reduce": True, "suffix": ", reduced"}
    cells = [
        FlowCell("image-flow", task, "sw", "power", None, seeds, steps, **how)
        for seeds, steps in (((0,), 2), ((0, 1), 4))
    ]
    with Store(tmp_path / "runs.db") as store:
        assert not sweep(cells, store).failed
        longer = [r["w2"] for r in store.rows() if r["given"]["steps"] == 4]
    write_report(tmp_path / "runs.db", tmp_path / "out")
    _, line = table(tmp_path / "out", "image-flow-verdict")
    assert line[1].startswith(f"{number(sum(longer) / 2)} ± ")
    assert line[2] == "4"


def test_times_of_several_machines_have_tables_of_their_own(tmp_path):
    cells = [
        FlowCell(
            "gradient-flow",
            ToyTask("swiss", 2, n),
            "sw",
            "root",
            (1e-3,),
            (0,),
            5,
            timed_on=machine,
        )
        for n, machine in ((20, "a laptop"), (20, "a GPU"), (30, "a GPU"))
    ]
    with Store(tmp_path / "runs.db") as store:
        assert not sweep(cells, store).failed
    assert len(Flows(Store.reading(tmp_path / "runs.db"), "gradient-flow").timed) == 3
    page = write_report(tmp_path / "runs.db", tmp_path / "out").read_text()
    assert len(list((tmp_path / "out").glob("*runtime.csv"))) == 3
    assert "a laptop" in page
    assert "a GPU" in page


@pytest.mark.parametrize("name", CHECKS)
def test_two_presets_of_a_check_are_not_mixed(name):
    """Presets share tasks: a store that holds all of quick shows all of quick, until all of paper is there."""
    check = CHECKS[name]
    quick, paper = (
        [{"given": dict(run.given), "measures": {}} for run in CheckCell(name, preset).runs]
        for preset in ("quick", "paper")
    )
    tasks = {preset: list(map(dict, check.tasks(preset))) for preset in ("quick", "paper")}

    def shown(rows):
        return [dict(measured.task) for measured in theory.of_one_preset(check, rows)]

    assert shown(quick) == tasks["quick"]
    assert shown([*quick, *paper[: len(paper) // 2]]) == tasks["quick"]
    assert shown([*quick, *paper]) == tasks["paper"]
    assert shown(paper[:1]) == tasks["paper"][:1]
    assert shown([]) == []


def test_the_edge_that_is_drawn(tmp_path):
    cell = FlowCell("gradient-flow", ToyTask("swiss", 50, 30), "sw", "power", (1.0,), (0,), 2)
    with Store(tmp_path / "runs.db") as store:
        sweep([cell], store)
        found = edges(Flows(store, "gradient-flow"), "swiss d=50")
    assert found == {"power": pytest.approx(30 * 50 * 50 / (50 + 50 - 1))}


def test_a_best_rate_at_the_end_of_its_grid_is_marked():
    rows = [{"lr": lr, "w2": w2} for lr, w2 in ((1.0, 0.3), (2.0, 0.2), (3.0, 0.1))]
    assert best_of(rows).end_of_grid == " (the largest tried)"
    assert best_of(rows[:1]).end_of_grid == ""
    assert best_of([*rows, {"lr": 4.0, "w2": 0.2}]).end_of_grid == ""


HOSTILE = "<script>alert('1')</script>\"&"


def hostile_store(folder):
    """A run whose every word is a piece of HTML that would do something."""
    given = {"task": {"images": [HOSTILE], "n": 5}, "convention": HOSTILE, "steps": 3, "dtype": "x"}
    given |= {"reduce": False, "defaults": HOSTILE}
    trace = {"at": [1, 3], "loss": [0.6, 0.5]}
    runs = [
        Run("image-flow", HOSTILE, "sw", "root", lr, 0, given, {"source": HOSTILE})
        for lr in (1.0, 2.0)
    ]
    with Store(folder / "runs.db") as store:
        measures = {"steps": 3, "rank": 2}
        results = [Result(r, HOSTILE, 1.0, w2=0.5, measures=measures, trace=trace) for r in runs]
        store.add(results, HOSTILE, {HOSTILE: HOSTILE})
    return folder / "runs.db"


def test_hostile_names_are_text(tmp_path):
    page = write_report(hostile_store(tmp_path), tmp_path / "out").read_text()
    assert "<script>alert" not in page
    # What is left are our own scripts: one that runs, and data that does not.
    kinds = re.findall(r"<script([^>]*)>", page)
    assert kinds.count("") == 1
    assert all('type="application/json"' in kind for kind in kinds if kind)
    assert (
        html.escape(HOSTILE, quote=True).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
        in page
    )
    assert {path.parent for path in (tmp_path / "out").rglob("*")} == {tmp_path / "out"}


def test_data_cannot_end_its_script():
    data = {"values": [HOSTILE, "</script>", "\u2028"]}
    text = as_script_data(data)
    assert "<" not in text
    assert json.loads(text) == data


def test_a_missing_cell_says_why(tmp_path):
    """Never wanted, failed, or not reached yet: three things a reader would take for one."""
    toy = ToyTask("swiss", 2, 20)
    made = FlowCell("gradient-flow", toy, "sw", "root", (1.0,), (0,), 5)
    other_size = FlowCell("gradient-flow", ToyTask("swiss", 2, 25), "dsw", "root", (1.0,), (0,), 5)
    gone = FlowCell("gradient-flow", ToyTask("knot", 2, 20), "sw", "root", (1.0,), (0,), 5)
    timed = [
        FlowCell("gradient-flow", toy, v, "root", (1e-3,), (0,), 5, timed_on="here")
        for v in ("sw", "ebsw")
    ]
    failing = FlowCell("gradient-flow", toy, "ebsw", "root", (1.0,), (0,), 5)
    later = FlowCell("gradient-flow", toy, "rpsw", "root", (1.0,), (0,), 5)
    with Store(tmp_path / "runs.db") as store:
        sweep([made, timed[0]], store)
        store.ask([failing, later])
        store.ask([failing], "OutOfMemoryError: a lot\nwas asked for")
        # What went wrong elsewhere is not said here.
        store.ask([other_size], "ValueError: of another size")
        store.ask([gone], "ValueError: <b>no knot</b>")
        store.ask([timed[1]], "OutOfMemoryError: of a timed run")
    page = write_report(tmp_path / "runs.db", tmp_path / "out").read_text()
    assert "knot d=2: failed: ValueError: &lt;b&gt;no knot&lt;/b&gt;" in page
    assert "swiss d=2, ebsw, root loss: failed: OutOfMemoryError: a lot was asked for" in page
    assert "swiss d=2, rpsw, root loss: not made yet: the sweep was stopped" in page
    times = {
        line[0]: line[1] for line in table(tmp_path / "out", "gradient-flow-swiss-d-2-runtime")
    }
    assert times["ebsw"] == "failed: OutOfMemoryError: of a timed run"
    assert "rpsw" not in times
    header, *lines = table(tmp_path / "out", "gradient-flow-swiss-d-2")
    shown = {line[0]: line[header.index("best rate, root")] for line in lines}
    assert shown["ebsw"] == "failed: OutOfMemoryError: a lot was asked for"
    assert shown["rpsw"] == "not made yet: the sweep was stopped"
    assert "dsw" not in shown
    assert re.match(r"\d", shown["sw"])


def test_a_diverged_run_never_wins():
    rows = [
        {"lr": lr, "w2": w2} for lr, w2 in ((1.0, float("inf")), (1.0, 0.0), (2.0, 0.5), (2.0, 0.7))
    ]
    best = best_of(rows)
    assert (best.rate, best.mean) == (2.0, pytest.approx(0.6))
    assert best_of([]) is None
    assert number(float("inf")) == "∞ (diverged)"
    assert number(None) == number(float("nan")) == "–"


def test_file_names_stay_in_their_folder():
    assert file_name("../a b=2") == "---a-b-2"


def test_nothing_to_report(tmp_path):
    Store(tmp_path / "runs.db").close()
    with pytest.raises(UserError, match="holds no runs yet"):
        write_report(tmp_path / "runs.db", tmp_path / "out")


def test_a_folder_that_cannot_be_written_to(tmp_path, made):
    _, folder, _ = made
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="give another folder"):
        write_report(folder.parent / "runs.db", tmp_path / "file")


def plain_given(**more):
    given = {
        "task": {"toy": "swiss", "d": 50, "n": 300},
        "convention": "mean",
        "steps": 10_000,
        "dtype": "float64",
    }
    return given | {"reduce": False, "defaults": "paper", "recipe": "r"} | more  # fmt: skip


def a_result(variant="sw", objective="root", lr=1.0, w2=0.1, setting="swiss d=50", **more):
    given, seconds = more.pop("given", plain_given()), more.pop("seconds", 1.0)
    run = Run("gradient-flow", setting, variant, objective, lr, more.pop("seed", 0), given)
    kept = {"measures": {"steps": 10_000, "rank": 50}, "trace": {"at": [1, 10], "loss": [0.5, 0.1]}}
    return Result(run, "out of steps", seconds, w2=w2, **(kept | more))


INF = float("inf")
TIMED = {"setting": "runtime, swiss d=50", "given": plain_given(machine="m")}
ODD = {
    "all diverged": [a_result(w2=INF), a_result(lr=2.0, w2=None)],
    "the computed one diverged": [a_result(objective="power", lr=None, w2=INF), a_result()],
    "nothing on the way": [a_result(trace={}), a_result(lr=2.0, trace={"at": [0], "loss": [0.5]})],
    "an uneven way": [a_result(trace={"at": [1, 2, 3], "loss": [-0.5, None]})],
    "no measures": [a_result(objective="power", measures={}, lr=lr) for lr in (1.0, None)],
    "rates that no axis has": [a_result(lr=lr) for lr in (0.0, -1.0, 1.0)],
    "strangers alone": [a_result(variant="phisw"), a_result(variant="gsw", lr=None)],
    "a timed run of no time": [a_result(seconds=0.0, **TIMED)],
    "a timed run of no steps": [a_result(measures={"steps": 0, "rank": 2}, **TIMED)],
    "a toy without its dimension": [a_result(given=plain_given(task={"toy": "swiss", "n": 300}))],
    "long names, and mathematics": [a_result(setting="a" * 300), a_result(setting="$\\frac{")],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_odd_stores_have_a_page(tmp_path, name):
    with Store(tmp_path / "runs.db") as store:
        store.add(ODD[name], "here", {})
    page = write_report(tmp_path / "runs.db", tmp_path / "out").read_text()
    assert "</html>" in page
    if name == "strangers alone":
        assert "Also in the store, and not shown here: gsw, phisw." in page or "phisw" not in page


@pytest.mark.slow
def test_names_that_become_one_stay_apart(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        store.add([a_result(setting="a b", w2=0.25), a_result(setting="a-b", w2=0.5)], "here", {})
    page = write_report(tmp_path / "runs.db", tmp_path / "out").read_text()
    charts = re.findall(r'<div class="panel"><h3>(.*?)</h3>', page)
    assert sorted(charts) == ["a b", "a-b"]
    first, second = (table(tmp_path / "out", f"gradient-flow-a-b{end}")[1] for end in ("", "-2"))
    assert {first[3][:7], second[3][:7]} == {"2.5e-01", "5.0e-01"}


@pytest.mark.parametrize("told", ["recipe", "computed"])
def test_ways_to_run_a_variant_are_not_averaged(tmp_path, told):
    """After an upgrade the same place holds runs of two recipes, or of two ways to step: the last counts."""
    with Store(tmp_path / "runs.db") as store:
        store.add([a_result(w2=1.0)], "here", {})
        store.add([a_result(w2=0.25, given=plain_given(**{told: "newer"}))], "here", {})
        store._connection.execute(
            "UPDATE runs SET finished = '2000-01-01' WHERE given NOT LIKE '%newer%'"
        )
        store._connection.execute("DELETE FROM checks")  # as in a store of before there were any
    write_report(tmp_path / "runs.db", tmp_path / "out")
    line = table(tmp_path / "out", "gradient-flow-swiss-d-50")[1]
    assert line[3] == "2.5e-01 at 1"
