"""The distance and its gradient in one call, without the autograd engine."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from slicewise.distance import constant_weights, fixed_slices, slices_for
from slicewise.problem import Problem
from slicewise.randomness import Generators
from slicewise.recipe import Recipe, Variant
from slicewise.request import problem_for, recipe_for
from slicewise.roots import root
from slicewise.target import Target
from slicewise.transport import Needs, pull_back


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
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        drawn, _, _ = slices_for(
            recipe, problem, generator, fixed_slices(y, slices), n_slices=n_slices
        )
        total, gradient = _power_and_grad(recipe, problem, drawn)
        value = total
        if not power:
            value = root(total, problem.p)
            # d total^(1/p); where the total is 0 so is its gradient.
            slope = torch.where(total > 0, value / (problem.p * total), 0)
            gradient = gradient * slope[..., None, None]
        if recipe.convention == "reference":
            n = problem.n_points()
            n = n if isinstance(n, int) else n.squeeze(-1)
            value = value * n
            gradient = gradient * (n if isinstance(n, int) else n[..., None, None])
        if gradient.shape != x.shape:
            gradient = gradient.sum_to_size(x.shape)
    return value, gradient.to(x.dtype)


def _power_and_grad(recipe: Recipe, problem: Problem, slices: Tensor) -> tuple[Tensor, Tensor]:
    """Σ weights · costs and its gradient in x (*batch, n, d), in the problem's convention."""
    n = problem.n_points() if problem.convention == "reference" else 1
    weights = constant_weights(recipe, problem, slices)
    if weights is not None:
        costs, gradients = problem.pull(slices, weights * n, Needs(x=True))
        total = (weights * costs * n).sum(dim=-1)
    elif problem.fits(slices):
        found = problem.match(slices, Needs(x=True))
        total, coefficients = _coefficients(recipe, problem, slices, found.cost * n)
        factor = coefficients * n
        gradients = pull_back(found, problem.x, problem.y, slices, factor, Needs(x=True))
    else:  # too many projections to keep: once for the weights, once for the gradient
        costs, _ = problem.pull(slices, None, Needs())
        total, coefficients = _coefficients(recipe, problem, slices, costs * n)
        _, gradients = problem.pull(slices, coefficients * n, Needs(x=True))
    assert gradients.x is not None
    return total, gradients.x


def _coefficients(
    recipe: Recipe, problem: Problem, slices: Tensor, costs: Tensor
) -> tuple[Tensor, Tensor]:
    """Σ weights · costs and its derivative in each cost, for weights that follow the costs."""
    with torch.inference_mode(False), torch.enable_grad():
        live = costs.clone().requires_grad_()
        total = (recipe.weighting(live, slices, problem) * live).sum(dim=-1)
        (coefficients,) = torch.autograd.grad(total.sum(), live)
    return total.detach(), coefficients
