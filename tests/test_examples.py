"""The example of training on several processes does what it says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.ranks import run

FILE = Path(__file__).parent.parent / "examples" / "train_on_ranks.py"


def example(rank, size, steps):
    plan = importlib.util.spec_from_file_location("train_on_ranks", FILE)
    module = importlib.util.module_from_spec(plan)
    plan.loader.exec_module(module)
    return module.compare(rank, size, steps)


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_training_on_ranks_is_training_on_one(size):
    for found in run(size, example, 25):
        assert found["difference"] < 1e-10
        assert found["one process"] == pytest.approx(found["one loss over processes"], abs=1e-9)
        assert abs(found["a loss for each"] - found["one process"]) > 1e-4
