"""`match_slices` with NumPy alone, for a CPU without numba."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.kernels.cpu import as_rows, joint_shape, share
from slicewise.transport import Match, Wanted, project
from slicewise.transport import match_slices as plain_match_slices

Array = Any

_NO_ORDER = np.empty((0, 0), np.int64)


def match_by_numpy(
    x: Tensor,
    y: Tensor,
    slices: Tensor,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    *,
    p: float,
    wanted: Wanted = Wanted(),
    y_sorted: Tensor | None = None,
) -> Match:
    """`transport.match_slices` by NumPy, where it is the faster."""
    weighted = x_weights is not None or y_weights is not None
    if weighted or x.dtype != torch.float32 or x.shape[-2] != y.shape[-2]:
        return plain_match_slices(
            x, y, slices, x_weights, y_weights, p=p, wanted=wanted, y_sorted=y_sorted
        )
    known = y_sorted is not None and not wanted.v
    u = project(x, slices)
    v = y_sorted if known and y_sorted is not None else project(y, slices)
    shape = joint_shape(u, v)
    us, vs = as_rows(u, shape).numpy(), as_rows(v, shape).numpy()
    costs = np.empty(len(us), np.float32)

    def work(start: int, stop: int) -> None:
        _match(us[start:stop], vs[start:stop], known, p, wanted, costs[start:stop])

    share(work, len(us), each_ns=20.0 * us.shape[1])
    u_grad = torch.from_numpy(us).view(*shape, -1) if wanted.u else None
    v_grad = torch.from_numpy(vs).view(*shape, -1) if wanted.v else None
    return Match(torch.from_numpy(costs).view(shape), u_grad, v_grad, None, None)


def _match(u: Array, v: Array, v_is_sorted: bool, p: float, wanted: Wanted, costs: Array) -> None:
    """Price rows; gradients take the place of the projections."""
    u_sorted, u_order = _sort(u, wanted.u)
    v_sorted, v_order = (v, _NO_ORDER) if v_is_sorted else _sort(v, wanted.v)
    gap = np.subtract(u_sorted, v_sorted, out=u_sorted)
    if p == 2:
        np.einsum("rn,rn->r", gap, gap, out=costs)
        slope = gap
        slope *= np.float32(2 / u.shape[1])
    else:
        size = np.abs(gap)
        # Powers may leave the range: the value shows it, and is computed again in another unit.
        with np.errstate(over="ignore", under="ignore"):
            (size**p).sum(axis=1, out=costs)
            slope = np.sign(gap) * size ** (p - 1) * np.float32(p / u.shape[1])
    costs /= u.shape[1]
    if wanted.u:
        u.reshape(-1)[u_order] = slope.reshape(-1)
    if wanted.v:
        v.reshape(-1)[v_order] = -slope.reshape(-1)


def _sort(rows: Array, with_order: bool) -> tuple[Array, Array]:
    """Rows in stable order and, if wanted, the place in the whole array each value came from."""
    if not with_order:
        return np.sort(rows, axis=1), _NO_ORDER
    halves = np.empty((*rows.shape, 2), np.int32)  # of a little-endian int64: low, high
    halves[..., 0] = np.arange(rows.size, dtype=np.int32).reshape(rows.shape)
    halves[..., 1] = _mirrored((rows + np.float32(0)).view(np.int32))  # + 0: −0 is 0
    words = halves.view(np.int64)[..., 0]
    words.sort(axis=1)
    return _mirrored(halves[..., 1]).view(np.float32), (words & 0xFFFFFFFF).reshape(-1)


def _mirrored(bits: Array) -> Array:
    """Between the bits of a float and an integer of the same order: below zero they run backwards."""
    sign = bits >> 31
    sign &= 0x7FFFFFFF
    sign ^= bits
    return sign
