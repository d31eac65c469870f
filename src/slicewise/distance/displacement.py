"""The move that slices suggest for each sample: a gradient step whose length is computed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from slicewise.distance.objective import value_of_means
from slicewise.distance.request import check_value, fixed_slices, prepare, problem_for, recipe_for
from slicewise.laws import Law
from slicewise.parts import weights_for
from slicewise.problem import Problem, Target
from slicewise.sampling import Generators
from slicewise.steps import Pull, Rule, moved, pull_of, rule_for, step_on_lines
from slicewise.support import full_precision, takes_arrays
from slicewise.transport import Needs, pull_back
from slicewise.variants import Recipe, Variant


@takes_arrays("x", "y", "x_weights", "y_weights", "slices")
def displacement(
    x: Tensor,
    y: Tensor | Target | Law,
    variant: str | Variant | Recipe = "sw",
    *,
    step_rule: str | float | Rule = "cauchy",
    p: float = 2,
    n_slices: int | None = None,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    hold_weights: bool | None = None,
    slices: Tensor | None = None,
    generator: Generators = None,
    backend: str = "auto",
    progress: float = 0.0,
    **options: Any,
) -> Tensor:
    """Compute the move that slices suggest for each sample of x, towards y.

    `x + displacement(x, y)` is one step of a flow with nothing to tune: the length of the step is computed from the
    slices drawn. Use it in a loop of your own; `flow` is the loop that is there. Samples of weight zero do not move.

    Args:
        step_rule: what computes the length: "cauchy" (the exact line search on the plans of these slices), "tempered",
            "trace", "polyak", "constant", a number (the dimensionless step itself) or a `slicewise.steps.Rule`.
        hold_weights: take slice weights as constants; None does. With False energies are differentiated, as the
            gradient of the distance does; slices may then push samples away.
        x, y, variant, p, n_slices, x_weights, y_weights, slices, generator, backend, progress, options: as in
            `sliced_wasserstein`.

    Returns:
        The moves, (*batch, n, d): the gradient of SW_2^2 at sample i is −2 w_i times it, up to the step.

    Raises:
        ValueError: for arguments that do not fit together, and for variants whose slices are not linear in the samples.

    >>> x, y = torch.zeros(4, 2), torch.tensor([3.0, 4.0]).expand(4, 2)
    >>> displacement(x, y, "orthosw", n_slices=2)[0].round()  # one frame of R^2 sees all there is
    tensor([3., 4.])
    """
    rule = rule_for(step_rule)
    recipe = recipe_for(variant, n_slices, options)
    recipe.check_linear("a displacement")
    problem = problem_for(
        x, y, p, x_weights, y_weights, recipe.convention, progress, backend
    ).detached()
    hold = hold_weights is None or hold_weights
    with torch.no_grad(), full_precision(problem.x.device.type):
        given = fixed_slices(y, slices)
        drawn = prepare(recipe, problem, generator, given, n_slices=n_slices).slices
        pull = pull_of(problem, drawn, weights_for(recipe.weighting, drawn, problem, hold=hold))
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


def displaced_gradient(recipe: Recipe, problem: Problem, slices: Tensor) -> tuple[Tensor, Tensor]:
    """The value (*batch,), and what stands for its gradient in x: −q_i · move_i, q_i the weight of sample i.

    For p = 2 it is the gradient times half the step: all that is computed beyond it is one number.
    """
    needs, masses = Needs(x=True), problem.shares(slices.dtype)
    if problem.p != 2 or not problem.fits(slices, needs):
        value, pull = valued(recipe, problem, slices)
        return value, carried_gradient(moved(pull), masses)
    found = problem.match(slices, needs)
    held = weights_for(recipe.weighting, slices, problem, hold=True)
    weights = held(found.cost) if callable(held) else held
    gradient = pull_back(found, problem.x, problem.y, slices, weights, needs).x
    assert found.u_grad is not None
    assert gradient is not None
    step = step_on_lines(found.u_grad, gradient, slices, weights, masses)
    value = value_of_means((weights * found.cost).sum(dim=-1), problem, "power")
    return value, gradient.mul_((step / 2)[..., None, None])


def carried_gradient(move: Tensor, masses: Tensor | float) -> Tensor:
    """−q_i · move_i at sample i, q_i its weight."""
    return move * -(masses.unsqueeze(-1) if isinstance(masses, Tensor) else masses)


def valued(recipe: Recipe, problem: Problem, slices: Tensor) -> tuple[Tensor, Pull]:
    """The value (*batch,), and where the slices pull, their weights held constant."""
    pull = pull_of(problem, slices, weights_for(recipe.weighting, slices, problem, hold=True))
    value = value_of_means((pull.weights * pull.costs).sum(dim=-1), problem, "power")
    return value, pull


def check_displaceable(problem: Problem) -> None:
    """Sample weights, or parameters of a law, that ask for a gradient, of which moves have none."""
    if problem.law is not None and problem.y.requires_grad:
        raise ValueError(
            f"parameters of {problem.law!r} ask for a gradient, which scale='displacement' has for samples only: detach "
            f"them, or use another scale"
        )
    for name, weights in (("x_weights", problem.x_weights), ("y_weights", problem.y_weights)):
        if weights is not None and weights.requires_grad:
            raise ValueError(
                f"{name} asks for a gradient, which scale='displacement' has for samples only: "
                f"detach them, or use another scale"
            )


def carried(value: Tensor, problem: Problem, move: Tensor) -> Tensor:
    """`value` as it is, with a gradient of −q_i · move_i at sample i of x, q_i its weight."""
    samples, share = problem.x, problem.shares(move.dtype)
    if isinstance(share, Tensor):
        there = share.unsqueeze(-1) > 0
        samples = torch.where(there, samples, 0)  # absent ones may lie anywhere, at NaN too
    gradient = carried_gradient(move, share)
    pulled = (samples * gradient).sum(dim=(-2, -1))  # (*batch,), linear in the samples
    return value + (pulled - pulled.detach())
