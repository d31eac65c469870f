"""`match_slices` on lines too long for one block: all of them sorted by radix, then priced.

Nothing waits for the device, and nothing depends on the order in which blocks run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from slicewise.kernels.cuda.compiler import Argument, Kernel, Route, kernel
from slicewise.kernels.cuda.match import masses_of, weight_rows
from slicewise.support import broadcast
from slicewise.transport import Match, MovedPoints, Wanted, match_slices, project

# What sorting may take beside the lines and their order (one line of each side at the least); more lines at
# once keep the device busier at the end of a pass.
SPARE_BYTES = 2**29
_DIGITS = 256
_READERS = 256  # threads of a block that counts or prices, and how many numbers it reads
_CHUNK = 16384
_MASS_CHUNK = 2048  # ranks whose masses a block adds
_CELLS = 8  # of a thread that prices a merge of quantiles
_LONGEST = 2**30  # a count shares its word with two flags
_WHOLE = 2.0**61  # the mass of all samples that have weights, as price.cu counts it


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
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    *,
    p: float,
    wanted: Wanted,
    y_sorted: Tensor | MovedPoints | None,
    route: Route,
) -> Match:
    """`match_slices` of lines of any length, float32 or float64; no gradients to weights."""
    n, m, n_slices = x.shape[-2], y.shape[-2], slices.shape[-2]
    moved = y_sorted if isinstance(y_sorted, MovedPoints) else None
    weights = (x_weights, y_weights)
    if max(n, m) >= _LONGEST:
        lines = y_sorted.written_out() if isinstance(y_sorted, MovedPoints) else y_sorted
        found = match_slices(x, y, slices, *weights, p=p, wanted=wanted, y_sorted=lines)
        return found if moved is None else found._replace(cost=found.cost + moved.constant())
    known = y_sorted.loc if isinstance(y_sorted, MovedPoints) else y_sorted
    known = None if wanted.v or y_weights is not None else known
    given = (x, y if known is None else known, slices)
    batch = broadcast(
        *(t.shape[:-2] for t in given), *(w.shape[:-1] for w in weights if w is not None)
    )
    # Projections are ours: they are sorted where they lie. Sorted lines that were given are only read.
    u = _rows(project(x, slices), batch)
    v = _rows(project(y, slices) if known is None else known, batch)
    u_ordered, v_ordered = wanted.u or x_weights is not None, wanted.v or y_weights is not None
    u_order = torch.empty_like(u, dtype=torch.int32) if u_ordered else None
    v_order = torch.empty_like(v, dtype=torch.int32) if v_ordered else None
    _sort(Lines(u, u_order), Lines(v if known is None else v[:0], v_order), route)

    u_grad = x.new_empty(*batch, n_slices, n) if wanted.u else None
    v_grad = x.new_empty(*batch, n_slices, m) if wanted.v else None
    rows = math.prod(batch) * n_slices
    # Which lines all of the batch share.
    sets = [lines.shape[0] // n_slices if n_slices else 1 for lines in (u, v)]
    masses = masses_of(x, y, x_weights, y_weights)
    run = functools.partial(
        _pricing,
        dtype=x.dtype,
        p=p,
        masses=masses,
        device=x.device,
        route=route,
        moved=moved is not None,
    )
    if masses == 0:
        chunks = -(-n // _CHUNK)
        sums = torch.empty(rows, chunks, dtype=torch.float64, device=x.device)
        arguments: list[Argument] = [u, v, u_order, v_order, u_grad, v_grad, sums]
        arguments += [n, n_slices, *sets, chunks]
        if moved is not None:
            arguments[1] = moved.points.contiguous()
            arguments += [v, _rows(moved.scale.expand(moved.loc.shape), batch)]
        run("price_ranks")(rows * chunks, _READERS, arguments)
        costs = sums.sum(dim=-1) / n
    else:
        tiles = -(-(n + m) // (_READERS * _CELLS))
        sums = torch.empty(rows, tiles, dtype=torch.float64, device=x.device)
        ends: list[Argument] = [None, None, None]
        if wanted.u or wanted.v:
            both = sums.new_empty(2, 2, rows, tiles)
            ends = [*both, torch.empty_like(both[0], dtype=torch.int32)]
        arguments = [u, v, u_order, v_order, u_grad, v_grad, sums, *ends, n, m, n_slices, *sets]
        arguments.append(tiles)
        if masses == 2:
            orders = (u_order, v_order)
            sides = [
                _knots(w, order, batch, n_slices, run)
                for w, order in zip(weights, orders, strict=True)
            ]
            arguments += [side.knots for side in sides] + [side.totals for side in sides]
            arguments += [side.knot_sets for side in sides] + [side.total_sets for side in sides]
        run("price_tiles")(rows * tiles, _READERS, arguments)
        if wanted.u or wanted.v:
            arguments = [u_order, v_order, u_grad, v_grad, *ends, n, m, n_slices, *sets]
            run("settle")(2 * rows, _READERS, [*arguments, rows, tiles])
        costs = sums.sum(dim=-1)
    costs = costs.to(x.dtype).reshape(*batch, n_slices)
    if moved is not None:
        costs = costs + moved.constant()
    return Match(costs, u_grad, v_grad, None, None)


class Knots(NamedTuple):
    """Where the ranks of one side end; nothing for equal weights."""

    knots: Tensor | None = None  # (rows, n), int64: of price.cu's WHOLE
    totals: Tensor | None = None  # (sets,), float64: sums of the weights
    knot_sets: int = 0
    total_sets: int = 0


def _knots(
    weights: Tensor | None,
    order: Tensor | None,
    batch: tuple[int, ...],
    n_slices: int,
    run: Callable[[str], Kernel],
) -> Knots:
    """Where ranks end, from the weights of samples and their order (rows, n) along each slice."""
    if weights is None or order is None:
        return Knots()
    wide = weight_rows(weights, batch).double()  # (sets, n)
    totals = wide.sum(dim=-1)
    shares = wide.div(totals.unsqueeze(-1)).clamp_(0, 1).nan_to_num_(0).mul_(_WHOLE).round_().long()
    n, chunks = order.shape[-1], -(-order.shape[-1] // _MASS_CHUNK)
    share_sets, order_sets = shares.shape[0], order.shape[0] // n_slices if n_slices else 1
    sets = max(share_sets, order_sets)
    rows = sets * n_slices
    sizes = (n, n_slices, share_sets, order_sets, chunks)
    sums = torch.empty(rows, chunks, dtype=torch.int64, device=order.device)
    run("sum_masses")(rows * chunks, _READERS, [shares, order, sums, *sizes])
    knots = torch.empty(rows, n, dtype=torch.int64, device=order.device)
    # Whole numbers: their running sum is exact in any order.
    up_to = sums.cumsum(dim=-1)
    run("lay_knots")(rows * chunks, _READERS, [knots, shares, order, up_to, *sizes])
    return Knots(knots, totals, sets, share_sets)


def _rows(lines: Tensor, batch: tuple[int, ...]) -> Tensor:
    """(rows, n): the lines of every element of the batch, or those that all of them share."""
    if math.prod(lines.shape[:-2]) > 1:
        lines = lines.expand(*batch, *lines.shape[-2:])
    return lines.reshape(-1, lines.shape[-1]).contiguous()


def _sort(u: Lines, v: Lines, route: Route) -> None:
    """Sort lines in place, ties by index, and write down the order; a group of lines at a time."""
    size = u.values.element_size()
    numbers = u.values.numel() + v.values.numel()
    if numbers == 0:
        return
    groups = -(-numbers * (size + 4) // SPARE_BYTES)
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
    values, (u_rows, n), (v_rows, m) = u.values, u.values.shape, v.values.shape
    shape, device = _SHAPES[values.dtype], values.device
    rows, passes = u_rows + v_rows, shape.size
    longest = max(n, m) if v_rows else n
    tiles, chunks = -(-longest // shape.tile), -(-longest // _CHUNK)
    sizes = [rows * passes * _DIGITS, rows * passes * _DIGITS * tiles, passes]
    totals, words, tickets = torch.zeros(sum(sizes), dtype=torch.int32, device=device).split(sizes)
    count = _sorting("count_digits", values.dtype, device, route)
    count(rows * chunks, _READERS, [values, v.values, totals, n, m, u_rows, chunks])
    sweep = _sorting("sweep", values.dtype, device, route)
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
            [*moves, totals, words, tickets, n, m, u_rows, rows, tiles, number],
            shape.shared,
        )


@functools.cache
def _sorting(name: str, dtype: torch.dtype, device: torch.device, route: Route) -> Kernel:
    shape = _SHAPES[dtype]
    settings = (
        f"typedef {shape.key} KEY;\n"
        f"constexpr int THREADS = {shape.threads};\nconstexpr int ITEMS = {shape.items};\n"
        f"constexpr int RESIDENT = {shape.resident};\nconstexpr int SHARED = {shape.shared};\n"
        f"constexpr int READERS = {_READERS};\nconstexpr int CHUNK = {_CHUNK};\n"
    )
    return kernel("radix.cu", name, settings, device, route, ("count_digits", "sweep"))


@functools.cache
def _pricing(
    name: str,
    dtype: torch.dtype,
    p: float,
    masses: int,
    device: torch.device,
    route: Route,
    moved: bool = False,
) -> Kernel:
    order = f"{p:g}" if p in (1.0, 2.0) else repr(p)
    settings = (
        f"typedef {_SHAPES[dtype].real} REAL;\n#define ORDER {order}\n#define MASSES {masses}\n"
        f"#define MOVED {int(moved)}\nconstexpr int READERS = {_READERS};\nconstexpr int CHUNK = {_MASS_CHUNK if masses else _CHUNK};\n"
        f"constexpr int CELLS = {_CELLS};\n"
    )
    tiles = ("price_tiles", "settle")
    group = (("price_ranks",), tiles, ("sum_masses", "lay_knots", *tiles))[masses]
    return kernel("price.cu ranks.cu", name, settings, device, route, group)
