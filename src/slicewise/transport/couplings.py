"""What a coupling costs in the space of the samples: the mean of ‖x_i − y_j‖^p over its pairs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slicewise.support import broadcast, line_loops

# Differences of pairs that are held at once, in numbers.
_PIECE = 2**22


def pair_costs(
    x: Tensor,
    y: Tensor,
    rows: Tensor,
    cols: Tensor,
    mass: Tensor,
    *,
    p: float = 2,
    norm: float = 2,
) -> Tensor:
    """Compute Σ mass · ‖x_i − y_j‖^p of couplings, in pieces of bounded memory.

    Differentiable in x, y and the masses. A pair at one point has the gradient zero.

    Args:
        x: samples, (*batch, n, d).
        y: samples, (*batch, m, d).
        rows: the sample of x of each pair, (*batch, L, K).
        cols: the sample of y of each pair, (*batch, L, K).
        mass: the mass of each pair, (*batch, L, K); equal masses expanded from one number are recognized.
        p: the power of the distance.
        norm: the order of the Minkowski norm, at least 1.

    Returns:
        The costs, (*batch, L).

    >>> x, y = torch.zeros(2, 2), torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    >>> rows, cols = torch.tensor([[0, 1]]), torch.tensor([[1, 0]])
    >>> pair_costs(x, y, rows, cols, torch.full((1, 2), 0.5))
    tensor([12.5000])
    """
    loops = line_loops(x, y, mass)
    if loops is not None and rows.dim() == 2 and x.dim() == y.dim() == 2:
        equal = not any(mass.stride()) and mass.numel() > 0  # one number, expanded
        total = loops.pair_costs(x, y, rows, cols, None if equal else mass, float(p), float(norm))
        return total * (mass[0, 0] * rows.shape[-1]) if equal else total
    n_lines, pairs = rows.shape[-2:]
    batch = broadcast(x.shape[:-2], y.shape[:-2], rows.shape[:-2])
    each = max(1, pairs * x.shape[-1] * max(1, math.prod(batch)))
    piece = max(1, _PIECE // each)
    found = []
    for i in range(0, n_lines, piece):
        part = slice(i, i + piece)
        ends = at_index(x, rows[..., part, :], batch), at_index(y, cols[..., part, :], batch)
        each_pair = distance_power(ends[0] - ends[1], p, norm)  # (*batch, L, K)
        found.append((mass[..., part, :] * each_pair).sum(dim=-1))
    return torch.cat(found, dim=-1)


def distance_power(gap: Tensor, p: float, norm: float) -> Tensor:
    """‖gap‖^p over the last dimension, with the gradient zero at zero."""
    if p == norm == 2:
        return gap.square().sum(dim=-1)
    if p == norm:
        return gap.abs().pow(p).sum(dim=-1)
    if norm == 2:
        size = gap.square().sum(dim=-1)
        away = size > 0
        return torch.where(away, torch.where(away, size, 1).pow(p / norm), 0)
    # In units of the largest gap, whose power of the order of the norm may overflow.
    largest = gap.detach().abs().amax(dim=-1)
    away = largest > 0
    unit = torch.where(away, largest, 1)
    size = (gap / unit.unsqueeze(-1)).abs().pow(norm).sum(dim=-1)
    return torch.where(away, (unit * torch.where(away, size, 1).pow(1 / norm)).pow(p), 0)


def at_index(samples: Tensor, index: Tensor, batch: tuple[int, ...]) -> Tensor:
    """Samples (*batch, n, d) at places (*batch, ..., K), (*batch, ..., K, d)."""
    d = samples.shape[-1]
    places = index.expand(*batch, *index.shape[len(index.shape) - 2 :])
    flat = places.flatten(-2).unsqueeze(-1).expand(*batch, -1, d)
    found = samples.expand(*batch, *samples.shape[-2:]).gather(-2, flat)
    return found.unflatten(-2, tuple(places.shape[-2:]))
