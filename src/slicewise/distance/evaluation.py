"""The distance as a number, and as a number with what it was computed from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicewise.distance.bounds import is_frame, most_of_slices
from slicewise.distance.objective import Objective, check_objective, weigh
from slicewise.distance.plan import planned_value
from slicewise.distance.request import (
    ask_by_name,
    check_value,
    fixed_slices,
    is_tracked,
    may_be_planned,
    prepare,
    problem_for,
    recipe_for,
)
from slicewise.laws import Law
from slicewise.problem import Problem, Target, WeightingPart, declared
from slicewise.sampling import Generators
from slicewise.steps import moved, pull_of
from slicewise.support import Result, full_precision, takes_arrays, values_readable
from slicewise.transport import root
from slicewise.variants import Recipe, Variant

_ARRAYS = ("x", "y", "x_weights", "y_weights", "slices")


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Result):
    """A distance and what it was computed from: what `evaluate` returns.

    Attributes:
        value: (*batch,), the objective that was asked for: SW_p unless said otherwise.
        power: (*batch,), SW_p^p = Σ `weights` · `costs`.
        costs: (*batch, L), W_p^p on each slice.
        weights: (*batch, L), how much each slice counted.
        slices: (*batch, L, d), the directions, as they were given or drawn.
        group_size: how many successive slices depend on each other; None if that is not known.
        objective: "root", "power" or "mean_root".
        recipe: the parts it was computed by.
        problem: what was sliced.
    """

    value: Tensor
    power: Tensor
    costs: Tensor
    weights: Tensor
    slices: Tensor
    group_size: int | None
    objective: Objective
    recipe: Recipe
    problem: Problem

    def __repr__(self) -> str:
        """One line: all costs and slices would be a page of numbers."""
        known = self.value.dim() == 0 and values_readable(self.value)
        value = f"{self.value.item():.6g}" if known else f"of shape {tuple(self.value.shape)}"
        order, n_slices = self.problem.p, self.costs.shape[-1]
        kind = {"power": "SW_p^p", "root": "SW_p", "mean_root": "mean W_p"}[self.objective]
        return f"Evaluation({kind} {value}, p={order:g}, {n_slices} slices by {self.recipe!r})"

    @property
    def displacement(self) -> Tensor:
        """The move that these slices suggest for each sample of x, (*batch, n, d): add it to x.

        It has the length of the Cauchy step, with slice weights held constant; see `displacement`.
        """
        self.recipe.check_linear("a displacement")
        with torch.no_grad(), full_precision(self.costs.device.type):
            weights = self.weights.detach()
            problem, slices = self.problem.detached(), self.slices.detach()
            move = moved(pull_of(problem, slices.to(problem.x.dtype), weights))
            return move if problem.precision is None else move.to(problem.precision)

    @property
    def bound(self) -> Tensor:
        """An upper bound (*batch,) of the largest slice of these samples, in the unit of `value`.

        The value of "maxsw" lies below it; where the two agree, it is the maximum. For slices that are an orthonormal
        frame ("maxksw", "ksw") it bounds the mean over any such frame. Computed when it is asked for.
        """
        if not self.problem.linear_slices:
            raise ValueError(
                f"no bound is known for {self.recipe.lift!r}, whose slices are curves; use function='poly'"
            )
        self.problem.check_has_samples("a bound")
        if self.recipe.convention == "reference":
            raise ValueError("a bound is stated in convention='mean' alone: leave convention out")
        slices = self.slices
        if not is_frame(slices):
            best = self.costs.detach().argmax(dim=-1, keepdim=True).unsqueeze(-1)
            slices = torch.take_along_dim(slices.expand(*self.problem.batch, -1, -1), best, dim=-2)
        power = most_of_slices(self.problem, slices)
        return power if self.objective == "power" else root(power, self.problem.p)

    @property
    def stderr(self) -> Tensor:
        """Monte-Carlo standard error of `power` (*batch,).

        From the spread between independent groups: slices, chains or frames. NaN where there is only
        one, as for MaxSW. Slices given by the caller are taken for independent draws.
        """
        power, weights, costs = self.power.detach(), self.weights.detach(), self.costs.detach()
        n_slices = costs.shape[-1]
        size = n_slices if self.group_size is None else self.group_size
        n = -(-n_slices // size)  # independent groups, the last one perhaps incomplete
        if n < 2:
            return torch.full_like(power, math.nan)
        mean = power.unsqueeze(-1)
        weighting = declared(self.recipe.weighting, WeightingPart)
        terms = weighting.errors(costs, self.slices, self.problem.detached())
        if terms is None:
            terms = weights * costs - mean / n_slices
        filled = torch.nn.functional.pad(terms, (0, n * size - n_slices))
        groups = filled.unflatten(-1, (n, size)).sum(dim=-1)
        return (groups.square().sum(dim=-1) * (n / (n - 1))).sqrt()


@takes_arrays(*_ARRAYS)
def sliced_wasserstein(
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
) -> Tensor:
    """Compute the sliced-Wasserstein distance between two sets of samples.

    Leading dimensions are batch dimensions and broadcast: one call computes one distance for each element of the batch.
    Differentiable in the samples, their weights and given slices.

    Args:
        x: samples (*batch, n, d): tensors, NumPy arrays or lists; the result is of the same kind.
        y: samples (*batch, m, d), a `Target`, or a law of `slicewise.laws` (nothing is sampled).
        variant: a name in `VARIANTS`, e.g. "ebsw", or a `Recipe`.
        p: the order, at least 1.
        n_slices: how many slices enter the weighted sum; None is the variant's own default.
        x_weights, y_weights: sample weights (n,) or (*batch, n) that sum to one; samples of weight zero are ignored.
        objective: "root" (SW_p), "power" (SW_p^p) or "mean_root" (the mean W_p over slices).
        slices: directions (L, d) or (*batch, L, d) to use as they are instead of drawing some. Of the variant only its
            weighting is left: "maxsw" of given slices is their mean, the largest is `evaluate(...).costs.max()`.
        generator: an int (a seed: the same slices every time), a `torch.Generator`, a list of either, one for each
            element of the batch, or None for torch's global generator.
        backend: what sorts; the result is the same. "auto" takes the fastest there is (`backends()`); on a CPU "numba",
            "numpy" or "torch", on a CUDA device "nvrtc", "torch-nvrtc", "triton" or "torch".
        progress: how much of a training run is over, in [0, 1], for options that are schedules.
        options: those of the variant (`VARIANTS[name].options`), and `defaults`, `convention`, `legacy`.

    Returns:
        The value, (*batch,).

    Raises:
        ValueError: for arguments that do not fit together; the message says what to give instead.

    >>> x, y = torch.zeros(4, 2), torch.tensor([3.0, 4.0]).expand(5, 2)
    >>> sliced_wasserstein(x, y, "maxsw").round(decimals=4)  # all of the distance lies along one direction
    tensor(5.)
    >>> round(sliced_wasserstein([[0.0], [1.0]], [[2.0], [3.0]]), 6)  # lists in, a number out
    2.0

    N. Bonneel et al., Sliced and Radon Wasserstein barycenters of measures, 2015.
    """
    recipe, ask = ask_by_name(variant, n_slices, options, objective, p, backend, progress)
    if may_be_planned(x, slices):
        found = planned_value(ask, x, y, x_weights, y_weights, generator)
        if found is not None:
            return found[0]
    what = (x, y, p, x_weights, y_weights, recipe.convention, progress, backend)
    problem = problem_for(*what, whole_frame=is_tracked(slices))
    return _evaluated(recipe, problem, y, slices, generator, n_slices, objective).value


@takes_arrays(*_ARRAYS)
def evaluate(
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
) -> Evaluation:
    """Compute the sliced-Wasserstein distance together with its costs, weights, slices and standard error.

    Args:
        x, y, variant, p, n_slices, x_weights, y_weights, objective, slices, generator, backend, progress, options: as in
            `sliced_wasserstein`.

    Returns:
        An `Evaluation`: `value`, `power`, `costs`, `weights`, `slices`, `stderr`, `bound`, `displacement`.

    Raises:
        ValueError: for arguments that do not fit together.

    >>> x, y = torch.randn(100, 3), torch.randn(80, 3) + 1
    >>> found = evaluate(x, y, "ebsw", n_slices=20)
    >>> found.costs.shape, found.weights.sum().isclose(torch.tensor(1.0)).item()
    (torch.Size([20]), True)
    """
    recipe = recipe_for(variant, n_slices, options)
    check_objective(objective, recipe)
    what = (x, y, p, x_weights, y_weights, recipe.convention, progress, backend)
    problem = problem_for(*what, whole_frame=is_tracked(slices))
    return _evaluated(recipe, problem, y, slices, generator, n_slices, objective)


def _evaluated(
    recipe: Recipe,
    problem: Problem,
    y: Tensor | Target | Law,
    slices: Tensor | None,
    generator: Generators,
    n_slices: int | None,
    objective: Objective,
) -> Evaluation:
    with full_precision(problem.x.device.type):
        given = fixed_slices(y, slices)
        ready = prepare(recipe, problem, generator, given, n_slices=n_slices)
        found = weigh(recipe, ready.problem, ready.slices, objective)
    check_value(found[0], problem)
    return Evaluation(*found, ready.slices, ready.group_size, objective, recipe, ready.problem)
