"""The p-th root of a cost, in one place because its slope at zero is infinite."""

from __future__ import annotations

import torch
from torch import Tensor


def root(power: Tensor, p: float) -> Tensor:
    """power^(1/p), with gradient 0 instead of NaN where the power is 0; NaN stays NaN.

    An estimate may fall below 0 (control variates): its root counts as 0.

    >>> cost = torch.zeros(1, requires_grad=True)
    >>> root(cost, 2).backward(); cost.grad
    tensor([0.])
    """
    if p == 1:
        return power
    zero = power <= 0
    return torch.where(zero, 0, torch.where(zero, 1, power) ** (1 / p))


def root_slope(power: Tensor, p: float) -> Tensor:
    """Its slope, power^(1/p − 1) / p; flat where the power is 0 or below."""
    zero = power <= 0
    return torch.where(zero, 0, torch.where(zero, 1, power) ** (1 / p - 1) / p)
