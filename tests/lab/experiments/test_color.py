"""The paper's color study: palettes, rates on its scale, the floor at 0, and what the report says of it."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
import torch
from PIL import Image

import slicewise as sw
from slicewise.lab.data.photographs import photograph_pairs
from slicewise.lab.errors import UserError
from slicewise.lab.experiments import EXPERIMENTS, Options, color
from slicewise.lab.experiments.color import (
    RATES,
    ColorTask,
    cells,
    on_mean_scale,
    published_objective,
    published_rate,
)
from slicewise.lab.experiments.flows import ELEVEN, FlowCell
from slicewise.lab.published import published
from slicewise.lab.report.page import write_report
from slicewise.lab.study.run import Result
from slicewise.lab.study.store import Store
from slicewise.lab.study.sweep import sweep


def test_the_rates_are_the_papers():
    listed = {one.lr for one in published() if one.table == "color_transfer_full"}
    assert sorted(RATES) == sorted(listed)
    assert len(RATES) == 25


@pytest.mark.parametrize("objective", ["root", "power"])
@pytest.mark.parametrize("rate", RATES)
def test_rates_go_to_our_scale_and_back(rate, objective):
    assert published_rate(on_mean_scale(rate, objective, 3000), objective, 3000) == rate


def test_a_rate_means_what_it_does_in_published_scripts():
    x, y = torch.rand(2, 40, 3, dtype=torch.float64)
    how = {"seeds": 0, "max_steps": 1}
    # n times the root of a sum is what the reference convention has.
    ours = sw.flow(x, y, lr=on_mean_scale(1e-3, "root", 40), objective="root", **how)
    theirs = sw.flow(x, y, lr=1e-3, objective="root", convention="reference", **how)
    torch.testing.assert_close(ours.particles, theirs.particles, rtol=0, atol=1e-12)
    # The square, summed: twice the rate times the mean displacement, which is (x − y)/3 for a shift.
    moved = sw.flow(x, x + 1, lr=on_mean_scale(0.1, "power", 40), n_slices=20_000, **how)
    torch.testing.assert_close(moved.particles - x, torch.full_like(x, 0.2 / 3), rtol=0.05, atol=0)


def test_nothing_goes_below_the_floor():
    x, y = torch.rand(2, 30, 3, dtype=torch.float64)
    free = sw.flow(x, y, lr=300.0, seeds=0, max_steps=3).particles
    assert free.min() < 0
    held = sw.flow(x, y, lr=300.0, seeds=0, max_steps=3, lower_bound=0.0)
    assert held.particles.min() == 0
    first = sw.flow(x, y, lr=300.0, seeds=0, max_steps=1).particles.clamp(min=0)
    torch.testing.assert_close(
        sw.flow(x, y, lr=300.0, seeds=0, max_steps=1, lower_bound=0.0).particles,
        first,
        rtol=0,
        atol=0,
    )


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({}, "given lr"),
        ({"lr": 1.0, "reduce": True}, "reduce=False"),
        ({"lr": 1.0, "lower_bound": float("nan")}, "give a number"),
    ],
)
def test_where_a_floor_makes_no_sense(how, words):
    x, y = torch.rand(2, 30, 3)
    with pytest.raises(ValueError, match=words):
        sw.flow(x, y, **{"lower_bound": 0.0, **how})


@pytest.mark.slow
def test_photographs_of_installed_packages():
    found = photograph_pairs()
    assert len(found) == 3
    for pair in found:
        assert pair.source.shape[-1] == pair.target.shape[-1] == 3
        x, y = pair.palettes(20)
        assert x.shape == y.shape == (20, 3)
        assert 0 <= min(x.min(), y.min()) <= max(x.max(), y.max()) <= 255
        again = type(pair)(pair.name, pair.source, pair.target).palettes(20)
        np.testing.assert_array_equal(again[0], x)
        # A squared distance of 1e-10 beside squares of 255²: what single precision leaves of it.
        assert 0.005 < color._noise(pair) < 0.2
    assert len({digest for pair in found for digest in pair.digests}) == 6


def test_a_picture_shows_the_target_and_the_source_as_it_moves():
    task = ColorTask(1, 20)
    x, _ = task.samples(0)
    seen = task.picture(torch.stack([x, x + 300]), 0)
    assert seen.shape[0] == 3
    source, target = photograph_pairs()[1].small
    np.testing.assert_array_equal(seen[0], target)
    np.testing.assert_array_equal(seen[1], source)  # nothing moved: the photograph itself
    assert (seen[2] == 255).all()


def own(folder, names, size=(12, 9)):
    rng = np.random.default_rng(0)
    for name in names:
        pixels = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name)
    return str(folder)


def test_a_folder_of_ones_own(tmp_path):
    folder = own(tmp_path, ("set2_source_a.png", "set2_target.jpg", "set1_source.png", "other.png"))
    (pair,) = photograph_pairs(folder)
    assert pair.name == "set2_source_a to set2_target"
    with pytest.raises(UserError, match="108 colors, 200 are wanted"):
        pair.palettes(200)


@pytest.mark.parametrize(
    ("names", "words"),
    [((), "holds no pair"), (("set1_source.png",), "holds no pair")],
)
def test_a_folder_without_pairs(tmp_path, names, words):
    with pytest.raises(UserError, match=words):
        photograph_pairs(own(tmp_path, names))


def test_what_cannot_be_read(tmp_path):
    folder = own(tmp_path, ("set1_source.png",))
    (tmp_path / "set1_target.png").write_text("no picture")
    with pytest.raises(UserError, match="cannot be read as an image"):
        photograph_pairs(folder)
    with pytest.raises(UserError, match="is no folder"):
        photograph_pairs(str(tmp_path / "nowhere"))


def test_presets():
    paper = cells("paper", "a machine")
    flows = [cell for cell in paper if not cell.alone]
    assert len(flows) == 3 * 11 * 3
    assert {len(cell.runs) for cell in flows} == {3, 75}
    assert {cell.lower_bound for cell in flows if cell.rates} == {0.0}
    assert {cell.steps for cell in flows} == {50_000, 5000}
    assert {cell.task.n for cell in paper} == {3000}
    assert sum(cell.alone for cell in paper) == 11
    quick = EXPERIMENTS["color"](Options("quick"))
    assert {cell.variant for cell in quick if cell.rates is None} == set(ELEVEN)


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """Distances as if measured at the paper's size, and the report of them."""
    folder = tmp_path_factory.mktemp("colors")
    task = ColorTask(0, 3000)
    given = {"photographs": ["a", "b"], "n": 3000}
    with Store(folder / "runs.db") as store:
        for variant in ("sw", "ebsw"):
            for objective in ("root", "power"):
                rates = tuple(on_mean_scale(rate, objective, 3000) for rate in RATES)
                cell = FlowCell("color", task, variant, objective, rates, (0,), 50_000, lower_bound=0.0)  # fmt: skip
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(ColorTask, "given", given)
                    runs = cell.runs
                for i, run in enumerate(runs):
                    w2 = 0.02 if i == 5 else 1.0 + i
                    measures = {"steps": 50_000, "rank": 3}
                    store.add(
                        [Result(run, "out of steps", 1.0, w2=w2, measures=measures)], "here", {}
                    )
    page = write_report(folder / "runs.db", folder / "out").read_text()
    return folder / "out", page


