"""`match_slices` on the CPU, many times faster than sorting with torch.

Imports numba, which takes half a second: only to be imported once it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.kernels import numba_price, numba_sort
from slicewise.kernels.rows import as_rows, joint_shape
from slicewise.kernels.threads import share
from slicewise.transport import Match, Wanted, project
from slicewise.transport import match_slices as plain_match_slices

Array = Any

# Up to this many samples NumPy's vectorised sort of packed words beats a radix sort.
_PACKED_UP_TO = 1024
# Words by precision, and the bits of a value's place in its row's range that survive arithmetic in it.
_WORDS = {torch.float32: (np.uint32, 32, 23), torch.float64: (np.uint64, 64, 52)}
_NO_WEIGHTS = np.empty((1, 0))


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
    """`transport.match_slices` through compiled kernels; gradients to weights by the plain version."""
    if wanted.u_weights or wanted.v_weights:
        return plain_match_slices(x, y, slices, x_weights, y_weights, p=p, wanted=wanted)
    u = project(x, slices)
    ordered = wanted.v or y_weights is not None  # must it be known which sample of y is which?
    known = y_sorted is not None and not ordered
    v = y_sorted if known and y_sorted is not None else project(y, slices)
    shape = joint_shape(u, v, x_weights, y_weights)
    u_rows = as_rows(u, shape)
    # A target shared by the whole batch is sorted once; gradients to it need a row for each.
    shared = v.dim() == 2 and len(shape) > 1 and not ordered
    v_rows = v.contiguous() if shared else as_rows(v, shape)
    if shared and not known:
        v_rows.numpy().sort(axis=1)
        known = True
    costs = torch.empty(u_rows.shape[0], dtype=u.dtype)
    a, b = _weights(x_weights, shape), _weights(y_weights, shape)
    _match_rows(u_rows, v_rows, known, a, b, p, wanted, costs)
    if len(shape) == 1:
        return Match(costs, u_rows if wanted.u else None, v_rows if wanted.v else None, None, None)
    u_grad = u_rows.view(*shape, -1) if wanted.u else None
    v_grad = v_rows.view(*shape, -1) if wanted.v else None
    return Match(costs.view(shape), u_grad, v_grad, None, None)


def _match_rows(
    u: Tensor,
    v: Tensor,
    v_is_sorted: bool,
    a: Array,
    b: Array,
    p: float,
    wanted: Wanted,
    costs: Tensor,
) -> None:
    """Price rows (rows, n) against rows (rows, m); gradients take the place of the projections."""
    us, vs, out = u.numpy(), v.numpy(), costs.numpy()
    rows, n, m = us.shape[0], us.shape[1], vs.shape[1]
    order_v = wanted.v or b.shape[1] > 0
    if max(n, m) > _PACKED_UP_TO:

        def radix(start: int, stop: int) -> None:
            numba_price.price_radix(
                us, vs, start, stop, v_is_sorted, a, b, p, wanted.u, wanted.v, out
            )

        share(radix, rows, keys=rows * (n + m))
        return
    word, size, precision = _WORDS[u.dtype]
    shift = max(1, (max(n, m) - 1).bit_length())
    # A little under the last level, so that rounding cannot carry into the next bit.
    levels = 2.0 ** min(precision, size - shift) * (1 - 2.0**-20)
    u_words = np.empty(us.shape, word)
    v_words = np.empty(vs.shape if order_v else (0, 0), word)

    def packed(start: int, stop: int) -> None:
        numba_sort.pack(us, u_words, start, stop, shift, levels)
        u_words[start:stop].sort(axis=1)
        if order_v:
            numba_sort.pack(vs, v_words, start, stop, shift, levels)
            v_words[start:stop].sort(axis=1)
        elif not v_is_sorted:
            vs[start:stop].sort(axis=1)
        numba_price.price_packed(
            us, u_words, vs, v_words, start, stop, (1 << shift) - 1, a, b, p, wanted.u, wanted.v, out
        )  # fmt: skip

    share(packed, rows, keys=rows * (n + m))


def _weights(weights: Tensor | None, shape: tuple[int, ...]) -> Array:
    """One row for all, or one for each element of the batch, in float64."""
    if weights is None:
        return _NO_WEIGHTS
    n = weights.shape[-1]
    rows = weights.detach().double()
    if weights.dim() > 1:
        rows = rows.expand(*shape[:-1], n)
    return rows.reshape(-1, n).contiguous().numpy()
