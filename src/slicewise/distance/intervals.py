"""How sure an estimate from few slices is: confidence intervals of means of skewed costs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Points of the grid on which Student's distribution is tabulated; quantiles are then right to 1e-4 of them, mostly 1e-7.
_GRID = 4097


def confidence_interval(
    terms: Tensor, freedom: Tensor, level: float, skewness: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return how far the truth may lie below and above an estimate, (*batch,) each, at a confidence level.

    Costs of slices are skewed, most of all in high dimensions, where a symmetric interval from ten slices misses the
    truth far too often on one side. Hall's cubic transformation of Student's statistic takes the skewness out: with
    skewness k of n terms and t the quantile over √n, the ends are those of t′ + k t′² / 3 + k² t′³ / 27 + k / (6 n) = t.

    Args:
        terms: Each independent group's share of the error of the estimate, (*batch, n), their sum near zero.
        freedom: Degrees of freedom, (*batch,).
        level: The confidence level, in (0, 1).
        skewness: That of the terms, (*batch,), where it is known better than from these; None computes it.

    Returns:
        How far below and how far above the estimate the interval reaches, (*batch,) each; NaN for less than two groups.

    P. Hall, On the removal of skewness by transformation, 1992.
    """
    n = terms.shape[-1]
    if n < 2:
        nan = terms.new_full(terms.shape[:-1], math.nan)
        return nan, nan
    shares = n * terms.double()
    spread = shares.std(dim=-1)
    skewness = sample_skewness(shares) if skewness is None else skewness.double()
    t = student_quantile((1 + level) / 2, freedom.double().clamp(min=1)) / math.sqrt(n)

    def inverse(point: Tensor) -> Tensor:
        inner = 1 + skewness * (point - skewness / (6 * n))
        curved = skewness.abs() > 1e-6
        cube = inner.sign() * inner.abs() ** (1 / 3)
        safe = torch.where(curved, skewness, 1)
        return torch.where(curved, 3 * (cube - 1) / safe, point)

    below, above = spread * inverse(t), -spread * inverse(-t)
    return below.to(terms.dtype), above.to(terms.dtype)


def sample_skewness(terms: Tensor) -> Tensor:
    """Return the skewness of terms (..., n), corrected for its bias under a normal law, (...,); 0 for n < 3."""
    n = terms.shape[-1]
    off = terms - terms.mean(dim=-1, keepdim=True)
    second = off.square().mean(dim=-1)
    if n < 3:
        return torch.zeros_like(second)
    third = off.pow(3).mean(dim=-1)
    plain = torch.where(second > 0, third / torch.where(second > 0, second, 1) ** 1.5, 0)
    return plain * math.sqrt(n * (n - 1)) / (n - 2)


def skewness_of_costs(terms: Tensor, groups: Tensor, center: Tensor, d: int | None) -> Tensor:
    """Return the skewness of groups of slices, known better than from these few groups alone, (*batch,).

    Five groups say next to nothing about skewness, their fifty slices say more: the skewness of groups of m independent
    slices is that of the slices over √m, and m can be read off the two spreads. From few slices it still comes out too
    small, since the long tail is what few draws miss. But costs along slices are not any numbers. The cost of a shift
    is its squared cosine with the slice, a Beta(1/2, (d − 1)/2) variable, whose skewness is
    2 (d² − 4) / ((d + 4) (d − 1)) times its relative spread; costs of that spread are taken for at least as skewed.

    Args:
        terms: Each slice's share of the error of the estimate, (*batch, L).
        groups: Sums of them over independent groups of slices of equal law, (*batch, n).
        center: The estimate, (*batch,).
        d: The dimension that straight slices are drawn in; None for others, of whose costs no such law is known.
    """
    terms, groups = terms.double(), groups.double()
    n_slices, n = terms.shape[-1], groups.shape[-1]
    if n < 2:
        return torch.zeros_like(center, dtype=torch.float64)
    of_slices, of_groups = n_slices * terms.std(dim=-1), n * groups.std(dim=-1)
    ratio = torch.where(of_slices > 0, of_groups / torch.where(of_slices > 0, of_slices, 1), 0)
    seen = sample_skewness(terms) * ratio.clamp(max=1)
    if d is None:
        return seen
    relative = torch.where(center > 0, of_groups / torch.where(center > 0, center, 1), 0)
    factor = 2 * (d * d - 4) / ((d + 4) * (d - 1)) if d > 2 else 0.0
    return torch.maximum((1 + 2 / n_slices) * seen, factor * relative)


def student_quantile(level: float, freedom: Tensor) -> Tensor:
    """Return the quantile of Student's t at a level of at least 1/2, for degrees of freedom of at least 1, in float64.

    With t = √ν tan φ the density is proportional to cos φ to the power ν − 1: tabulated, and inverted by interpolation.

    >>> student_quantile(0.975, torch.tensor([1.0, 9.0, 1e6])).round(decimals=3)
    tensor([12.7060,  2.2620,  1.9600], dtype=torch.float64)
    """
    several, which = freedom.double().unique(return_inverse=True)
    freedom = several.unsqueeze(-1)
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
    return (freedom.sqrt() * found.tan()).squeeze(-1)[which]
