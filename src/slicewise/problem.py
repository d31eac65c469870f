"""What is compared, and the signatures of the parts that compare it.

A sliced distance is made of three kinds of parts, all plain callables, so that a function is as
good a part as a class:

    Slicer     (problem, rng)             -> slices   (*batch, L, d)   where slices come from
    Move       (slices, problem, rng)     -> slices                    how slices travel
    Weighting  (costs, slices, problem)   -> weights  (*batch, L)      how much a slice counts

`Problem` holds the two sample sets and prices slices; it is what parts are allowed to look at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from slicewise.line import Match
from slicewise.nodes import slice_costs, weighted_cost
from slicewise.pool import ALONE, Pool, SideName, shares_of
from slicewise.randomness import Randomness
from slicewise.schedules import Moment, Schedule
from slicewise.shapes import broadcast
from slicewise.transport import (
    Gradients,
    Matcher,
    Needs,
    match_slices,
    pull,
    slices_in_a_piece,
    swapped,
)

Convention = Literal["mean", "reference"]


@dataclass(frozen=True, eq=False)
class Problem:
    """Two sample sets, ready to be sliced.

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
    others: Pool | None = None  # who has the other samples, if these are only a share of them

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading dimensions of the answer."""
        weights = [w.shape[:-1] for w in (self.x_weights, self.y_weights) if w is not None]
        return broadcast(self.x.shape[:-2], self.y.shape[:-2], *weights)

    @property
    def pool(self) -> Pool:
        """Who to ask about the samples as a whole."""
        return ALONE if self.others is None else self.others  # a compiler knows no other default

    @property
    def d(self) -> int:
        """The dimension of the samples."""
        return self.x.shape[-1]

    def n_points(self) -> Tensor | int:
        """How many samples x has, padding (zero weight) not counted; (*batch, 1) if weighted."""
        if self.x_weights is None:
            return self.n
        return self.pool.total((self.x_weights > 0).sum(dim=-1, keepdim=True).to(self.x.dtype))

    @property
    def n(self) -> int:
        """How many samples x has, padding included."""
        return self.pool.count("x", self.x)

    def shares(self, dtype: torch.dtype) -> Tensor | float:
        """The weights of x divided by their sum, (*batch, n), or 1/n where all are equal."""
        return shares_of(self.x_weights, self.n, dtype, self.pool)

    def at(self, side: SideName, level: Tensor) -> Tensor:
        """The samples (*batch, k, d) of one side at levels (*batch, k) of [0, 1)."""
        samples, weights = (self.x, self.x_weights) if side == "x" else (self.y, self.y_weights)
        return self.pool.at(side, samples, weights, level)

    def costs(self, slices: Tensor) -> Tensor:
        """W_p^p on each slice, (*batch, L), in the problem's convention; differentiable."""
        means = slice_costs(*self._inputs(slices), **self._how())
        return means if self.convention == "mean" else means * self.n_points()

    def weighted_cost(self, slices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Σ weights · costs (*batch,) and the costs, for slice weights that are constants."""
        total, means = weighted_cost(*self._inputs(slices), weights, **self._how())
        if self.convention == "mean":
            return total, means
        n = self.n_points()
        return total * (n if isinstance(n, int) else n.squeeze(-1)), means * n

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
        needs, slices = Needs(slices=True), self.pool.agreed(slices)
        if self.fits(slices, needs):
            found = self.match(slices, needs)
            assert found.u_grad is not None
            assert found.v_grad is not None
            ascent = (found.u_grad @ self.x).add_(found.v_grad @ self.y)
            return found.cost, self.pool.total(ascent)
        ones = slices.new_ones(*self.batch, slices.shape[-2])
        costs, gradients = self.pull(slices, ones, needs)
        assert gradients.slices is not None
        return costs, self.pool.total(gradients.slices)

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


class Slicer(Protocol):
    """Proposes directions, unit rows (*batch, L, d).

    A slicer may also say `group_size(d)`: after how many slices the next ones are independent draws.
    Without it an evaluation states no standard error.
    """

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor: ...


class Move(Protocol):
    """Carries slices to new slices."""

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor: ...


class Weighting(Protocol):
    """Says how much each slice counts: weights (*batch, L), the φ-weights of the paper over L.

    One whose weights do not depend on the costs may also say `constant(slices, problem)`: gradients
    are then accumulated while slices are priced. `self_normalised` says that weights are divided by their
    own sum, which standard errors must know.
    """

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor: ...


def pad(samples: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Sample sets of unequal sizes as one batch: samples (B, n, d) and sample weights (B, n).

    Set b has equal weights 1/n_b on its own samples and weight zero on its padding, which every
    variant ignores: values and gradients are those of the sets taken one at a time.

    >>> x, weights = pad([torch.ones(2, 3), torch.ones(1, 3)])
    >>> x.shape, weights
    (torch.Size([2, 2, 3]), tensor([[0.5000, 0.5000],
            [1.0000, 0.0000]]))
    """
    shapes = [tuple(s.shape) for s in samples]
    if not shapes or any(len(s) != 2 or s[0] == 0 or s[1] != shapes[0][1] for s in shapes):
        raise ValueError(
            f"samples has shapes {shapes}: give a list of non-empty (n, d) tensors of one dimension d"
        )
    x = torch.nn.utils.rnn.pad_sequence(list(samples), batch_first=True)
    sizes = torch.tensor([s.shape[0] for s in samples], device=x.device)
    present = torch.arange(x.shape[1], device=x.device) < sizes[:, None]
    dtype = torch.promote_types(x.dtype, torch.float32)  # half precision would not sum to one
    return x, present.to(dtype) / sizes[:, None].to(dtype)


def at_progress(value: float | Schedule, problem: Problem) -> float | Tensor:
    """A number, or what a schedule says it is at this point of the run."""
    if not callable(value):
        return value
    return value(problem.progress) if problem.moment is None else problem.moment.of(value)
