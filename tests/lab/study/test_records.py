"""Runs of stores as records in a folder: nothing is lost, nothing is there twice, the newer time counts."""

from __future__ import annotations

import csv
import json
import sqlite3

import pytest

from slicewise.lab.study import Result, Run, Store, keep, kept_means, kept_runs
from tests.command_line import accepted, refused

GIVEN = {"task": {"n": 300}, "steps": 100, "dtype": "float64", "convention": "mean"}


def stored(path, runs, *, experiment="gradient-flow", versions=None):
    """A store of (variant, rate, seed, distance, seconds)."""
    results = [
        Result(Run(experiment, "swiss d=2", v, "root", rate, seed, GIVEN), "out of steps", s, w2=w2,
               measures={"steps": 100}, trace={"loss": [1.0, 0.5]})
        for v, rate, seed, w2, s in runs
    ]  # fmt: skip
    with Store(path) as store:
        store.add(results, "a machine", versions or {"torch": "2"})
    return path


def test_runs_and_their_means(tmp_path):
    store = stored(tmp_path / "a.db", [("sw", 0.1, 0, 1.0, 2.0), ("sw", 0.1, 1, 3.0, 2.0), ("sw", 1.0, 0, float("inf"), 1.0)])  # fmt: skip
    folder = tmp_path / "kept"
    assert keep([store], folder, "abc123") == {"gradient-flow": 3}
    rows = kept_runs(folder, "gradient-flow")
    assert [(row["lr"], row["seed"], row["w2"]) for row in rows] == [(0.1, 0, 1.0), (0.1, 1, 3.0), (1.0, 0, float("inf"))]  # fmt: skip
    assert {row["versions"]["commit"] for row in rows} == {"abc123"}
    assert {(row["device"], row["versions"]["torch"]) for row in rows} == {("a machine", "2")}
    assert all(row["trace"] == {} and row["given"]["task"] == {"n": 300} for row in rows)
    lines = kept_means(folder, "gradient-flow")
    assert [(line["lr"], line["seeds"], line["w2_mean"]) for line in lines] == [("0.1", "2", "2"), ("1.0", "1", "inf")]  # fmt: skip
    packed = (folder / "runs" / "gradient-flow.csv.gz").read_bytes()
    assert keep([store], folder, "abc123") == {"gradient-flow": 3}
    assert (folder / "runs" / "gradient-flow.csv.gz").read_bytes() == packed


@pytest.mark.parametrize(("own", "noted"), [("own", "own"), ("own-dirty", "other")])
def test_a_commit_that_a_run_names_itself_stays(tmp_path, own, noted):
    store = stored(tmp_path / "a.db", [("sw", 0.1, 0, 1.0, 2.0)], versions={"commit": own})
    keep([store], tmp_path, "other")
    (row,) = kept_runs(tmp_path, "gradient-flow")
    assert row["versions"]["commit"] == noted


def test_the_newer_of_two_runs_counts_whatever_their_order(tmp_path):
    old = stored(tmp_path / "old.db", [("sw", 0.1, 0, 1.0, 9.0)])
    new = stored(tmp_path / "new.db", [("sw", 0.1, 0, 1.0, 2.0)])
    with sqlite3.connect(old) as plain:
        plain.execute("UPDATE runs SET finished = '2020-01-01T00:00:00+00:00'")
        plain.execute("DELETE FROM checks")  # they say what was stored, the time included
    for i, order in enumerate(((old, new), (new, old))):
        for store in order:
            keep([store], tmp_path / str(i))
        (row,) = kept_runs(tmp_path / str(i), "gradient-flow")
        assert row["seconds"] == 2.0


def test_means_of_more_seeds_stay(tmp_path):
    """Means whose runs were never kept are replaced by runs only if these are as many."""
    three = stored(tmp_path / "3.db", [("sw", 0.1, seed, 1.0, 2.0) for seed in range(3)])
    folder = tmp_path / "kept"
    keep([three], folder)
    (folder / "runs" / "gradient-flow.csv.gz").unlink()
    keep([stored(tmp_path / "1.db", [("sw", 0.1, 0, 5.0, 2.0), ("sw", 0.3, 0, 7.0, 2.0)])], folder)
    lines = kept_means(folder, "gradient-flow")
    assert [(line["lr"], line["seeds"], line["w2_mean"]) for line in lines] == [("0.1", "3", "1"), ("0.3", "1", "7")]  # fmt: skip
    keep([stored(tmp_path / "2.db", [("sw", 0.1, s, 4.0, 2.0) for s in range(3)])], folder)
    assert kept_means(folder, "gradient-flow")[0]["w2_mean"] == "4"


def test_checks_are_one_readable_file(tmp_path):
    store = stored(tmp_path / "a.db", [("", None, 0, None, 1.0)], experiment="theory")
    keep([store], tmp_path)
    with (tmp_path / "theory.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert json.loads(row["measures"]) == {"steps": 100}
    assert not (tmp_path / "runs").exists()


def test_from_the_command_line(tmp_path, capsys):
    store = stored(tmp_path / "a.db", [("sw", 0.1, 0, 1.0, 2.0)])
    said = accepted(capsys, "runs", store, "--keep", tmp_path / "kept", "--commit", "abc")
    assert "1 runs of gradient-flow" in said
    assert "give --keep FOLDER too" in refused(capsys, "runs", store, "--commit", "abc")
    assert "has no gradient-flow.csv" in refused(capsys, "report", "--coverage", tmp_path / "none")
    assert "--csv" in refused(capsys, "report", store, "--csv", tmp_path / "x.csv")


@pytest.mark.parametrize("experiment", ["gradient-flow", "theory"])
def test_a_folder_without_records_has_no_runs(tmp_path, experiment):
    assert kept_runs(tmp_path, experiment) == []
