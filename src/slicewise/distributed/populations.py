"""The pools of several processes: what each sees of the samples of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from slicewise.distributed.collectives import Ranks
from slicewise.distributed.handshake import exchange_errors
from slicewise.distributed.matching import Side
from slicewise.problem import Population, SideName, index_at

Returned = TypeVar("Returned")


@dataclass(frozen=True, eq=False)
class Replicated(Population):
    """Every process has all samples: only what is drawn has to be agreed on."""

    ranks: Ranks

    def agreed(self, tensor: Tensor) -> Tensor:
        return _agreed(tensor, self.ranks, shared=False)

    def together(self, what: str, call: Callable[[], Returned]) -> Returned:
        return _together(self.ranks, what, call)


@dataclass(frozen=True, eq=False)
class Shards(Population):
    """Every process has a share of the samples, in the order of ranks."""

    ranks: Ranks
    x: Side
    y: Side

    def agreed(self, tensor: Tensor) -> Tensor:
        return _agreed(tensor, self.ranks, shared=True)

    def together(self, what: str, call: Callable[[], Returned]) -> Returned:
        return _together(self.ranks, what, call)

    def total(self, tensor: Tensor) -> Tensor:
        return summed(tensor, self.ranks)

    def largest_entry(self, tensor: Tensor) -> Tensor:
        # A share may be empty, and has no largest entry then.
        largest = tensor.new_zeros(*tensor.shape[:-2], 1, 1)
        return self.ranks.largest(super().largest_entry(tensor) if tensor.numel() else largest)

    def stacked(self, rows: Tensor) -> Tensor:
        n, d = rows.shape[-2:]
        if n > d:
            rows = torch.linalg.qr(rows, mode="r").R  # the same Gram matrix in d rows
        elif n < d:
            rows = torch.nn.functional.pad(rows, (0, 0, 0, d - n))
        return torch.cat(self.ranks.everyones(rows), dim=-2)

    def count(self, side: SideName, samples: Tensor) -> int:
        return self._side(side).n

    def at(self, side: SideName, samples: Tensor, weights: Tensor | None, level: Tensor) -> Tensor:
        all_of = self._side(side)
        own = all_of.of(self.ranks.rank)
        index = index_at(self.ranks.from_first(level), all_of.n, all_of.weights) - own.start
        n, d = samples.shape[-2:]
        here = samples.new_zeros(*level.shape, d)
        if n > 0:
            place = index.clamp(0, n - 1).unsqueeze(-1).expand(*level.shape, d)
            rows = samples.expand(*level.shape[:-1], n, d).gather(-2, place)
            mine = ((index >= 0) & (index < n)).unsqueeze(-1)
            here = torch.where(mine, rows, here)
        return self.ranks.total(here)  # one rank has it, the others add zero

    def swapped(self) -> Shards:
        return Shards(self.ranks, self.y, self.x)

    def _side(self, name: SideName) -> Side:
        return self.x if name == "x" else self.y


def _together(ranks: Ranks, what: str, call: Callable[[], Returned]) -> Returned:
    try:
        result = call()
    except Exception as trouble:  # of any kind: the others wait
        exchange_errors(ranks, f"{type(trouble).__name__}: {trouble}")
        raise
    for rank, error in enumerate(exchange_errors(ranks, "")):
        if error:
            raise ValueError(f"rank {rank} could not take part in the loss: {what} raised {error}")
    return result


def _agreed(tensor: Tensor, ranks: Ranks, *, shared: bool) -> Tensor:
    if tensor.requires_grad and torch.is_grad_enabled():
        return _Agreed.apply(tensor, ranks, shared)
    return ranks.from_first(tensor)


class _Agreed(torch.autograd.Function):
    """Rank 0's tensor. Where samples are shared out, gradients to it are added up over ranks."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, ranks: Ranks, shared: bool) -> Tensor:
        ctx.ranks, ctx.shared = ranks, shared
        return ranks.from_first(tensor)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        return ctx.ranks.total(grad) if ctx.shared else grad, None, None


def summed(tensor: Tensor, ranks: Ranks) -> Tensor:
    """The sum over ranks. What is computed from it must be the same on every rank: gradients are passed on as they are."""
    if tensor.requires_grad and torch.is_grad_enabled():
        return _Summed.apply(tensor, ranks)
    return ranks.total(tensor)


def handed_out(tensor: Tensor, ranks: Ranks) -> Tensor:
    """A tensor that all ranks have, for each to compute something of its own from: gradients are added up over ranks."""
    return _HandedOut.apply(tensor, ranks) if tensor.requires_grad else tensor


class _HandedOut(torch.autograd.Function):
    """The tensor as it is; the gradients of all ranks in the backward pass."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.ranks.total(grads[0]), None


class _Summed(torch.autograd.Function):
    """The sum over ranks. Each has all of the gradient to it, and passes on what its own share contributed."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, ranks: Ranks) -> Tensor:
        return ranks.total(tensor)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return grads[0], None


class Gathered(torch.autograd.Function):
    """The samples, or sample weights, of all ranks; the gradient of this rank's own comes back to it."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, ranks: Ranks, side: Side, dim: int) -> Tensor:
        ctx.own, ctx.dim = side.of(ranks.rank), dim
        shapes = []
        for n in side.sizes:
            shape = list(tensor.shape)
            shape[dim] = n
            shapes.append(tuple(shape))
        return torch.cat(ranks.gathered(tensor, shapes), dim=dim)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        own = grads[0].narrow(ctx.dim, ctx.own.start, ctx.own.stop - ctx.own.start)
        return own, None, None, None


class Amplified(torch.autograd.Function):
    """The value as it is, with a gradient so many times as large."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, times: int) -> Tensor:
        ctx.times = times
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return grads[0] * ctx.times, None
