"""Control variates: slice weights that reduce the variance of the mean over random slices.

A control variate is a quantity whose mean over the sphere is known. Its error on the drawn slices is known too, and the
weights subtract the part of it that the costs share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from slicewise.problem import (
    MOST_LEVERAGE,
    BuiltIn,
    Population,
    Problem,
    SideName,
    Uncertainty,
    WeightingPart,
    covariance_of,
    mean_of,
)

Bound = Literal["lower", "upper"]


@dataclass(frozen=True, repr=False)
class ControlVariate(BuiltIn, WeightingPart):
    """Weight uniform slices so that the error of a control variate c with known mean is subtracted.

    Use it with `Uniform` slices and p = 2 to reduce the variance over the slices. For other p it is valid too, but how
    much it helps depends on how strongly c and the costs happen to be correlated.

    Write w for the costs of the L slices. The estimate mean w − α (mean c − E c), with α = Cov(w, c) / Var(c) over
    these L slices, equals Σ weight · cost with

        weight_l = 1/L − (mean c − E c) (c_l − mean c) / Σ_j (c_j − E c)²

    These weights sum to one, may be negative, and depend on c alone. Let Δ be the difference of the two means.

    - `bound="lower"`: c = (θ·Δ)², which is at most w. Its mean over the sphere is E c = ‖Δ‖² / d.
    - `bound="upper"`: c = (θ·Δ)² plus the variances of x and of y along θ. This is the cost of the independent
      coupling, which is at least w. E c is ‖Δ‖² / d plus both total variances over d.

    α is computed from the same slices, so the estimate has a bias of order 1/L. With α from other slices it would have
    none. The correction is at most half the standard deviation of the costs. An estimate may still be below 0; its root
    is then 0.

    Args:
        bound: "lower" (default) or "upper", the control variate c.
        detach: If False (default), gradients flow through the weights, as published. If True, the weights are
            constants, and the gradient is itself the control-variate estimate of the gradient.

    Returns:
        When called with costs (*batch, L), slices (*batch, L, d) and a problem: weights (*batch, L).

    Example:
        >>> import torch
        >>> from slicewise.parts import ControlVariate
        >>> from slicewise.problem import Problem
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slices = torch.eye(2)
        >>> ControlVariate("lower")(problem.costs(slices), slices, problem)
        tensor([0.5000, 0.5000])

    Reference:
        K. Nguyen, N. Ho, Sliced Wasserstein estimation with control variates, 2023.
    """

    bound: Bound = "lower"
    detach: bool = False
    needs_target_samples = True

    @property
    def follows_samples(self) -> bool:  # type: ignore[override]
        """Whether gradients flow through the weights in addition to the costs."""
        return not self.detach

    @property
    def graph_safe(self) -> bool:  # type: ignore[override]
        """Whether it can be captured as a CUDA graph: only if autograd does not compute the gradients."""
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
        """Return what the control variate does not explain of each cost, centered and over L, (*batch, L)."""
        c, expected = self._variate(slices, problem)
        spread = (c - expected).square().sum(dim=-1, keepdim=True)
        mean = costs.mean(dim=-1, keepdim=True)
        covariance = ((costs - mean) * (c - expected)).sum(dim=-1, keepdim=True)
        alpha = torch.where(spread > 0, covariance / torch.where(spread > 0, spread, 1), 0)
        left = costs - alpha * (c - expected)
        return (left - left.mean(dim=-1, keepdim=True)) / slices.shape[-2]

    def uncertainty(self, costs: Tensor, slices: Tensor, problem: Problem) -> Uncertainty:
        """Return the regression of the costs on c, read off at E c, with residuals enlarged by their leverage.

        The published α has Σ (c − E c)² below it where a regression has Σ (c − mean c)². The estimate is therefore off
        by a multiple of (mean c − E c)³, which for costs that c explains almost wholly is more than all of the noise;
        the regression is not. Its residuals are divided by √(1 − leverage), which makes their squares unbiased.
        """
        c, expected = self._variate(slices, problem)
        n_slices = costs.shape[-1]
        off, mean = c - c.mean(dim=-1, keepdim=True), costs.mean(dim=-1, keepdim=True)
        spread = off.square().sum(dim=-1, keepdim=True)
        along = torch.where(spread > 0, off / torch.where(spread > 0, spread, 1), 0)
        slope = ((costs - mean) * along).sum(dim=-1, keepdim=True)
        away = c.mean(dim=-1, keepdim=True) - expected
        leverage = (1 / n_slices + off * along).clamp(max=MOST_LEVERAGE)
        residuals = (costs - mean - slope * off) / (1 - leverage).sqrt()
        terms = (1 / n_slices - away * along) * residuals
        center = (mean - slope * away).squeeze(-1)
        # A mean and a slope were fitted.
        freedom = torch.full_like(center, n_slices - 2.0)
        return Uncertainty(center, terms.expand(costs.shape), freedom)

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
