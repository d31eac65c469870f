"""From a recipe and samples to what is sliced, and along what: lift, then draw slices."""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from slicewise.problem import Learner, Problem, SlicerPart, State, Target, declared
from slicewise.sampling import Generators, Randomness
from slicewise.support import check_finite, check_generator, check_slices, values_readable
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
        slicer = declared(recipe.slicer, SlicerPart)
        size = None if isinstance(recipe.lift, Learner) else slicer.group_size(problem.d)
        return Prepared(problem, slices, size, state)
    problem, state = lifted(recipe, problem, rng, state)
    check_slices(given, problem.x, problem.batch, problem.d)
    given = problem.population.agreed(given.to(problem.x.dtype))
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
        if isinstance(recipe.slicer, Learner):
            state = recipe.slicer.cold(problem, rng) if state is None else state
            slices, state = recipe.slicer.learn(problem, rng, state)
        else:
            slices = recipe.slicer(problem.detached(), rng)
        _check_drawn(recipe, slices, problem)
        return problem, problem.population.agreed(slices), state


def _check_drawn(recipe: Recipe, slices: object, problem: Problem) -> None:
    """Directions of the right dimension; from a part of a caller's own also finite, and none of them zero."""
    wanted = f"a slicer gives (*batch, L, {problem.d}), at least one"
    if not isinstance(slices, Tensor):
        raise ValueError(f"{recipe.slicer!r} gave {type(slices).__name__}: {wanted}")
    if slices.dim() < 2 or slices.shape[-2] == 0 or slices.shape[-1] != problem.d:
        raise ValueError(f"{recipe.slicer!r} gave slices of shape {tuple(slices.shape)}: {wanted}")
    # Values cannot be read in compiled code, which could not follow a cached property either.
    if values_readable(slices) and not recipe.built_in:
        lengths = torch.linalg.vector_norm(slices.detach(), dim=-1)
        bad = int((~(lengths.isfinite() & (lengths > 0))).sum())
        if bad:
            raise ValueError(
                f"{recipe.slicer!r} gave {bad} of {lengths.numel()} slices that are zero, NaN or infinite: {wanted}, each a "
                f"finite direction of length above 0"
            )


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
    if isinstance(lift, Learner):
        state = lift.cold(problem, rng) if state is None else state
        return lift.learn(problem, rng, state)
    return lift(problem, rng), state
