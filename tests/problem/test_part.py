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
    how = {"max_steps": 3, "stopping": sw.Stopping(tolerance=None)}
    fixed = sw.flow(x, y, sw.Recipe(mine), seeds=0, **how)
    again = sw.flow(x, y, sw.Recipe(mine), seeds=1, **how)
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


def test_nothing_that_a_part_declared_is_inherited_with_another_call():
    class First(parts.Equal):
        """All weight on the first slice."""

        def __call__(self, costs, slices, problem):
            weights = torch.zeros_like(costs)
            weights[..., 0] = 1
            return weights

    class FirstOfEnergy(parts.Energy):
        __call__ = First.__call__

    x, y = torch.randn(2, 9, 3, dtype=torch.float64)
    wanted = sw.evaluate(x, y, generator=0).costs[0].sqrt()
    for weighting in (First(), FirstOfEnergy(), First().__call__):
        recipe = sw.Recipe(parts.Uniform(50), weighting)
        assert sw.sliced_wasserstein(x, y, recipe, generator=0) == pytest.approx(float(wanted))
        assert sw.value_and_grad(x, y, recipe, generator=0)[0] == pytest.approx(float(wanted))

    class Axes(parts.Uniform):
        looks_at_samples = False

        def __call__(self, problem, rng):
            return self.draw(problem.batch, problem.d, rng, problem.x.dtype)

        def draw(self, batch, d, rng, dtype):
            return torch.eye(d, dtype=dtype).expand(*batch, d, d)

    axes = Axes(3)
    assert not any([axes.is_uniform, axes.built_in, axes.graph_safe])
    how = {"max_steps": 3, "stopping": sw.Stopping(tolerance=None)}
    found = (sw.flow(x, y, sw.Recipe(axes), seeds=seed, **how).particles for seed in (0, 1))
    assert torch.equal(*found)


def test_numbers_of_numpy_are_no_parts():
    import numpy as np

    assert list(walk((np.int64(3), np.float32(1.0), np.bool_(True), 2.0))) == []
    recipe = sw.VARIANTS["ebsw"](temperature=np.float32(1))
    assert recipe.rotation_invariant
    flat = torch.cat([torch.randn(2, 20, 2), torch.zeros(2, 20, 8)], dim=-1).double()
    how = {"max_steps": 1, "stopping": sw.Stopping(tolerance=None)}
    for n_slices in (np.int64(31), 31):
        assert sw.flow(*flat, "ebsw", n_slices=n_slices, **how).dimensions == 2


@pytest.mark.parametrize("gives", [lambda c: None, lambda c: c[..., :2], lambda c: 0.5])
def test_a_weighting_of_ones_own_that_fails_is_named(gives):
    def my_weighting(costs, slices, problem):
        return gives(costs)

    x, y = torch.randn(2, 9, 3)
    with pytest.raises(
        ValueError, match=r"my_weighting.* gave .*of the shape of the costs, \(50,\)"
    ):
        sw.sliced_wasserstein(x, y, sw.Recipe(parts.Uniform(50), my_weighting))

    def my_lift(problem, rng):
        return None

    with pytest.raises(ValueError, match=r"my_lift.* gave NoneType: a lift gives a Problem"):
        sw.sliced_wasserstein(x, y, sw.Recipe(parts.Uniform(5), lift=my_lift))


def test_the_mean_root_knows_weightings_of_ones_own():
    class Half(WeightingPart):
        sums_to_one = False

        def __call__(self, costs, slices, problem):
            return torch.full_like(costs, 0.5 / costs.shape[-1])

    x, y = torch.randn(2, 9, 3, dtype=torch.float64)
    recipe = sw.Recipe(parts.Uniform(20), Half())
    how = {"objective": "mean_root", "generator": 0}
    value, gradient = sw.value_and_grad(x, y, recipe, **how)
    whole, slope = sw.value_and_grad(x, y, n_slices=20, **how)
    assert torch.allclose(2 * value, whole)
    assert torch.allclose(2 * gradient, slope)
    assert torch.allclose(sw.sliced_wasserstein(x, y, recipe, **how), value)


@pytest.mark.parametrize("sum_is", [0.9, 20.0])
def test_weights_of_ones_own_have_the_sum_one(sum_is):
    def own(costs, slices, problem):
        return torch.full_like(costs, sum_is / costs.shape[-1])

    x, y = torch.randn(2, 9, 3)
    recipe = sw.Recipe(parts.Uniform(20), own)
    for call in (sw.sliced_wasserstein, sw.value_and_grad, sw.evaluate):
        with pytest.raises(ValueError, match=f"sum is {sum_is:g}"):
            call(x, y, recipe)
    with pytest.raises(ValueError, match=f"sum is {sum_is:g}"):
        sw.SlicedWasserstein(recipe)(x, y)
    with pytest.raises(ValueError, match=f"sum is {sum_is:g}"):
        sw.flow(x, y, recipe, seeds=0)
    with pytest.raises(ValueError, match=r"weights of torch\.bool"):
        sw.evaluate(x, y, sw.Recipe(parts.Uniform(20), lambda costs, slices, problem: costs > 0))
