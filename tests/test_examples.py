"""The examples of training on several processes and of training without a rate do what they say."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import pytest

from tests.ranks import run

EXAMPLES = Path(__file__).parent.parent / "examples"


def loaded(name, monkeypatch=None):
    plan = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(plan)
    if monkeypatch is not None:
        monkeypatch.setitem(sys.modules, name, module)  # where dataclasses look their module up
    plan.loader.exec_module(module)
    return module


def example(rank, size, steps):
    return loaded("train_on_ranks").compare(rank, size, steps)


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_training_on_ranks_is_training_on_one(size):
    for found in run(size, example, 25):
        assert found["difference"] < 1e-10
        assert found["one process"] == pytest.approx(found["one loss over processes"], abs=1e-9)
        assert abs(found["a loss for each"] - found["one process"]) > 1e-4


def test_training_without_a_rate(tmp_path, monkeypatch, capsys):
    """All three networks learn, at both scales of the pixels, and nobody gave a rate."""
    module = loaded("train_without_a_rate", monkeypatch)
    trained = []
    train = module.train
    monkeypatch.setattr(
        module, "train", lambda *given: trained.append(train(*given)) or trained[-1]
    )
    picture = tmp_path / "made" / "no-rate.png"
    monkeypatch.setattr(sys, "argv", ["", "--steps", "40", "--out", str(picture)])
    module.main()
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(capsys.readouterr().out.splitlines()) == 4
    small, large, autoencoder = trained
    for one in trained:
        assert len(one.losses) == len(one.lengths) == 40
        assert all(math.isfinite(length) and length >= 0 for length in one.lengths)
    # Pixels 255 times as large are the same training, and both are nearer than calibrated outputs.
    for one in (small, large):
        assert one.losses[-1] < one.losses[0] / 1.5
    assert sum(large.lengths) == pytest.approx(sum(small.lengths), rel=0.2)
    assert large.losses[-1] == pytest.approx(255**2 * small.losses[-1], rel=0.3)
    assert autoencoder.losses[-1] < autoencoder.losses[0] / 1.5


def test_toward_a_law(tmp_path, monkeypatch, capsys):
    """Codes near the law, accuracies of every regularizer, a picture."""
    module = loaded("toward_a_law", monkeypatch)
    monkeypatch.setattr(module, "WEIGHTS", (0.5,))
    picture = tmp_path / "made" / "law.png"
    monkeypatch.setattr(sys, "argv", ["", "--steps", "25", "--seeds", "1", "--out", str(picture)])
    module.main()
    assert picture.read_bytes().startswith(b"\x89PNG")
    said = capsys.readouterr().out
    assert float(said.split("SW_2 ")[1].split()[0]) < 1
    accuracies = [float(line.split(": ")[1].split(" %")[0]) for line in said.splitlines()[1:-1]]
    assert len(accuracies) == 5
    assert min(accuracies[:3]) > 60
