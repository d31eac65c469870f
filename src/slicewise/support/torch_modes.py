"""Batch shapes, without the ten microseconds that torch takes to broadcast two equal ones.

Compilers and function transforms: who stands between us and the numbers.

Autocast, switched off for work that needs its digits.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def is_transformed(*tensors: Tensor | None) -> bool:
    """Does a compiler or a transform of torch.func stand between us and these tensors' values?"""
    # torch offers no public test for its function transforms, and cannot compile the private one.
    return torch.compiler.is_compiling() or any(
        torch._C._functorch.is_functorch_wrapped_tensor(t) for t in tensors if t is not None
    )


def full_precision(device_type: str) -> AbstractContextManager[None]:
    """A context without autocast; entering one where there is none to switch off costs nothing."""
    if torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return nullcontext()


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The joint shape of leading dimensions; raises as torch does where they do not fit."""
    first = next((s for s in shapes if len(s)), ())
    if all(s == first or not len(s) for s in shapes):
        return tuple(first)
    return tuple(torch.broadcast_shapes(*shapes))
