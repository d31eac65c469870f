"""What surrounds a captured call: several copies in one launch, and the two sums of a Cauchy step."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

import torch
from torch import Tensor

from slicewise.kernels.cuda.compiler import REAL, Argument, Route, kernel

MOST_COPIES, MOST_NUMBERS = 6, 4  # of one launch, as plan.cu has them
_BLOCK = 256
_MOST_BLOCKS = 1024
_WORD = 16  # bytes that a thread copies at a time
_CHUNK = 8192  # numbers of a line that one block adds


class CopyLaunch:
    """A prepared launch that copies up to six pieces of memory on a device and writes up to four numbers.

    Sizes are fixed; addresses and numbers are given with every call, which does little more than launch. By the route
    "bindings" only; not for several threads at a time.

    Args:
        device: where all of it is.
        sizes: bytes of each piece.
        n_numbers: how many int64 numbers are written besides.
    """

    def __init__(
        self,
        device: torch.device,
        sizes: Sequence[int],
        n_numbers: int = 0,
        route: Route = "bindings",
    ) -> None:
        if len(sizes) > MOST_COPIES or n_numbers > MOST_NUMBERS:
            raise ValueError(
                f"{len(sizes)} copies and {n_numbers} numbers in one launch: at most {MOST_COPIES} "
                f"and {MOST_NUMBERS}"
            )
        self._launch = kernel("plan.cu", "copy_many", "", device, route).launch_at
        words = sum(-(-size // _WORD) for size in sizes)
        self._blocks = max(1, min(_MOST_BLOCKS, -(-words // _BLOCK)))
        # The kernel's one argument, a struct of eight-byte words: what changes comes first.
        changing = 2 * MOST_COPIES + 1 + MOST_NUMBERS
        self._words = (ctypes.c_int64 * (changing + MOST_COPIES + 1))()
        for place, size in enumerate(sizes):
            self._words[changing + place] = size
        self._words[changing + MOST_COPIES] = n_numbers
        self._address = (ctypes.c_void_p * 1)(ctypes.addressof(self._words))
        self._arguments = ctypes.addressof(self._address)
        self._no_copies = (0,) * (MOST_COPIES - len(sizes))
        self._no_numbers = (0,) * (MOST_NUMBERS - n_numbers)
        self._pack = struct.Struct(f"<{changing}q").pack_into

    def __call__(
        self,
        destinations: Sequence[int],
        sources: Sequence[int],
        numbers: Sequence[int],
        numbers_to: int,
        stream: int,
    ) -> None:
        """Launch on a stream; `data_ptr()`s of destinations and sources, the numbers and where they go (0: nowhere).

        The device must be the current one.
        """
        none = self._no_copies
        self._pack(
            self._words, 0, *destinations, *none, *sources, *none, numbers_to, *numbers, *self._no_numbers
        )  # fmt: skip
        self._launch(self._blocks, _BLOCK, self._arguments, stream)


class BufferCopier:
    """Copies into buffers that stay where they are, or out of them; see `support.dispatch.Copier`."""

    def __init__(self, buffers: Sequence[Tensor], numbers: Tensor | None) -> None:
        self._buffers, self._numbers = buffers, numbers  # kept, as their addresses are
        self._device = buffers[0].device.index
        sizes = [t.numel() * t.element_size() for t in buffers]
        count = 0 if numbers is None else numbers.numel()
        self._launch = CopyLaunch(buffers[0].device, sizes, count)
        self._addresses = [t.data_ptr() for t in buffers]
        self._numbers_at = 0 if numbers is None else numbers.data_ptr()
        self._shapes = [(t.shape, t.dtype, t.device) for t in buffers]

    def __call__(self, sources: Sequence[Tensor], numbers: Sequence[int] | None) -> None:
        stream = torch._C._cuda_getCurrentRawStream(self._device)
        places = [t.data_ptr() for t in sources]
        self._launch(self._addresses, places, numbers or (), self._numbers_at, stream)

    def fresh(self) -> list[Tensor]:
        stream = torch._C._cuda_getCurrentRawStream(self._device)
        copies = [torch.empty(s, dtype=dtype, device=device) for s, dtype, device in self._shapes]
        places = [t.data_ptr() for t in copies]
        self._launch(places, self._addresses, (), 0, stream)
        return copies


def cauchy_sums(
    on_lines: Tensor,
    projected: Tensor,
    weights: Tensor | float,
    masses: Tensor | float,
    *,
    tickets: Tensor | None = None,
    route: Route = "bindings",
) -> tuple[Tensor, Tensor]:
    """The two sums of `steps.step_on_lines` in one launch, in float64, (B,) each; bit for bit the same at every call.

    Σ_l w_l Σ_i q_i G_li P_li and Σ_l |w_l| Σ_i q_i P_li² of G = `on_lines` and P = `projected`, both (B, L, n), with
    weights w (B, L), (1, L) or a number, and masses q (B, n), (1, n) or a number.

    `tickets` (B,), int32, hold zeros before and after; given, they save filling new ones. Calls that may run at the same
    time must not share them.
    """
    n_sets, n_slices, n = on_lines.shape
    device = on_lines.device
    chunks = max(1, -(-n // _CHUNK))
    if tickets is None:
        tickets = torch.zeros(n_sets, dtype=torch.int32, device=device)
    parts = torch.empty(n_sets * n_slices * chunks, 2, dtype=torch.float64, device=device)
    found = torch.empty(2, n_sets, dtype=torch.float64, device=device)
    w = _rows(weights, on_lines.dtype, n_sets)
    q = _rows(masses, None, n_sets)
    kind = on_lines.dtype if q is None else q.dtype
    arguments: list[Argument] = [
        found[0], found[1], parts, tickets, on_lines.contiguous(), projected.contiguous(), w, q,
        0.0 if isinstance(weights, Tensor) else float(weights),
        0.0 if isinstance(masses, Tensor) else float(masses),
        n, n_slices, chunks, _CHUNK, 0 if w is None else len(w), 0 if q is None else len(q),
    ]  # fmt: skip
    settings = f"typedef {REAL[on_lines.dtype]} REAL;\ntypedef {REAL[kind]} WEIGHT;\n#define THREADS {_BLOCK}\n"
    run = kernel("plan.cu", "cauchy_sums", settings, device, route)
    run(n_sets * n_slices * chunks, _BLOCK, arguments)
    return found[0], found[1]


def _rows(given: Tensor | float, dtype: torch.dtype | None, n_sets: int) -> Tensor | None:
    """(sets, ...), one row for each set or one for all; None of a number."""
    if not isinstance(given, Tensor):
        return None
    if dtype is not None or given.dtype not in REAL:
        given = given.to(dtype or torch.float64)
    rows = given.reshape(-1, given.shape[-1])
    if len(rows) not in (1, n_sets):
        raise ValueError(f"{len(rows)} rows for {n_sets} sets: give one for each, or one for all")
    return rows.contiguous()
