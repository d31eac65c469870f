"""`match_slices` on lines too long for one block: all of them sorted by radix, then priced rank by rank.

Nothing waits for the device, and nothing depends on the order in which blocks run.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor

from slicewise.kernels.cuda.compiler import Kernel, Route, kernel
from slicewise.transport import Match, Wanted, match_slices, project

# What sorting may take beside the lines and their order (one line of each side at the least); more lines at
# once keep the device busier at the end of a pass.
SPARE_BYTES = 2**29
_DIGITS = 256
_READERS = 256  # threads of a block that counts or prices, and how many numbers it reads
_CHUNK = 16384
_LONGEST = 2**30  # a count shares its word with two flags


class Shape(NamedTuple):
    """How numbers of a type are sorted: by blocks of `threads` that hold `items` keys each."""

    real: str
    key: str
    size: int  # bytes, and passes: a pass sorts by one byte
    threads: int
    items: int
    resident: int  # blocks on a multiprocessor; bounds the registers of a thread

    @property
    def tile(self) -> int:
        """Keys of a block."""
        return self.threads * self.items

    @property
    def shared(self) -> int:
        """Bytes of a block's keys, indices, counts of digits by warp and of the tile, and odd ends."""
        warps = self.threads // 32
        return self.tile * (self.size + 4) + 4 * _DIGITS * (warps + 1) + 8 * warps + 16


# float32 spills a dozen registers of a thread once a tile, which costs less than smaller tiles.
_SHAPES = {
    torch.float32: Shape("float", "unsigned int", 4, 384, 20, 2),
    torch.float64: Shape("double", "unsigned long long", 8, 384, 12, 2),
}


class Lines(NamedTuple):
    """Lines to be sorted in place, (rows, n), and room for the order of their samples if it is asked for."""

    values: Tensor
    order: Tensor | None  # (rows, n), int32

    def some(self, group: int, groups: int) -> Lines:
        """One of so many groups of these lines, as even as they can be."""
        rows = self.values.shape[0]
        part = slice(rows * group // groups, rows * (group + 1) // groups)
        return Lines(self.values[part], None if self.order is None else self.order[part])


def match_long(
    x: Tensor,
    y: Tensor,
    slices: Tensor,
    *,
    p: float,
    wanted: Wanted,
    y_sorted: Tensor | None,
    route: Route,
) -> Match:
    """`match_slices` of equal numbers of equally weighted samples, float32 or float64."""
    n, n_slices = x.shape[-2], slices.shape[-2]
    if n >= _LONGEST:
        return match_slices(x, y, slices, p=p, wanted=wanted, y_sorted=y_sorted)
    known = None if wanted.v else y_sorted
    batch = torch.broadcast_shapes(
        *(t.shape[:-2] for t in (x, y if known is None else known, slices))
    )
    # Projections are ours: they are sorted where they lie. Sorted lines that were given are only read.
    u = _rows(project(x, slices), batch)
    v = _rows(project(y, slices) if known is None else known, batch)
    u_order = torch.empty_like(u, dtype=torch.int32) if wanted.u else None
    v_order = torch.empty_like(v, dtype=torch.int32) if wanted.v else None
    _sort(Lines(u, u_order), Lines(v if known is None else v[:0], v_order), route)

    u_grad = x.new_empty(*batch, n_slices, n) if wanted.u else None
    v_grad = x.new_empty(*batch, n_slices, n) if wanted.v else None
    rows, chunks = math.prod(batch) * n_slices, -(-n // _CHUNK)
    sums = torch.empty(rows, chunks, dtype=torch.float64, device=x.device)
    # Which lines all of the batch share.
    sets = [lines.shape[0] // n_slices if n_slices else 1 for lines in (u, v)]
    _compiled("price_ranks", x.dtype, p, x.device, route)(
        rows * chunks,
        _READERS,
        [u, v, u_order, v_order, u_grad, v_grad, sums, n, n_slices, *sets, chunks],
    )
    costs = (sums.sum(dim=-1) / n).to(x.dtype).reshape(*batch, n_slices)
    return Match(costs, u_grad, v_grad, None, None)


def _rows(lines: Tensor, batch: tuple[int, ...]) -> Tensor:
    """(rows, n): the lines of every element of the batch, or those that all of them share."""
    if math.prod(lines.shape[:-2]) > 1:
        lines = lines.expand(*batch, *lines.shape[-2:])
    return lines.reshape(-1, lines.shape[-1]).contiguous()


def _sort(u: Lines, v: Lines, route: Route) -> None:
    """Sort lines in place, ties by index, and write down the order; a group of lines at a time."""
    n, size = u.values.shape[-1], u.values.element_size()
    lines = u.values.shape[0] + v.values.shape[0]
    if lines == 0:
        return
    groups = -(-lines * n * (size + 4) // SPARE_BYTES)
    groups = min(groups, max(u.values.shape[0], v.values.shape[0]))
    u_spare, v_spare = _spare(u, groups), _spare(v, groups)
    for group in range(groups):
        _sort_group(u.some(group, groups), v.some(group, groups), u_spare, v_spare, route)


def _spare(lines: Lines, groups: int) -> Lines:
    """Room for the largest group, to which odd passes go and from which even ones come back."""
    rows, n = lines.values.shape
    most = -(-rows // groups)
    values = lines.values.new_empty(most, n)
    order = None if lines.order is None else lines.order.new_empty(most, n)
    return Lines(values, order)


def _sort_group(u: Lines, v: Lines, u_spare: Lines, v_spare: Lines, route: Route) -> None:
    values, (u_rows, n) = u.values, u.values.shape
    shape, device = _SHAPES[values.dtype], values.device
    rows, passes = u_rows + v.values.shape[0], shape.size
    tiles, chunks = -(-n // shape.tile), -(-n // _CHUNK)
    sizes = [rows * passes * _DIGITS, rows * passes * _DIGITS * tiles, passes]
    totals, words, tickets = torch.zeros(sum(sizes), dtype=torch.int32, device=device).split(sizes)
    # Sorting does not depend on p: it is compiled as for 2.
    count = _compiled("count_digits", values.dtype, 2.0, device, route)
    count(rows * chunks, _READERS, [values, v.values, totals, n, u_rows, chunks])
    sweep = _compiled("sweep", values.dtype, 2.0, device, route)
    for number in range(passes):
        moves: list[Tensor | None] = []
        for here, there in ((u, u_spare), (v, v_spare)):
            source, target = (here, there) if number % 2 == 0 else (there, here)
            # At first a sample's index is its place.
            index = None if number == 0 else source.order
            moves += [source.values, target.values, index, target.order]
        sweep(
            rows * tiles,
            shape.threads,
            [*moves, totals, words, tickets, n, u_rows, rows, tiles, number],
            shape.shared,
        )


@functools.cache
def _compiled(
    name: str, dtype: torch.dtype, p: float, device: torch.device, route: Route
) -> Kernel:
    shape = _SHAPES[dtype]
    order = f"{p:g}" if p in (1.0, 2.0) else repr(p)
    settings = (
        f"typedef {shape.real} REAL;\ntypedef {shape.key} KEY;\n"
        f"constexpr int THREADS = {shape.threads};\nconstexpr int ITEMS = {shape.items};\n"
        f"constexpr int RESIDENT = {shape.resident};\nconstexpr int SHARED = {shape.shared};\n"
        f"constexpr int READERS = {_READERS};\nconstexpr int CHUNK = {_CHUNK};\n"
        f"#define ORDER {order}\n"
    )
    return kernel("radix.cu", name, settings, device, route)
