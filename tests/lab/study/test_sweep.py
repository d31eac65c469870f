"""Sweeps: what is there is skipped, what is killed goes on, and every engine gives the same rows."""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from slicewise.lab.errors import UserError
from slicewise.lab.study import engines
from slicewise.lab.study.engines import Job, ProcessEngine, SerialEngine
from slicewise.lab.study.machine import choose_device
from slicewise.lab.study.progress import SweepProgress
from slicewise.lab.study.run import Result, Run
from slicewise.lab.study.store import Store
from slicewise.lab.study.sweep import sweep
from slicewise.support import CheckpointFile
from tests.sweep_to_kill import cells

# The function has the name of its file.
sweep_module = importlib.import_module("slicewise.lab.study.sweep")
HERE = Path(__file__).parents[2]


@dataclass(frozen=True)
class Plain:
    """A cell that only says which of its runs it was asked for; it may fail, or die."""

    name: str
    seeds: tuple[int, ...]
    how: str = ""
    alone: bool = False

    @property
    def runs(self):
        return tuple(Run("test", self.name, "", "", None, seed, {}) for seed in self.seeds)

    def device(self, asked):
        return asked

    def measure(self, runs, device, checkpoint=None):
        if self.how == "fails":
            raise ValueError("it was\nto be")
        if self.how == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "memory for none" or (self.how == "memory" and len(runs) > 2):
            raise torch.OutOfMemoryError("too many")
        return [Result(run, device, 1.0, batch=len(runs), w2=float(run.seed)) for run in runs]


def everything(path):
    """All rows but for what time does to them."""
    with Store.reading(path) as store:
        assert store._connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = store.rows()
        arrays = {
            (row["key"], name): None if found is None else found.tobytes()
            for row in rows
            for name in ("way", "end")
            for found in (store.array(row["key"], name),)
        }
    timeless = [{n: v for n, v in row.items() if n not in ("seconds", "finished")} for row in rows]
    return timeless, arrays


