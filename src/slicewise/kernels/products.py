"""Matrix products of the CPU: samples onto lines and gradients back, with threads of our own and only where they pay.

torch would use its threads for products that take microseconds, which is slower than one, and waits at a barrier for
each of them, also for one whose core another process has taken.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slicewise.kernels.threads import controlled, one_thread, share_pieces
from slicewise.support import broadcast

# Products up to this many operations are one piece: they take less than half a millisecond. Longer ones are cut into
# pieces of about so many; for 2048 samples of dimension 512 those run a tenth faster, on one thread too.
_WHOLE = 4e7
_PIECE = 2.5e7
_PER_NS = 80.0  # operations a nanosecond of one core, about
_STEP = 64  # rows or columns: pieces are multiples of it


def project(samples: Tensor, slices: Tensor) -> Tensor:
    """`transport.project`: slices (..., L, d) @ samples (..., n, d)ᵀ."""
    return multiply(slices, samples.mT)


def backproject(on_lines: Tensor, slices: Tensor, factor: Tensor | float) -> Tensor:
    """`transport.backproject`."""
    if isinstance(factor, Tensor):
        factor = factor.unsqueeze(-1)  # (..., L, 1)
    if on_lines.shape[-1] < slices.shape[-1]:
        return multiply((factor * on_lines).mT, slices)
    return multiply(on_lines.mT, factor * slices)


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """a (..., r, k) @ b (..., k, c).

    Its pieces depend on shapes alone, so that the result does not depend on who was there to help. Where torch has one
    thread, it is one product.
    """
    if torch.get_num_threads() == 1:
        return a @ b
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    elements, r, k, c = math.prod(batch), a.shape[-2], a.shape[-1], b.shape[-1]
    operations = 2.0 * elements * r * k * c
    if operations <= _WHOLE or not controlled():
        with one_thread():
            return a @ b
    out = torch.empty(*batch, r, c, dtype=a.dtype)
    left, right = (t.expand(*batch, *t.shape[-2:]).reshape(elements, *t.shape[-2:]) for t in (a, b))
    target = out.view(elements, r, c)
    # Divided along the longest of what the product has: elements of the batch, rows or columns.
    rows = elements if elements > 1 else max(r, c)

    def work(start: int, stop: int) -> None:
        if elements > 1:
            torch.bmm(left[start:stop], right[start:stop], out=target[start:stop])
        elif r >= c:
            torch.mm(left[0, start:stop], right[0], out=target[0, start:stop])
        else:
            torch.mm(left[0], right[0, :, start:stop], out=target[0, :, start:stop])

    each = operations / rows
    step = 1 if elements > 1 else _STEP
    size = step * max(1, round(_PIECE / (each * step)))
    share_pieces(
        lambda i: work(i * size, min(rows, (i + 1) * size)),
        -(-rows // size),
        each_ns=size * each / _PER_NS,
    )
    return out
