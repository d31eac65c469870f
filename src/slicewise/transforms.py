"""Compilers and function transforms: who stands between us and the numbers."""

from __future__ import annotations

import torch
from torch import Tensor


def is_transformed(*tensors: Tensor | None) -> bool:
    """Does a compiler or a transform of torch.func stand between us and these tensors' values?"""
    # torch offers no public test for its function transforms, and cannot compile the private one.
    return torch.compiler.is_compiling() or any(
        torch._C._functorch.is_functorch_wrapped_tensor(t) for t in tensors if t is not None
    )
