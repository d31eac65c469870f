"""Ctrl-C, whenever it comes: a line and the exit status 130."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from slicewise.lab import cli


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.25, 0.5, 0.8, 1.2, 2.0])
def test_in_the_first_seconds(tmp_path, after):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(3000, 3)))
    command = [
        sys.executable,
        "-m",
        "slicewise",
        "flow",
        "a.npy",
        "a.npy",
        "--steps",
        "100000",
        "--sliced-only",
        "-o",
        "x.gif",
    ]
    child = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    time.sleep(after)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert "Traceback" not in err, err
    assert child.returncode == 130, err
    assert err.strip().splitlines()[-1] == "slicewise: stopped"
    assert out == ""


@pytest.mark.parametrize("error", [KeyboardInterrupt, ImportError, RuntimeError])
def test_an_import_that_is_interrupted_may_fail_with_any_error(monkeypatch, capsys, error):
    def interrupted(arguments):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise error("half imported") from None
        raise AssertionError

    monkeypatch.setattr(cli, "_run", interrupted)
    assert cli.main(["variants"]) == 130
    assert capsys.readouterr().err == "slicewise: stopped\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_without_an_interrupt_is_raised(monkeypatch):
    def fails(arguments):
        raise RuntimeError("a fault")

    monkeypatch.setattr(cli, "_run", fails)
    with pytest.raises(RuntimeError, match="a fault"):
        cli.main(["variants"])


def test_the_loss_of_a_cluster_is_one_line(monkeypatch):
    """A hundred tasks are lost with the cluster: the sweep ends at the first."""
    from slicewise.lab.errors import UserError
    from slicewise.lab.study import ray_engine

    class Gone(Exception):
        pass

    class Nothing:
        Lost, NodeLost = Gone, ()
        cancelled = 0

        class ray:
            @staticmethod
            def wait(waiting, **how):
                return waiting[:1], []

            @staticmethod
            def get(reference):
                raise Gone("The node died")

        def submit(self, *given):
            return object()

        def alive(self):
            raise ConnectionError("the head does not answer")

        def cancel(self, waiting):
            self.cancelled = len(list(waiting))

    class Cell:
        name = "cell"

    engine = ray_engine.RayEngine.__new__(ray_engine.RayEngine)
    engine._cluster, engine._machines = Nothing(), {}
    jobs = [ray_engine.Job(Cell(), (), "cpu") for _ in range(108)]
    with pytest.raises(
        UserError, match=r"the Ray cluster is gone .*The node died.*repeat the command"
    ):
        list(engine(jobs))
    assert engine._cluster.cancelled == 107
    # With a node left, a lost task is a failure of its own.
    engine._cluster.alive = lambda: [{"Alive": True}]
    assert all("lost by the cluster" in one.error for one in engine(jobs[:3]))


def test_cells_that_fail_for_one_reason_are_one_line():
    from slicewise.lab.cli.reproduce import _failures

    failed = {f"cell {i}": "lost by\nthe cluster" for i in range(108)} | {"other": "a fault"}
    assert _failures(failed) == [
        "cell 0 and 107 other cells failed: lost by the cluster",
        "other failed: a fault",
    ]
