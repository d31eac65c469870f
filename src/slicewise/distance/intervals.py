"""How sure an estimate from few slices is: confidence intervals of means of skewed costs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Points of the grid on which Student's distribution is tabulated; quantiles are then right to 1e-4 of them, mostly 1e-7.
_GRID = 4097
# A slice that decides everything has no error of its own to learn from.
_MOST_LEVERAGE = 0.99


def confidence_interval(terms: Tensor, freedom: Tensor, level: float) -> tuple[Tensor, Tensor]:
    """Return how far the truth may lie below and above an estimate, (*batch,) each, at a confidence level.

    Costs of slices are skewed, most of all in high dimensions, where a symmetric interval from ten slices misses the
    truth far too often on one side. Hall's cubic transformation of Student's statistic takes the skewness out: with
    skewness k of n terms and t the quantile over √n, the ends are those of t′ + k t′² / 3 + k² t′³ / 27 + k / (6 n) = t.

    Args:
        terms: Each independent group's share of the error of the estimate, (*batch, n), their sum near zero.
        freedom: Degrees of freedom, (*batch,).
        level: The confidence level, in (0, 1).

    Returns:
        How far below and how far above the estimate the interval reaches, (*batch,) each; NaN for less than two groups.

    P. Hall, On the removal of skewness by transformation, 1992.
    """
    n = terms.shape[-1]
    if n < 2:
        nan = terms.new_full(terms.shape[:-1], math.nan)
        return nan, nan
    shares = n * terms.double()
    shares = shares - shares.mean(dim=-1, keepdim=True)
    spread = (shares.square().sum(dim=-1) / (n - 1)).sqrt()
    skewness = torch.zeros_like(spread)
    if n > 2:
        second = shares.square().mean(dim=-1)
        third = shares.pow(3).mean(dim=-1)
        plain = torch.where(second > 0, third / torch.where(second > 0, second, 1) ** 1.5, 0)
        skewness = plain * math.sqrt(n * (n - 1)) / (n - 2)
    t = student_quantile((1 + level) / 2, freedom.double().clamp(min=1)) / math.sqrt(n)

    def inverse(point: Tensor) -> Tensor:
        inner = 1 + skewness * (point - skewness / (6 * n))
        curved = skewness.abs() > 1e-6
        cube = inner.sign() * inner.abs() ** (1 / 3)
        safe = torch.where(curved, skewness, 1)
        return torch.where(curved, 3 * (cube - 1) / safe, point)

    below, above = spread * inverse(t), -spread * inverse(-t)
    return below.to(terms.dtype), above.to(terms.dtype)


def student_quantile(level: float, freedom: Tensor) -> Tensor:
    """Return the quantile of Student's t at a level of at least 1/2, for degrees of freedom of at least 1, in float64.

    With t = √ν tan φ the density is proportional to cos φ to the power ν − 1: tabulated, and inverted by interpolation.

    >>> student_quantile(0.975, torch.tensor([1.0, 9.0, 1e6])).round(decimals=3)
    tensor([12.7060,  2.2620,  1.9600], dtype=torch.float64)
    """
    freedom = freedom.double().unsqueeze(-1)
    # Beyond this angle lies less than 1e-14 of the mass.
    widest = (9 / freedom.sqrt()).clamp(max=math.pi / 2)
    unit = torch.linspace(0, 1, _GRID, dtype=torch.float64, device=freedom.device)
    angle = widest * unit
    density = angle.cos().clamp(min=0) ** (freedom - 1)
    # Simpson's rule on pairs of steps; the table has every second point.
    steps = (density[..., :-2:2] + 4 * density[..., 1::2] + density[..., 2::2]) / 6
    total = torch.nn.functional.pad(steps.cumsum(dim=-1), (1, 0))
    wanted = (2 * level - 1) * total[..., -1:]
    place = torch.searchsorted(total, wanted).clamp(1, total.shape[-1] - 1)
    low, high = total.gather(-1, place - 1), total.gather(-1, place)
    share = (wanted - low) / (high - low)
    found = widest * (place - 1 + share) / (total.shape[-1] - 1)
    return (freedom.sqrt() * found.tan()).squeeze(-1)


def held_back(terms: Tensor, leverage: Tensor | None) -> Tensor:
    """Terms as if each slice had been left out of what weighs it."""
    return terms if leverage is None else terms / (1 - leverage.clamp(max=_MOST_LEVERAGE))
