"""The comparison of color transfers judges rightly, and runs."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from skimage import data

from benchmarks.color.__main__ import as_csv, judged, main, summary
from benchmarks.color.contenders import WAYS

CUP = np.ascontiguousarray(data.coffee()[::6, ::6])
CAT = np.ascontiguousarray(data.chelsea()[::6, ::6])


def test_what_did_not_change_kept_everything():
    found = judged(CUP, CUP, CUP, repeats=1)
    assert found["ssim"] == pytest.approx(1)
    assert found["edges"] == pytest.approx(1)
    assert found["sw"] == 0


def test_what_lost_its_structure_shows_it():
    shuffled = np.random.default_rng(0).permutation(CUP.reshape(-1, 3)).reshape(CUP.shape)
    found = judged(CUP, shuffled, CUP, repeats=1)
    assert found["ssim"] < 0.1
    assert abs(found["edges"]) < 0.2
    assert found["sw"] < 5  # the palette is the same


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WAYS if "slicewise" not in name])
def test_the_ways_of_others_bring_palettes_nearer(name):
    moved = WAYS[name](CAT, CUP)
    assert moved.shape == CAT.shape
    assert moved.dtype == np.uint8
    assert judged(CAT, moved, CUP, repeats=1)["w2"] < judged(CAT, CAT, CUP, repeats=1)["w2"]


def test_means_and_counts():
    measures = {"w2": 1.0, "sw": 2.0, "ssim": 0.5, "edges": 0.25, "seconds": 3.0}
    close = [{"way": "a", **measures}, {"way": "a", **measures, "w2": 2.0}]
    pair = {"source": "s", "target": "t", "before": 9.0, "slicewise": 1.0, "match_histograms": 2.0}
    text = summary(close, [pair, {**pair, "slicewise": 3.0}], {"a": 5e6})
    assert "| a | 1.5 | 2.0 | 0.50 | 0.25 | 3.00 | 5 |" in text
    assert "on 1 of 2 pairs" in text
    (row,) = csv.DictReader(as_csv([pair]).splitlines())
    assert row["match_histograms"] == "2.0"


@pytest.mark.slow
def test_a_glance_runs(tmp_path):
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    assert "on 1 of 1 pairs" in (tmp_path / "color-quick.md").read_text()
