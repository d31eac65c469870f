"""Value and gradient computed together, as a training step wants them: eagerly, or as one captured CUDA graph.

Nothing is recorded for autograd, and on a CPU torch keeps to one thread meanwhile: its threads wait actively for some
milliseconds after each operation, on the cores that our own threads sort and multiply on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from slicewise.distance import LARGEST, Graph, circumstances, graph_for
from slicewise.sampling import (
    Generators,
    Randomness,
    by_next_ticket,
    can_take_tickets,
    take_ticket,
    uniform,
)
from slicewise.support import full_precision, kernels_for, one_thread, share_pieces

# Nanoseconds of one core for a number of a slice that is drawn, and of a sample that is made ready, about.
_DRAW_NS, _READY_NS = 4.0, 1.5


class Pricing(NamedTuple):
    """How values (*batch,) and their gradient in x (*batch, n, d) are computed along slices (L, d)."""

    # From what `ready` makes of x, and slices.
    compute: Callable[[Any, Tensor], tuple[Tensor, Tensor]]
    key: tuple[Any, ...] | None  # that tells captured calls apart; None: not to be captured
    # What has to be done before slices are known, if anything; its result takes the place of x.
    ready: Callable[[Tensor], Any] | None = None

    def __call__(self, x: Tensor, slices: Tensor) -> tuple[Tensor, Tensor]:
        """Values and their gradient along slices that are known."""
        return self.compute(x if self.ready is None else self.ready(x), slices)

    def along(
        self, draw: Callable[[], Tensor], x: Tensor, numbers: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same along slices of so many numbers that are drawn, and those; on a CPU two threads share the work."""
        if self.ready is None or x.is_cuda:
            slices = draw()
            return *self(x, slices), slices
        drawn, made, ready = [x], [x], self.ready

        def work(k: int) -> None:
            if k == 0:
                drawn[0] = draw()
            else:
                made[0] = ready(x)

        share_pieces(work, 2, each_ns=(_DRAW_NS * numbers + _READY_NS * x.numel()) / 2)
        return *self.compute(made[0], drawn[0]), drawn[0]


class Found(NamedTuple):
    """What was computed: the mean over the batch, its gradient in x, and along which slices."""

    value: Tensor
    gradient: Tensor
    slices: Tensor


def evaluated(pricing: Pricing, x: Tensor, n_slices: int, generator: Generators) -> Found:
    """Draw slices; the mean over the batch, and its gradient in x."""
    shape = (n_slices, x.shape[-1])
    elements = math.prod(x.shape[:-2])

    def evaluate(static: Sequence[Tensor | None], rng: Randomness) -> list[Tensor]:
        given = static[0]
        assert given is not None
        with full_precision(given.device.type):
            value, gradient, slices = pricing.along(
                lambda: uniform(shape, rng, given.dtype), given, math.prod(shape)
            )
            if elements > 1:
                value, gradient = value.mean(), gradient.div_(elements)
        return [value.reshape(()), gradient, slices]

    if pricing.key is not None and generator is None and kernels_for(x) is not None:
        found = _replayed(pricing.key, evaluate, x, n_slices)
        if found is not None:
            return Found(*found)
    by_ticket = generator is None and can_take_tickets(x.device)
    rng = by_next_ticket(x.device, ()) if by_ticket else Randomness(generator, x.device)
    with torch.no_grad(), one_thread(x.device):
        return Found(*evaluate([x], rng))


def _replayed(key: tuple[Any, ...], evaluate: Any, x: Tensor, n_slices: int) -> list[Tensor] | None:
    """The same by a graph; None where there is none yet, where it would be too large, or another capture is under way."""
    lines = n_slices * math.prod(x.shape[:-1])
    if torch._C._cuda_isCurrentStreamCapturing() or max(lines, x.numel()) > LARGEST:
        return None
    with torch.cuda.device(x.device):
        whole = (*key, n_slices, x.shape, x.dtype, x.device, *circumstances(x.device))
        by_ticket = can_take_tickets(x.device)

        def make() -> Graph:
            return Graph(evaluate, [x], (), lines=lines, by_ticket=by_ticket)

        graph = graph_for(whole, make)
        if graph is None:
            return None
        return graph([x], take_ticket(x.device, 1) if by_ticket else None)


class Known(torch.autograd.Function):
    """A value whose gradient is known already; differentiated again, it is stated anew by `again(x, slices)`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, found: Found, again: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        ctx.save_for_backward(x)
        ctx.gradient, ctx.slices, ctx.again = found.gradient, found.slices, again
        return found.value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x,), (upstream,) = ctx.saved_tensors, grads
        gradient, recorded = ctx.gradient, torch.is_grad_enabled()
        if recorded or gradient is None:  # the latter: a second pass
            with torch.enable_grad():
                live = x if recorded else x.detach().requires_grad_()
                value = ctx.again(live, ctx.slices)
            found = torch.autograd.grad(value, live, upstream, create_graph=recorded)
            return *found, None, None
        # Handed over as it is: what kept it would have it copied.
        ctx.gradient = None
        with one_thread(gradient.device):
            if gradient.is_cuda:  # not in place: a captured backward pass may be replayed again
                gradient = gradient * upstream
            elif upstream.item() != 1:
                gradient.mul_(upstream)
            return gradient.to(x.dtype), None, None
