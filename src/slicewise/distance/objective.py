"""What is computed of the costs of slices: the power, its root, or the mean of the roots; in either convention.

With slice weights w and costs c (W_p^p on each slice), per element of the batch:

    "power"       Σ w c                 SW_p^p
    "root"        (Σ w c)^(1/p)         SW_p
    "mean_root"   Σ w c^(1/p)           the mean W_p over slices, the paper's generative loss

Under `convention="reference"` costs are sums over the n samples of x instead of means, and the value is multiplied by n.
Every other file takes values and derivatives from here.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from slicewise.parts import coefficients, constant_weights, slice_weights
from slicewise.problem import Problem, WeightingPart, declared
from slicewise.support import check_choice, values_readable
from slicewise.transport import root, root_slope
from slicewise.variants import Recipe

Objective = Literal["power", "root", "mean_root"]


def check_objective(objective: object, recipe: Recipe) -> None:
    """One of the three, and one that is defined for the recipe.

    Raises:
        ValueError: for another word, and for "mean_root" with slice weights that follow the costs.
    """
    check_choice("objective", objective, get_args(Objective))  # type: ignore[arg-type]
    if objective == "mean_root" and declared(recipe.weighting, WeightingPart).self_normalized:
        raise ValueError(
            f"objective='mean_root' with {recipe.weighting!r}, whose weights follow the costs: use 'power' or 'root'"
        )


def weigh(
    recipe: Recipe, problem: Problem, slices: Tensor, objective: Objective
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Price and weigh slices (*batch, L, d): value (*batch,), power (*batch,), costs and weights (*batch, L).

    Differentiable in whatever the problem and the slices are.
    """
    weights = None
    if not (slices.requires_grad and torch.is_grad_enabled()):  # through which weights may flow too
        weights = constant_weights(recipe.weighting, slices, problem)
    if weights is not None and objective != "mean_root":
        power, costs = problem.weighted_cost(slices, weights)
    else:
        costs = problem.costs(slices)  # (*batch, L)
        if weights is None:
            if problem.others is None or recipe.built_in:
                weights = slice_weights(recipe.weighting, costs, slices, problem)
            else:
                weights = problem.others.together(
                    repr(recipe.weighting),
                    lambda: slice_weights(recipe.weighting, costs, slices, problem),
                )
        power = (weights * costs).sum(dim=-1)
    total = (weights * root(costs, problem.p)).sum(dim=-1) if objective == "mean_root" else power
    return value_of_costs(total, problem, objective), power, costs, weights


def value_of_costs(total: Tensor, problem: Problem, objective: Objective) -> Tensor:
    """The value (*batch,) from Σ w c, or for "mean_root" Σ w c^(1/p), of costs in the problem's convention."""
    value = root(total, problem.p) if objective == "root" else total
    return problem.in_convention(value, inner=0)


def value_of_means(total: Tensor, problem: Problem, objective: Objective) -> Tensor:
    """The value (*batch,) from Σ w m, or for "mean_root" Σ w m^(1/p), of costs m that are means over samples."""
    n, p = problem.cost_factor(inner=0), problem.p
    if objective == "power":
        return total if problem.convention == "mean" else n * n * total
    value = total if objective == "mean_root" else root(total, p)
    return value if problem.convention == "mean" else n * n ** (1 / p) * value


def distance_of_value(value: Tensor, problem: Problem, objective: Objective) -> Tensor:
    """Undo `value_of_means`: SW_p, or the mean W_p, in the unit of the samples."""
    n, p = problem.cost_factor(inner=0), problem.p
    if objective == "power":
        return (value / (n * n)) ** (1 / p)
    return value / (n * n ** (1 / p))


def total_and_slope(
    recipe: Recipe, problem: Problem, slices: Tensor, means: Tensor, objective: Objective
) -> tuple[Tensor, Tensor | float]:
    """Σ w c (for "mean_root" Σ w c^(1/p)) from mean costs (*batch, L), and its derivative in each of these.

    The derivative is (*batch, L), or one number for all. Nothing is recorded for autograd.
    """
    costs = problem.in_convention(means)
    slope: Tensor | float
    plain = declared(recipe.weighting, WeightingPart).is_mean and objective != "mean_root"
    weights = None if plain else constant_weights(recipe.weighting, slices, problem)
    if plain:
        total, slope = costs.mean(dim=-1), 1 / costs.shape[-1]
    elif objective == "mean_root":
        if weights is None:
            total, slope = _mean_root_and_slope(recipe, problem, slices, costs)
        else:
            total = (weights * costs ** (1 / problem.p)).sum(dim=-1)
            slope = weights * root_slope(costs, problem.p)
    elif weights is None:
        total, slope = coefficients(recipe.weighting, slices, problem, costs)
    else:
        total, slope = (weights * costs).sum(dim=-1), weights
    return total, slope if problem.convention == "mean" else slope * problem.cost_factor()


def _mean_root_and_slope(
    recipe: Recipe, problem: Problem, slices: Tensor, costs: Tensor
) -> tuple[Tensor, Tensor]:
    """Σ w c^(1/p) and its derivative in each cost, for weights of which no more is known: by autograd."""
    with torch.inference_mode(False), torch.enable_grad():
        live = costs.clone().requires_grad_()
        total = (
            slice_weights(recipe.weighting, live, slices, problem) * root(live, problem.p)
        ).sum(dim=-1)
        (slope,) = torch.autograd.grad(total.sum(), live)
    return total.detach(), slope


def value_and_slope(
    total: Tensor, problem: Problem, objective: Objective
) -> tuple[Tensor, Tensor | float]:
    """The value (*batch,) of a total as `total_and_slope` gives it, and its derivative in the total.

    The derivative is (*batch, 1), or a plain number where that will do. Nothing is recorded for autograd.
    """
    if objective != "root":
        return problem.in_convention(total, inner=0), problem.cost_factor() * 1.0
    p = problem.p
    value = total.clamp(min=0).sqrt() if p == 2 else root(total, p)
    slope: Tensor | float
    if total.dim() == 0 and p == 2 and not total.is_cuda and values_readable(total):
        # One number on the CPU is read faster than four operations on it are launched.
        number = total.item()
        slope = 0.0 if number <= 0 else 0.5 / math.sqrt(number)
    else:
        slope = root_slope(total, p).unsqueeze(-1)
    if problem.convention == "reference":
        slope = slope * problem.cost_factor()
    return problem.in_convention(value, inner=0), slope
