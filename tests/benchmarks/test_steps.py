"""`make bench-steps` in small, the claims that take a while, and the examples."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import slicewise as sw
from benchmarks.steps import __main__ as command
from benchmarks.steps import rates, training
from benchmarks.steps.flows import palette
from slicewise.lab.data import toy


def test_the_record_is_whole(tmp_path, capsys):
    assert command.main(["--quick", "--only", "edges", "contractions", "--out", str(tmp_path)]) == 0
    (record,) = tmp_path.glob("steps-*.json")
    parts = json.loads(record.read_text())["parts"]
    assert [row["what"] for row in parts["edges"]] == [
        "edge, d = 2",
        "edge, d = 50",
        "edge, d = 100",
    ]
    assert "| edge, d = 2 |" in record.with_suffix(".md").read_text()
    assert "## contractions" in capsys.readouterr().out


def test_a_broken_promise_is_an_exit_code(tmp_path, monkeypatch):
    monkeypatch.setitem(command.PARTS, "edges", lambda quick: [{"what": "x", "met": False}])
    assert command.main(["--only", "edges", "--out", str(tmp_path)]) == 1


def test_networks_train_and_one_that_diverges_hurts_nobody():
    setting = training.Setting("sw", 8, 32, 10)
    chosen = [
        training.Candidate(optimizer, scale, rate)
        for scale in training.SCALES
        for optimizer, rate in (("sgd", 0.1), ("sgd", 1e6), ("momentum", 0.01), ("adam", 1e-3))
    ]
    rows = training.train(setting, chosen, steps=30, seed=0, device=torch.device("cpu"))
    untrained = training.train(setting, chosen, steps=0, seed=0, device=torch.device("cpu"))
    for row, before in zip(rows, untrained, strict=True):
        if row["rate"] > 1:
            assert row["w2"] == math.inf
        else:
            assert row["w2"] < before["w2"]
    alone = training.train(setting, chosen[:1], steps=30, seed=0, device=torch.device("cpu"))
    assert alone[0]["sw2"] == pytest.approx(rows[0]["sw2"], rel=1e-3)


def test_spread_of_rates():
    rows = [
        {"setting": s, "optimiser": "sgd", "scale": "classic", "rate": r, "w2": w}
        for s, curve in {
            "a": {1.0: 2.0, 2.0: 1.0, 4.0: 3.0},
            "b": {2.0: 1.1, 4.0: 1.0, 8.0: math.inf},
        }.items()
        for r, w in curve.items()
    ]
    (found,) = rates.spread(rows)
    assert (found["lowest"], found["highest"], found["factor"]) == (2.0, 4.0, 2.0)
    assert found["common"] == 2.0
    assert found["regret"] == pytest.approx(1.1)
    assert found["within"] == 2
    assert "2 to 4" in rates.table([found])


@pytest.mark.slow
def test_one_rate_serves_two_dimensions_and_two_variants():
    """The displacement scale's best rates lie closer together than the classic one's."""
    rows = []
    for variant, d, n_slices in (("sw", 16, 10), ("sw", 256, 100), ("ebsw", 256, 100)):
        setting = training.Setting(variant, d, 128, n_slices)
        chosen = training.candidates(["sgd"])
        rows += training.train(setting, chosen, steps=150, seed=1, device=torch.device("cpu"))
    classic, displaced = rates.spread(rows, "sw2")
    assert displaced["scale"] == "displacement"
    assert displaced["factor"] <= 4
    assert classic["factor"] >= 2 * displaced["factor"]
    assert displaced["regret"] < classic["regret"]


@pytest.mark.slow
def test_108_rates_and_seeds_are_108_calls():
    pair = toy("swiss", 60, 10, 1)
    edge = sw.steps.rate_of_step(sw.steps.stability_limit(50, 10), 60)
    grid = edge * torch.logspace(-4, math.log10(0.9), 36, dtype=torch.float64)
    seeds = torch.tensor([1, 2, 3])
    together = sw.flow(pair.x, pair.y, lr=grid[:, None], seeds=seeds, max_steps=200)
    assert together.particles.shape == (36, 3, 60, 10)
    for i in range(36):
        for j in range(3):
            alone = sw.flow(pair.x, pair.y, lr=float(grid[i]), seeds=int(seeds[j]), max_steps=200)
            assert (together.particles[i, j] - alone.particles).abs().max() < 1e-9


@pytest.mark.slow
def test_colors_of_photographs():
    x, y = palette("astronaut", 3000, 1), palette("coffee", 3000, 2)
    found = sw.flow(x, y, seeds=[1, 2, 3], stopping=sw.Stopping(w2=0.05))
    assert found.converged.all()
    assert found.n_steps.median() <= 600


@pytest.mark.slow
def test_clouds_like_colors():
    """Mixtures of gaussians in a cube: slow to un-mix, not stuck. An escape that takes them for stuck undoes them."""

    def mixture(seed, n=3000, modes=6):
        g = torch.Generator().manual_seed(seed)
        centers = 255 * torch.rand(modes, 3, generator=g, dtype=torch.float64)
        widths = 10 + 30 * torch.rand(modes, 3, generator=g, dtype=torch.float64)
        mode = torch.randint(modes, (n,), generator=g)
        noise = torch.randn(n, 3, generator=g, dtype=torch.float64)
        return (centers[mode] + widths[mode] * noise).clamp(0, 255)

    seeds = [1, 4, 5]
    x, y = (torch.stack([mixture(seed + shift) for seed in seeds]) for shift in (0, 100))
    found = sw.flow(x, y, seeds=seeds, stopping=sw.Stopping(w2=0.05))
    assert found.converged.all()
    assert found.n_steps.median() <= 600


@pytest.mark.slow
def test_the_example_runs():
    script = Path(__file__).parents[2] / "examples" / "train_generator.py"
    command = [sys.executable, str(script), "--steps", "2"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[2].startswith("displacement")
