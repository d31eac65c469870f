"""Samples on the way from one set to another, along a sliced plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicewise.laws import refuse_laws
from slicewise.plans.plan import sliced_plan
from slicewise.sampling import Generators
from slicewise.support import Result, takes_arrays
from slicewise.transport import at_index
from slicewise.variants import Recipe, Variant


@dataclass(frozen=True, eq=False)
class Interpolation(Result):
    """Samples between two sets.

    Attributes:
        points: (*batch, n, d) in the order of x if the plan is a permutation, else (*batch, K, d), one for each pair.
        weights: their weights, (*batch, n) or (*batch, K).
    """

    points: Tensor
    weights: Tensor

    def __repr__(self) -> str:
        return f"Interpolation(points {tuple(self.points.shape)})"


@takes_arrays("x", "y", "x_weights", "y_weights", "slices")
def interpolate(
    x: Tensor,
    y: Tensor,
    t: float | Tensor = 0.5,
    *,
    variant: str | Variant | Recipe = "sw",
    n_slices: int | None = None,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    slices: Tensor | None = None,
    generator: Generators = None,
    **options: Any,
) -> Interpolation:
    """Compute samples on the way from x to y: the displacement interpolation along the best of some sliced plans.

    Use it for a path between two distributions whose samples move on straight lines. It is the geodesic of W_2 where
    the plan is optimal (always in one dimension, and for translates), and an upper bound of its length otherwise.

    Args:
        x: samples (*batch, n, d).
        y: samples (*batch, m, d).
        t: how far to go, from 0 (x) to 1 (y): a number, or a tensor that broadcasts to (*batch, K, 1).
        variant, n_slices, x_weights, y_weights, slices, generator, options: as in `sliced_plan`.

    Returns:
        The `Interpolation`: points (1 − t) x_i + t y_j for all pairs of the plan, and their weights.

    Raises:
        ValueError: for arguments that do not fit together.

    >>> x, y = torch.tensor([[0.0], [1.0]]), torch.tensor([[5.0], [2.0]])
    >>> interpolate(x, y, 0.5).points
    tensor([[1.],
            [3.]])

    Reference:
        R. J. McCann, A convexity principle for interacting gases, 1997.
    """
    refuse_laws("interpolate", x, y)
    outside = not torch.is_tensor(t) and not 0 <= t <= 1
    if outside:
        raise ValueError(f"t = {t}: give the share of the way, from 0 (x) to 1 (y)")
    given: dict[str, Any] = {"n_slices": n_slices, "x_weights": x_weights, "y_weights": y_weights}
    with torch.no_grad():
        plan = sliced_plan(
            x, y, variant=variant, slices=slices, generator=generator, **given, **options
        )
    batch = plan.rows.shape[:-1]
    n, m = plan.shape
    if n == m and plan.rows.shape[-1] == n:  # in the order of x
        rows = torch.arange(n, device=x.device).expand(*batch, n)
        cols = plan.permutation
    else:
        rows, cols = plan.rows, plan.cols
    start, end = (
        at_index(s, index.unsqueeze(-2), batch).squeeze(-3) for s, index in ((x, rows), (y, cols))
    )
    return Interpolation(start + t * (end - start), plan.mass)