def test_only_what_is_missing_is_made(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        first = sweep([Plain("a", (0, 1))], store)
        assert (first.made, first.there) == (2, 0)
        again = sweep([Plain("a", (0, 1, 2)), Plain("b", (0,))], store)
        assert (again.made, again.there) == (2, 2)
        assert [(row["setting"], row["seed"], row["batch"]) for row in store.rows()] == [
            ("a", 0, 2), ("a", 1, 2), ("a", 2, 1), ("b", 0, 1),
        ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("engine", [SerialEngine(), ProcessEngine(2)])
def test_a_cell_that_fails_stops_nobody_else(tmp_path, engine):
    with Store(tmp_path / "runs.db") as store:
        found = sweep([Plain("a", (0,), "fails"), Plain("b", (0,))], store, engine=engine)
        assert found.failed == {"a": "ValueError: it was\nto be"}
        assert [row["setting"] for row in store.rows()] == ["b"]
        # What failed is not in the store: it is tried again.
        assert sweep([Plain("a", (0,))], store).made == 1


@pytest.mark.slow
def test_a_process_that_dies_takes_only_its_own_cell_down(tmp_path):
    many = [Plain(f"c{i}", (0,)) for i in range(6)]
    with Store(tmp_path / "runs.db") as store:
        found = sweep([Plain("dies", (0,), "dies"), *many], store, engine=ProcessEngine(2))
        assert set(found.failed) == {"dies"}
        assert "its process died" in found.failed["dies"]
        assert {row["setting"] for row in store.rows()} == {cell.name for cell in many}


def test_a_batch_too_large_for_memory_is_made_in_parts(tmp_path):
    done = engines.run_job(
        Job(Plain("a", tuple(range(7)), "memory"), Plain("a", tuple(range(7))).runs, "cpu")
    )
    assert [result.run.seed for result in done.results] == list(range(7))
    assert {result.batch for result in done.results} == {1, 2}
    # One run that does not fit alone has failed.
    never = Plain("a", (0, 1), "memory for none")
    assert engines.run_job(Job(never, never.runs, "cpu")).error == "OutOfMemoryError: too many"


def test_what_is_timed_runs_by_itself(tmp_path):
    made = []

    @dataclass(frozen=True)
    class Noted(SerialEngine):
        def __call__(self, jobs):
            made.extend(job.cell.name for job in jobs)
            return super().__call__(jobs)

    with Store(tmp_path / "runs.db") as store:
        sweep([Plain("timed", (0,), alone=True), Plain("a", (0,))], store, engine=Noted())
        assert len(store.rows()) == 2
    assert made == ["a"]


def test_it_tells_how_far_it_is(tmp_path, capsys):
    with Store(tmp_path / "runs.db") as store:
        sweep([Plain("a", (0, 1)), Plain("b", (0,), "fails")], store, progress=SweepProgress())
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("[1/2] a: 2 runs, ")
    assert second.startswith("[2/2] b: ValueError: it was")


def test_devices():
    assert choose_device("cpu") == "cpu"
    assert choose_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    for unknown in ("gpu", "mps", "cuda:x", "cuda:"):
        with pytest.raises(UserError, match=f"--device {unknown}: give auto"):
            choose_device(unknown)
    with pytest.raises(UserError, match="--device cuda:99: there"):
        choose_device("cuda:99")
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="no CUDA device"):
            choose_device("cuda")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The rows of the small sweep, made in one go in this process."""
    path = tmp_path_factory.mktemp("whole") / "runs.db"
    with Store(path) as store:
        found = sweep(cells(), store)
    assert not found.failed
    return everything(path)


@pytest.mark.slow
def test_the_sweep_has_all_kinds_of_ends(uninterrupted):
    rows, arrays = uninterrupted
    assert {row["status"] for row in rows} == {"out of steps", "diverged", "arrived"}
    assert all((row["w2"] == float("inf")) == (row["status"] == "diverged") for row in rows)
    assert any(array is not None for array in arrays.values())
    assert len(rows) == 2 * 4 * (6 + 6 + 2)


@pytest.mark.slow
def test_processes_give_the_same_rows(tmp_path, uninterrupted):
    with Store(tmp_path / "runs.db") as store:
        assert not sweep(cells(), store, engine=ProcessEngine(2)).failed
    rows, arrays = everything(tmp_path / "runs.db")
    expected = [{**row, "device": None} for row in uninterrupted[0]]
    assert [{**row, "device": None} for row in rows] == expected
    assert arrays == uninterrupted[1]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_killed_again_and_again_it_ends_up_the_same(tmp_path, uninterrupted, processes):
    """Twenty times: begin, let it run for a random while, kill -9. In the end nothing is lost or doubled."""
    path = tmp_path / "runs.db"
    command = [sys.executable, str(HERE / "sweep_to_kill.py"), str(path), str(processes)]
    chance, counts = random.Random(processes), []
    for _ in range(20):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        assert child.stdout.readline() == b"begun\n"
        # Mostly in its first cell, which takes longest, sometimes in the next ones; then anywhere within.
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            child.stdout.readline()
        time.sleep(chance.random() * chance.choice((0.02, 0.2, 1.0)))
        # The process that writes, and nobody else: those that work for it must end by themselves.
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        rows, _ = everything(path)
        counts.append(len(rows))
        # Whole cells only: each has its six or two runs.
        assert all(len(found) in (2, 6) for found in by_cell(rows).values())
    assert counts == sorted(counts)
    assert counts[-1] > 0
    assert len(set(counts)) > 5, "it was seldom killed in the middle"
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.endswith(f"of {len(uninterrupted[0])}\n")
    rows, arrays = everything(path)
    expected = [{**row, "device": None} for row in uninterrupted[0]]
    assert [{**row, "device": None} for row in rows] == expected
    assert arrays == uninterrupted[1]


def workers_of(group):
    """Processes of a group that are still there."""
    listed = subprocess.run(
        ["ps", "-e", "-o", "pgid=,stat="], capture_output=True, text=True, check=True
    )
    lines = [line.split() for line in listed.stdout.splitlines()]
    return [stat for pgid, stat in lines if int(pgid) == group and not stat.startswith("Z")]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ps") is None, reason="no ps")
def test_workers_do_not_outlive_the_process_they_work_for(tmp_path):
    command = [sys.executable, str(HERE / "sweep_to_kill.py"), str(tmp_path / "runs.db"), "2"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout.readline() == b"begun\n"
    assert child.stdout.readline() == b"cell\n"
    assert len(workers_of(child.pid)) >= 3
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    patience = time.monotonic() + 10
    while workers_of(child.pid) and time.monotonic() < patience:
        time.sleep(0.1)
    assert workers_of(child.pid) == []


def test_what_a_kill_left_half_written_is_removed(tmp_path):
    scratch = tmp_path / "runs.db.cells"
    scratch.mkdir()
    old, new = scratch / ".a.pt.x1", scratch / ".b.pt.x2"
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (0, 0))
    with Store(tmp_path / "runs.db") as store:
        sweep([], store)
    assert list(scratch.iterdir()) == [new]


def by_cell(rows):
    found = {}
    for row in rows:
        place = (row["setting"], row["variant"], row["objective"], row["lr"] is None)
        found.setdefault(place, []).append(row)
    return found


def test_a_long_cell_goes_on_in_its_middle(tmp_path, monkeypatch):
    """Stopped in a flow: the second time it is not begun anew, and ends where it would have."""
    monkeypatch.setattr(CheckpointFile, "due", lambda self: True)
    cell = cells()[0]
    path = tmp_path / "cell.pt"
    whole = cell.measure(cell.runs, "cpu")
    seen = []
    honest = CheckpointFile.save

    def stopped(self, state, identity):
        honest(self, state, identity)
        seen.append(state["step"])
        if len(seen) == 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(CheckpointFile, "save", stopped)
    with pytest.raises(KeyboardInterrupt):
        cell.measure(cell.runs, "cpu", path)
    assert path.exists()
    monkeypatch.setattr(CheckpointFile, "save", honest)
    resumed = cell.measure(cell.runs, "cpu", path)
    assert [result.w2 for result in resumed] == [result.w2 for result in whole]
    assert [result.trace for result in resumed] == [result.trace for result in whole]


def test_what_a_cell_went_on_from_is_removed(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        assert not sweep(cells()[:2], store).failed
    assert not (tmp_path / "runs.db.cells").exists()


def test_two_sweeps_clear_one_folder(tmp_path):
    """While one sweep removes what is left of killed processes, another writes and removes files, and the folder."""
    scratch = tmp_path / "runs.db.cells"
    ended = threading.Event()

    def another():
        while not ended.is_set():
            with contextlib.suppress(OSError):
                scratch.mkdir(exist_ok=True)
                for i in range(20):
                    file = scratch / f".old-{i}"
                    file.touch()
                    os.utime(file, (0, 0))
                for i in range(20):
                    (scratch / f".old-{i}").unlink(missing_ok=True)
                scratch.rmdir()

    others = [threading.Thread(target=another) for _ in range(2)]
    for one in others:
        one.start()
    try:
        for _ in range(400):
            sweep_module._clear(scratch)
    finally:
        ended.set()
        for one in others:
            one.join()


def test_a_folder_that_vanishes_while_it_is_read(tmp_path, monkeypatch):
    scratch = tmp_path / "runs.db.cells"
    scratch.mkdir()
    for i in range(3):
        (scratch / f".old-{i}").touch()
        os.utime(scratch / f".old-{i}", (0, 0))
    stat = Path.stat

    def late(self, **how):
        if self.name.startswith(".old"):
            self.unlink(missing_ok=True)  # another sweep is faster
        return stat(self, **how)

    monkeypatch.setattr(Path, "stat", late)
    sweep_module._clear(scratch)
    monkeypatch.undo()
    assert not scratch.exists()
