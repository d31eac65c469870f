"""The distance itself: slice, price, weigh, add up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicewise.distance.prepare import fixed_slices, prepare
from slicewise.distance.request import problem_for, recipe_for
from slicewise.parts import Curved, constant_weights
from slicewise.problem import Problem, Target
from slicewise.sampling import Generators
from slicewise.steps import moved, pull_of
from slicewise.support import check_value, full_precision, values_readable
from slicewise.transport import root
from slicewise.variants import Recipe, Variant


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """A distance and what it was made of: what `evaluate` returns.

    `value` (*batch,) is SW_p, or SW_p^p if the power was asked for; `power` (*batch,) is SW_p^p = Σ `weights` · `costs`.
    `costs` (*batch, L) are W_p^p on each slice, `weights` (*batch, L) how much each counted, `slices` (*batch, L, d)
    the directions, as they were given or drawn. `recipe` is how, `problem` what was sliced. `group_size` says how many
    successive slices depend on each other, None if that is not known.
    """

    value: Tensor
    power: Tensor
    costs: Tensor
    weights: Tensor
    slices: Tensor
    group_size: int | None
    recipe: Recipe
    problem: Problem

    def __repr__(self) -> str:
        """One line: all costs and slices would be a page of numbers."""
        known = self.value.dim() == 0 and values_readable(self.value)
        value = f"{self.value.item():.6g}" if known else f"of shape {tuple(self.value.shape)}"
        order, n_slices = self.problem.p, self.costs.shape[-1]
        kind = "SW_p^p" if self.value is self.power else "SW_p"
        return f"Evaluation({kind} {value}, p={order:g}, {n_slices} slices by {self.recipe!r})"

    @property
    def displacement(self) -> Tensor:
        """The move these slices suggest for each sample of x (*batch, n, d): add it to x.

        Scaled by the Cauchy step, with slice weights held constant; see `displacement`.
        """
        self.recipe.check_linear("a displacement")
        with torch.no_grad(), full_precision(self.costs.device.type):
            weights = self.weights.detach()
            problem, slices = self.problem.detached(), self.slices.detach()
            move = moved(pull_of(problem, slices.to(problem.x.dtype), weights))
            return move if problem.precision is None else move.to(problem.precision)

    @property
    def bound(self) -> Tensor:
        """What no unit slice of these samples exceeds (*batch,), in the unit of `value`: an upper bound of MaxSW.

        Of slices that are an orthonormal frame ("maxksw", "ksw") it is what the mean over no such frame exceeds.
        Computed when it is asked for. `value` of "maxsw" lies below, and where the two agree it is the maximum.
        """
        if isinstance(self.problem, Curved):
            raise ValueError(
                f"no bound is known for {self.recipe.lift!r}, whose slices are curves; use function='poly'"
            )
        if self.recipe.convention == "reference":
            raise ValueError("a bound is stated in convention='mean' alone: leave convention out")
        from slicewise.distance.bounds import is_frame, most_of_slices

        slices = self.slices
        if not is_frame(slices):
            best = self.costs.detach().argmax(dim=-1, keepdim=True).unsqueeze(-1)
            slices = torch.take_along_dim(slices.expand(*self.problem.batch, -1, -1), best, dim=-2)
        power = most_of_slices(self.problem, slices)
        is_root = self.value is not self.power
        return root(power, self.problem.p) if is_root else power

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
        errors = getattr(self.recipe.weighting, "errors", None)
        if errors is not None:
            terms = errors(costs, self.slices, self.problem.detached())
        else:
            terms = weights * costs - mean / n_slices
        filled = torch.nn.functional.pad(terms, (0, n * size - n_slices))
        groups = filled.unflatten(-1, (n, size)).sum(dim=-1)
        return (groups.square().sum(dim=-1) * (n / (n - 1))).sqrt()


def sliced_wasserstein(
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
) -> Tensor:
    """The sliced-Wasserstein distance (*batch,) between samples x (*batch, n, d) and y (*batch, m, d).

    Args:
        variant: a name in `VARIANTS`, or a `Recipe` of your own.
        n_slices: how many slices enter the weighted sum; None is the variant's own default.
        x_weights, y_weights: sample weights (n,) or (*batch, n) that sum to one; zero means absent.
        power: return SW_p^p instead of its root.
        slices: directions (L, d) or (*batch, L, d) to use, as they are, instead of drawing some. What is left of the variant
            is how it weighs them: "maxsw" of given slices is their mean, the largest is `evaluate(...).costs.max()`.
        generator: None is torch's global one; a list holds one for each element of the batch.
        backend: who sorts; the answer is the same. "auto" is the fastest there is (`backends`); "numba", "numpy" or "torch",
            on a CUDA device "nvrtc", "torch-nvrtc", "triton" or "torch".
        progress: in [0, 1], how much of a training run is over, for options that are schedules.
        options: of the variant, and `defaults`, `convention`, `legacy`.

    >>> x, y = torch.zeros(4, 2), torch.tensor([3.0, 4.0]).expand(5, 2)
    >>> sliced_wasserstein(x, y, "maxsw").round(decimals=4)  # all of the distance lies along one direction
    tensor(5.)
    """
    if may_be_captured(x, slices, generator):
        recipe = recipe_for(variant, n_slices, options)
        problem = problem_for(x, y, p, x_weights, y_weights, recipe.convention, progress, backend)
        value = by_graph(recipe, problem, power=power)
        if value is not None:
            return value
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
    with full_precision(problem.x.device.type):
        given = fixed_slices(y, slices)
        ready = prepare(recipe, problem, generator, given, n_slices=n_slices)
        found = weigh(recipe, ready.problem, ready.slices, ready.group_size, power=power)
    check_value(found.value, problem)
    return found


def may_be_captured(x: Any, slices: Tensor | None, generator: Generators) -> bool:
    """Could this call be a CUDA graph, with slices from torch's global generator?"""
    on_device = isinstance(x, Tensor) and x.is_cuda and not torch.compiler.is_compiling()
    return on_device and slices is None and generator is None


def by_graph(recipe: Recipe, problem: Problem, *, power: bool) -> Tensor | None:
    """The value by a CUDA graph, if this very call has been made a few times."""
    from slicewise.distance.replay import replayed_value

    return replayed_value(recipe, problem, power=power)


def weigh(
    recipe: Recipe, problem: Problem, slices: Tensor, size: int | None, *, power: bool
) -> Evaluation:
    """Price the slices, weigh them, add up."""
    weights = None
    if not (slices.requires_grad and torch.is_grad_enabled()):  # through which weights may flow too
        weights = constant_weights(recipe.weighting, slices, problem)
    if weights is not None:
        total, costs = problem.weighted_cost(slices, weights)
    else:
        costs = problem.costs(slices)  # (*batch, L)
        weights = recipe.weighting(costs, slices, problem)
        total = (weights * costs).sum(dim=-1)
    value = total if power else root(total, problem.p)
    if recipe.convention == "reference":
        n = problem.n_points()
        value = value * (n if isinstance(n, int) else n.squeeze(-1))
    return Evaluation(value, total, costs, weights, slices, size, recipe, problem)
