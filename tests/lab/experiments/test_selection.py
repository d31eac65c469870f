"""Parts of an experiment, selected by what its cells are."""

from __future__ import annotations

import pytest

from slicewise.lab.errors import UserError
from slicewise.lab.experiments import Selection
from slicewise.lab.experiments.gradient_flow import cells


def toys():
    return cells("paper", "mean", "here")


def chosen(**wanted):
    return Selection(**wanted).of(toys())


def test_nothing_asked_for_is_everything():
    assert chosen() == toys()


def test_parts_of_flows_divide_them():
    parts = [chosen(parts=(part,)) for part in ("no-rate", "search", "times")]
    assert sum(len(part) for part in parts) == len(toys())
    computed, searched, timed = parts
    assert {cell.rates for cell in computed} == {None}
    assert all(cell.rates and not cell.alone for cell in searched)
    # Three runs a variant, each by itself.
    assert sorted((cell.variant, cell.seeds) for cell in timed) == sorted(
        (name, (seed,)) for name in {cell.variant for cell in toys()} for seed in (0, 1, 2)
    )


def test_computed_steps_with_and_without_the_reduction():
    computed = chosen(parts=("no-rate",))
    whole = [cell for cell in computed if cell.setting.endswith(", all dimensions")]
    assert {cell.reduce for cell in whole} == {False}
    assert {cell.task.d for cell in whole} == {50, 100}
    assert all(cell.reduce for cell in computed if cell not in whole)
    assert len({run.key for cell in toys() for run in cell.runs}) == sum(
        len(c.runs) for c in toys()
    )


def test_names_seeds_steps_and_precision():
    (cell,) = chosen(
        parts=("search",), variants=("ebsw",), settings=("knot d=2",), objectives=("root",),
        seeds=(5, 7), max_steps=30, dtype="float32",
    )  # fmt: skip
    assert (cell.variant, cell.setting, cell.objective) == ("ebsw", "knot d=2", "root")
    assert (cell.seeds, cell.steps, cell.dtype) == ((5, 7), 30, "float32")
    # A time keeps its steps and precision, whatever is asked of the others.
    timed = chosen(parts=("times",), variants=("sw",), seeds=(0,), max_steps=30, dtype="float64")
    assert [(cell.seeds, cell.steps, cell.dtype) for cell in timed] == [((0,), 10_000, "float32")]


def test_rates_and_recipes():
    found = chosen(rates=(0.3, 1e3), recipes="flow_script", settings=("swiss d=2",), seeds=(0,))
    assert {cell.setting for cell in found} == {"swiss d=2, flow_script"}
    rates = {cell.objective: cell.rates for cell in found if cell.variant == "sw"}
    assert rates == {"root": (0.3,), "power": (0.3, 1e3)}
    assert "Uniform(30)" in found[0].runs[0].given["recipe"]
    assert not {run.key for c in found for run in c.runs} & {
        run.key for c in toys() for run in c.runs
    }


def test_names_that_nothing_has():
    with pytest.raises(
        UserError, match="--setting swiss d=3: there is none here; give one of 8gauss"
    ):
        chosen(settings=("swiss d=3",))
    with pytest.raises(UserError, match="nothing is left"):
        chosen(parts=("times",), objectives=("power",))
