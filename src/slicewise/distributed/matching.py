"""`match_slices` by several processes: each has a share of the samples, or takes a share of the slices."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.distributed.collectives import Ranks
from slicewise.support import broadcast
from slicewise.transport import (
    DEVICE_PIECE_BYTES,
    PIECE_BYTES,
    JointMatcher,
    Match,
    Matcher,
    Needs,
    Wanted,
    project,
    slices_in_a_piece,
)

# Arrays of the size of a rank's projections alive at once: its own, packed, received, joined, and the eight
# of the plain matcher.
_FOOTPRINT = 12


@dataclass(frozen=True, eq=False)
class Side:
    """The samples of one side over all ranks: how many each has, and the weights of all."""

    sizes: list[int]
    weights: Tensor | None = None  # (n,) or (*batch, n)

    @property
    def n(self) -> int:
        """All of them."""
        return sum(self.sizes)

    def of(self, rank: int) -> slice:
        """The places of a rank's samples among all."""
        start = sum(self.sizes[:rank])
        return slice(start, start + self.sizes[rank])


@dataclass(frozen=True, eq=False)
class ByProjections(JointMatcher):
    """Samples are shared out, and projections travel.

    Each rank projects its own samples; an all-to-all gives each rank *all* projections on *its* share of the
    slices, which it matches; a second one takes costs and slopes back to the samples they belong to. The
    backward pass is then every rank's own business and sends nothing.
    """

    ranks: Ranks
    x: Side
    y: Side
    inner: Matcher

    def __call__(
        self,
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
        """`transport.match_slices`: the costs of all slices, the slopes of this rank's samples."""
        counts = shares_of_slices(slices.shape[-2], self.ranks.size)
        u, v = self._sent_out(project(x, slices), project(y, slices), counts)
        return self._sent_back(self._matched(u, v, p, wanted), counts, wanted)

    def _sent_out(self, u: Tensor, v: Tensor, counts: list[int]) -> tuple[Tensor, Tensor]:
        """All projections (..., own slices, n) and (..., own slices, m) on this rank's slices."""
        own = counts[self.ranks.rank]
        pairs = zip(u.split(counts, dim=-2), v.split(counts, dim=-2), strict=True)
        parts = [torch.cat([one.reshape(-1), other.reshape(-1)]) for one, other in pairs]
        shapes = [
            ((*u.shape[:-2], own, n), (*v.shape[:-2], own, m))
            for n, m in zip(self.x.sizes, self.y.sizes, strict=True)
        ]
        found = self.ranks.exchange(parts, [math.prod(a) + math.prod(b) for a, b in shapes])
        lines = [unpacked(part, both) for part, both in zip(found, shapes, strict=True)]
        return torch.cat([a for a, _ in lines], dim=-1), torch.cat([b for _, b in lines], dim=-1)

    def _matched(self, u: Tensor, v: Tensor, p: float, wanted: Wanted) -> Match:
        """Lines are one-dimensional samples, for whatever matcher is the fastest."""
        along = u.new_ones(1, 1)
        a, b = (
            w if w is None or w.dim() == 1 else w.unsqueeze(-2)  # one row for all slices
            for w in (self.x.weights, self.y.weights)
        )
        if u.shape[-2] == 0:  # more ranks than slices
            given = [w.shape[:-1] for w in (self.x.weights, self.y.weights) if w is not None]
            batch = broadcast(u.shape[:-2], v.shape[:-2], *given)
            empty = [u.new_empty(*batch, 0, side.n) for side in (self.x, self.y) * 2]
            return Match(u.new_empty(*batch, 0), *empty)
        found = self.inner(u.unsqueeze(-1), v.unsqueeze(-1), along, a, b, p=p, wanted=wanted)
        lines = [None if t is None else t.squeeze(-2) for t in found[1:]]
        return Match(found.cost.squeeze(-1), *lines)

    def _sent_back(self, found: Match, counts: list[int], wanted: Wanted) -> Match:
        """The costs of all slices, and on them the slopes of this rank's samples that are wanted."""
        batch, rank = found.cost.shape[:-1], self.ranks.rank
        sides = [s for s, flag in zip((self.x, self.y) * 2, wanted, strict=True) if flag]
        slopes = [
            t.expand(*batch, *t.shape[-2:])
            for t, flag in zip(found[1:], wanted, strict=True)
            if t is not None and flag
        ]
        parts = [
            torch.cat(
                [found.cost.reshape(-1)]
                + [t[..., s.of(to)].reshape(-1) for t, s in zip(slopes, sides, strict=True)]
            )
            for to in range(self.ranks.size)
        ]
        shapes = [
            [(*batch, n_slices), *((*batch, n_slices, side.sizes[rank]) for side in sides)]
            for n_slices in counts
        ]
        back = self.ranks.exchange(parts, [sum(map(math.prod, some)) for some in shapes])
        pieces = [unpacked(part, some) for part, some in zip(back, shapes, strict=True)]
        return joined(pieces, wanted)

    def slices_in_a_piece(
        self,
        x: Tensor,
        y: Tensor,
        slices: Tensor,
        x_weights: Tensor | None,
        y_weights: Tensor | None,
    ) -> int:
        """By the largest share, which all ranks know: they must come to the same number."""
        given = [t.shape[:-2] for t in (x, y, slices)]
        given += [w.shape[:-1] for w in (x_weights, y_weights) if w is not None]
        elements = math.prod(broadcast(*given)) * (max(self.x.sizes) + max(self.y.sizes))
        room = PIECE_BYTES if x.device.type == "cpu" else DEVICE_PIECE_BYTES
        return max(self.ranks.size, room // (_FOOTPRINT * elements * x.element_size()))

    def swapped(self) -> ByProjections:
        """The same with x and y exchanged."""
        return ByProjections(self.ranks, self.y, self.x, self.inner)


@dataclass(frozen=True, eq=False)
class BySlices(JointMatcher):
    """Every rank has all samples: each matches its share of the slices, and tells the others."""

    ranks: Ranks
    inner: Matcher

    def __call__(
        self,
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
        """`transport.match_slices`, complete on every rank."""
        counts = shares_of_slices(slices.shape[-2], self.ranks.size)
        batches = [t.shape[:-2] for t in (x, y, slices)]
        batches += [w.shape[:-1] for w in (x_weights, y_weights) if w is not None]
        batch = broadcast(*batches)
        n, m = x.shape[-2], y.shape[-2]
        sizes = [size for size, flag in zip((n, m, n, m), wanted, strict=True) if flag]
        mine = x.new_empty(0)
        if counts[self.ranks.rank] > 0:
            own = slices.split(counts, dim=-2)[self.ranks.rank]
            found = self.inner(x, y, own, x_weights, y_weights, p=p, wanted=wanted)
            rows = [t for t, f in zip(found[1:], wanted, strict=True) if t is not None and f]
            whole = [t.expand(*batch, *t.shape[-2:]).reshape(-1) for t in rows]
            mine = torch.cat([found.cost.expand(*batch, -1).reshape(-1), *whole])
        shapes = [[(*batch, k), *((*batch, k, size) for size in sizes)] for k in counts]
        everyones = self.ranks.gathered(mine, [(sum(map(math.prod, some)),) for some in shapes])
        pieces = [unpacked(part, some) for part, some in zip(everyones, shapes, strict=True)]
        return joined(pieces, wanted)

    def slices_in_a_piece(
        self,
        x: Tensor,
        y: Tensor,
        slices: Tensor,
        x_weights: Tensor | None,
        y_weights: Tensor | None,
    ) -> int:
        """As many as the plain matcher takes: all ranks have the same samples, not the same backend."""
        inputs = (x, y, slices, x_weights, y_weights, self.inner, Needs(x_weights=True))
        return max(self.ranks.size, slices_in_a_piece(*inputs))

    def swapped(self) -> BySlices:
        """Itself: it knows no samples."""
        return self


def shares_of_slices(n_slices: int, n_ranks: int) -> list[int]:
    """How many successive slices each rank matches."""
    edges = [n_slices * rank // n_ranks for rank in range(n_ranks + 1)]
    return [stop - start for start, stop in itertools.pairwise(edges)]


def unpacked(
    part: Tensor, shapes: list[tuple[int, ...]] | tuple[tuple[int, ...], ...]
) -> list[Tensor]:
    """A flat message as the tensors it was made of."""
    pieces = part.split([math.prod(shape) for shape in shapes])
    return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def joined(pieces: list[list[Tensor]], wanted: Wanted) -> Match:
    """Costs and slopes of each rank's slices as those of all slices."""
    cost = torch.cat([piece[0] for piece in pieces], dim=-1)
    slopes = iter(torch.cat(rows, dim=-2) for rows in zip(*(p[1:] for p in pieces), strict=True))
    return Match(cost, *(next(slopes) if flag else None for flag in wanted))
