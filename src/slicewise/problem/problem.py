"""What is compared: two sample sets, ready to be sliced and priced."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from slicewise.problem.population import ALONE, Population, SideName, shares_of
from slicewise.problem.schedules import Moment, Schedule
from slicewise.support import broadcast
from slicewise.transport import (
    Gradients,
    Match,
    Matcher,
    Needs,
    match_slices,
    project,
    pull,
    slice_costs,
    slices_in_a_piece,
    swapped,
    weighted_cost,
)

Convention = Literal["mean", "reference"]


@dataclass(frozen=True, eq=False)
class Problem:
    """Two sample sets, ready to be sliced: what the parts of a recipe are handed, and `Evaluation.problem`.

    x is (*batch, n, d), y (*batch, m, d); leading dimensions broadcast. `x_weights` and `y_weights`
    are weights of samples, None for equal ones. `progress` in [0, 1] is how much of a training run
    is over, for parts with a schedule; a flow says it by its `moment` instead.
    """

    x: Tensor
    y: Tensor
    p: float = 2.0
    x_weights: Tensor | None = None
    y_weights: Tensor | None = None
    convention: Convention = "mean"
    progress: float = 0.0
    moment: Moment | None = None
    precision: torch.dtype | None = None  # of the samples as they came, if they were widened
    matcher: Matcher = match_slices
    y_sorted: Tensor | None = None  # projections of y on the slices of a `Target`, sorted
    others: Population | None = None  # who has the other samples, if these are only a share of them

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading dimensions of the answer."""
        weights = [w.shape[:-1] for w in (self.x_weights, self.y_weights) if w is not None]
        return broadcast(self.x.shape[:-2], self.y.shape[:-2], *weights)

    # Are slices straight lines through the samples' own space? `parts.Curved` says no.
    linear_slices = True

    @property
    def original(self) -> Problem:
        """The problem whose dimension counts: that of the samples, where a lift made single points of them."""
        return self

    @property
    def population(self) -> Population:
        """Computes sums and means over all samples, across processes if they are spread over several."""
        return ALONE if self.others is None else self.others  # a compiler knows no other default

    def agreed(self, slices: Tensor) -> Tensor:
        """Slices that all processes share: those of the first one."""
        return slices if self.others is None else self.others.agreed(slices)

    @property
    def d(self) -> int:
        """The dimension of the slices: that of the samples, where slices are linear."""
        return self.x.shape[-1]

    def n_points(self) -> Tensor | int:
        """How many samples x has, padding (zero weight) not counted; (*batch, 1) if weighted."""
        if self.x_weights is None:
            return self.n
        return self.population.total(
            (self.x_weights > 0).sum(dim=-1, keepdim=True).to(self.x.dtype)
        )

    def cost_factor(self, inner: int = 1) -> Tensor | int:
        """What a mean over points is multiplied by to be a cost in the problem's convention.

        1, or under "reference", whose costs are sums, the number of points; with weights of shape (*batch, 1, …), to
        multiply something with `inner` dimensions beside the batch's.
        """
        if self.convention == "mean":
            return 1
        n = self.n_points()
        return n if isinstance(n, int) else n.reshape(n.shape[:-1] + (1,) * inner)

    def in_convention(self, means: Tensor, inner: int = 1) -> Tensor:
        """Means over points as costs in the problem's convention."""
        return means if self.convention == "mean" else means * self.cost_factor(inner)

    @property
    def n(self) -> int:
        """How many samples x has, padding included."""
        return self.population.count("x", self.x)

    def shares(self, dtype: torch.dtype) -> Tensor | float:
        """The weights of x divided by their sum, (*batch, n), or 1/n where all are equal."""
        return shares_of(self.x_weights, self.n, dtype, self.population)

    def side(self, name: SideName) -> tuple[Tensor, Tensor | None, Population, SideName]:
        """The samples of one side, their weights, and who has the others: what `mean_of` takes."""
        samples, weights = (self.x, self.x_weights) if name == "x" else (self.y, self.y_weights)
        return samples, weights, self.population, name

    def at(self, side: SideName, level: Tensor) -> Tensor:
        """The samples (*batch, k, d) of one side at levels (*batch, k) of [0, 1)."""
        samples, weights, population, _ = self.side(side)
        return population.at(side, samples, weights, level)

    def positions(self, side: SideName, slices: Tensor) -> Tensor:
        """Where the samples of one side lie along slices (*batch, L, d): (*batch, L, n)."""
        return project(self.x if side == "x" else self.y, slices)

    def costs(self, slices: Tensor) -> Tensor:
        """W_p^p on each slice, (*batch, L), in the problem's convention; differentiable."""
        return self.in_convention(slice_costs(*self._inputs(slices), **self._how()))

    def weighted_cost(self, slices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Σ weights · costs (*batch,) and the costs, for slice weights that are constants."""
        total, means = weighted_cost(*self._inputs(slices), weights, **self._how())
        return self.in_convention(total, inner=0), self.in_convention(means)

    def match(self, slices: Tensor, needs: Needs) -> Match:
        """Costs as means over points, and gradients on the lines, of all slices at once."""
        x, y, _, a, b = self._inputs(slices)
        return self.matcher(
            x, y, slices, a, b, p=self.p, wanted=needs.wanted, y_sorted=self.y_sorted
        )

    def fits(self, slices: Tensor, needs: Needs) -> bool:
        """Can the projections on all of these slices be held at once?"""
        inputs = self._inputs(slices)
        return slices_in_a_piece(*inputs, self.matcher, needs) >= slices.shape[-2]

    def pull(
        self, slices: Tensor, coefficients: Tensor | None, needs: Needs
    ) -> tuple[Tensor, Gradients]:
        """Costs as means over points, and the gradients of Σ coefficients · costs, without autograd."""
        return pull(*self._inputs(slices), coefficients, needs=needs, **self._how())

    def costs_and_ascent(self, slices: Tensor) -> tuple[Tensor, Tensor]:
        """Costs as means over points (*batch, L) and each one's gradient in its slice (*batch, L, d)."""
        needs, slices = Needs(slices=True), self.agreed(slices)
        if self.fits(slices, needs):
            found = self.match(slices, needs)
            assert found.u_grad is not None
            assert found.v_grad is not None
            ascent = (found.u_grad @ self.x).add_(found.v_grad @ self.y)
            return found.cost, self.population.total(ascent)
        ones = slices.new_ones(*self.batch, slices.shape[-2])
        costs, gradients = self.pull(slices, ones, needs)
        assert gradients.slices is not None
        return costs, self.population.total(gradients.slices)

    def _inputs(
        self, slices: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
        return self.x, self.y, slices, self.x_weights, self.y_weights

    def _how(self) -> dict[str, Any]:
        return {"p": self.p, "matcher": self.matcher, "y_sorted": self.y_sorted}

    def detached(self) -> Problem:
        """The same problem, held constant: what slicers and ascents look at."""
        inputs = (self.x, self.y, self.x_weights, self.y_weights)
        if not any(t is not None and t.requires_grad for t in inputs):
            return self
        return dataclasses.replace(
            self,
            x=self.x.detach(),
            y=self.y.detach(),
            x_weights=None if self.x_weights is None else self.x_weights.detach(),
            y_weights=None if self.y_weights is None else self.y_weights.detach(),
        )

    def swapped(self) -> Problem:
        """The same problem seen from y."""
        return dataclasses.replace(
            self,
            x=self.y,
            y=self.x,
            x_weights=self.y_weights,
            y_weights=self.x_weights,
            y_sorted=None,
            others=None if self.others is None else self.others.swapped(),
            matcher=swapped(self.matcher),
        )


_FIELDS = tuple(field.name for field in dataclasses.fields(Problem))  # no compiler knows them


def fields_of(problem: Problem) -> dict[str, Any]:
    """What a problem is made of, for another kind of problem to be made of it."""
    return {name: getattr(problem, name) for name in _FIELDS}


def at_progress(value: float | Schedule, problem: Problem) -> float | Tensor:
    """A number, or what a schedule says it is at this point of the run."""
    if not callable(value):
        return value
    return value(problem.progress) if problem.moment is None else problem.moment.of(value)
