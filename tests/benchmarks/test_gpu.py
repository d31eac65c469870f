"""The benchmark of a CUDA device, as far as it can be tested without one."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import slicewise as sw
from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import checks, contenders, floors, report, timing
from benchmarks.speed.workloads import WORKLOADS
from benchmarks.steps.flows import ELEVEN

H200 = floors.Ceilings(4.2e12, 51e12, 0.85e-6, 132)
BY_NAME = {w.name: w for w in WORKLOADS}


@pytest.mark.parametrize(
    ("name", "microseconds"),
    [("A2", 3.4), ("A50", 3.4), ("C12288", 6), ("D", 12.7), ("E1000", 155), ("B", 38),
     ("F1e5", 560), ("F1e6", 2500)],
)  # fmt: skip
def test_floors_are_those_that_were_worked_out_by_hand(name, microseconds):
    assert floors.floor(BY_NAME[name], H200) * 1e6 == pytest.approx(microseconds, rel=0.15)


def test_a_network_is_counted():
    assert [floors.exchanges(n) for n in (1, 2, 4, 3)] == [0, 1, 6, 6]
    # By running one: every pair it compares.
    n, compared, size = 64, 0, 2
    while size <= n:
        stride = size // 2
        while stride:
            compared += sum(1 for i in range(n) if i ^ stride > i)
            stride //= 2
        size *= 2
    assert floors.exchanges(n) == compared


def test_a_slower_device_has_higher_floors():
    slower = floors.Ceilings(2.1e12, 25e12, 1.7e-6, 66)
    for workload in WORKLOADS:
        assert floors.floor(workload, slower) > floors.floor(workload, H200)


def made_up():
    errors = {"move": 1e-5, "fall": 1e-6}
    flow = {"steps": 10_000, "timed_steps": 10_000, "seconds": 0.1, "seconds_per_step": 1e-5,
            "floor_seconds": 3.4e-6, "over_floor": 2.9, "errors": errors}  # fmt: skip
    step = {"seconds": 2e-4, "device_seconds": 1e-4, "over_floor": 1.5, "errors": (1e-7, 1e-5)}
    slow = {"seconds": 3e-3, "errors": (1e-7, 1e-5)}  # no floor was measured
    return {
        "date": "2026-01-01",
        "quick": False,
        "python": "3.12",
        "versions": {"torch": "2.11", "slicewise": "0"},
        "gpu": {"name": "a device", "driver": "1", "cuda": "13.0"},
        "peers": {"POT": "0.9, from its source"},
        "ceilings": H200.record(),
        "flows": {"A2": flow, "D": {**flow, "seconds_per_step": 31e-6}},
        "steps": {"E1000": {"slicewise": step, "POT": slow}, "A2": {"POT": slow}},
        "variants": {"sw": {**flow, "paper_seconds": 8.62, "paper_over_ours": 86.2},
                     "dsw": {**flow, "timed_steps": 5000, "paper_seconds": 162.25,
                             "paper_over_ours": 10.0}},
        "accuracy": {"F1e6": {"slicewise": {"value": 0.0, "gradient": 1e-4},
                              "POT": {"value": 4e-3, "gradient": 9e-3}}},
        "errors": [{"piece": "step D, POT", "error": "RuntimeError: no"}],
    }  # fmt: skip


def test_verdicts_compare_with_targets():
    met = {v["what"]: v["met"] for v in report.verdicts(made_up())}
    assert met["flow A2"] is True
    assert met["flow D"] is False
    assert met["flow B2"] is None
    assert met["step E1000: slicewise against POT"] is True
    assert met["step E1000: slicewise against torch sort"] is None
    assert met["step E1000: slicewise over its float32 floor"] is True
    assert met["F1e6: error of POT's value over that of ours"] is True
    assert met["F1e6: error of POT's gradient over that of ours"] is False
    assert met["sw against the paper's runtime"] is True
    assert met["dsw against the paper's runtime"] is False


def test_every_target_belongs_to_something_that_is_timed():
    assert set(report.FLOW_TARGETS) == {case.name for case in timing.FLOWS}
    assert {name for name, *_ in report.STEP_TARGETS} <= set(timing.STEPPED)
    assert set(report.FLOOR_TARGETS) <= set(timing.STEPPED)
    assert tuple(report.PAPER_SECONDS) == ELEVEN


def test_the_summary_shows_targets_numbers_and_errors():
    record = made_up()
    record["targets"] = report.verdicts(record)
    text = report.summary(record)
    assert "a device, driver 1, CUDA 13.0" in text
    assert "| flow A2 | ≤ 0.2 s / 10,000 steps | 0.1 | met |" in text
    assert "| flow D | ≤ 30 µs / step | 31 | **missed** |" in text
    assert "| flow B2 | ≤ 1.5 s / 10,000 steps |  | not measured |" in text
    assert "| E1000 | POT | 3000 |  | 15.0× |  | 1e-07 / 1e-05 |" in text
    assert "(from 5000 steps)" in text
    assert "- step D, POT: RuntimeError: no" in text


def test_without_a_device_it_says_so_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main(["--out", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "needs a CUDA device" in said.err
    assert not list(tmp_path.iterdir())


def test_an_unknown_piece_is_named(capsys):
    assert gpu.main(["--only", "Z"]) == 2
    assert "--only Z: no such piece; choose from flows" in capsys.readouterr().err


def test_one_that_fails_does_not_lose_the_rest(tmp_path, capsys, monkeypatch):
    found = made_up()

    def step(workload, name, peer, *, quick):
        if name == "POT":
            raise RuntimeError("no")
        return {"seconds": 1e-3, "errors": (0.0, 0.0)}

    monkeypatch.setattr(floors, "measure", lambda quick: H200)
    monkeypatch.setattr(gpu, "time_flow", lambda case, quick: dict(found["flows"]["A2"]))
    monkeypatch.setattr(gpu, "time_variant", lambda name, quick: dict(found["flows"]["A2"]))
    monkeypatch.setattr(gpu, "time_step", step)
    monkeypatch.setattr(gpu.timing, "errors", lambda *_: (1e-8, 1e-7))
    both = {"value_and_grad": 100.0, "loss": 120.0, "classic": 120.0, "displacement": 150.0}
    monkeypatch.setattr(gpu.losses, "time_losses", lambda *_: both)
    monkeypatch.setattr(gpu.losses, "time_variant_loss", lambda *_: both)
    monkeypatch.setattr(gpu.losses.LossCase, "samples", lambda self: None)
    start = {
        **found,
        "losses": {},
        "variant_losses": {},
        "flows": {},
        "steps": {},
        "variants": {},
        "accuracy": {},
        "errors": [],
    }
    here = dict.fromkeys(("slicewise", "POT"), contenders.torch_peer(None))
    gpu.Bench(start, here, [], tmp_path / "gpu-1.5", quick=True).run()
    record = json.loads((tmp_path / "gpu-1.5.json").read_text())
    assert set(record["steps"]) == set(timing.STEPPED)
    assert set(record["steps"]["D"]) == {"slicewise"}
    assert record["steps"]["D"]["slicewise"]["over_floor"] == pytest.approx(1e-3 / 12.7e-6, rel=0.1)
    assert len(record["errors"]) == len(timing.STEPPED)
    assert set(record["variants"]) == set(ELEVEN)
    assert "step D, POT: failed: RuntimeError: no" in capsys.readouterr().out
    assert "step D, POT: RuntimeError: no" in (tmp_path / "gpu-1.5.md").read_text()


def test_a_flow_is_checked_before_it_is_timed(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 40, 2, generator=generator)
    how = {"lr": 1.0, "seeds": 0, "n_slices": 10, "recording": sw.Recording(progress_bar=False)}
    errors = checks.check_flow(x, y, "small", **how)
    assert errors["move"] < 1e-3
    assert errors["fall"] < 1e-3
    honest = checks.sw.flow

    def other_slices(x, y, **how):
        return honest(x, y, **{**how, "seeds": int(how["backend"] == "auto")})

    monkeypatch.setattr(checks.sw, "flow", other_slices)
    with pytest.raises(RuntimeError, match="wrong on small"):
        checks.check_flow(x, y, "small", **how)


SOURCE = """
import sys, torch
from pathlib import Path
from benchmarks.gpu import contenders as gpu_contenders
from benchmarks.speed.contenders import pot
said = gpu_contenders.pot_from_source(Path(sys.argv[1]))
import ot
assert ot.__file__.startswith(sys.argv[1]), ot.__file__
try:
    ot.emd([0.5, 0.5], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]])
