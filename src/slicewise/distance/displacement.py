"""The move that slices suggest for each sample: a gradient step whose length is computed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from slicewise.distance.prepare import fixed_slices, prepare
from slicewise.distance.request import problem_for, recipe_for
from slicewise.parts import weights_for
from slicewise.problem import Problem, Target
from slicewise.sampling import Generators
from slicewise.steps import Pull, Rule, moved, pull_of, rule_for
from slicewise.support import check_value, full_precision
from slicewise.variants import Recipe, Variant


def displacement(
    x: Tensor,
    y: Tensor | Target,
    variant: str | Variant | Recipe = "sw",
    *,
    step: str | float | Rule = "cauchy",
    p: float = 2,
    n_slices: int | None = None,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    hold_weights: bool = True,
    slices: Tensor | None = None,
    generator: Generators = None,
    backend: str = "auto",
    progress: float = 0.0,
    **options: Any,
) -> Tensor:
    """The move −a D (*batch, n, d) that slices suggest for each sample of x, towards y.

    `x + displacement(x, y)` is one step of a flow, with nothing to tune: the step a is computed from the
    slices drawn. Samples of weight zero do not move. The other arguments are those of `sliced_wasserstein`.

    Args:
        step: "cauchy" (the exact line search on these slices' plans), "tempered", "trace", "polyak", "constant", a
            number (the dimensionless a itself) or a `slicewise.steps.theory.Rule` of your own.
        hold_weights: take slice weights as constants. With False energies are differentiated, as the
            loss does; slices may then push samples away.

    >>> x, y = torch.zeros(4, 2), torch.tensor([3.0, 4.0]).expand(4, 2)
    >>> displacement(x, y, "orthosw", n_slices=2)[0].round()  # one frame of R^2 sees all there is
    tensor([3., 4.])
    """
    rule = rule_for(step)
    recipe = recipe_for(variant, n_slices, options)
    recipe.check_linear("a displacement")
    problem = problem_for(
        x, y, p, x_weights, y_weights, recipe.convention, progress, backend
    ).detached()
    with torch.no_grad(), full_precision(problem.x.device.type):
        given = fixed_slices(y, slices)
        drawn = prepare(recipe, problem, generator, given, n_slices=n_slices).slices
        pull = pull_of(
            problem, drawn, weights_for(recipe.weighting, drawn, problem, hold=hold_weights)
        )
        move = moved(pull, rule)
    check_value(pull.costs, problem)
    return move.to(x.dtype)


def displaced(recipe: Recipe, problem: Problem, slices: Tensor) -> Tensor:
    """The value (*batch,), whose gradients are the suggested moves with their signs turned."""
    check_displaceable(problem)
    still, slices = problem.detached(), slices.detach()
    with torch.no_grad():
        value, pull = valued(recipe, still, slices)
    if problem.x.requires_grad:
        value = carried(value, problem, moved(pull))
    if problem.y.requires_grad:
        with torch.no_grad():
            back = pull_of(still.swapped(), slices, pull.weights)
        value = carried(value, problem.swapped(), moved(back))
    return value


def valued(recipe: Recipe, problem: Problem, slices: Tensor) -> tuple[Tensor, Pull]:
    """The value (*batch,), and where the slices pull, their weights held constant."""
    pull = pull_of(problem, slices, weights_for(recipe.weighting, slices, problem, hold=True))
    value = (pull.weights * pull.costs).sum(dim=-1)
    if problem.convention == "reference":  # a sum over points, times their number
        n = problem.n_points()
        value = value * (n if isinstance(n, int) else n.squeeze(-1)) ** 2
    return value, pull


def check_displaceable(problem: Problem) -> None:
    """Sample weights that ask for a gradient, of which moves have none."""
    for name in ("x_weights", "y_weights"):
        weights = getattr(problem, name)
        if weights is not None and weights.requires_grad:
            raise ValueError(
                f"{name} asks for a gradient, which scale='displacement' has for samples only: "
                f"detach them, or use another scale"
            )


def carried(value: Tensor, problem: Problem, move: Tensor) -> Tensor:
    """`value` as it is, with a gradient of −q_i · move_i at sample i of x, q_i its weight."""
    samples, share = problem.x, problem.shares(move.dtype)
    if isinstance(share, Tensor):
        share = share.unsqueeze(-1)
        samples = torch.where(share > 0, samples, 0)  # absent ones may lie anywhere, at NaN too
    pulled = (samples * (share * -move)).sum(dim=(-2, -1))  # (*batch,), linear in the samples
    return value + (pulled - pulled.detach())
