"""What of the next steps does not depend on where the particles will be: drawn for all of them at once.

On a device a small piece of work costs as much as a large one. Slices that are drawn blindly, and the
target's order along them, are made for a whole graph of steps in a few launches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from slicewise.learn.seeds import RunSeeds
from slicewise.problem import Problem
from slicewise.randomness import Randomness
from slicewise.transport import project, sorted_lines

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
