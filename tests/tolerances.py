"""How closely numbers must agree, in one table; nothing loosens it."""

from __future__ import annotations

import torch

# Relative to the size of what is compared: sums of up to a few thousand rounded terms.
RELATIVE = {torch.float64: 1e-10, torch.float32: 1e-4}


def assert_close(actual, expected, *, rtol=None):
    """Equal up to the tolerance of the coarser dtype, measured against the largest entry."""
    actual, expected = torch.as_tensor(actual), torch.as_tensor(expected)
    assert actual.shape == expected.shape, f"shapes {actual.shape} and {expected.shape}"
    if rtol is None:
        rtol = max(RELATIVE[actual.dtype], RELATIVE[expected.dtype])
    actual, expected = actual.detach().double(), expected.detach().double()
    assert torch.isfinite(actual).all(), "not finite"
    scale = expected.abs().max().item() or 1e-12
    worst = (actual - expected).abs().max().item()
    assert worst <= rtol * scale, f"off by {worst:.3g}, {worst / scale:.3g} of {scale:.3g}"
