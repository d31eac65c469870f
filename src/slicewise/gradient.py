"""The distance and its gradient in one call, without the autograd engine."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from slicewise.checks import check_value, values_readable
from slicewise.distance import fixed_slices, slices_for
from slicewise.precision import full_precision
from slicewise.problem import Problem
from slicewise.randomness import Generators
from slicewise.recipe import Recipe, Variant
from slicewise.request import problem_for, recipe_for
from slicewise.target import Target
from slicewise.transport import Gradients, Needs, pull_back
from slicewise.weighting import Equal, coefficients, constant_weights


def value_and_grad(
    x: Tensor,
    y: Tensor | Target,
    variant: str | Variant | Recipe = "sw",
    *,
    p: float = 2,
    n_slices: int | None = None,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    power: bool = False,
    slices: Tensor | None = None,
    generator: Generators = None,
    backend: str = "auto",
    progress: float = 0.0,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """`sliced_wasserstein` (*batch,) and the gradient of its sum in x, of the shape of x.

    What a flow or a hand-written loop needs, at the least cost: gradients are accumulated while slices
    are priced. Arguments are those of `sliced_wasserstein`.

    >>> x, y = torch.zeros(2, 1), torch.ones(2, 1)
    >>> value_and_grad(x, y, power=True, slices=torch.ones(1, 1))
    (tensor(1.), tensor([[-1.],
            [-1.]]))
    """
    recipe = recipe_for(variant, n_slices, options)
    problem = problem_for(
        x, y, p, x_weights, y_weights, recipe.convention, progress, backend
    ).detached()
    with torch.no_grad(), full_precision(x.device.type):
        drawn, _, _ = slices_for(
            recipe, problem, generator, fixed_slices(y, slices), n_slices=n_slices
        )
        total, gradient = _priced(recipe, problem, drawn, power)
        value = total if power else total.sqrt() if problem.p == 2 else total ** (1 / problem.p)
        if recipe.convention == "reference":
            n = problem.n_points()
            value = value * (n if isinstance(n, int) else n.squeeze(-1))
        if gradient.shape != x.shape:
            gradient = gradient.sum_to_size(x.shape)
    check_value(value, problem)
    return value, gradient if gradient.dtype == x.dtype else gradient.to(x.dtype)


def _priced(recipe: Recipe, problem: Problem, slices: Tensor, power: bool) -> tuple[Tensor, Tensor]:
    """Σ weights · costs (*batch,) in the problem's convention; the gradient of the value (*batch, n, d)."""
    needs = Needs(x=True)
    if problem.fits(slices, needs):
        found = problem.match(slices, needs)
        total, slope = _total_and_slope(recipe, problem, slices, found.cost)
        factor = slope * _outer(total, problem, power)
        gradients = pull_back(found, problem.x, problem.y, slices, factor, needs)
        assert gradients.x is not None
        return total, gradients.x
    # Too many projections to keep. Known weights need one pass; weights that follow the costs, two.
    weights = constant_weights(recipe.weighting, slices, problem)
    costs, gradients = problem.pull(slices, weights, needs)
    total, slope = _total_and_slope(recipe, problem, slices, costs)
    if weights is None:
        assert isinstance(slope, Tensor)
        _, gradients = problem.pull(slices, slope, needs)
    else:
        if problem.convention == "reference" and gradients.x is not None:
            gradients = Gradients(x=gradients.x * _n_points(problem, 2))
    assert gradients.x is not None
    outer = _outer(total, problem, power)
    return total, gradients.x.mul_(outer.unsqueeze(-1) if isinstance(outer, Tensor) else outer)


def _total_and_slope(
    recipe: Recipe, problem: Problem, slices: Tensor, means: Tensor
) -> tuple[Tensor, Tensor | float]:
    """Σ weights · costs, and its derivative in each cost as a mean over points: (*batch, L) or a number."""
    costs = means if problem.convention == "mean" else means * _n_points(problem, 1)
    slope: Tensor | float
    if isinstance(recipe.weighting, Equal):
        total, slope = costs.mean(dim=-1), 1 / costs.shape[-1]
    else:
        weights = constant_weights(recipe.weighting, slices, problem)
        if weights is None:
            total, slope = coefficients(recipe.weighting, slices, problem, costs)
        else:
            total, slope = (weights * costs).sum(dim=-1), weights
    return total, slope if problem.convention == "mean" else slope * _n_points(problem, 1)


def _outer(total: Tensor, problem: Problem, power: bool) -> Tensor | float:
    """The derivative of the value in the total, (*batch, 1); a plain number where that will do."""
    outer: Tensor | float = 1.0
    if not power:
        if total.dim() == 0 and problem.p == 2 and not total.is_cuda and values_readable(total):
            # One number on the CPU is read faster than four operations on it are launched.
            number = total.item()
            outer = 0.5 / math.sqrt(number) if number != 0 else 0.0
        else:
            # total^(1/p − 1) / p; where the total is 0 its root counts as flat, as in `roots`.
            zero = total == 0
            slope = torch.where(zero, 1, total) ** (1 / problem.p - 1) / problem.p
            outer = torch.where(zero, 0, slope).unsqueeze(-1)
    return outer if problem.convention == "mean" else outer * _n_points(problem, 1)


def _n_points(problem: Problem, inner: int) -> Tensor | int:
    """The number of points, shaped to multiply something with that many inner dimensions."""
    n = problem.n_points()
    return n if isinstance(n, int) else n.reshape(n.shape[:-1] + (1,) * inner)
