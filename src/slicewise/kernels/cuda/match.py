"""`match_slices` by a CUDA kernel that sorts and prices a line in one block; longer lines go to `radix`."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicewise.kernels.cuda.compiler import Argument, Kernel, Route, kernel
from slicewise.support import broadcast
from slicewise.transport import Match, MovedPoints, PointsMatcher, RoundPoints, Wanted, project
from slicewise.transport import match_slices as plain

LARGEST = 4096  # numbers that one block sorts
# Up to this dimension samples are projected where they are sorted; beyond, a matrix product is faster.
_PROJECTED_HERE = 16
# From so many lines on the device is full anyway: fewer threads to a line do the same with less waiting.
_MANY_LINES = 500
# Up to so many samples and slices, projections in many dimensions are summed in parts.
_FEW = 128
# Shared memory that a block may have on every device.
_ANY_DEVICE = 48 * 1024
_TYPES = {
    torch.float32: ("float", "unsigned int", 4),
    torch.float64: ("double", "unsigned long long", 8),
}


@dataclass(frozen=True)
class CudaMatcher(PointsMatcher):
    """`match_slices` by kernels that are compiled by one route."""

    route: Route

    def __call__(self, *given: Tensor | None, **how: Any) -> Match:
        """See `match_slices`."""
        return match_slices(*given, **how, route=self.route)  # type: ignore[arg-type]


def match_slices(
    x: Tensor,
    y: Tensor,
    slices: Tensor,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    *,
    p: float,
    wanted: Wanted = Wanted(),
    y_sorted: Tensor | MovedPoints | RoundPoints | None = None,
    route: Route = "bindings",
) -> Match:
    """As `transport.match_slices`; what asks for gradients to weights in plain torch."""
    to_weights = (wanted.u_weights and x_weights is not None) or (
        wanted.v_weights and y_weights is not None
    )
    if to_weights or x.dtype not in _TYPES:
        if isinstance(y_sorted, MovedPoints | RoundPoints):
            points = y_sorted.on(slices)
            found = plain(x, y, slices, p=p, wanted=wanted, y_sorted=points.written_out())
            return found._replace(cost=found.cost + points.constant())
        return plain(x, y, slices, x_weights, y_weights, p=p, wanted=wanted, y_sorted=y_sorted)
    known = y_sorted if y_sorted is not None and not wanted.v and y_weights is None else None
    a, b = _alike(x_weights, y_weights)
    masses = masses_of(x, y, a, b)
    if not fits(x, max(x.shape[-2], y.shape[-2]), masses):
        from slicewise.kernels.cuda.radix import match_long

        lines = known.on(slices) if isinstance(known, RoundPoints) else known
        return match_long(x, y, slices, a, b, p=p, wanted=wanted, y_sorted=lines, route=route)
    return _match_short(x, y, slices, a, b, masses, p, wanted, known, route)


def masses_of(x: Tensor, y: Tensor, x_weights: Tensor | None, y_weights: Tensor | None) -> int:
    """How masses are counted: 0 for equal numbers of equal weights, 1 for unequal numbers, 2 for given weights."""
    if x_weights is not None or y_weights is not None:
        return 2
    return int(x.shape[-2] != y.shape[-2])


def fits(samples: Tensor, n: int, masses: int) -> bool:
    """Can one block sort and price a line with n numbers on its longer side, on the device of the samples?"""
    if n > LARGEST:
        return False
    padded, _ = _shape(n, 1)
    # What any device allows is not worth a question.
    needed = shared_bytes(samples.dtype, padded, masses)
    return needed <= _ANY_DEVICE or needed <= _most_shared(samples.device)


def shared_bytes(dtype: torch.dtype, padded: int, masses: int, moved: int = 0) -> int:
    """What a block of match.cu takes: both lines (and knots in their place), both in order, and odd ends.

    Against moved points one line, and no order of the other.
    """
    size = _TYPES[dtype][2]
    if moved:
        return 2 * padded * size + 4 * 32 * size
    lines = 2 * padded * (max(size, 8) if masses == 2 else size)
    ends = 4 * 32 * size
    if masses > 0:  # sums and costs by warp, and two flags
        ends += 3 * 32 * size + 2 * 32 * 4
    if masses == 2:
        ends += 4 * 32 * 8
    return lines + 2 * padded * size + ends


@functools.cache
def _most_shared(device: torch.device) -> int:
    properties: Any = torch.cuda.get_device_properties(device)
    return int(properties.shared_memory_per_block_optin)


def _alike(*weights: Tensor | None) -> list[Tensor | None]:
    """Weights in one precision that kernels know."""
    kinds = {w.dtype for w in weights if w is not None}
    if len(kinds) > 1 or not kinds <= set(_TYPES):
        return [None if w is None else w.double() for w in weights]
    return list(weights)


def _match_short(
    x: Tensor,
    y: Tensor,
    slices: Tensor,
    x_weights: Tensor | None,
    y_weights: Tensor | None,
    masses: int,
    p: float,
    wanted: Wanted,
    y_sorted: Tensor | MovedPoints | RoundPoints | None,
    route: Route,
) -> Match:
    (n, d), m, n_slices = x.shape[-2:], y.shape[-2], slices.shape[-2]
    law = y_sorted if isinstance(y_sorted, MovedPoints | RoundPoints) else None
    known = y_sorted if isinstance(y_sorted, Tensor) else None
    if isinstance(law, MovedPoints):
        known = law.loc
    elif isinstance(law, RoundPoints):
        known = law.mean
    given = (x, y if known is None else known, slices)
    weights = [w for w in (x_weights, y_weights) if w is not None]
    batch = broadcast(*(t.shape[:-2] for t in given), *(w.shape[:-1] for w in weights))
    rows = math.prod(batch) * n_slices
    here, parts = d <= _PROJECTED_HERE, 1
    if here:
        u, v = _sets(x, batch), _sets(y if known is None else known, batch)
        directions = _sets(slices, batch)
    else:
        parts = _parts_of(x, y, slices)
        u = _projected(x, slices, batch, parts)
        v = _projected(y, slices, batch, parts) if known is None else _sets(known, batch)
        directions = None
    costs = x.new_empty(*batch, n_slices)
    u_grad = x.new_empty(*batch, n_slices, n) if wanted.u else None
    v_grad = x.new_empty(*batch, n_slices, m) if wanted.v else None
    padded, items = _shape(max(n, m), rows)
    kind = weights[0].dtype if weights else None
    how = (x.dtype, padded, items, d if here else 0, parts, p, masses, kind, x.device, route)
    moved = 0 if law is None else 1 if isinstance(law, MovedPoints) else 2
    run, shared = _compiled("match_rows", *how, moved)
    if isinstance(law, RoundPoints) and directions is None:
        directions = _sets(slices, batch)
    shared_slices = directions is not None and directions.shape[0] == 1 and rows > n_slices
    flags = (int(shared_slices), int(known is not None))
    arguments: list[Argument] = [u, v, directions, costs, u_grad, v_grad]
    # What is given in parts is one set.
    sets = (1 if parts > 1 else u.shape[0], 1 if parts > 1 and known is None else v.shape[0])
    if law is not None:
        arguments[1] = law.points.contiguous()
    arguments += [n, n_slices, *sets, *flags]
    if masses > 0:
        arguments.append(m)
    if masses == 2:
        a, b = (None if w is None else weight_rows(w, batch) for w in (x_weights, y_weights))
        arguments += [a, b, *(0 if w is None else w.shape[0] for w in (a, b))]
    if isinstance(law, MovedPoints):
        arguments += [law.variance, v, _sets(law.scale.expand(law.loc.shape), batch)]
    elif isinstance(law, RoundPoints):
        arguments += [law.variance, v, law.width, d]
    run(rows, (padded // items) * (1 if known is not None else 2), arguments, shared)
    return Match(costs, u_grad, v_grad, None, None)


def weight_rows(weights: Tensor, batch: tuple[int, ...]) -> Tensor:
    """(sets, n): weights for each element of the batch, or one row for all of them."""
    return _sets(weights.detach().unsqueeze(-2), batch).squeeze(-2)


def _parts_of(x: Tensor, y: Tensor, slices: Tensor) -> int:
    """In how many parts to project. Few samples on few slices in many dimensions leave most of a device idle.

    A product for each stretch of the dimensions keeps it busy; the parts are added up where lines are sorted.
    """
    one = all(math.prod(t.shape[:-2]) == 1 for t in (x, y, slices))
    few = max(x.shape[-2], y.shape[-2], slices.shape[-2]) <= _FEW
    return _parts(x.shape[-1]) if one and few else 1


def _projected(samples: Tensor, slices: Tensor, batch: tuple[int, ...], parts: int) -> Tensor:
    """`project`, (sets, L, n), or in parts (parts, L, n) of the one set there is."""
    if parts == 1:
        return _sets(project(samples, slices), batch)
    (n, d), n_slices = samples.shape[-2:], slices.shape[-2]
    # (parts, L, d / parts)
    directions = slices.reshape(n_slices, parts, d // parts).transpose(0, 1)
    points = samples.reshape(n, parts, d // parts).transpose(0, 1)
    return torch.bmm(directions, points.mT)


@functools.cache
def _parts(d: int) -> int:
    """How many equal stretches of at least 48 dimensions d of them make, at most 48; from 512 on."""
    fitting = [p for p in range(1, 49) if d % p == 0 and d // p >= 48]
    return max(fitting) if d >= 512 else 1


def _sets(tensor: Tensor, batch: tuple[int, ...]) -> Tensor:
    """(sets, ..., ...) with one set for each element of the batch, or one for all of them."""
    if math.prod(tensor.shape[:-2]) > 1:
        tensor = tensor.expand(*batch, *tensor.shape[-2:])
    return tensor.reshape(-1, *tensor.shape[-2:]).contiguous()


def sort_rows(lines: Tensor, route: Route) -> Tensor:
    """Each line (..., n), n <= `LARGEST`, in order."""
    lines = lines.contiguous()
    n = lines.shape[-1]
    rows = lines.numel() // n
    padded, items = _shape(n, rows)
    how = (lines.dtype, padded, items, 0, 1, 2.0, 0, None, lines.device, route)
    run, shared = _compiled("sort_rows", *how)
    out = torch.empty_like(lines)
    run(rows, padded // items, [out, lines, n], shared)
    return out


def _shape(n: int, rows: int) -> tuple[int, int]:
    """The power of two that holds n numbers, and how many of them a thread holds."""
    padded = max(64, 1 << (n - 1).bit_length())
    items = 8 if rows >= _MANY_LINES else 4 if padded >= 256 else 2
    return padded, min(max(items, padded // 512), padded // 32)


@functools.cache
def _compiled(
    name: str,
    dtype: torch.dtype,
    padded: int,
    items: int,
    d: int,
    parts: int,
    p: float,
    masses: int,
    weight: torch.dtype | None,
    device: torch.device,
    route: Route,
    moved: int = 0,
) -> tuple[Kernel, int]:
    real, word, _ = _TYPES[dtype]
    shared = shared_bytes(dtype, padded, masses, moved)
    order = f"{p:g}" if p in (1.0, 2.0) else repr(p)
    settings = (
        f"typedef {real} REAL;\ntypedef {word} WORD;\nconstexpr int PADDED = {padded};\n"
        f"constexpr int ITEMS = {items};\nconstexpr int DIM = {d};\n#define ORDER {order}\n"
        f"#define MASSES {masses}\n#define MOVED {moved}\nconstexpr int SHARED = {shared};\nconstexpr int PARTS = {parts};\n"
    )
    if weight is not None:
        settings += f"typedef {_TYPES[weight][0]} WEIGHT;\n"
    return kernel("price.cu match.cu", name, settings, device, route), shared
