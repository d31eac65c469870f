"""Where the slices of a step come from: drawn ahead, drawn now, or learned and remembered.

What of the next steps does not depend on where the particles will be: drawn for all of them at once.

On a device a small piece of work costs as much as a large one. Slices that are drawn blindly, and the
target's order along them, are made for a whole graph of steps in a few launches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from slicewise.distance import Prepared, draw
from slicewise.parts import Orthonormal, Uniform
from slicewise.problem import Learner, Problem, State
from slicewise.sampling import Randomness, RunSeeds, sphere
from slicewise.transport import project, sorted_lines
from slicewise.variants import Recipe

# No more than this is drawn ahead, in bytes.
_MOST = 2**28


class Ahead(NamedTuple):
    """The slices of one step (R, L, d), and the target in order along them (R, L, m) if that is known."""

    slices: Tensor
    y_sorted: Tensor | None


@dataclass(frozen=True, eq=False)
class Foresight:
    """Slices for S steps of D seeds, which R runs have."""

    slices: Tensor  # (S, D, L, d)
    y_sorted: Tensor | None  # (S, D, L, m)
    which: Tensor | None  # (R,), of the seeds, each run's; None: one run to a seed, in order

    def at(self, index: int) -> Ahead:
        """What one of the steps needs."""

        def dealt(all_of_them: Tensor) -> Tensor:
            here = all_of_them[index]
            return here if self.which is None else here[self.which]

        return Ahead(dealt(self.slices), None if self.y_sorted is None else dealt(self.y_sorted))


def foresee(
    draw: Callable[[tuple[int, ...], Randomness], Tensor],
    n_slices: int,
    problem: Problem,
    seeds: RunSeeds,
    steps: Tensor,
    *,
    order_y: bool,
) -> Foresight | None:
    """Slices for these steps by `draw(batch, rng)`; None where that would take too much."""
    n_steps, n_seeds, d = len(steps), seeds.distinct, problem.d
    m = problem.y.shape[-2]
    numbers = n_steps * n_seeds * n_slices
    if numbers * (d + (2 * m if order_y else 0)) * problem.x.element_size() > _MOST:
        return None
    drawn = draw((n_steps * n_seeds,), seeds.across(steps))
    slices = drawn.reshape(n_steps, n_seeds, n_slices, d)
    equal = problem.x_weights is None and problem.y_weights is None
    # Targets of their own, too, if each run has a seed of its own: then the two go together.
    alike = problem.y.dim() == 2 or seeds.one_each
    y_sorted = None
    if order_y and equal and alike and problem.x.shape[-2] == m:
        y_sorted = sorted_lines(project(problem.y, slices))
    return Foresight(slices, y_sorted, None if seeds.one_each else seeds.which)


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
    if isinstance(recipe.slicer, Learner):
        return named(recipe.slicer.cold(problem, rng))
    return named(recipe.lift.cold(problem, rng)) if isinstance(recipe.lift, Learner) else {}


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
