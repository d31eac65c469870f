"""The benchmark runs, refuses to time what is wrong, and says which targets are met."""

from __future__ import annotations

import json

import pytest
import torch

from benchmarks.speed import __main__ as bench
from benchmarks.speed import scaling, timing
from benchmarks.speed.contenders import contenders
from benchmarks.speed.workloads import NUMPY_TARGETS, WORKLOADS

SMALL = WORKLOADS[0]


@pytest.mark.parametrize("name", contenders())
def test_contenders_do_the_same_work(name):
    value_error, gradient_error = timing.check(SMALL, name, contenders()[name])
    assert value_error < 1e-5
    assert gradient_error < 5e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    "workload", [w for w in WORKLOADS if w.name.startswith("F")], ids=lambda w: w.name
)
@pytest.mark.parametrize("name", ["slicewise", "slicewise, NumPy"])
def test_large_clouds_are_checked_too(workload, name):
    assert timing.check(workload, name, contenders()[name])[1] < 5e-3


def test_a_wrong_contender_is_not_timed():
    def wrong(x, y, n_slices, slices=None):
        return torch.tensor(1.0), torch.zeros_like(x)

    with pytest.raises(RuntimeError, match="wrong is wrong on A2"):
        timing.check(SMALL, "wrong", wrong)


@pytest.mark.slow
def test_it_ends_in_a_record_a_table_and_a_picture(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(scaling, "AXES", {"n": [10, 30], "d": [2, 4], "n_slices": [5, 10]})
    assert bench.main(["--quick", "--only", "A2", "--out", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "quick.json").read_text())
    assert record["versions"]["torch"]
    assert {t["against"] for t in record["targets"]} == {"POT", "torch sort"}
    assert set(record["variants_on_A50"]) >= {"sw", "ebsw", "dsw"}
    assert (tmp_path / "quick-scaling.png").read_bytes().startswith(b"\x89PNG")
    assert "| A2 | slicewise | POT | 10× |" in capsys.readouterr().out


def test_verdicts_compare_with_targets():
    seconds = {"slicewise": 1.0, "slicewise, NumPy": 1.0, "POT": 9.0, "torch sort": 6.0}
    met = {(v["who"], v["against"]): v["met"] for v in bench.verdicts(SMALL, seconds)}
    assert met == {
        ("slicewise", "POT"): False,
        ("slicewise", "torch sort"): True,
        ("slicewise, NumPy", "POT"): True,
    }
    assert set(NUMPY_TARGETS) <= {w.name for w in WORKLOADS}


def test_an_unknown_workload_is_named(capsys):
    assert bench.main(["--only", "Z"]) == 2
    assert "no such workload; choose from A2" in capsys.readouterr().err


def test_the_floor_is_below_every_contender():
    with timing.pinned(1):
        lowest = scaling.floor(1000, 16, 50)
        x, y = torch.randn(1000, 16), torch.randn(1000, 16)
        for contender in contenders().values():
            contender(x, y, 50)
            assert scaling.median_seconds(lambda c=contender: c(x, y, 50), 0.05) > lowest / 2
