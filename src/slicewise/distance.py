"""The distance itself: slice, price, weigh, add up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicewise.checks import (
    check_choice,
    check_count,
    check_finite,
    check_order,
    check_samples,
    check_slices,
    check_weights,
)
from slicewise.learned import LearnedSlicer, State
from slicewise.problem import Convention, Problem
from slicewise.randomness import Generators, Randomness
from slicewise.recipe import Recipe
from slicewise.roots import root
from slicewise.slicers import group_size
from slicewise.variants import VARIANTS


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A distance and what it was made of."""

    value: Tensor  # (*batch,), SW_p, or SW_p^p if the power was asked for
    power: Tensor  # (*batch,), SW_p^p
    costs: Tensor  # (*batch, L), W_p^p on each slice
    weights: Tensor  # (*batch, L), how much each slice counted
    slices: Tensor  # (*batch, L, d)
    group_size: int | None  # how many successive slices depend on each other, if that is known
    self_normalised: bool  # were the weights divided by their own sum?

    @property
    def stderr(self) -> Tensor:
        """Monte-Carlo standard error of `power` (*batch,).

        From the spread between independent groups: slices, chains or frames. NaN where there is only
        one, as for MaxSW. Slices given by the caller are taken for independent draws.
        """
        power, weights, costs = self.power.detach(), self.weights.detach(), self.costs.detach()
        n_slices = costs.shape[-1]
        size = n_slices if self.group_size is None else self.group_size
        n = -(-n_slices // size)  # independent groups, the last one perhaps cut
        if n < 2:
            return torch.full_like(power, math.nan)
        mean = power.unsqueeze(-1)
        if self.self_normalised:
            terms = weights * (costs - mean)  # first-order error of a ratio of two means
        else:
            terms = weights * costs - mean / n_slices
        filled = torch.nn.functional.pad(terms, (0, n * size - n_slices))
        groups = filled.unflatten(-1, (n, size)).sum(dim=-1)
        return (groups.square().sum(dim=-1) * (n / (n - 1))).sqrt()


def sliced_wasserstein(
    x: Tensor,
    y: Tensor,
    variant: str | Recipe = "sw",
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
) -> Tensor:
    """The sliced-Wasserstein distance (*batch,) between samples x (*batch, n, d) and y (*batch, m, d).

    Args:
        variant: a name in `VARIANTS`, or a `Recipe` of your own.
        n_slices: how many slices enter the weighted sum; None is the variant's own default.
        x_weights, y_weights: sample weights (n,) or (*batch, n) that sum to one; zero means absent.
        power: return SW_p^p instead of its root.
        slices: directions (L, d) or (*batch, L, d) to use, as they are, instead of drawing some.
        generator: None is torch's global one; a list holds one for each element of the batch.
        progress: in [0, 1], how much of a training run is over, for options that are schedules.
        options: of the variant, and `defaults`, `convention`, `legacy`.

    >>> x, y = torch.zeros(4, 2), torch.tensor([3.0, 4.0]).expand(5, 2)
    >>> sliced_wasserstein(x, y, "maxsw")  # all of the distance lies along one direction
    tensor(5.0000)
    """
    return evaluate(
        x,
        y,
        variant,
        p=p,
        n_slices=n_slices,
        x_weights=x_weights,
        y_weights=y_weights,
        power=power,
        slices=slices,
        generator=generator,
        backend=backend,
        progress=progress,
        **options,
    ).value


def evaluate(
    x: Tensor,
    y: Tensor,
    variant: str | Recipe = "sw",
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
) -> Evaluation:
    """`sliced_wasserstein` with its workings: costs, weights and slices beside the value.

    >>> x, y = torch.randn(100, 3), torch.randn(80, 3) + 1
    >>> found = evaluate(x, y, "ebsw", n_slices=20)
    >>> found.costs.shape, found.weights.sum().isclose(torch.tensor(1.0)).item()
    (torch.Size([20]), True)
    """
    recipe = recipe_for(variant, n_slices, options)
    problem = problem_for(
        x, y, p, x_weights, y_weights, recipe.convention, progress, backend=backend
    )
    with torch.autocast(problem.x.device.type, enabled=False):
        return weigh(recipe, problem, generator, slices, power=power)[0]


def recipe_for(variant: str | Recipe, n_slices: int | None, options: dict[str, Any]) -> Recipe:
    """The recipe a caller means, by name or as it is."""
    check_count("n_slices", n_slices)
    if not isinstance(variant, str):
        if n_slices is not None or options:
            given = ", ".join(["n_slices"] * (n_slices is not None) + list(options))
            raise ValueError(
                f"{given} cannot change a recipe that is given whole: change {variant!r} itself"
            )
        return variant
    check_choice("variant", variant, VARIANTS)
    if n_slices is not None:
        options = {"n_slices": n_slices, **options}
    return VARIANTS[variant](**options)


def problem_for(
    x: Tensor,
    y: Tensor,
    p: float,
    x_weights: Tensor | None,
    y_weights: Tensor | None,
    convention: Convention,
    progress: float,
    *,
    backend: str = "auto",
) -> Problem:
    """A checked problem in at least single precision."""
    check_choice("backend", backend, ("auto", "torch"))
    check_order(p)
    check_samples(x, y)
    check_weights("x_weights", x_weights, x)
    check_weights("y_weights", y_weights, y)
    check_finite(x=x, y=y)
    if not 0 <= progress <= 1:
        raise ValueError(f"progress = {progress}: give the share of the run that is over, 0 to 1")
    dtype = torch.promote_types(torch.promote_types(x.dtype, y.dtype), torch.float32)
    return Problem(
        x.to(dtype), y.to(dtype), float(p), x_weights, y_weights, convention, float(progress)
    )


def weigh(
    recipe: Recipe,
    problem: Problem,
    generator: Generators,
    slices: Tensor | None,
    *,
    power: bool,
    state: State | None = None,
) -> tuple[Evaluation, State | None]:
    """Slice, price, weigh, add up. A learned slicer's state goes in and out; others have none."""
    if slices is None:
        slices, state = _draw(recipe, problem, generator, state)
        size = group_size(recipe.slicer, problem.d)
    else:
        check_slices(slices, problem.x, problem.batch)
        check_finite(slices=slices)
        slices = slices.to(problem.x.dtype)
        size = 1
    costs = problem.costs(slices)  # (*batch, L)
    weights = recipe.weighting(costs, slices, problem)
    total = (weights * costs).sum(dim=-1)
    value = total if power else root(total, problem.p)
    if recipe.convention == "reference":
        n = problem.n_points()
        value = value * (n if isinstance(n, int) else n.squeeze(-1))
    normalised = getattr(recipe.weighting, "self_normalised", False)
    return Evaluation(value, total, costs, weights, slices, size, normalised), state


def _draw(
    recipe: Recipe, problem: Problem, generator: Generators, state: State | None
) -> tuple[Tensor, State | None]:
    if generator is not None and not isinstance(generator, (torch.Generator, list, tuple)):
        raise ValueError(
            f"generator is a {type(generator).__name__}: give a torch.Generator, a list of them (one "
            f"for each element of the batch) or None; for a seed, torch.Generator().manual_seed(seed)"
        )
    rng = Randomness(generator, problem.x.device, problem.batch)
    with torch.no_grad():
        if isinstance(recipe.slicer, LearnedSlicer):
            state = recipe.slicer.cold(problem, rng) if state is None else state
            slices, state = recipe.slicer.learn(problem, rng, state)
        else:
            slices = recipe.slicer(problem.detached(), rng)
    return slices, state
