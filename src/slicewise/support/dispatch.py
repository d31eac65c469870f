"""Where the library asks for something faster than plain PyTorch, and where that registers itself.

The room `kernels` registers a `Backend` when it is imported, and it is imported when it is first asked for: whichever
room a program imports, the library finds its kernels. All other rooms ask here, so that none of them imports it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor

from slicewise.support.tensors import is_transformed

_DTYPES = (torch.float32, torch.float64)


class DeviceDraws(Protocol):
    """Random draws that a device makes in one launch; each gives what the plain draws of `sampling.sphere` would."""

    def numbers(self, kind: str, shape: tuple[int, ...]) -> Tensor: ...

    def directions(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor: ...

    def orthogonal_to(self, directions: Tensor) -> Tensor: ...

    def around(self, directions: Tensor, law: Tensor) -> Tensor: ...

    def power_around(self, directions: Tensor, law: Tensor, *, boost: bool) -> Tensor: ...

    def paths(self, x: Tensor, y: Tensor, shape: tuple[int, ...]) -> Tensor: ...


class Copier(Protocol):
    """Copies several tensors in one launch, and whole numbers beside them."""

    def __call__(self, sources: Sequence[Tensor], numbers: Sequence[int] | None) -> None:
        """Copy tensors into the buffers it was made for, and numbers into theirs."""
        ...

    def fresh(self) -> list[Tensor]:
        """Copies of the buffers."""
        ...


class Kernels(Protocol):
    """What a device does in one launch instead of several operations. Each has a plain version of the same name."""

    def normalize(self, vectors: Tensor) -> Tensor:
        """`sphere.normalize`."""
        ...

    def orthonormalize(self, frames: Tensor) -> Tensor:
        """`sphere.orthonormalize`."""
        ...

    def sort_rows(self, lines: Tensor) -> Tensor | None:
        """Each line (..., n) sorted; None where the lines are too long for it."""
        ...

    def backproject(self, on_lines: Tensor, slices: Tensor, factor: Tensor | float) -> Tensor:
        """`transport.backproject`."""
        ...

    def descend(
        self,
        base: Tensor,
        rates: Tensor,
        on_lines: Tensor,
        costs: Tensor,
        slices: Tensor,
        factor: Tensor | float,
    ) -> tuple[Tensor, Tensor]:
        """`transport.descend`."""
        ...

    def ascend(
        self,
        slices: Tensor,
        gradient: Tensor,
        costs: Tensor,
        *,
        rate: float | None,
        p: float,
        points: int,
        coupled: bool,
        back_to_sphere: bool,
    ) -> Tensor:
        """A step of `parts.Ascend`."""
        ...

    def unit_and_length(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (..., d) at unit length, and their lengths (..., 1)."""
        ...

    def map_gradient(
        self,
        slices: Tensor,
        ascent: Tensor,
        closeness: Tensor,
        length: Tensor,
        means: Tensor,
        *,
        p: float,
        points: int,
        penalty: float,
    ) -> Tensor:
        """The gradient that `parts.PushForward` climbs, in the vectors behind its slices."""
        ...

    def adam(
        self,
        value: Tensor,
        first: Tensor,
        second: Tensor,
        gradient: Tensor,
        steps: Tensor,
        *,
        rate: float,
        betas: tuple[float, float],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One step of Adam uphill: the new value and its two moments."""
        ...

    def largest_of(self, sets: Tensor) -> Tensor:
        """The largest absolute value in each of sets (R, ...), as (R,)."""
        ...

    def sums_on_lines(
        self, on_lines: Tensor, seen: Tensor, weights: Tensor, lighter: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The two sums of `steps.step_on_lines`, (*batch,) each, in double precision."""
        ...

    def characteristic_sums(self, lines: Tensor, step: float, n_points: int) -> Tensor | None:
        """Sums of cosines and sines of multiples of lines, as `nn.characteristic` adds them; None for too many points."""
        ...

    def characteristic_slopes(
        self, lines: Tensor, step: float, of_cosine: Tensor, of_sine: Tensor
    ) -> Tensor | None:
        """Weighted sums of those cosines and sines at each number of the lines; None for too many points."""
        ...

    def copier(self, buffers: Sequence[Tensor], numbers: Tensor | None) -> Copier | None:
        """What copies into, or out of, these buffers; None where torch's own copies must do it."""
        ...


class MatchingLoops(Protocol):
    """Compiled loops of `transport.matching`, for the CPU."""

    def least(self, rows: Tensor, k: int) -> Tensor:
        """The places of the k least values of each row (r, n), (r, k), in no order."""
        ...

    def auction(self, *given: Any) -> int:
        """As `_bid` of `transport.matching`: how many bids were made."""
        ...


class LineLoops(Protocol):
    """Compiled loops on lines and circles, for the CPU. Tensors of a call are all float32 or all float64."""

    def orders(self, lines: Tensor) -> Tensor:
        """The stable order of each line (..., n), as `argsort`."""
        ...

    def rotations(self, u: Tensor, v: Tensor, p: float) -> Tensor:
        """As `_best_rotation` of `transport.circle`, (..., 1)."""
        ...

    def shifts(self, u: Tensor, v: Tensor, a: Tensor, b: Tensor, p: float) -> Tensor:
        """As `_best_shift` of `transport.circle`, (..., 1)."""
        ...

    def shifted_costs(self, u: Tensor, v: Tensor, a: Tensor, b: Tensor, shift: Tensor) -> Tensor:
        """As the last lines of `transport.linear_circle_costs`, (...)."""
        ...

    def potentials(
        self, u: Tensor, v: Tensor, orders: tuple[Tensor, Tensor], a: Tensor, b: Tensor, p: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `transport.potentials_on_lines`."""
        ...

    def line_plans(
        self, orders: tuple[Tensor, Tensor], a: Tensor | None, b: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `transport.plan_on_lines` for lines of these orders, (..., n + m) each."""
        ...

    def pair_costs(
        self, x: Tensor, y: Tensor, rows: Tensor, cols: Tensor, mass: Tensor | None, p: float, norm: float
    ) -> Tensor:  # fmt: skip
        """As `transport.pair_costs` for one pair of sets, (L,); no masses mean equal ones of sum one."""
        ...


class Backend(Protocol):
    """What the room `kernels` offers."""

    def line_loops(self) -> LineLoops | None:
        """Compiled loops on lines and circles, if numba is there."""
        ...

    def matching_loops(self) -> MatchingLoops | None:
        """Compiled loops for one-to-one matching, if numba is there."""
        ...

    def kernels(self, device: torch.device) -> Kernels | None:
        """Kernels for a device, if there are any."""
        ...

    def sort_lines(self, lines: Tensor) -> Tensor | None:
        """Each line (..., n) sorted, on the CPU; None where plain PyTorch must do it."""
        ...

    def one_thread(self) -> AbstractContextManager[None]:
        """A context in which torch, called from this thread, uses no other on the CPU."""
        ...

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """a (..., r, k) @ b (..., k, c) on the CPU, with threads only where they pay."""
        ...

    def share_pieces(self, work: Callable[[int], None], pieces: int, each_ns: float) -> None:
        """See `share_pieces`."""
        ...

    def matcher(self, backend: str, device: torch.device) -> Callable[..., Any]:
        """The version of `transport.match_slices` for a backend's name ("auto": the fastest) on a device."""
        ...

    def relabeled_costs(
        self,
        values: Tensor,
        order: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        p: float,
        energy: bool,
    ) -> Tensor | None:
        """`transport.relabeled_costs` on the CPU; None where plain PyTorch must do it."""
        ...

    def count_lines(
        self,
        lines: Tensor,
        center: Tensor,
        scale: Tensor,
        counts: Tensor,
        shift: int,
        offset: int,
    ) -> bool:
        """`stats.counts.plain_count` on the CPU, added to `counts`; False where plain PyTorch must do it."""
        ...

    def draws(self, seeds: Tensor, step: int | Tensor, stream: int) -> DeviceDraws | None:
        """Draws made on the device that holds the seeds, if it can."""
        ...


_registered: Backend | None = None


def register(backend: Backend) -> None:
    """Make a backend the one that the library asks."""
    global _registered
    _registered = backend


def registered() -> Backend | None:
    """The backend that the library asks; the room `kernels` unless another one was registered before."""
    if _registered is None:
        # By its name: this room stands before `kernels`, and must be there before that can be imported. Compiled code
        # does not come here: it is plain PyTorch, so that no compiler has to follow an import.
        importlib.import_module("slicewise.kernels")
    return _registered


def kernels_for(*tensors: Tensor) -> Kernels | None:
    """Kernels for work on these tensors; None where plain PyTorch must do it.

    That is on any device but CUDA, where nothing can be compiled, and where autograd, a compiler or a function transform
    records the operations.
    """
    first = tensors[0]
    if not first.is_cuda or first.dtype not in _DTYPES or needs_gradient(*tensors):
        return None
    backend = registered()
    return None if backend is None else backend.kernels(first.device)


def sort_lines(lines: Tensor) -> Tensor | None:
    """Each line (..., n) sorted by a kernel; None where plain PyTorch must do it."""
    kernels = kernels_for(lines)
    if kernels is not None:
        return kernels.sort_rows(lines)
    if needs_gradient(lines) or not lines.is_cpu or lines.dtype not in _DTYPES:
        return None
    backend = registered()
    return None if backend is None else backend.sort_lines(lines)


def one_thread(device: torch.device) -> AbstractContextManager[None]:
    """A context in which torch, called from this thread, uses no other; work on another device is not affected.

    What pays by threads in it (sorting, large products) still uses as many as torch may.
    """
    if device.type != "cpu" or torch.compiler.is_compiling():
        return nullcontext()
    backend = registered()
    return nullcontext() if backend is None else backend.one_thread()


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """a (..., r, k) @ b (..., k, c); on a CPU, where nothing records it, with threads only where they pay."""
    if needs_gradient(a, b) or not a.is_cpu or a.dtype not in _DTYPES:
        return a @ b
    backend = registered()
    return a @ b if backend is None else backend.multiply(a, b)


def share_pieces(work: Callable[[int], None], pieces: int, *, each_ns: float) -> None:
    """Call `work(k)` for each of some pieces of work on the CPU, with threads only where they pay.

    Threads know nothing of the modes of this one: what they compute must not be recorded for autograd, nor transformed, and
    they must not write to tensors that were made in inference mode.

    Args:
        work: must give the same result on any thread.
        pieces: how many.
        each_ns: about how many nanoseconds one of them takes.
    """
    backend = registered()
    if backend is not None:
        backend.share_pieces(work, pieces, each_ns)
        return
    for k in range(pieces):
        work(k)


def matching_loops() -> MatchingLoops | None:
    """Compiled loops for one-to-one matching on the CPU; None where NumPy must do it."""
    backend = registered()
    return None if backend is None else backend.matching_loops()


def line_loops(*tensors: Tensor) -> LineLoops | None:
    """Compiled loops on lines for these tensors; None where plain PyTorch must do it."""
    plain = any(not t.is_cpu or t.dtype not in _DTYPES for t in tensors)
    if plain or needs_gradient(*tensors):
        return None
    backend = registered()
    return None if backend is None else backend.line_loops()


def needs_gradient(*tensors: Tensor) -> bool:
    """Does autograd, a compiler or a function transform record operations on these tensors?"""
    tracked = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return tracked or is_transformed(*tensors)


def current(device: torch.device) -> AbstractContextManager[object]:
    """A context in which a CUDA device is the current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