except NotImplementedError as error:
    assert "stubbed" in str(error)
else:
    raise AssertionError("a compiled part was there")
g = torch.Generator().manual_seed(0)
x, y, slices = torch.randn(3, 50, 4, generator=g)
value, gradient = pot(x, y, 50, slices)
drawn = ot.sliced_wasserstein_distance(x, y, n_projections=20, seed=3)
print(said)
print(value.item(), gradient.square().sum().item(), drawn.item())
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ot") is None, reason="needs POT to compare with")
def test_pot_without_its_compiled_parts_computes_what_pot_does(tmp_path):
    import ot

    from benchmarks.speed.contenders import pot

    installed = Path(ot.__file__).parent
    leave_out = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(installed, tmp_path / "ot", ignore=leave_out)
    done = subprocess.run(
        [sys.executable, "-c", SOURCE, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said, numbers = done.stdout.splitlines()
    assert ot.__version__ in said
    assert "stubbed" in said
    generator = torch.Generator().manual_seed(0)
    x, y, slices = torch.randn(3, 50, 4, generator=generator)
    value, gradient = pot(x, y, 50, slices)
    drawn = ot.sliced_wasserstein_distance(x, y, n_projections=20, seed=3)
    expected = [value.item(), gradient.square().sum().item(), drawn.item()]
    assert [float(word) for word in numbers.split()] == pytest.approx(expected, rel=1e-6)


def test_pot_that_is_nowhere_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for key in ("JAX", "CUPY", "TENSORFLOW"):
        monkeypatch.setenv(f"POT_BACKEND_DISABLE_{key}", "1")
    with pytest.raises(ImportError, match="give its source by --pot"):
        contenders.load_pot(None)
    with pytest.raises(ImportError, match="no package ot in"):
        contenders.load_pot(tmp_path)
