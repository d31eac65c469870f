"""Control variates: slice weights that take out what a quantity of known mean got wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from slicewise.problem import (
    BuiltIn,
    Population,
    Problem,
    SideName,
    WeightingPart,
    covariance_of,
    mean_of,
)

Bound = Literal["lower", "upper"]


@dataclass(frozen=True, repr=False)
class ControlVariate(BuiltIn, WeightingPart):
    """The mean over uniform slices, less what a control variate c of known mean was off by on them.

    The estimate mean w − α (mean c − E c), α = Cov(w, c) / Var(c) over the slices at hand, is Σ weight · cost with

        weight_l = 1/L − (mean c − E c) (c_l − mean c) / Σ_j (c_j − E c)²

    which is a slice weighting: it sums to one, has entries of either sign, and depends on c alone. For "lower" c is
    (θ·Δ)², Δ from mean to mean, which is at most w; for "upper" that plus both variances along θ, what the
    independent coupling costs, which is at least w. E c over the sphere is ‖Δ‖² / d, plus both total variances
    over d. That is for p = 2; for other p it is as correlated as it happens to be. As α is of the same slices,
    the estimate is off by something of order 1/L in the mean; with α of other slices it would not be.

    Gradients flow through the weights, as published; with `detach` they are constants, and the gradient is itself
    the control-variate estimate of the gradient. The correction is at most half the standard deviation of the costs;
    an estimate may still be below 0, and its root is then 0.

    K. Nguyen, N. Ho, Sliced Wasserstein estimation with control variates, 2023.
    """

    bound: Bound = "lower"
    detach: bool = False

    @property
    def follows_samples(self) -> bool:  # type: ignore[override]
        """Do gradients flow through the weights, past the costs?"""
        return not self.detach

    @property
    def graph_safe(self) -> bool:  # type: ignore[override]
        """Can it be captured? Not where gradients are autograd's."""
        return self.detach

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        if self.detach:
            problem = problem.detached()
        c, expected = self._variate(slices, problem)
        off = c.mean(dim=-1, keepdim=True) - expected
        spread = (c - expected).square().sum(dim=-1, keepdim=True)
        n_slices = slices.shape[-2]
        # Below this c does not vary but for rounding (one dimension; equal means): nothing to learn from it.
        noise = n_slices * (32 * torch.finfo(c.dtype).eps * expected.detach()) ** 2
        some = spread > noise
        share = off / torch.where(some, spread, 1)
        correction = torch.where(some, share * (c - c.mean(dim=-1, keepdim=True)), 0)
        return (1 / n_slices - correction).expand(*problem.batch, n_slices)

    def errors(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        """What the control variate leaves unexplained of each cost, over L."""
        c, expected = self._variate(slices, problem)
        spread = (c - expected).square().sum(dim=-1, keepdim=True)
        mean = costs.mean(dim=-1, keepdim=True)
        covariance = ((costs - mean) * (c - expected)).sum(dim=-1, keepdim=True)
        alpha = torch.where(spread > 0, covariance / torch.where(spread > 0, spread, 1), 0)
        left = costs - alpha * (c - expected)
        return (left - left.mean(dim=-1, keepdim=True)) / slices.shape[-2]

    def _variate(self, slices: Tensor, problem: Problem) -> tuple[Tensor, Tensor]:
        """c (*batch, L) and its mean over the sphere (*batch, 1)."""
        gap = mean_of(*problem.side("x")) - mean_of(*problem.side("y"))  # (*batch, 1, d)
        c = (slices @ gap.mT).squeeze(-1).square()
        total = gap.square().sum(dim=(-2, -1)).unsqueeze(-1)
        if self.bound == "upper":
            for side in (problem.side("x"), problem.side("y")):
                along, whole = _variances(slices, *side)
                c, total = c + along, total + whole
        return c, total / problem.d


def _variances(
    slices: Tensor, samples: Tensor, weights: Tensor | None, population: Population, side: SideName
) -> tuple[Tensor, Tensor]:
    """Variance along each slice (*batch, L), and over all directions together (*batch, 1)."""
    if samples.shape[-1] <= slices.shape[-2]:
        # The covariance says it all, and costs n d² instead of L n d.
        covariance = covariance_of(samples, weights, population, side)
        along = ((slices @ covariance) * slices).sum(dim=-1)
        return along, covariance.diagonal(dim1=-2, dim2=-1).sum(dim=-1, keepdim=True)
    mean = mean_of(samples, weights, population, side)
    middle = mean.detach()  # a constant, as in `covariance_of`

    def squares(rows: Tensor) -> Tensor:
        whole = rows.square().sum(dim=-1, keepdim=True)
        along = (rows @ slices.mT).square()
        return torch.cat([along, whole.expand(*along.shape[:-1], 1)], dim=-1)

    found = mean_of(squares(samples - middle), weights, population, side) - squares(mean - middle)
    return found[..., 0, :-1], found[..., 0, -1:]
