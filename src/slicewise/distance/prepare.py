"""From a recipe and samples to what is sliced, and along what: lift, then draw slices."""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from slicewise.parts import State, group_size, is_learned, learns
from slicewise.problem import Problem, Target
from slicewise.sampling import Generators, Randomness
from slicewise.support import check_finite, check_generator, check_slices
from slicewise.variants import Recipe


class Prepared(NamedTuple):
    """All that pricing needs."""

    problem: Problem  # what is sliced: the samples, or what a lift makes of them
    slices: Tensor  # (*batch, L, d), constants for the gradient
    group_size: int | None  # how many successive slices depend on each other, if that is known
    state: State | None  # of a part that learns, after this call


def fixed_slices(y: Tensor | Target, slices: Tensor | None) -> Tensor | None:
    """The slices a caller fixes, by hand or with a `Target`."""
    if isinstance(y, Target):
        if slices is not None:
            raise ValueError(f"slices beside {y!r}, which has its own: leave them out")
        return y.slices
    return slices


def prepare(
    recipe: Recipe,
    problem: Problem,
    generator: Generators,
    given: Tensor | None,
    *,
    n_slices: int | None = None,
    state: State | None = None,
) -> Prepared:
    """Samples lifted, if the recipe does; slices, given or drawn."""
    if given is None or recipe.lift is not None:
        check_generator(generator)
    rng = Randomness(generator, problem.x.device, problem.batch)
    if given is None:
        problem, slices, state = draw(recipe, problem, rng, state)
        # One learned lift made all that is sliced: no two slices of it are independent.
        size = None if learns(recipe.lift) else group_size(recipe.slicer, problem.d)
        return Prepared(problem, slices, size, state)
    problem, state = lifted(recipe, problem, rng, state)
    check_slices(given, problem.x, problem.batch, problem.d)
    given = problem.pool.agreed(given.to(problem.x.dtype))
    check_finite(slices=given)
    if n_slices is not None and n_slices != given.shape[-2]:
        raise ValueError(
            f"n_slices = {n_slices}, but slices holds {given.shape[-2]}: leave one of them out"
        )
    return Prepared(problem, given, 1, state)


def draw(
    recipe: Recipe, problem: Problem, rng: Randomness, state: State | None
) -> tuple[Problem, Tensor, State | None]:
    """What is sliced; fresh slices (*batch, L, d), constants for the gradient; a learner's state, in and out."""
    problem, state = lifted(recipe, problem, rng, state)
    with torch.no_grad() if torch.is_grad_enabled() else nullcontext():
        if is_learned(recipe.slicer):
            state = recipe.slicer.cold(problem, rng) if state is None else state
            slices, state = recipe.slicer.learn(problem, rng, state)
        else:
            slices = recipe.slicer(problem.detached(), rng)
        if slices.shape[-2] == 0 or slices.shape[-1] != problem.d:
            raise ValueError(
                f"{recipe.slicer!r} gave slices of shape {tuple(slices.shape)}: a slicer gives (*batch, L, {problem.d}), "
                f"at least one"
            )
        return problem, problem.pool.agreed(slices), state


def lifted(
    recipe: Recipe, problem: Problem, rng: Randomness, state: State | None
) -> tuple[Problem, State | None]:
    """What is sliced: the problem itself where the recipe has no lift."""
    lift = recipe.lift
    if lift is None:
        return problem, state
    if problem.y_sorted is not None:
        raise ValueError(
            f"a Target with {lift!r}: its samples are projected as they are, before any lift; give y itself"
        )
    if learns(lift):
        state = lift.cold(problem, rng) if state is None else state
        return lift.learn(problem, rng, state)
    return lift(problem, rng), state
