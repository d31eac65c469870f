"""From lines back to samples: gradients along slices as gradients of samples, and as steps down them."""

from __future__ import annotations

import torch
from torch import Tensor

from slicewise.support import kernels_for, multiply
from slicewise.transport.one_dim import Match


def backproject(on_lines: Tensor, slices: Tensor, factor: Tensor | float) -> Tensor:
    """Σ_l factor_l · on_lines_l ⊗ slices_l, (..., n, d), of on_lines (..., L, n) and slices (..., L, d).

    `factor` is (..., L) or one number; whichever side is smaller is multiplied by it.
    """
    if on_lines.is_cuda:
        given = (on_lines, slices, factor) if isinstance(factor, Tensor) else (on_lines, slices)
        kernels = kernels_for(*given)
        if kernels is not None:
            return kernels.backproject(on_lines, slices, factor)
    if isinstance(factor, Tensor):
        factor = factor.unsqueeze(-1)  # (..., L, 1)
    if slices.shape[-1] <= 16:
        # The transposed product reads the long side along its rows: four times faster for small d.
        return multiply((factor * slices).mT, on_lines).mT.contiguous()
    if on_lines.shape[-1] < slices.shape[-1]:
        return multiply((factor * on_lines).mT, slices)
    return multiply(on_lines.mT, factor * slices)


def descend(
    base: Tensor,
    rates: Tensor,
    found: Match,
    slices: Tensor,
    factor: Tensor | float,
) -> tuple[Tensor, Tensor]:
    """A step of a descent, base − rate · Σ_l factor_l · u_grad_l ⊗ slices_l (R, n, d), for rates (R,).

    And the mean of the costs (R,), which a device can take on the way.
    """
    assert found.u_grad is not None
    rates, on_lines, costs = rates.to(base.dtype), found.u_grad, found.cost
    kernels = kernels_for(base, on_lines, slices)
    if kernels is not None:
        return kernels.descend(base, rates, on_lines, costs, slices, factor)
    gradient = backproject(on_lines, slices, factor)
    return torch.addcmul(base, gradient, rates[:, None, None], value=-1), costs.mean(dim=-1)
