"""The distance and its gradient in one call, without the autograd engine."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from slicewise.distance.evaluation import may_be_captured, weigh
from slicewise.distance.prepare import Prepared, fixed_slices, prepare
from slicewise.distance.request import problem_for, recipe_for
from slicewise.parts import Equal, coefficients, constant_weights
from slicewise.problem import Problem, Target
from slicewise.sampling import Generators
from slicewise.support import check_value, full_precision, values_readable
from slicewise.transport import Gradients, Match, Needs, descend, pull_back, root, root_slope
from slicewise.variants import Recipe, Variant

# SW_p^p, its root SW_p, or the mean over slices of W_p (the paper's generative loss).
Objective = Literal["power", "root", "mean_root"]
_OF_X = Needs(x=True)


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
    are priced. Arguments are those of `sliced_wasserstein`; neither result carries a graph to go back through.

    >>> x, y = torch.zeros(2, 1), torch.ones(2, 1)
    >>> value_and_grad(x, y, power=True, slices=torch.ones(1, 1))
    (tensor(1.), tensor([[-1.],
            [-1.]]))
    """
    recipe = recipe_for(variant, n_slices, options)
    problem = problem_for(
        x, y, p, x_weights, y_weights, recipe.convention, progress, backend
    ).detached()
    given = fixed_slices(y, slices)
    objective: Objective = "power" if power else "root"
    if may_be_captured(x, given, generator):
        from slicewise.distance.replay import replayed

        found = replayed(recipe, problem, objective)
        if found is not None:
            return found[0], found[1].to(x.dtype)
    with torch.no_grad(), full_precision(x.device.type):

        def ready(problem: Problem) -> Prepared:
            return prepare(recipe, problem, generator, given, n_slices=n_slices)

        if recipe.by_hand:
            value, gradient = priced(recipe, problem, ready(problem).slices, objective)
        else:
            value, gradient, _ = differentiated(recipe, problem, objective, ready)
        if gradient.shape != x.shape:
            gradient = gradient.sum_to_size(x.shape)
    check_value(value, problem)
    return value, gradient if gradient.dtype == x.dtype else gradient.to(x.dtype)


def priced(
    recipe: Recipe, problem: Problem, slices: Tensor, objective: Objective
) -> tuple[Tensor, Tensor]:
    """The value (*batch,) in the recipe's convention, and its gradient in x (*batch, n, d)."""
    if problem.fits(slices, _OF_X):
        value, found, factor = _priced_whole(recipe, problem, slices, objective)
        gradients = pull_back(found, problem.x, problem.y, slices, factor, _OF_X)
        assert gradients.x is not None
        return value, gradients.x
    # Too many projections to keep. Known coefficients need one pass; those that follow the costs, two.
    weights = constant_weights(recipe.weighting, slices, problem)
    if objective == "mean_root":
        weights = None
    costs, gradients = problem.pull(slices, weights, _OF_X if weights is not None else Needs())
    total, slope = _total_and_slope(recipe, problem, slices, costs, objective)
    if weights is None:
        assert isinstance(slope, Tensor)
        _, gradients = problem.pull(slices, slope, _OF_X)
    elif problem.convention == "reference" and gradients.x is not None:
        gradients = Gradients(x=gradients.x * _n_points(problem, 2))
    assert gradients.x is not None
    outer = _outer(total, problem, objective)
    gradient = gradients.x.mul_(outer.unsqueeze(-1) if isinstance(outer, Tensor) else outer)
    return _value(total, problem, objective), gradient


def differentiated(
    recipe: Recipe, problem: Problem, objective: Objective, ready: Callable[[Problem], Prepared]
) -> tuple[Tensor, Tensor, Prepared]:
    """`priced` by autograd, for recipes whose samples are lifted or weigh on their slices; and what was sliced."""
    with torch.inference_mode(False), torch.enable_grad():
        live = problem.x.detach().clone().requires_grad_()
        found = ready(dataclasses.replace(problem, x=live))
        if objective == "mean_root":
            sliced, slices = found.problem, found.slices
            costs = sliced.costs(slices)
            value = (recipe.weighting(costs, slices, sliced) * root(costs, problem.p)).sum(dim=-1)
            value = _in_convention(value, problem)
        else:
            value = weigh(
                recipe, found.problem, found.slices, None, power=objective == "power"
            ).value
        (gradient,) = torch.autograd.grad(value.sum(), live)
    return value.detach(), gradient, found


def stepped(
    recipe: Recipe, problem: Problem, slices: Tensor, objective: Objective, rates: Tensor
) -> tuple[Tensor, Tensor]:
    """The value (R,), and where one step of gradient descent of these rates (R,) takes x (R, n, d)."""
    if problem.fits(slices, _OF_X):
        plain = isinstance(recipe.weighting, Equal) and problem.convention == "mean"
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
    total, slope = _total_and_slope(recipe, problem, slices, found.cost, objective)
    return _value(total, problem, objective), found, slope * _outer(total, problem, objective)


def _total_and_slope(
    recipe: Recipe, problem: Problem, slices: Tensor, means: Tensor, objective: Objective
) -> tuple[Tensor, Tensor | float]:
    """Σ weights · costs, and its derivative in each cost as a mean over points: (*batch, L) or a number."""
    costs = means if problem.convention == "mean" else means * _n_points(problem, 1)
    slope: Tensor | float
    plain = isinstance(recipe.weighting, Equal) and objective != "mean_root"
    weights = None if plain else constant_weights(recipe.weighting, slices, problem)
    if plain:
        total, slope = costs.mean(dim=-1), 1 / costs.shape[-1]
    elif objective == "mean_root":
        if weights is None:
            raise ValueError(
                f"objective='mean_root' with {recipe.weighting!r}, whose weights follow the costs: use "
                f"'power' or 'root'"
            )
        total = (weights * costs ** (1 / problem.p)).sum(dim=-1)
        slope = weights * root_slope(costs, problem.p)
    elif weights is None:
        total, slope = coefficients(recipe.weighting, slices, problem, costs)
    else:
        total, slope = (weights * costs).sum(dim=-1), weights
    return total, slope if problem.convention == "mean" else slope * _n_points(problem, 1)


def _value(total: Tensor, problem: Problem, objective: Objective) -> Tensor:
    value = total
    if objective == "root":
        value = total.clamp(min=0).sqrt() if problem.p == 2 else root(total, problem.p)
    return _in_convention(value, problem)


def _in_convention(value: Tensor, problem: Problem) -> Tensor:
    if problem.convention == "mean":
        return value
    n = problem.n_points()
    return value * (n if isinstance(n, int) else n.squeeze(-1))


def _outer(total: Tensor, problem: Problem, objective: Objective) -> Tensor | float:
    """The derivative of the value in the total, (*batch, 1); a plain number where that will do."""
    outer: Tensor | float = 1.0
    if objective == "root":
        if total.dim() == 0 and problem.p == 2 and not total.is_cuda and values_readable(total):
            # One number on the CPU is read faster than four operations on it are launched.
            number = total.item()
            outer = 0.0 if number <= 0 else 0.5 / math.sqrt(number)
        else:
            outer = root_slope(total, problem.p).unsqueeze(-1)
    return outer if problem.convention == "mean" else outer * _n_points(problem, 1)


def _n_points(problem: Problem, inner: int) -> Tensor | int:
    """The number of points, shaped to multiply something with that many inner dimensions."""
    n = problem.n_points()
    return n if isinstance(n, int) else n.reshape(n.shape[:-1] + (1,) * inner)
