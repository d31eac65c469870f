"""The distance and its gradient in one call, without the autograd engine."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from slicewise.distance.evaluation import nearness, problem_dtype
from slicewise.distance.in_range import in_range
from slicewise.distance.objective import Objective
from slicewise.distance.plan import planned_gradient
from slicewise.distance.pricing import differentiated, priced
from slicewise.distance.request import (
    Ask,
    OutOfRange,
    Prepared,
    ask_by_name,
    check_value,
    fixed_slices,
    prepare,
    problem_for,
)
from slicewise.laws import Law
from slicewise.problem import Problem, Target
from slicewise.sampling import Generators
from slicewise.support import full_precision, takes_arrays
from slicewise.variants import Recipe, Variant


@takes_arrays("x", "y", "x_weights", "y_weights", "slices")
def value_and_grad(
    x: Tensor,
    y: Tensor | Target | Law,
    variant: str | Variant | Recipe = "sw",
    *,
    p: float = 2,
    n_slices: int | None = None,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    objective: Objective = "root",
    slices: Tensor | None = None,
    generator: Generators = None,
    backend: str = "auto",
    progress: float = 0.0,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """Compute the sliced-Wasserstein distance and its gradient in x, without autograd.

    Use it in a flow or a hand-written loop: it is the cheapest way to both, since gradients are accumulated while slices
    are priced. Neither result carries a graph to differentiate through; for that use `sliced_wasserstein`.

    Args:
        x: samples (*batch, n, d).
        y: samples (*batch, m, d), a `Target`, or a law of `slicewise.laws` (nothing is sampled).
        objective: "root" (SW_p), "power" (SW_p^p) or "mean_root" (the mean W_p over slices).
        variant, p, n_slices, x_weights, y_weights, slices, generator, backend, progress, options: as in
            `sliced_wasserstein`.

    Returns:
        The value (*batch,), and the gradient of its sum in x, of the shape of x.

    Raises:
        ValueError: for arguments that do not fit together.

    >>> x, y = torch.zeros(2, 1), torch.ones(2, 1)
    >>> value_and_grad(x, y, objective="power", slices=torch.ones(1, 1))
    (tensor(1.), tensor([[-1.],
            [-1.]]))
    """
    recipe, ask = ask_by_name(variant, n_slices, options, objective, p, backend, progress)
    given: dict[str, Any] = {
        "x": x,
        "y": y,
        "x_weights": x_weights,
        "y_weights": y_weights,
        "slices": slices,
    }
    same: dict[str, Any] = {"generator": generator, "backend": backend, "progress": progress}
    try:
        return _value_and_grad(**given, **same, recipe=recipe, ask=ask, p=p, n_slices=n_slices, objective=objective)  # fmt: skip
    except OutOfRange:

        def call(own: Recipe, _unit: Tensor, **wide: Any) -> tuple[Tensor, Tensor]:
            return value_and_grad(**wide, variant=own, p=p, objective=objective, **same)

        def back(
            found: tuple[Tensor, Tensor], unit: Tensor, scale: Tensor
        ) -> tuple[Tensor, Tensor]:
            value, gradient = found
            gradient = (gradient * (scale / unit)).to(x.dtype)
            if not bool(torch.isfinite(gradient).all()):
                raise ValueError(
                    f"overflow: the gradient of {objective!r} at these samples is too large for {x.dtype}: bring them to a "
                    f"size near 1"
                )
            return (value * scale).to(problem_dtype(x)), gradient

        near = nearness(recipe, same)
        return in_range(
            call, near, recipe, p, objective, given, value_of=lambda found: found[0], back=back
        )


def _value_and_grad(
    x: Tensor,
    y: Tensor | Target | Law,
    *,
    recipe: Recipe,
    ask: Ask | None,
    p: float,
    n_slices: int | None,
    x_weights: Tensor | None,
    y_weights: Tensor | None,
    objective: Objective,
    slices: Tensor | None,
    generator: Generators,
    backend: str,
    progress: float,
) -> tuple[Tensor, Tensor]:
    if slices is None:
        found = planned_gradient(ask, x, y, x_weights, y_weights, generator)
        if found is not None:
            return found.value, found.gradient.to(x.dtype)
    problem = problem_for(
        x, y, p, x_weights, y_weights, recipe.convention, progress, backend
    ).detached()
    given = fixed_slices(y, slices)
    with torch.no_grad(), full_precision(x.device.type):

        def ready(problem: Problem) -> Prepared:
            return prepare(recipe, problem, generator, given, n_slices=n_slices)

        if recipe.closed_form_gradient:
            value, gradient = priced(recipe, problem, ready(problem).slices, objective)
        else:
            value, gradient, _ = differentiated(recipe, problem, objective, ready)
        if gradient.shape != x.shape:
            gradient = gradient.sum_to_size(x.shape)
    check_value(value, problem, objective)
    return value, gradient if gradient.dtype == x.dtype else gradient.to(x.dtype)
