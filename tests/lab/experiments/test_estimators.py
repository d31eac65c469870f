"""The study of estimators: what it measures, against numbers known otherwise."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import slicewise as sw
from slicewise.lab.experiments import EXPERIMENTS, Options
from slicewise.lab.experiments.check import Measured
from slicewise.lab.experiments.estimators import CHECKS
from slicewise.lab.experiments.estimators.contestants import CONTESTANTS, entered, samples, truth
from slicewise.lab.experiments.estimators.energies import PRICED
from slicewise.lab.experiments.estimators.values import best
from slicewise.lab.report.page import write_report
from slicewise.lab.study.engines import SerialEngine
from slicewise.lab.study.store import Store
from slicewise.lab.study.sweep import sweep

SMALL = {"n": 20, "runs": 200, "k": 3, "d": 3, "moved": True, "n_slices": 30, "known_by": 20_000}


def value_of(name, **other):
    task = {**SMALL, "estimator": name, "seed": 0, **other}
    return Measured(task, CHECKS["values"].measure(task))


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_every_estimator_enters_wherever_it_can(preset):
    tasks = CHECKS["values"].tasks(preset)
    assert {task["estimator"] for task in tasks} == set(CONTESTANTS)
    assert {task["d"] for task in tasks if "spiral" in task["estimator"]} == {3}
    for name, check in CHECKS.items():
        tasks = check.tasks(preset)
        assert check.name == name
        assert json.loads(json.dumps(tasks)) == tasks
        assert len({task["seed"] for task in tasks}) == len(tasks)
        with pytest.raises(ValueError, match="preset"):
            check.tasks("quik")
    named = {recipe(5) for recipe in (one.recipe for one in CONTESTANTS.values())}
    assert len(named) == len(CONTESTANTS)


def test_the_truth_is_one():
    """In the plane by angles, in space by even points, elsewhere by frames: all agree with plain slices within their errors."""
    for k, moved in ((2, True), (3, False), (5, False)):
        x, y = samples(20, k, k, moved)
        known, doubt = truth(20, k, moved, 20_000)
        found = sw.evaluate(x, y, n_slices=50_000, generator=torch.Generator().manual_seed(0))
        assert abs(found.power - known) < 4 * math.hypot(found.stderr, doubt)
    same = samples(20, 5, 5, False)
    assert (same[0].mean(0) - same[1].mean(0)).abs().max() < 1e-12


def test_sw_is_as_wrong_as_its_standard_error_says():
    x, y = samples(20, 3, 3)
    costs = sw.evaluate(x, y, n_slices=50_000, generator=torch.Generator().manual_seed(0)).costs
    expected = float(costs.std() / costs.mean()) / math.sqrt(SMALL["n_slices"])
    found = value_of("sw").measures
    assert abs(found["measured"] - expected) < 4 * found["stderr"]
    assert abs(found["bias"]) < 4 * found["bias_stderr"]


@pytest.mark.parametrize("name", entered(3))
def test_bias_and_spread_make_up_the_error(name):
    found = value_of(name, d=3, k=2).measures
    both = found["bias"] ** 2 + found["std"] ** 2 * (SMALL["runs"] - 1) / SMALL["runs"]
    assert found["measured"] == pytest.approx(math.sqrt(both), rel=1e-9)
    fixed = name in ("qsw", "momentsw")
    assert (found["std"] < 1e-12) == fixed
    if (
        not fixed and name != "lcvsw" and name != "ucvsw"
    ):  # whose α is of the same slices: of order 1/L
        assert abs(found["bias"]) < 4 * found["bias_stderr"]


def test_the_winner_is_the_least_wrong():
    every = [value_of(name) for name in ("sw", "orthosw", "gaussiansw")]
    assert best(every)[3, 3, True, 30] == (
        "orthosw",
        every[1].measures["measured"],
        every[0].measures["measured"],
    )
    assert "orthosw" in CHECKS["values"].verdict(every)


def test_samplers_price_what_is_said(monkeypatch):
    """Slices priced for the value, ascents and decisions: counted."""
    x, y = samples(20, 3, 3)
    from slicewise.problem.problem import Problem

    for name, factor in PRICED.items():
        count = []
        for method in ("costs", "weighted_cost"):
            plain = getattr(Problem, method)

            def counting(self, slices, *rest, plain=plain, count=count):
                count.append(slices.shape[-2])
                return plain(self, slices, *rest)

            monkeypatch.setattr(Problem, method, counting)
        options = {"n_steps": 20} if factor == 3 else {}
        sw.evaluate(x, y, name, n_slices=20, **options)
        assert abs(sum(count) - factor * 20) <= 2
        monkeypatch.undo()


def test_one_climb_finds_less_than_a_search():
    tasks = [
        {"way": way, "d": 10, "k": 10, "n": 40, "runs": 10, "transports": 20, "seed": 0}
        for way in ("one climb, T = 10", "a search")
    ]
    one, searched = (Measured(task, CHECKS["largest"].measure(task)) for task in tasks)
    assert one.measures["least"] < searched.measures["least"] <= 1 + 1e-9
    assert searched.measures["bound"] <= searched.measures["quick_bound"]
    assert "a search" in CHECKS["largest"].verdict([one, searched])


def test_pages_and_cells(tmp_path, monkeypatch):
    """All four in small: into a store, drawn, and told; times by themselves, and by machine."""
    small = {
        "values": [value_of(name).task for name in ("sw", "orthosw")],
        "times": [t | {"calls": 2, "n": 20} for t in CHECKS["times"].tasks("quick")[:3]],
        "energies": [t | {"runs": 5} for t in CHECKS["energies"].tasks("quick")[:4]],
        "largest": [t | {"runs": 2, "transports": 3} for t in CHECKS["largest"].tasks("quick")[:4]],
    }
    for name, check in list(CHECKS.items()):
        quick = lambda preset, name=name: small[name]  # noqa: E731
        monkeypatch.setitem(CHECKS, name, check.__class__(**{**vars(check), "tasks": quick}))
    cells = EXPERIMENTS["estimators"](Options(machine="a machine"))
    assert [cell.alone for cell in cells] == [name == "times" for name in small]
    keys = [{run.key for run in cell.runs} for cell in cells]
    elsewhere = EXPERIMENTS["estimators"](Options(machine="another"))
    same = [
        {run.key for run in cell.runs} == one for cell, one in zip(elsewhere, keys, strict=True)
    ]
    assert same == [True, False, True, True]
    with Store(tmp_path / "runs.db") as store:
        outcome = sweep(cells, store, device="cpu", engine=SerialEngine())
    assert not outcome.failed
    page = write_report(tmp_path / "runs.db", tmp_path / "report").read_text()
    assert "Estimators: bias, variance and time" in page
    for name in small:
        assert (tmp_path / "report" / f"estimators-{name}.png").exists()
        assert CHECKS[name].title in page
    figure = Figure()
    CHECKS["times"].draw(figure, [Measured(t, {"measured": 1.0}) for t in small["times"]])
    figure.savefig(io.BytesIO())
    assert np.isclose(figure.axes[0].lines[0].get_xdata(), 1).all()
    assert "orthosw 1.0 to 1.0" in figure.axes[0].get_title()


@pytest.mark.parametrize(("error", "title"), [(0.5, "least: orthosw"), (0.9, "nothing beats sw")])
def test_a_panel_names_what_beats_sw_by_more_than_chance(error, title):
    """Errors of 1 ± 0.1 and of 0.5 or 0.9 ± 0.1: differences of 3.5 and 0.7 standard errors."""
    plain, other = value_of("sw"), value_of("orthosw")
    found = [
        Measured(one.task, {**one.measures, "measured": value, "stderr": 0.1})
        for one, value in ((plain, 1.0), (other, error))
    ]
    figure = Figure()
    CHECKS["values"].draw(figure, found)
    assert title in figure.axes[0].get_title()
    beaten = int(error == 0.5)
    assert f"in {beaten} of 1 settings" in figure.get_suptitle()


def test_luck_wins_nothing():
    """Fixed slices have one error a place, which may be near 0; it is told apart."""
    plain, fixed = value_of("sw"), value_of("qsw")
    lucky = Measured(fixed.task, {**fixed.measures, "measured": 1e-9, "bias": 1e-9})
    assert best([plain, lucky])[3, 3, True, 30][0] == "sw"
    assert "Fixed slices (qsw) are wrong by 1e-09" in CHECKS["values"].verdict([plain, lucky])
