"""Projections of any batch shape as rows that a kernel may overwrite."""

from __future__ import annotations

import torch
from torch import Tensor

from slicewise.support import broadcast


def joint_shape(u: Tensor, v: Tensor, *weights: Tensor | None) -> tuple[int, ...]:
    """The shape (*batch, L) of the costs; weights are (*batch, n)."""
    given = [(*w.shape[:-1], 1) for w in weights if w is not None and w.dim() > 1]
    if u.dim() == v.dim() == 2 and not given:
        return u.shape[:1]
    return broadcast(u.shape[:-1], v.shape[:-1], *given)


def as_rows(projections: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(rows, n), contiguous; a copy where memory was shared between rows."""
    if projections.dim() == 2 and len(shape) == 1 and projections.is_contiguous():
        return projections
    n = projections.shape[-1]
    if projections.shape[:-1] == shape:
        return projections.contiguous().view(-1, n)
    return projections.expand(*shape, n).clone(memory_format=torch.contiguous_format).view(-1, n)
