"""Matrix products of the CPU: samples onto lines and gradients back, with threads of our own and only where they pay.

torch would use its threads for products that take microseconds, which is slower than one, and waits at a barrier for
each of them, also for one whose core another process has taken.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slicewise.kernels.threads import allowed, controlled, one_thread, share_pieces
from slicewise.support import broadcast

# Products up to this many operations are one piece: they take less than half a millisecond. Longer ones are cut into so
# many pieces for each thread that torch may use, of at least so many operations: pieces of 512 columns cost the
# products of 2048 samples of dimension 512 one to four percent on one thread, pieces of 64 up to 16.
_WHOLE = 4e7
_PIECES_EACH, _PIECE = 2, 2.5e7
_PER_NS = 80.0  # operations a nanosecond of one core, about
_STEP = 64  # rows or columns: pieces are multiples of it


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """a (..., r, k) @ b (..., k, c).

    Its pieces depend on shapes and on how many threads torch may use, not on how many were there to help: the result
    is the same on a busy machine. Where torch has one thread, it is one product.
    """
    n_threads = allowed()
    if n_threads == 1:
        return a @ b
    if a.dim() == b.dim() == 2 and 2.0 * a.shape[0] * a.shape[1] * b.shape[1] <= _WHOLE:
        with one_thread():
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
    size = step * max(
        1, round(_PIECE / (each * step)), -(-rows // (_PIECES_EACH * n_threads * step))
    )
    share_pieces(
        lambda i: work(i * size, min(rows, (i + 1) * size)),
        -(-rows // size),
        each_ns=size * each / _PER_NS,
    )
    return out
