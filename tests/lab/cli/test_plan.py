"""`slicewise plan`: files that hold the plan, and mistakes in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import slicewise as sw
from tests.command_line import accepted, refused


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", rng.normal(size=(20, 3)))
    np.save(tmp_path / "b.npy", rng.normal(size=(15, 3)) + 1)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_file_holds_the_plan(folder, capsys):
    said = accepted(capsys, "plan", "a.npy", "b.npy", "-o", "plan.csv", "--exact", "--json")
    found = json.loads(said)
    table = np.loadtxt(folder / "plan.csv", delimiter=",", skiprows=1)
    dense = np.zeros((20, 15))
    dense[table[:, 0].astype(int), table[:, 1].astype(int)] = table[:, 2]
    assert np.abs(dense.sum(axis=0) - 1 / 15).max() < 1e-12
    assert np.abs(dense.sum(axis=1) - 1 / 20).max() < 1e-12
    x, y = (torch.from_numpy(np.load(folder / f"{name}.npy")) for name in "ab")
    cost = float((torch.from_numpy(dense) * torch.cdist(x, y).square()).sum())
    assert found["cost"] == pytest.approx(cost)
    assert found["cost"] >= found["exact"] == pytest.approx(float(sw.wasserstein(x, y)) ** 2)
    assert found["pairs"] == len(table)


def test_expected_plans_and_arrays(folder, capsys):
    said = accepted(capsys, "plan", "a.npy", "b.npy", "--kind", "expected", "-o", "plan.npz")
    assert "expected" in said
    with np.load(folder / "plan.npz") as arrays:
        assert arrays["mass"].sum() == pytest.approx(1)
    cost = float(accepted(capsys, "plan", "a.npy", "b.npy", "--quiet"))
    assert cost > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "cheapest"], "--kind"),
        (["-o", "plan.txt"], "ends in .csv or .npz"),
        (["--beta", "-1"], "--beta"),
        (["--exact", "--norm", "1"], "--exact"),
        (["-v", "ssw"], "not linear in the samples"),
        (["--json", "--quiet"], "choose one"),
    ],
)
def test_mistakes_are_one_line(folder, capsys, arguments, message):
    assert message in refused(capsys, "plan", "a.npy", "b.npy", *arguments)
