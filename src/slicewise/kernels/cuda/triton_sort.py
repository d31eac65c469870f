"""`match_slices` in Triton, for where no CUDA C++ can be compiled: single precision, short lines, p = 1 or 2."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from slicewise.support import broadcast
from slicewise.transport import Match, Wanted, project
from slicewise.transport import match_slices as plain

LARGEST = 1024  # Triton's sort is slow to compile, and to run, beyond


@triton.jit
def _sorted_words(line, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Numbers in order, each with its index in the lower half of a word; padding last."""
    index = tl.arange(0, BLOCK)
    value = tl.load(line + index, mask=index < n, other=0.0) + 0.0  # no negative zero
    bits = value.to(tl.int32, bitcast=True)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # in the order of the numbers
    word = (ordered.to(tl.int64) << 32) | index.to(tl.int64)
    return tl.sort(tl.where(index < n, word, 0x7FFFFFFFFFFFFFFF))


@triton.jit
def _number(word):  # type: ignore[no-untyped-def]
    ordered = (word >> 32).to(tl.int32)
    return (ordered ^ ((ordered >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def _match(  # type: ignore[no-untyped-def]
    u, v, costs, u_grad, v_grad, n,
    BLOCK: tl.constexpr, SQUARED: tl.constexpr, V_SORTED: tl.constexpr,
    WANT_U: tl.constexpr, WANT_V: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    rank = tl.arange(0, BLOCK)
    there = rank < n
    u_word = _sorted_words(u + row * n, n, BLOCK)
    if V_SORTED:
        v_sorted = tl.load(v + row * n + rank, mask=there, other=0.0)
        v_word = u_word
    else:
        v_word = _sorted_words(v + row * n, n, BLOCK)
        v_sorted = _number(v_word)
    gap = tl.where(there, _number(u_word) - v_sorted, 0.0)
    if SQUARED:
        cost = gap * gap
        slope = 2 * gap / n
    else:
        cost = tl.abs(gap)
        slope = tl.where(gap > 0, 1.0, tl.where(gap < 0, -1.0, gap)) / n
    tl.store(costs + row, tl.sum(cost) / n)
    if WANT_U:
        tl.store(u_grad + row * n + (u_word & 0xFFFFFFFF), slope, mask=there)
    if WANT_V:
        tl.store(v_grad + row * n + (v_word & 0xFFFFFFFF), -slope, mask=there)


def match_slices(
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
    """As `transport.match_slices`; what it does not know goes to plain torch."""
    n = x.shape[-2]
    equal = x_weights is None and y_weights is None and n == y.shape[-2]
    if not equal or n > LARGEST or p not in (1, 2) or x.dtype != torch.float32:
        return plain(x, y, slices, x_weights, y_weights, p=p, wanted=wanted, y_sorted=y_sorted)
    known = y_sorted if y_sorted is not None and not wanted.v else None
    u, v = project(x, slices), project(y, slices) if known is None else known
    batch = broadcast(u.shape[:-1], v.shape[:-1])
    u, v = (t.expand(*batch, n).contiguous() for t in (u, v))
    costs = u.new_empty(batch)
    u_grad = torch.empty_like(u) if wanted.u else None
    v_grad = torch.empty_like(v) if wanted.v else None
    block = max(16, 1 << (n - 1).bit_length())
    _match[(math.prod(batch),)](
        u, v, costs, u_grad if wanted.u else u, v_grad if wanted.v else v, n,
        BLOCK=block, SQUARED=p == 2, V_SORTED=known is not None,
        WANT_U=wanted.u, WANT_V=wanted.v, num_warps=4,
    )  # fmt: skip
    return Match(costs, u_grad, v_grad, None, None)
