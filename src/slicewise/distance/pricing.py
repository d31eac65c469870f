"""Values with their gradients in x, and steps down them, from slices that are known; nothing is recorded for autograd."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from slicewise.distance.objective import Objective, total_and_slope, value_and_slope, weigh
from slicewise.distance.request import Prepared
from slicewise.parts import constant_weights
from slicewise.problem import Problem, WeightingPart, declared
from slicewise.support import one_thread
from slicewise.transport import Gradients, Match, Needs, descend, pull_back
from slicewise.variants import Recipe

_OF_X = Needs(x=True)


def priced(
    recipe: Recipe, problem: Problem, slices: Tensor, objective: Objective
) -> tuple[Tensor, Tensor]:
    """The value (*batch,) in the recipe's convention, and its gradient in x (*batch, n, d)."""
    with one_thread(slices.device):
        return _priced(recipe, problem, slices, objective)


def _priced(
    recipe: Recipe, problem: Problem, slices: Tensor, objective: Objective
) -> tuple[Tensor, Tensor]:
    if problem.fits(slices, _OF_X):
        done = _priced_in_one(recipe, problem, slices, objective)
        if done is not None:
            return done
        value, found, factor = _priced_whole(recipe, problem, slices, objective)
        gradients = pull_back(found, problem.x, problem.y, slices, factor, _OF_X)
        assert gradients.x is not None
        return value, gradients.x
    # Too many projections to keep. Known coefficients need one pass; those that follow the costs, two.
    weights = constant_weights(recipe.weighting, slices, problem)
    if objective == "mean_root":
        weights = None
    costs, gradients = problem.pull(slices, weights, _OF_X if weights is not None else Needs())
    total, slope = total_and_slope(recipe, problem, slices, costs, objective)
    if weights is None:
        assert isinstance(slope, Tensor)
        _, gradients = problem.pull(slices, slope, _OF_X)
    elif problem.convention == "reference" and gradients.x is not None:
        gradients = Gradients(x=gradients.x * problem.cost_factor(inner=2))
    assert gradients.x is not None
    value, outer = value_and_slope(total, problem, objective)
    return value, gradients.x.mul_(outer.unsqueeze(-1) if isinstance(outer, Tensor) else outer)


def _priced_in_one(
    recipe: Recipe, problem: Problem, slices: Tensor, objective: Objective
) -> tuple[Tensor, Tensor] | None:
    """`priced` by a matcher that adds up itself, where slice weights are known beforehand."""
    if objective == "mean_root" or problem.convention != "mean":
        return None
    weights = None
    if not declared(recipe.weighting, WeightingPart).is_mean:
        weights = constant_weights(recipe.weighting, slices, problem)
        if weights is None:
            return None
    return problem.priced(slices, weights, root=objective == "root")


def differentiated(
    recipe: Recipe, problem: Problem, objective: Objective, ready: Callable[[Problem], Prepared]
) -> tuple[Tensor, Tensor, Prepared]:
    """`priced` by autograd, for recipes whose samples are lifted or weigh on their slices; and what was sliced."""
    with torch.inference_mode(False), torch.enable_grad():
        live = problem.x.detach().clone().requires_grad_()
        found = ready(dataclasses.replace(problem, x=live))
        value = weigh(recipe, found.problem, found.slices, objective)[0]
        (gradient,) = torch.autograd.grad(value.sum(), live)
    return value.detach(), gradient, found


def stepped(
    recipe: Recipe, problem: Problem, slices: Tensor, objective: Objective, rates: Tensor
) -> tuple[Tensor, Tensor]:
    """The value (R,), and where one step of gradient descent of these rates (R,) takes x (R, n, d)."""
    if problem.fits(slices, _OF_X):
        is_mean = declared(recipe.weighting, WeightingPart).is_mean
        plain = is_mean and problem.convention == "mean"
        if plain and objective == "power":
            found = problem.match(slices, _OF_X)
            x, value = descend(problem.x, rates, found, slices, 1 / slices.shape[-2])
            return value, x
        value, found, factor = _priced_whole(recipe, problem, slices, objective)
        return value, descend(problem.x, rates, found, slices, factor)[0]
    value, gradient = priced(recipe, problem, slices, objective)
    each = rates[:, None, None].to(gradient.dtype)
    return value, torch.addcmul(problem.x, gradient, each, value=-1)


def _priced_whole(
    recipe: Recipe, problem: Problem, slices: Tensor, objective: Objective
) -> tuple[Tensor, Match, Tensor | float]:
    """The value, the match on all lines at once, and how much each line counts in the gradient."""
    found = problem.match(slices, _OF_X)
    total, slope = total_and_slope(recipe, problem, slices, found.cost, objective)
    value, outer = value_and_slope(total, problem, objective)
    return value, found, slope * outer
