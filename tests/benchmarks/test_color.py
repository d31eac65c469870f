"""The comparison of color transfers judges rightly, and runs."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from skimage import data

from benchmarks.color.__main__ import as_csv, main, summary
from benchmarks.color.contenders import WAYS
from benchmarks.color.film import Steadiness, film, flat_areas
from benchmarks.color.front import figure, means
from benchmarks.color.measures import ARTIFACTS, judged, skin_shift

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


def test_means_and_pairs():
    measures = {"w2": 1.0, "sw": 2.0, "ssim": 0.5, "edges": 0.25, "seconds": 3.0}
    close = [{"way": "a", **measures}, {"way": "a", **measures, "w2": 2.0}]
    seen = dict.fromkeys(ARTIFACTS, 0.5)
    pair = {"source": "s", "target": "t", "way": "a", "w2": 4.0, **seen}
    other = {**pair, "target": "u", "w2": 6.0, "seams": 1.5, "skin": float("nan")}
    text = summary(close, [pair, other], {"a": 5e6})
    assert "| a | 1.5 | 2.0 | 0.50 | 0.25 | 3.00 | 5 |" in text
    # A picture without skin has no shift of it to be counted.
    assert "| a | 5.0 | 1.00 | 0.50 | 0.50 | 0.50 | 0.50 | 0.50 |" in text
    assert "| s | u | 6.0 (1.50) |" in text
    (row,) = csv.DictReader(as_csv([pair]).splitlines())
    assert row["seams"] == "0.5"


def test_skin_shifts_are_degrees_of_hue():
    face = np.full((20, 20, 3), (200, 150, 120), np.uint8)
    assert skin_shift(face, face) == 0
    assert skin_shift(face, np.ascontiguousarray(face[:, :, ::-1])) > 90
    assert np.isnan(skin_shift(np.full((20, 20, 3), (20, 60, 200), np.uint8), face))


def test_steadiness_is_the_change_of_flat_areas():
    flat = np.ones((16, 32), bool)
    flat[:, 24:] = False
    steady = Steadiness(flat)
    before = np.full((16, 32, 3), 100, np.uint8)
    checks = before.copy()
    checks[::2, ::2] += 4  # a quarter of all pixels
    checks[:, 24:] = 0  # not flat
    checks[:8, :8] = 0  # covered
    covered = np.zeros((16, 32), bool)
    covered[:8, :8] = True
    steady.add(before, checks, covered)
    found = steady.result()
    assert found["levels"] == pytest.approx(np.sqrt(3 * 4**2 / 4))
    assert found["levels_of_squares"] == pytest.approx(np.sqrt(3))  # each mean is higher by one
    assert 0 < found["delta_e_of_squares"] < found["delta_e"]


def test_a_film_has_a_still_ground_and_a_disk_that_passes():
    still, disk = np.full((40, 80, 3), 50, np.uint8), np.full((40, 80, 3), 200, np.uint8)
    frames = list(film(still, disk, 4, noise=0.0))
    assert len(frames) == 4
    for frame, covered in frames:
        assert (frame[~covered] == 50).all()
        assert (frame == 200).any()
    assert not np.array_equal(frames[0][0], frames[3][0])
    noisy, covered = next(iter(film(still, disk, 4, noise=2.0)))
    assert np.std(noisy[~covered]) == pytest.approx(2, rel=0.1)
    still[:, 40:] = 90
    flat = flat_areas(still)
    assert not flat[:, 36:44].any()
    assert flat[:, :25].all()


def test_a_front_is_of_means():
    seen = dict.fromkeys(ARTIFACTS, 0.5)
    rows = [{"way": way, "w2": w2, **seen} for way in ("linear", "price 8") for w2 in (1.0, "3")]
    found = means(rows)
    assert found["price 8"]["w2"] == 2
    assert figure(found)[:4] == b"\x89PNG"


@pytest.mark.slow
def test_a_glance_runs(tmp_path):
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    assert "Means over 1 pairs" in (tmp_path / "color-quick.md").read_text()
