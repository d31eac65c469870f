"""No command writes over a store, over what it reads, or, unasked, over any file that is there."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from PIL import Image

from slicewise.lab.cli import main
from slicewise.lab.study.run import Result, Run
from slicewise.lab.study.store import Store
from tests.command_line import accepted, refused


def store_at(path, setting="swiss d=2"):
    run = Run("gradient-flow", setting, "sw", "root", 0.1, 0, {"steps": 10, "task": {"n": 3}})
    with Store(path) as store:
        store.add([Result(run, "out of steps", 0.25, w2=0.5)], "cpu", {"torch": "2"})
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        np.save(f"{name}.npy", rng.normal(size=(12, 2)))
        rows = rng.normal(size=(40, 2))
        np.savetxt(f"{name}.csv", rows, delimiter=",", header="u,v", comments="")
        Image.fromarray(rng.integers(0, 255, (9, 9, 3)).astype(np.uint8)).save(f"{name}.png")
    store_at("runs.db")
    return tmp_path


def hashes(folder):
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


FLOW = ("flow", "a.npy", "b.npy", "--steps", 2, "-q")
TRANSFER = ("transfer", "a.png", "b.png", "--palette", 8, "-q")
# A call, and what its last word may not be: a store, an input, a file that is there.
CALLS = [
    (("runs", "--csv"), ("runs.db",), "kept.csv"),
    ((*FLOW, "-o", "new.gif", "--save"), ("a.npy", "b.npy"), "kept.npy"),
    ((*FLOW, "-o"), (), "kept.gif"),
    (("plan", "a.npy", "b.npy", "-o"), ("a.csv",), "kept.csv"),
    (("plan", "a.csv", "b.csv", "-o"), ("a.csv", "b.csv"), "kept.npz"),
    ((*TRANSFER, "-o"), ("a.png", "b.png"), "kept.png"),
    ((*TRANSFER, "-o", "new.png", "--compare"), ("a.png",), "kept.png"),
    (("latents", "a.npy", "-o"), (), "kept.png"),
    (("drift", "a.csv", "b.csv", "--permutations", 19, "--save"), (), "kept.pt"),
    (("drift", "a.csv", "b.csv", "--permutations", 19, "-o"), (), "kept.png"),
]


@pytest.mark.parametrize(("call", "never", "kept"), CALLS, ids=lambda x: None)
def test_a_file_that_is_there_is_kept(here, capsys, call, never, kept):
    (here / kept).write_bytes(b"precious")
    before = hashes(here)
    assert "exists: give another name, or --force" in refused(capsys, *call, kept)
    for name in never:
        # Even with --force; plan a.npy b.npy -o a.csv --force does not read a.csv and may.
        if name in call or name == "runs.db":
            refused(capsys, *call, name, "--force")
    assert hashes(here) == before


def test_a_store_is_never_written_over(here, capsys):
    (here / "link.csv").symlink_to(here / "runs.db")
    before = hashes(here)
    for name in ("runs.db", "./runs.db", "link.csv"):
        assert "--csv" in refused(capsys, "runs", "--csv", name, "--force")
    store_at("other.csv")  # a store of any name
    assert "is a database" in refused(capsys, "runs", "--csv", "other.csv", "--force")
    assert "is a database" in refused(
        capsys, "plan", "a.npy", "b.npy", "-o", "other.csv", "--force"
    )
    assert {k: v for k, v in hashes(here).items() if k.name != "other.csv"} == before
    with Store.reading("other.csv") as store:
        assert len(store.rows()) == 1


def test_with_force_a_file_is_replaced(here, capsys):
    (here / "kept.csv").write_bytes(b"precious")
    accepted(capsys, "runs", "--csv", "kept.csv", "--force")
    assert (here / "kept.csv").read_text().startswith("key,experiment")


def test_an_array_of_an_input_counts_as_the_input(here, capsys):
    np.savez("both.npz", a=np.zeros((3, 2)), b=np.ones((3, 2)))
    call = ("flow", "both.npz:a", "both.npz:b", "--steps", 1, "-q", "--force")
    assert "is an input" in refused(capsys, *call, "-o", "new.gif", "--save", "both.npz")


def test_a_page_of_somebody_else_is_no_report(here, capsys):
    (here / "site").mkdir()
    (here / "site" / "index.html").write_text("<title>my homepage</title>")
    before = hashes(here)
    assert "exists" in refused(capsys, "report", "--out", "site")
    assert "exists" in refused(capsys, "reproduce", "gradient-flow", "--out", "site")
    assert hashes(here) == before


def test_a_report_is_written_again_when_a_study_is_resumed(here, capsys, monkeypatch):
    from slicewise.lab import experiments, report
    from slicewise.lab.experiments.check_cells import CheckCell

    (here / "report").mkdir()
    page = here / "report" / "index.html"
    page.write_text('<meta name="generator" content="slicewise report">')
    assert "exists" in refused(capsys, "report")
    cells = [CheckCell("gaussian", "quick")]
    monkeypatch.setitem(experiments.EXPERIMENTS, "gradient-flow", lambda asked: cells)
    written = []
    monkeypatch.setattr(report, "write_report", lambda store, out: written.append(str(out)))
    assert main(["reproduce", "gradient-flow", "--jobs", "1", "-q"]) == 0
    assert written == ["report"]


@pytest.mark.parametrize("name", [":memory:", "file:x.db", "file::memory:?cache=shared", ""])
def test_a_store_is_a_file(here, capsys, monkeypatch, name):
    def must_not_run(self, runs, device, checkpoint=None):
        raise AssertionError("a run was made")

    monkeypatch.setattr("slicewise.lab.experiments.flows.FlowCell.measure", must_not_run)
    before = hashes(here)
    status = main(["reproduce", "gradient-flow", "--jobs", "1", "-q", "--store", name])
    assert status == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert hashes(here) == before


def test_a_store_is_where_it_was_opened(here, monkeypatch):
    (here / "elsewhere").mkdir()
    with Store("late.db") as store:
        monkeypatch.chdir(here / "elsewhere")
        assert store.path == here / "late.db"
    assert not list((here / "elsewhere").iterdir())


HOSTILE = "swiss\x1b]0;owned\x07\x1b[2J\x9b31m\u202e d=2"


def test_nothing_of_a_store_steers_a_terminal(here, capsys):
    path = store_at("hostile.db", HOSTILE)
    calls = [("runs", path), ("runs", path, "--all"), ("runs", path, "--csv", "-")]
    calls += [("runs", path, "--json"), ("runs", path, "--setting", "swss")]
    for call in calls:
        main([str(word) for word in call])
        heard = capsys.readouterr()
        shown = (heard.out + heard.err).replace("\n", "")
        assert shown
        assert shown.isprintable(), call


def test_nothing_of_a_name_steers_a_terminal(here, capsys):
    name = "a\x1b[31m\x07.npy"
    np.save(name, np.ones((3, 2)))
    np.savez("keys.npz", **{"x\x1b[2J": np.ones((3, 2)), "y": np.ones((3, 2))})
    for call in (
        ("distance", name, "b.npy"),
        ("distance", name, "none\x1b[2J.npy"),
        ("distance", "keys.npz", "b.npy"),
        ("distance", "keys.npz:x\x1b[2J", "b.npy"),
        ("plan", name, "b.npy", "-o", "plan\x1b[2J.csv"),
        (*FLOW[:-1], "-o", "new\x1b[2J.gif"),
        ("latents", name),
        ("drift", name, "b.npy"),
        ("reproduce", "color", "--photographs", "none\x1b[2J"),
        ("runs", "none\x1b[2J.db"),
        ("no\x1b[2Jcommand",),
        ("distance", "a.npy", "b.npy", "--no\x1b[2Joption"),
        ("distance", "a.npy", "b.npy", "-v", "s\x1b[2Jw"),
        ("distance", "a.npy", "b.npy", "-O", "a\x1b[2J=1"),
    ):
        main([str(word) for word in call])
        heard = capsys.readouterr()
        shown = (heard.out + heard.err).replace("\n", "").replace("\r", "")
        assert shown.isprintable(), (call, shown)


def test_cells_of_an_export_are_no_formulas(here, capsys):
    for i, setting in enumerate(("=HYPERLINK(1)", "+1", "-1", "@SUM(1)", "\t=1", " =1", "plain")):
        store_at(f"{i}.db", setting)
        for more in ((), ("--means",)):
            import csv
            import io

            text = accepted(capsys, "runs", f"{i}.db", "--csv", "-", *more)
            (row,) = csv.DictReader(io.StringIO(text))
            assert not row["setting"].lstrip().startswith(("=", "+", "-", "@"))
            assert row["setting"].lstrip("'") == setting.replace("\t", "\\t")
            assert float(row["lr"]) == 0.1
