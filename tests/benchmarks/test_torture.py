"""The trial itself: it finds what is wrong, resumes, and its short seeded part passes."""

from __future__ import annotations

import json

import pytest
import torch

import slicewise as sw
from benchmarks.torture import __main__ as torture
from benchmarks.torture import arguments, files, kills, ranks, values

SHORT = {
    "values": (values.values, 2),
    "arguments": (arguments.arguments, 2),
    "files": (files.files, 3),
    "commands": (files.commands, 1),
    "kills": (kills.kills, 1),
    "writers": (kills.writers, 3),
    "ranks": (ranks.ranks, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_a_short_seeded_part(name, tmp_path):
    trial, batches = SHORT[name]
    for number in range(batches):
        tally = trial(20261118 + number, str(tmp_path))
        assert tally.tried > 0
        assert tally.failures == []


def test_a_wrong_value_is_found(monkeypatch, tmp_path):
    honest = sw.evaluate

    def wrong(*given, **options):
        found = honest(*given, **options)
        object.__setattr__(found, "value", found.value * 1.001)
        return found

    monkeypatch.setattr(sw, "evaluate", wrong)
    tally = values.values(1, str(tmp_path))
    assert len(tally.failures) > tally.tried / 4


def test_an_error_of_torch_is_found():
    def broken(**given):
        return torch.randn(2) @ torch.randn(3)

    assert "RuntimeError" in arguments._outcome("broken", broken, {}, 0)


def test_a_lost_row_is_found(tmp_path):
    assert kills._lost(tmp_path / "none.db", {"cell 1"}) == "the store is gone"
    with kills.Store(tmp_path / "runs.db") as store:
        kills.sweep([kills._Cell(0)], store)
    assert kills._lost(tmp_path / "runs.db", {"cell 0"}) is None
    assert "cell 1" in kills._lost(tmp_path / "runs.db", {"cell 0", "cell 1"})


def test_a_stopped_trial_goes_on(monkeypatch, tmp_path):
    made = []

    def batch(name, number, seed, folder):
        made.append((name, number))
        return {
            "trial": name,
            "batch": number,
            "tried": 5,
            "kills": 0,
            "failures": [],
            "seconds": 1.0,
        }

    monkeypatch.setattr(torture, "batch", batch)
    monkeypatch.setattr(torture, "ProcessPoolExecutor", InLine)
    state = tmp_path / "state.jsonl"
    done = torture.run(0.0005, 1, 1, state, ["values", "files"])
    first = len(done)
    assert first == len(set(made)) >= 2
    done = torture.run(0.0005, 1, 1, state, ["values", "files"])
    assert len(set(made)) == len(made) == len(done) > first
    assert len(state.read_text().splitlines()) == len(done)
    assert all(json.loads(line)["seed"] == 1 for line in state.read_text().splitlines())
    assert f"| **all** | **{5 * len(done):,}** |" in torture.table(done, ["values", "files"])


class InLine:
    """A pool that works at once."""

    def __init__(self, *given, **options):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *given):
        return None

    def submit(self, call, *given):
        from concurrent.futures import Future

        future = Future()
        future.set_result(call(*given))
        return future
