"""When kernels of our own may stand in for plain torch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slicewise.support.torch_modes import is_transformed

if TYPE_CHECKING:
    from slicewise.kernels import Route

_DTYPES = (torch.float32, torch.float64)
# One capture at a time: torch's generators know of one.
_CAPTURING = threading.Lock()


def kernels_for(*tensors: Tensor) -> Route | None:
    """How to reach kernels for work on these tensors; None where plain torch must do it.

    That is on any device but CUDA, where nothing can be compiled, and where autograd, a compiler or a
    transform follows.
    """
    first = tensors[0]
    if not first.is_cuda or first.dtype not in _DTYPES or needs_gradient(*tensors):
        return None
    from slicewise.kernels import cuda_route

    return cuda_route(first.device)


def needs_gradient(*tensors: Tensor) -> bool:
    """Is autograd, a compiler or a transform following?"""
    tracked = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return tracked or is_transformed(*tensors)


def current(device: torch.device) -> AbstractContextManager[object]:
    """A context in which a CUDA device is the current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def beside() -> Iterator[None]:
    """A stream beside the one in use, for the trial before a capture.

    That compiles kernels and makes constants and workspaces, none of which a capture may do.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


@contextmanager
def capturing(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """What is launched in here becomes the graph; other threads may go on allocating."""
    with _CAPTURING, torch.cuda.graph(graph, capture_error_mode="thread_local"):
        yield
