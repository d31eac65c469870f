"""Which backend sorts and draws where: chosen by what is installed, and registered with `support.dispatch`."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slicewise.kernels.cpu import multiply, one_thread, share_pieces
from slicewise.support import DeviceDraws, Kernels, LineLoops, MatchingLoops
from slicewise.transport import Matcher, match_slices

if TYPE_CHECKING:
    from slicewise.kernels.cuda import CudaKernels
    from slicewise.kernels.cuda.compiler import Route

ON_CPU = ("numba", "numpy", "torch")
ON_CUDA = ("nvrtc", "torch-nvrtc", "triton", "torch")
_ROUTES: dict[str, Route] = {"nvrtc": "bindings", "torch-nvrtc": "hook"}


def backends() -> dict[str, str]:
    """Say which backend `backend="auto"` takes on each kind of device that is here.

    Returns:
        The backend by device type, e.g. {"cpu": "numba", "cuda": "nvrtc"}.

    >>> backends()["cpu"] in ("numba", "numpy")
    True
    """
    found = {"cpu": _fastest_on_cpu()}
    if torch.cuda.is_available():
        found["cuda"] = _fastest_on_cuda(torch.cuda.current_device())
    return found


@functools.cache
def matcher(backend: str, device: torch.device) -> Matcher:
    """The `match_slices` of a backend; "auto" is the fastest there is for the device."""
    known = ON_CPU if device.type == "cpu" else ON_CUDA if device.type == "cuda" else ("torch",)
    if backend not in ("auto", *known):
        raise ValueError(
            f"backend = {backend!r} cannot run where the samples are, on {device}: use 'auto' "
            f"(there: {', '.join(known)})"
        )
    if device.type == "cuda":
        return _on_cuda(backend, device)
    if backend == "auto" and device.type == "cpu":
        backend = _fastest_on_cpu()
    if backend == "numba":
        if not has_numba():
            raise ImportError("backend 'numba' needs numba: pip install 'slicewise[fast]'")
        from slicewise.kernels.cpu import match_by_numba

        return match_by_numba
    if backend == "numpy":
        from slicewise.kernels.numpy_match import match_by_numpy

        return match_by_numpy
    return match_slices


def _on_cuda(backend: str, device: torch.device) -> Matcher:
    if backend == "auto":
        backend = _fastest_on_cuda(device.index or 0)
    if backend in _ROUTES:
        from slicewise.kernels.cuda.compiler import routes
        from slicewise.kernels.cuda.match import CudaMatcher

        closed = routes()[_ROUTES[backend]]
        if closed:
            raise ImportError(f"backend {backend!r}: {closed}; use 'auto'")
        return CudaMatcher(_ROUTES[backend])
    if backend == "triton":
        from slicewise.kernels.cuda.triton_sort import match_slices as by_triton

        return by_triton
    return match_slices


@functools.cache
def _cuda_kernels(index: int) -> CudaKernels | None:
    route = _ROUTES.get(_fastest_on_cuda(index))
    if route is None:
        return None
    from slicewise.kernels.cuda import CudaKernels

    return CudaKernels(route)


class Chosen:
    """The `support.dispatch.Backend` that registers itself: whatever is fastest on the device at hand."""

    def kernels(self, device: torch.device) -> Kernels | None:
        """Kernels of our own, where a CUDA device can compile them."""
        return _cuda_kernels(device.index or 0) if device.type == "cuda" else None

    def matcher(self, backend: str, device: torch.device) -> Matcher:
        """See `matcher`."""
        return matcher(backend, device)

    def sort_lines(self, lines: Tensor) -> Tensor | None:
        """See `cpu.sort_lines`, where numba works."""
        if _fastest_on_cpu() != "numba":
            return None
        from slicewise.kernels.cpu import sort_lines

        return sort_lines(lines)

    def one_thread(self) -> AbstractContextManager[None]:
        """See `threads.one_thread`."""
        return one_thread()

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """See `products.multiply`."""
        return multiply(a, b)

    def share_pieces(self, work: Callable[[int], None], pieces: int, each_ns: float) -> None:
        """See `cpu.share_pieces`."""
        share_pieces(work, pieces, each_ns=each_ns)

    def matching_loops(self) -> MatchingLoops | None:
        """The loops of `numba_matching`, where numba works."""
        if _fastest_on_cpu() != "numba":
            return None
        from slicewise.kernels.cpu import NumbaMatching

        return NumbaMatching()

    def line_loops(self) -> LineLoops | None:
        """The loops of `numba_lines`, where numba works."""
        if _fastest_on_cpu() != "numba":
            return None
        from slicewise.kernels.cpu import NumbaLines

        return NumbaLines()

    def relabeled_costs(
        self,
        values: Tensor,
        order: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        p: float,
        energy: bool,
    ) -> Tensor | None:
        """See `cpu.relabeled_costs`, where numba works."""
        if _fastest_on_cpu() != "numba":
            return None
        from slicewise.kernels.cpu import relabeled_costs

        return relabeled_costs(values, order, labels, weights, p, energy)

    def count_lines(
        self,
        lines: Tensor,
        center: Tensor,
        scale: Tensor,
        counts: Tensor,
        shift: int,
        offset: int,
    ) -> bool:
        """See `cpu.count_lines`, where numba works."""
        if _fastest_on_cpu() != "numba":
            return False
        from slicewise.kernels.cpu import count_lines

        count_lines(lines, center, scale, counts, shift, offset)
        return True

    def draws(self, seeds: Tensor, step: int | Tensor, stream: int) -> DeviceDraws | None:
        """Draws made where the seeds are, if kernels can be compiled there."""
        kernels = _cuda_kernels(seeds.device.index or 0) if seeds.is_cuda else None
        if kernels is None:
            return None
        from slicewise.kernels.cuda.draw import DeviceDraws

        return DeviceDraws(seeds, step, stream, kernels.route)


@functools.cache
def _fastest_on_cuda(index: int) -> str:
    """The first level that works, by trying; what fails though it is installed is said."""
    if not torch.cuda.is_available():
        return "torch"
    from slicewise.kernels.cuda.compiler import routes, works

    device = torch.device("cuda", index)
    closed = routes()
    for name, route in _ROUTES.items():
        if not closed[route] and works(device, route):
            return name
    return "triton" if importlib.util.find_spec("triton") is not None else "torch"


def _fastest_on_cpu() -> str:
    if not has_numba():
        return "numpy"
    from slicewise.kernels import cpu

    try:
        cpu.numba_loops()
    except ImportError as trouble:
        warnings.warn(
            f"numba is installed but cannot be used ({trouble}); sorting with NumPy instead, up to five "
            f"times slower. Choose backend='numpy' to say no more of it",
            stacklevel=2,
        )
        return "numpy"
    return "numba"


@functools.cache
def has_numba() -> bool:
    """Is numba installed? Found out without importing it, which takes half a second."""
    return importlib.util.find_spec("numba") is not None
