"""Where the slices of a step come from: drawn ahead for many steps, drawn now, or learned from step to step.

On a CUDA device a small operation costs as much as a large one. Slices that do not depend on the particles, and the
target's order along them, are therefore drawn for a whole graph of steps in a few launches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from slicewise.distance import Prepared, draw
from slicewise.problem import Problem, SlicerPart, State, declared
from slicewise.sampling import Randomness, RunSeeds, Stream
from slicewise.transport import project, sorted_lines
from slicewise.variants import Recipe

# No more than this is drawn ahead, in bytes.
_MOST_BYTES = 2**28


class StepSlices(NamedTuple):
    """The slices of one step (R, L, d), and the target sorted along them (R, L, m) where that is known."""

    slices: Tensor
    y_sorted: Tensor | None


@dataclass(frozen=True, eq=False)
class PredrawnSlices:
    """Slices for S steps of D distinct seeds, which R runs share."""

    slices: Tensor  # (S, D, L, d)
    y_sorted: Tensor | None  # (S, D, L, m)
    which: Tensor | None  # (R,), the index of each run's seed; None: one run to a seed, in order

    def at(self, index: int) -> StepSlices:
        """The slices of one of the steps."""

        def of_runs(of_steps: Tensor) -> Tensor:
            here = of_steps[index]
            return here if self.which is None else here[self.which]

        y_sorted = None if self.y_sorted is None else of_runs(self.y_sorted)
        return StepSlices(of_runs(self.slices), y_sorted)


def predraw(
    draw: Callable[[tuple[int, ...], Randomness], Tensor],
    n_slices: int,
    problem: Problem,
    seeds: RunSeeds,
    steps: Tensor,
    *,
    order_y: bool,
) -> PredrawnSlices | None:
    """Slices for these steps by `draw(batch, rng)`; None where they would take too much memory."""
    n_steps, n_seeds, d = len(steps), seeds.distinct, problem.d
    m = problem.y.shape[-2]
    numbers = n_steps * n_seeds * n_slices
    if numbers * (d + (2 * m if order_y else 0)) * problem.x.element_size() > _MOST_BYTES:
        return None
    drawn = draw((n_steps * n_seeds,), seeds.across(steps))
    slices = drawn.reshape(n_steps, n_seeds, n_slices, d)
    equal = problem.x_weights is None and problem.y_weights is None and problem.law is None
    # Runs with targets of their own as well, if each has a seed of its own: slices and targets then pair up.
    alike = problem.y.dim() == 2 or seeds.one_each
    y_sorted = None
    if order_y and equal and alike and problem.x.shape[-2] == m:
        y_sorted = sorted_lines(project(problem.y, slices))
    return PredrawnSlices(slices, y_sorted, None if seeds.one_each else seeds.which)


def predraw_slices(
    recipe: Recipe, problem: Problem, seeds: RunSeeds, steps: Tensor, *, order_y: bool
) -> PredrawnSlices | None:
    """Slices of a recipe drawn ahead; None if they depend on the particles."""
    slicer, d, dtype = declared(recipe.slicer, SlicerPart), problem.d, problem.x.dtype
    n_slices = slicer.n_slices(d)
    if slicer.looks_at_samples or n_slices is None or recipe.lift is not None:
        return None
    return predraw(
        lambda batch, rng: slicer.draw(batch, d, rng, dtype),
        n_slices,
        problem,
        seeds,
        steps,
        order_y=order_y,
    )


def slices_for_step(
    recipe: Recipe,
    problem: Problem,
    seeds: RunSeeds,
    t: int | Tensor,
    state: State,
    ahead: StepSlices | None,
) -> tuple[Tensor, State | None, Problem]:
    """The slices of a step, the new state of a part that learns, and the problem with its target sorted if known."""
    if ahead is not None:
        return ahead.slices, None, dataclasses.replace(problem, y_sorted=ahead.y_sorted)
    problem, slices, learned = draw(recipe, problem, seeds.at(t), learned_of(state))
    return slices, learned, problem


def prepare_step(
    recipe: Recipe, problem: Problem, seeds: RunSeeds, t: int | Tensor, state: State
) -> Prepared:
    """A step's slices and what they slice, for recipes whose gradients need autograd."""
    problem, slices, learned = draw(recipe, problem, seeds.at(t), learned_of(state))
    return Prepared(problem, slices, None, learned)


def initial_state(recipe: Recipe, problem: Problem, seeds: RunSeeds, t: int | Tensor) -> State:
    """The state of a slicer or lift that learns, before it has learned anything; empty for other recipes."""
    rng = seeds.at(t, Stream.LEARNED_PARTS)
    return {} if recipe.learner is None else as_run_state(recipe.learner.cold(problem, rng))


def reset_where(stuck: Tensor, initial: State, state: State) -> State:
    """The state of a part that learns, set to its initial one for the runs that are stuck, (R,)."""
    shaped = {name: stuck.reshape(-1, *(1,) * (t.dim() - 1)) for name, t in initial.items()}
    return {name: torch.where(shaped[name], t, state[name]) for name, t in initial.items()}


def as_run_state(learned: State | None) -> State:
    """The state of a part that learns, under the names it has in the state of a run."""
    return {} if learned is None else {f"slicer_{name}": t for name, t in learned.items()}


def learned_of(state: State) -> State | None:
    """The state of a part that learns, out of the state of a run."""
    found = {k.removeprefix("slicer_"): t for k, t in state.items() if k.startswith("slicer_")}
    return found or None
