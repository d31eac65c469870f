"""How the command behaves in a shell: pipes, stores, words that were misspelled."""

from __future__ import annotations

import shlex
import subprocess
import sys

import numpy as np
import pytest

from slicewise.lab.cli import PIPE_CLOSED
from slicewise.lab.study import Result, Run, Store
from tests.command_line import accepted, refused

COMMAND = f"{shlex.quote(sys.executable)} -m slicewise"


def test_a_reader_that_leaves_ends_it_quietly(tmp_path):
    """More lines than a pipe holds, for a reader that takes one."""
    store = tmp_path / "runs.db"
    with Store(store) as opened:
        runs = [
            Run("theory", "edge", "sw", "power", 0.1, seed, {"n": 1}, {}) for seed in range(2000)
        ]
        opened.add([Result(run, "measured", 0.1, w2=0.5) for run in runs], "cpu", {})
    line = f"{COMMAND} runs {shlex.quote(str(store))} --all --json"
    whole = subprocess.run(line, shell=True, capture_output=True, text=True, check=True)
    assert len(whole.stdout) > 2**17
    script = f"{line} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    first, status = done.stdout.splitlines()
    assert first == whole.stdout.splitlines()[0]
    assert int(status) == PIPE_CLOSED
    assert done.stderr == ""


def test_the_store_of_the_demo_is_found(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "there is no store runs.db" in refused(capsys, "runs")
    run = Run("theory", "edge", "sw", "power", 0.1, 0, {"n": 1}, {})
    with Store(tmp_path / "report" / "runs.db") as store:
        store.add([Result(run, "measured", 0.1, w2=0.5)], "cpu", {})
    assert "edge" in accepted(capsys, "runs")
    # One that lies here comes first.
    with Store(tmp_path / "runs.db") as store:
        store.add(
            [
                Result(
                    Run("theory", "own", "sw", "power", 0.1, 0, {"n": 1}, {}),
                    "measured",
                    0.1,
                    w2=0.5,
                )
            ],
            "cpu",
            {},
        )
    assert "own" in accepted(capsys, "runs")


def piped(given: bytes, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """A command that reads these bytes from a pipe."""
    run = [sys.executable, "-m", "slicewise", *map(str, arguments)]
    return subprocess.run(run, input=given, capture_output=True, check=False)


def test_a_dash_is_standard_input(capsys, tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 6, 3))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    expected = accepted(capsys, "distance", tmp_path / "x.npy", tmp_path / "y.npy", "-q")
    as_npy = (tmp_path / "x.npy").read_bytes()
    as_text = "\n".join(",".join(map(repr, row)) for row in x.tolist()).encode()
    for given in (as_npy, as_text):
        done = piped(given, "distance", "-", tmp_path / "y.npy", "-q")
        assert (done.returncode, done.stdout.decode(), done.stderr) == (0, expected, b"")
    for given, words, said in (
        (b"", ("-", tmp_path / "y.npy"), b"standard input is empty"),
        (as_npy, ("-", "-"), b"give it for one file only"),
        (b"1,2\nx,y\n", ("-", tmp_path / "y.npy"), b"standard-input.csv, line 2"),
    ):
        done = piped(given, "distance", *words)
        assert (done.returncode, done.stdout) == (2, b"")
        assert said in done.stderr
        assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("distance a b --seeds 3", "--seed"),
        ("distance a b --n-slice 3", "--n-slices"),
        ("runs --seed 3", None),  # not --store
        ("variants --options", None),
        ("distnce a b", "distance"),
        ("teleport a b", None),
    ],
)
def test_only_what_is_near_is_offered(capsys, words, offered):
    said = refused(capsys, *words.split())
    if offered is None:
        assert "ossible option" not in said
        assert "Did you mean" not in said
    else:
        assert f"{offered}" in said.replace(words.split()[-2], "", 1)
        assert said.count("--") <= 3
