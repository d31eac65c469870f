"""A linear classifier between two sets of samples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_MAX_NEWTON_STEPS = 100


@dataclass(frozen=True, eq=False)
class Probe:
    """A half-space: samples with x · normal + offset > 0 are classified as the second set.

    Attributes:
        normal: (d,).
        offset: ().
    """

    normal: Tensor
    offset: Tensor

    def share(self, x: Tensor) -> float:
        """Return the fraction of samples (n, d) that are classified as the second set."""
        side = x.to(self.normal) @ self.normal + self.offset
        return float((side > 0).double().mean())


@torch.no_grad()
def fit_probe(first: Tensor, second: Tensor, *, penalty: float = 1.0) -> Probe:
    """Fit a logistic regression between two sets, each with half of the weight, whatever their sizes.

    Minimizes Σ weight · log(1 + exp(−margin)) + penalty/2 · ‖normal‖² by damped Newton steps. The problem is strictly
    convex, so the result does not depend on the method.

    Args:
        first: Samples (n, d).
        second: Samples (m, d).
        penalty: Weight of the regularization.

    Returns:
        The classifier.

    Example:
        >>> x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
        >>> fit_probe(x, x + 10).share(x + 10)
        1.0
    """
    x = torch.cat([first, second]).double()
    n = len(x)
    sign = x.new_ones(n)
    sign[: len(first)] = -1
    weight = x.new_full((n,), n / (2 * len(second)))
    weight[: len(first)] = n / (2 * len(first))
    middle = x.mean(dim=0)
    x = torch.cat([x - middle, x.new_ones(n, 1)], dim=1)
    ridge = x.new_full((x.shape[1],), penalty)
    ridge[-1] = 0

    def loss(at: Tensor) -> Tensor:
        margin = sign * (x @ at)
        return (weight * torch.nn.functional.softplus(-margin)).sum() + ridge @ at.square() / 2

    at = x.new_zeros(x.shape[1])
    value = loss(at)
    for _ in range(_MAX_NEWTON_STEPS):
        wrong = torch.sigmoid(-sign * (x @ at))
        slope = ridge * at - x.mT @ (weight * sign * wrong)
        hessian = (x * (weight * wrong * (1 - wrong)).unsqueeze(1)).mT @ x
        hessian.diagonal().add_(ridge + 1e-12)
        step = torch.linalg.solve(hessian, slope)
        gain, size = slope @ step, 1.0
        if not bool(gain > 1e-12 * (1 + value)):
            break
        while bool(loss(at - size * step) > value - 1e-4 * size * gain) and size > 1e-8:
            size /= 2
        at = at - size * step
        value = loss(at)
    return Probe(at[:-1], at[-1] - at[:-1] @ middle)
