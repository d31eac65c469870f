"""What parts declare: careful defaults for what is unknown, promises of our own, and one walker over them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

import slicewise as sw
from slicewise import parts
from slicewise.problem import (
    Anneal,
    BuiltIn,
    MovePart,
    Part,
    SlicerPart,
    WeightingPart,
    declared,
    follows_progress,
    graph_safe,
    needs_all_samples,
    rotation_invariant,
    unfit_for,
    walk,
)


def plain(problem, rng):
    return torch.eye(problem.d)


def test_a_plain_function_declares_nothing():
    assert declared(plain, SlicerPart).group_size(3) is None
    assert declared(plain, SlicerPart).looks_at_samples
    assert not graph_safe(plain)
    assert needs_all_samples(plain)
    assert not rotation_invariant(plain)
    assert follows_progress(plain)
    assert unfit_for(plain, 3) is None
    recipe = sw.Recipe(plain)
    assert not any([recipe.graph_safe, recipe.rotation_invariant, recipe.built_in])
    assert recipe.needs_all_samples


def test_the_walker_finds_every_part_and_leaves_out_schedules_and_numbers():
    recipe = sw.VARIANTS["vimsw"](kappa=Anneal(50))
    kinds = [type(part).__name__ for part in walk(recipe)]
    assert kinds == ["Recipe", "Trace", "Uniform", "InTurn", "Ascend", "Spread", "Equal"]
    assert recipe.follows_progress
    assert not sw.VARIANTS["vimsw"]().follows_progress


@pytest.mark.parametrize("name", sw.VARIANTS)
def test_every_part_of_every_variant_is_declared(name):
    for part in walk(sw.VARIANTS[name]()):
        assert isinstance(part, Part)
        assert isinstance(part, BuiltIn | sw.Recipe)


def test_one_unknown_part_makes_the_whole_unknown():
    recipe = sw.Recipe(parts.Then(parts.Uniform(5), lambda slices, problem, rng: slices))
    assert not recipe.graph_safe
    assert recipe.needs_all_samples
    assert (
        declared(recipe.slicer, SlicerPart).group_size(3) == 1
    )  # a move of unknown kind makes one of one


def test_who_overrides_the_call_inherits_no_promise():
    class Mine(parts.Uniform):
        def __call__(self, problem, rng):
            return plain(problem, rng)

    class Declared(parts.Uniform):
        graph_safe = True

        def __call__(self, problem, rng):
            return plain(problem, rng)

    assert parts.Uniform(5).is_uniform
    mine = Mine(5)
    assert not any([mine.is_uniform, mine.graph_safe, mine.rotation_invariant, mine.built_in])
    assert mine.looks_at_samples
    assert mine.needs_all_samples
    assert Declared(5).graph_safe
    x, y = torch.randn(2, 9, 3, dtype=torch.float64)
    # Its own slices are used, by a flow too.
    assert sw.evaluate(x, y, sw.Recipe(mine)).slices.equal(torch.eye(3))
    fixed = sw.flow(x, y, sw.Recipe(mine), max_steps=3, seeds=0)
    again = sw.flow(x, y, sw.Recipe(mine), max_steps=3, seeds=1)
    assert fixed.particles.equal(again.particles)  # nothing random is left


def test_reasons_a_part_cannot_work_are_found_inside_recipes():
    assert "do not exist in dimension d = 2" in sw.VARIANTS["maxksw"](n_slices=3).unfit_for(2)
    assert "d = 1" in sw.VARIANTS["omsw"]().unfit_for(1)
    assert "sphere of R^3" in sw.VARIANTS["qsw"](points="spiral").unfit_for(4)
    assert sw.VARIANTS["phisw"](basis=torch.eye(4)[:, :2]).unfit_for(4) is None
    assert "basis has shape (4, 2)" in sw.VARIANTS["phisw"](basis=torch.eye(4)[:, :2]).unfit_for(3)


def test_a_part_that_is_no_dataclass_prints_and_works():
    class Mine(WeightingPart):
        def __call__(self, costs, slices, problem):
            return torch.full_like(costs, 1 / costs.shape[-1])

    recipe = sw.Recipe(parts.Uniform(5), Mine())
    assert repr(recipe) == "Recipe(Uniform(5), weighting=Mine())"
    x, y = torch.randn(2, 9, 3)
    assert sw.sliced_wasserstein(x, y, recipe, generator=0) == pytest.approx(
        sw.sliced_wasserstein(x, y, n_slices=5, generator=0)
    )


def test_copies_and_mixing_go_through_compositions():
    spread = parts.Spread(5.0, copies=3)
    assert declared(parts.InTurn(spread, spread), MovePart).copies == 9
    assert declared(parts.Repeat(spread, 2), MovePart).copies == 9
    assert parts.InTurn(spread, parts.Resample(parts.Energy())).mixes
    assert parts.Then(parts.Uniform(4), parts.InTurn(spread, spread)).n_slices(3) == 36


def test_a_learner_of_ones_own():
    from slicewise.problem import Learner

    @dataclass(frozen=True, repr=False)
    class Counting(SlicerPart, Learner):
        def __call__(self, problem, rng):
            return self.learn(problem, rng, self.cold(problem, rng))[0]

        def cold(self, problem, rng):
            return {"bias": torch.zeros(*problem.batch, problem.d)}

        def learn(self, problem, rng, state):
            return torch.eye(problem.d), {"bias": state["bias"] + 1}

    loss = sw.SlicedWasserstein(sw.Recipe(Counting()))
    x, y = torch.randn(2, 9, 3)
    for _ in range(4):
        loss(x, y)
    assert loss.slicer_bias.tolist() == [4.0] * 3
