"""What is compared: two sample sets, ready to be sliced and priced."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from slicewise.laws import Law
from slicewise.problem.population import ALONE, Population, SideName, shares_of
from slicewise.problem.schedules import Moment, Schedule
from slicewise.support import broadcast
from slicewise.transport import (
    Gradients,
    LawMatcher,
    Match,
    Matcher,
    Needs,
    PricingMatcher,
    match_slices,
    plan_mean,
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
    """Two sample sets that are compared, with everything needed to compute their costs along slices.

    The parts of a recipe are handed one, and `Evaluation.problem` is one. Use it to write a slicer, move, weighting or
    lift of your own, or to compute costs along given slices.

    Leading dimensions of x, y and their weights broadcast to the batch. L is the number of slices.

    Args:
        x: samples, (*batch, n, d).
        y: samples, (*batch, m, d).
        p: the order of the distance.
        x_weights: weights of the samples x, (n,) or (*batch, n). None is equal weights.
        y_weights: weights of the samples y, (m,) or (*batch, m). None is equal weights.
        convention: "mean" if costs are means over points, "reference" if they are sums, as in published scripts.
        progress: the share of a training run that is over, in [0, 1], for parts with a schedule.
        moment: the point of a run as a flow states it, in place of `progress`.
        precision: the dtype of the samples as they were given, if they were converted to a wider one.
        matcher: the function that solves the one-dimensional problems.
        y_sorted: sorted projections of y on the slices of a `Target`, (*batch, L, m).
        others: the population of all processes, if these samples are only a share of them. None is a single process.
        law: a law that x is compared with in place of samples; y is then its frame, and `matcher` knows it.

    >>> problem = Problem(torch.zeros(4, 2), torch.ones(4, 2))
    >>> problem.n, problem.d, problem.costs(torch.eye(2))
    (4, 2, tensor([1., 1.]))
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
    law: Law | None = None  # what y is the frame of, if x is compared with a law instead of samples

    @property
    def batch(self) -> tuple[int, ...]:
        """Return the leading dimensions of results, to which those of x, y and their weights broadcast."""
        weights = [w.shape[:-1] for w in (self.x_weights, self.y_weights) if w is not None]
        return broadcast(self.x.shape[:-2], self.y.shape[:-2], *weights)

    # Are slices straight lines through the samples' own space? `parts.Curved` says no.
    linear_slices = True

    @property
    def original(self) -> Problem:
        """Return the problem whose dimension counts.

        It is this problem, unless a lift replaced each sample set by a single point; then it is the problem before the
        lift.
        """
        return self

    @property
    def population(self) -> Population:
        """Return the population, which computes sums and means over the samples of all processes."""
        return ALONE if self.others is None else self.others  # a compiler knows no other default

    def agreed(self, slices: Tensor) -> Tensor:
        """Return the same slices on all processes: those of the first one.

        Use it in a part that looks at samples, before it computes costs along slices that it drew.

        Args:
            slices: directions, (*batch, L, d).

        Returns:
            The slices of the first process, (*batch, L, d); the given ones if there is a single process.
        """
        return slices if self.others is None else self.others.agreed(slices)

    @property
    def d(self) -> int:
        """Return the dimension of the slices, which is that of the samples if slices are linear."""
        return self.x.shape[-1]

    def n_points(self) -> Tensor | int:
        """Count the samples of x without padding, that is, without samples of weight zero.

        Returns:
            The count: an integer without weights, a tensor (*batch, 1) with them.
        """
        if self.x_weights is None:
            return self.n
        return self.population.total(
            (self.x_weights > 0).sum(dim=-1, keepdim=True).to(self.x.dtype)
        )

    def cost_factor(self, inner: int = 1) -> Tensor | int:
        """Return the factor that turns a mean over points into a cost in the problem's convention.

        Args:
            inner: the number of dimensions, beside those of the batch, of what is multiplied.

        Returns:
            1 under "mean". Under "reference", whose costs are sums, the number of points: an integer without weights, a
            tensor (*batch, 1, …) with `inner` trailing ones with them.
        """
        if self.convention == "mean":
            return 1
        n = self.n_points()
        return n if isinstance(n, int) else n.reshape(n.shape[:-1] + (1,) * inner)

    def in_convention(self, means: Tensor, inner: int = 1) -> Tensor:
        """Convert means over points to costs in the problem's convention.

        Args:
            means: means over points, (*batch, …).
            inner: the number of dimensions of `means` beside those of the batch.

        Returns:
            The costs, of the shape of `means`.
        """
        return means if self.convention == "mean" else means * self.cost_factor(inner)

    @property
    def n(self) -> int:
        """Return the number of samples of x on all processes, padding included."""
        return self.population.count("x", self.x)

    def shares(self, dtype: torch.dtype) -> Tensor | float:
        """Return the weights of x divided by their sum.

        Args:
            dtype: the dtype of the result.

        Returns:
            The weights, (*batch, n), or the number 1/n if all are equal.
        """
        return shares_of(self.x_weights, self.n, dtype, self.population)

    def side(self, name: SideName) -> tuple[Tensor, Tensor | None, Population, SideName]:
        """Return one of the two sample sets as the arguments that `mean_of` and `covariance_of` take.

        Args:
            name: "x" or "y".

        Returns:
            The samples (*batch, n, d), their weights (*batch, n) or None, the population, and the name.
        """
        if name == "y":
            self.check_has_samples("this")
        samples, weights = (self.x, self.x_weights) if name == "x" else (self.y, self.y_weights)
        return samples, weights, self.population, name

    def at(self, side: SideName, level: Tensor) -> Tensor:
        """Return the samples of one side at given levels of their cumulative weights.

        Use it with uniform levels to draw samples by their weights, with replacement.

        Args:
            side: "x" or "y".
            level: levels in [0, 1), (*batch, k). Each sample spans an interval as long as its weight.

        Returns:
            The samples, (*batch, k, d).

        >>> problem = Problem(torch.arange(4.0).unsqueeze(-1), torch.zeros(4, 1))
        >>> problem.at("x", torch.tensor([0.1, 0.9]))
        tensor([[0.],
                [3.]])
        """
        samples, weights, population, _ = self.side(side)
        return population.at(side, samples, weights, level)

    def check_has_samples(self, what: str) -> None:
        """Refuse what needs samples of y, where there is a law in their place.

        Args:
            what: what needs them, for the message.

        Raises:
            ValueError: if x is compared with a law.
        """
        if self.law is not None:
            raise ValueError(
                f"{what} needs samples of y, and y is {self.law!r}, a law: give samples, e.g. y = law.sample(n, d), or a "
                f"variant that needs none, e.g. 'sw', 'ebsw' or 'maxsw'"
            )

    def positions(self, side: SideName, slices: Tensor) -> Tensor:
        """Project the samples of one side on slices.

        Args:
            side: "x" or "y".
            slices: directions, (*batch, L, d).

        Returns:
            The projections, (*batch, L, n).
        """
        if side == "y":
            self.check_has_samples("a position")
        return project(self.x if side == "x" else self.y, slices)

    def costs(self, slices: Tensor) -> Tensor:
        """Compute W_p^p on each slice, in the problem's convention.

        Args:
            slices: directions, (*batch, L, d).

        Returns:
            The costs, (*batch, L); differentiable in samples, weights and slices.
        """
        return self.in_convention(slice_costs(*self._inputs(slices), **self._how()))

    def weighted_cost(self, slices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Compute Σ weights · costs for slice weights that are constants, and the costs.

        Use it in place of `costs` if the slice weights are known beforehand: gradients are then accumulated while costs
        are computed.

        Args:
            slices: directions, (*batch, L, d).
            weights: slice weights, (*batch, L), held constant.

        Returns:
            The sum (*batch,) and the costs (*batch, L), in the problem's convention.
        """
        total, means = weighted_cost(*self._inputs(slices), weights, **self._how())
        return self.in_convention(total, inner=0), self.in_convention(means)

    def match(self, slices: Tensor, needs: Needs) -> Match:
        """Solve the one-dimensional problems of all slices at once.

        Call `fits` first: the projections on all slices are held in memory.

        Args:
            slices: directions, (*batch, L, d).
            needs: the inputs whose gradients are wanted.

        Returns:
            A `Match`: costs (*batch, L) as means over points, and the wanted gradients in the projections, (*batch, L,
            n) and (*batch, L, m).
        """
        x, y, _, a, b = self._inputs(slices)
        return self.matcher(
            x, y, slices, a, b, p=self.p, wanted=needs.wanted, y_sorted=self.y_sorted
        )

    def priced(
        self, slices: Tensor, coefficients: Tensor | None, *, root: bool
    ) -> tuple[Tensor, Tensor] | None:
        """Compute Σ coefficients · costs, or its p-th root, and its gradient in x, all in one go.

        Call `fits` first. It is the fastest way where slice weights do not depend on the costs.

        Args:
            slices: directions, (*batch, L, d).
            coefficients: the factor of each cost, (*batch, L), with costs as means over points. None is 1/L each.
            root: whether the p-th root is wanted.

        Returns:
            The value (*batch,) and the gradient (*batch, n, d); None where the matcher cannot do this.
        """
        if not isinstance(self.matcher, PricingMatcher):
            return None
        x, y, _, a, b = self._inputs(slices)
        return self.matcher.priced(
            x, y, slices, a, b, coefficients, p=self.p, root=root, y_sorted=self.y_sorted
        )

    def fits(self, slices: Tensor, needs: Needs) -> bool:
        """Return whether the projections on all of these slices can be held in memory at once.

        Args:
            slices: directions, (*batch, L, d).
            needs: the inputs whose gradients are wanted.

        Returns:
            True if `match` may be called with these slices.
        """
        inputs = self._inputs(slices)
        return slices_in_a_piece(*inputs, self.matcher, needs) >= slices.shape[-2]

    def pull(
        self, slices: Tensor, coefficients: Tensor | None, needs: Needs
    ) -> tuple[Tensor, Gradients]:
        """Compute costs, and the gradients of Σ coefficients · costs, without autograd.

        Use it in place of `match` for any number of slices: they are processed in pieces that fit in memory.

        Args:
            slices: directions, (*batch, L, d).
            coefficients: the factor of each cost, (*batch, L). None if no gradient is wanted.
            needs: the inputs whose gradients are wanted.

        Returns:
            The costs (*batch, L) as means over points, and the gradients.
        """
        return pull(*self._inputs(slices), coefficients, needs=needs, **self._how())

    def plan_mean(self, slices: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Compute for each sample of x the mean of a function over its partners in the plan of each slice.

        Args:
            slices: directions, (*batch, L, d).
            function: a function of the offsets of projections from their partners, of any shape.

        Returns:
            The means, (*batch, L, n); 0 for samples of weight zero.
        """
        a, b = self.x_weights, self.y_weights
        if isinstance(self.matcher, LawMatcher):
            return self.matcher.plan_mean(self.x, self.y, slices, a, function)
        u, v = project(self.x, slices), project(self.y, slices)
        a, b = (None if w is None else w.unsqueeze(-2) for w in (a, b))
        return plan_mean(u, v, function, u_weights=a, v_weights=b)

    def costs_and_ascent(self, slices: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the cost of each slice and its gradient in that slice.

        Use it to move slices toward a larger cost. The slices are those of the first process (`agreed`).

        Args:
            slices: directions, (*batch, L, d).

        Returns:
            The costs (*batch, L) as means over points, and the gradients (*batch, L, d).
        """
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
        """Return the same problem without gradients, as slicers and ascents see it.

        Returns:
            A problem whose samples and weights are detached; this problem if none of them requires a gradient.
        """
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
        """Return the same problem with x and y exchanged."""
        self.check_has_samples("exchanging x and y")
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
    """Return the fields of a problem by name, to construct another kind of problem from them."""
    return {name: getattr(problem, name) for name in _FIELDS}


def at_progress(value: float | Schedule, problem: Problem) -> float | Tensor:
    """Return the present value of a number that may be a schedule.

    Args:
        value: a number, or a schedule.
        problem: the problem, whose `moment` or `progress` says how much of the run is over.

    Returns:
        The number itself, or the value of the schedule; a tensor if the moment keeps it on a device.
    """
    if not callable(value):
        return value
    return value(problem.progress) if problem.moment is None else problem.moment.of(value)
