"""Where the slices of a step come from: drawn ahead, drawn now, or learned and remembered."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from slicewise import sphere
from slicewise.learn.foresight import Ahead, Foresight, foresee
from slicewise.learn.seeds import RunSeeds
from slicewise.learned import State, is_learned, learns
from slicewise.preparation import Prepared, draw
from slicewise.problem import Problem
from slicewise.recipe import Recipe
from slicewise.slicers import Orthonormal, Uniform


def blind_slices(
    recipe: Recipe, problem: Problem, seeds: RunSeeds, steps: Tensor, *, order_y: bool
) -> Foresight | None:
    """Slices drawn ahead, for slicers that look at nothing."""
    slicer = recipe.slicer
    if not isinstance(slicer, Uniform | Orthonormal) or recipe.lift is not None:
        return None
    draw = sphere.uniform if isinstance(slicer, Uniform) else sphere.orthonormal
    n, d, dtype = slicer.n, problem.d, problem.x.dtype
    return foresee(
        lambda batch, rng: draw((*batch, n, d), rng, dtype),
        n,
        problem,
        seeds,
        steps,
        order_y=order_y,
    )


def sliced(
    recipe: Recipe,
    problem: Problem,
    seeds: RunSeeds,
    t: int | Tensor,
    state: State,
    ahead: Ahead | None,
) -> tuple[Tensor, State | None, Problem]:
    """The slices of a step, a learned slicer's state, and the problem with what is known of its target."""
    if ahead is not None:
        return ahead.slices, None, dataclasses.replace(problem, y_sorted=ahead.y_sorted)
    problem, slices, learned = draw(recipe, problem, seeds.at(t), learned_of(state))
    return slices, learned, problem


def drawn(
    recipe: Recipe, problem: Problem, seeds: RunSeeds, t: int | Tensor, state: State
) -> Prepared:
    """What a step slices, and along what, for recipes whose gradients autograd must find."""
    problem, slices, learned = draw(recipe, problem, seeds.at(t), learned_of(state))
    return Prepared(problem, slices, None, learned)


def cold(recipe: Recipe, problem: Problem, seeds: RunSeeds, t: int | Tensor) -> State:
    """The state of a part that learns before it has learned anything; none of any other."""
    rng = seeds.at(t, purpose=2)
    if is_learned(recipe.slicer):
        return named(recipe.slicer.cold(problem, rng))
    return named(recipe.lift.cold(problem, rng)) if learns(recipe.lift) else {}


def anew(stuck: Tensor, cold: State, state: State) -> State:
    """The state of a learned slicer, cold for the runs that are stuck."""
    shaped = {name: stuck.reshape(-1, *(1,) * (t.dim() - 1)) for name, t in cold.items()}
    return {name: torch.where(shaped[name], t, state[name]) for name, t in cold.items()}


def named(learned: State | None) -> State:
    """A slicer\'s state under names that say whose it is."""
    return {} if learned is None else {f"slicer_{name}": t for name, t in learned.items()}


def learned_of(state: State) -> State | None:
    """A slicer\'s state among all that a run remembers."""
    found = {k.removeprefix("slicer_"): t for k, t in state.items() if k.startswith("slicer_")}
    return found or None