def read(folder, name):
    return list(csv.DictReader(io.StringIO((folder / f"{name}.csv").read_text())))


def test_every_rate_of_the_paper_stands_beside_ours(reported):
    folder, page = reported
    rows = read(folder, "color-set1-rates")
    listed = [o for o in published() if (o.table, o.setting) == ("color_transfer_full", "set1")]
    assert len(rows) == len(listed) == 275
    for row, one in zip(rows, listed, strict=True):
        assert (row["variant"], float(row["rate"])) == (one.variant, one.lr)
        assert row["the paper"] == f"{one.mean:.2f} ± {one.std:.2f}"
        assert row["objective of its column"] == published_objective(one.variant)
        shown = f"{0.02 if one.lr == RATES[5] else 1.0 + RATES.index(one.lr):.3f}"
        assert row["ours, root"] == (shown if one.variant in ("sw", "ebsw") else "not run")
    assert "set1: every rate" not in page  # too long for it: a file


def test_the_best_stands_beside_the_papers_with_a_reason(reported):
    folder, _ = reported
    rows = {row["variant"]: row for row in read(folder, "color-set1")}
    assert rows["ebsw"]["the paper"].endswith(" at 0.0005") or " at " in rows["ebsw"]["the paper"]
    assert rows["ebsw"]["beside the paper"] == "agrees, within a factor of 2; other photographs"
    assert rows["sw"]["beside the paper"].endswith("other photographs")


@pytest.mark.slow
def test_a_small_study_ends_in_pictures(tmp_path):
    task = ColorTask(2, 30)
    made = [
        FlowCell("color", task, variant, "power", None, (0,), 60, reduce=True)
        for variant in ("sw", "ebsw")
    ]
    rates = tuple(on_mean_scale(rate, "power", 30) for rate in (0.1, 1.0))
    made.append(FlowCell("color", task, "sw", "power", rates, (0,), 40, lower_bound=0.0))
    with Store(tmp_path / "runs.db") as store:
        assert not sweep(made, store).failed
    page = write_report(tmp_path / "runs.db", tmp_path / "out").read_text()
    with Image.open(tmp_path / "out" / "color-set3-images.png") as picture:
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 1000
    assert "china to flower" in page
    assert "made with smaller sizes" in page


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_papers_setting_without_a_rate(number):
    """3,000 colors, 0 to 255: W_2 of at most 0.05 within 5,000 steps, and nothing that is not finite."""
    x, y = ColorTask(number, 3000).samples(0)
    found = sw.flow(x, y, max_steps=5000, stopping=sw.Stopping(w2=0.05), seeds=0)
    assert found.w2 <= 0.05
    assert found.particles.isfinite().all()
    assert found.n_steps < 2000
