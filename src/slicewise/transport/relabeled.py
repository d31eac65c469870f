"""Transport on lines between the two sides of one pool of samples, for many labelings of the pool.

A permutation test moves labels, not samples: the pool is projected and sorted once, and every labeling splits the sorted
pool into two sides that are sorted already.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from slicewise.support import registered
from slicewise.transport.one_dim import match

LineCost = Literal["transport", "energy"]
# Numbers that plain PyTorch works on at once.
_AT_ONCE = 2**23


def relabeled_costs(
    values: Tensor,
    order: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    p: float = 2,
    kind: LineCost = "transport",
) -> Tensor:
    """Price every line for every labeling of its pool, by compiled loops where there are some.

    Args:
        values: The pool's projections, each line sorted, (L, N).
        order: Which sample of the pool each of them belongs to, (L, N).
        labels: True where a sample is on the first side, (B, N); every row has as many.
        weights: Of the samples, (N,), each side's divided by their own sum. None is equal weights.
        p: The order of the transport.
        kind: "transport" is W_p^p between the sides, "energy" their energy distance 2 ∫ (F − G)², whatever p is.

    Returns:
        The costs, (B, L), float64.

    >>> values, order = torch.tensor([[0.0, 1.0, 3.0, 4.0]]), torch.tensor([[0, 1, 2, 3]])
    >>> labels = torch.tensor([[True, True, False, False], [True, False, True, False]])
    >>> relabeled_costs(values, order, labels, p=1)
    tensor([[3.],
            [1.]], dtype=torch.float64)
    """
    backend = registered() if values.is_cpu else None
    if backend is not None:
        found = backend.relabeled_costs(values, order, labels, weights, p, kind == "energy")
        if found is not None:
            return found
    return plain_relabeled_costs(values, order, labels, weights, p=p, kind=kind)


def plain_relabeled_costs(
    values: Tensor,
    order: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    p: float = 2,
    kind: LineCost = "transport",
) -> Tensor:
    """`relabeled_costs` in plain PyTorch: the definition."""
    mass = None if weights is None else weights.double()[order]  # (L, N)
    size = max(1, _AT_ONCE // values.numel())
    rows = []
    for some in labels.split(size):
        first = some[:, order]  # (b, L, N)
        if kind == "energy":
            rows.append(_energy(values, first, mass))
        else:
            u, v = (_side(values.double(), side) for side in (first, ~first))
            a, b = (None if mass is None else _side(mass, side) for side in (first, ~first))
            rows.append(match(u, v, p=p, u_weights=a, v_weights=b).cost)
    return torch.cat(rows)


def _side(numbers: Tensor, side: Tensor) -> Tensor:
    """The numbers (L, N) on one side (b, L, N), in their order: (b, L, n)."""
    return numbers.expand_as(side)[side].view(*side.shape[:-1], -1)


def _energy(values: Tensor, first: Tensor, mass: Tensor | None) -> Tensor:
    mass = torch.ones_like(values, dtype=torch.float64) if mass is None else mass
    sides = (torch.where(side, mass, 0).cumsum(dim=-1) for side in (first, ~first))
    f, g = (side / side[..., -1:] for side in sides)
    gaps = values.double().diff(dim=-1)
    return 2 * ((f - g)[..., :-1].square() * gaps).sum(dim=-1)
