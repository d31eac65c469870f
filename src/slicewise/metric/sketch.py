"""A sketch of quantile functions: long sequences of numbers as short weighted ones, with an error bound."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Numbers per line added at a time, which bounds the memory that adding takes.
_AT_ONCE = 2**15


class Sketch:
    """The quantile functions of several sequences ("lines") that arrive piece by piece, in memory that does not grow.

    Level h holds up to `capacity` numbers per line, each of weight 2^h. A full level is sorted; the eighth at either
    end stays, where numbers are far apart; between them each pair of neighbors is replaced by its midpoint, which moves
    up a level. Nothing is random: equal streams give equal sketches, and sketches can be merged.

    The error is known from how far merging has moved the numbers. With moved_h(q) = Σ over pairs merged at level h of
    2^(h+1) (gap / 2)^q, each number moving once per level, W_p between a line and its sketch is at most

        Σ_h (moved_h(p) / n)^(1/p)      by Minkowski's inequality, and for p ≤ 2 also
        (Σ_h moved_h(2) / n)^(1/2)      since a midpoint is the mean of what it replaces: moves are uncorrelated,

    whatever the order of the numbers. Before any are seen it is at most `promise` times the range of the line.

    Args:
        state: All numbers of the sketch in one tensor, which can be sent to other processes; made by `empty`.
        n_lines: Number of lines.
        capacity: Numbers per line and level, even.
        levels: Number of levels.
        p: Order of the distance in which the error is bounded.

    Example:
        >>> sketch = Sketch.empty(n_lines=3, capacity=64)
        >>> sketch.add(torch.randn(3, 1000)); sketch.n, sketch.numbers()[0].shape
        (1000, torch.Size([3, 184]))
    """

    def __init__(self, state: Tensor, n_lines: int, capacity: int, levels: int, p: float) -> None:
        self.state, self.capacity, self.levels, self.p = state, capacity, levels, p
        self._tail = capacity // 8
        sizes = [1, levels, 2 * levels * n_lines, 2 * n_lines, levels * n_lines * capacity]
        count, fills, moved, ends, items = state.split(sizes)
        self._count, self._fills = count, fills
        self._moved = moved.view(2, levels, n_lines)  # to the powers p and 2
        self._ends = ends.view(2, n_lines)
        self._items = items.view(levels, n_lines, capacity)

    @classmethod
    def empty(
        cls,
        n_lines: int,
        capacity: int = 1024,
        levels: int = 24,
        p: float = 2,
        device: object = "cpu",
    ) -> Sketch:
        """Return an empty sketch with room for `capacity` · 2^(`levels` − 1) numbers per line, or more."""
        if capacity < 2 or capacity % 2:
            raise ValueError(f"capacity = {capacity}: give an even number of at least 2")
        size = 1 + levels + (2 * levels + 2 + levels * capacity) * n_lines
        state = torch.zeros(size, dtype=torch.float64, device=torch.device(str(device)))
        sketch = cls(state, n_lines, capacity, levels, p)
        sketch._ends[0], sketch._ends[1] = math.inf, -math.inf
        return sketch

    @property
    def n(self) -> int:
        """Number of numbers added to each line."""
        return int(self._count)

    def add(self, lines: Tensor) -> None:
        """Add numbers (n_lines, n)."""
        for piece in lines.detach().split(_AT_ONCE, dim=-1):
            if piece.shape[-1]:
                new = piece.to(self.state.dtype)
                self._count += new.shape[-1]
                self._ends[0] = torch.minimum(self._ends[0], new.amin(dim=-1))
                self._ends[1] = torch.maximum(self._ends[1], new.amax(dim=-1))
                self._push(0, new)

    def merge(self, other: Sketch) -> None:
        """Add the numbers of another sketch of the same shape."""
        self._count += other._count
        self._moved += other._moved
        self._ends[0] = torch.minimum(self._ends[0], other._ends[0])
        self._ends[1] = torch.maximum(self._ends[1], other._ends[1])
        for level, fill in enumerate(other._fills.tolist()):
            if fill:
                self._push(level, other._items[level, :, : int(fill)])

    def numbers(self) -> tuple[Tensor, Tensor]:
        """Return the numbers (n_lines, k) of the sketch and their weights (k,), which sum to one."""
        fills = [int(fill) for fill in self._fills.tolist()]
        kept = [self._items[level, :, :fill] for level, fill in enumerate(fills)]
        weights = [self.state.new_full((fill,), 2.0**level) for level, fill in enumerate(fills)]
        return torch.cat(kept, dim=-1), torch.cat(weights) / self._count

    def error(self) -> Tensor:
        """Return a bound (n_lines,) on W_p between each line and its sketch."""
        by_level, squares = self._moved / self._count  # (levels, n_lines) each
        bound = by_level.pow(1 / self.p).sum(dim=0)
        return torch.minimum(bound, squares.sum(dim=0).sqrt()) if self.p <= 2 else bound

    def ranges(self) -> Tensor:
        """Return the largest minus the smallest number of each line, (n_lines,)."""
        return self._ends[1] - self._ends[0]

    def _push(self, level: int, new: Tensor) -> None:
        fill, here, middles = int(self._fills[level]), self._items[level], []
        while new.shape[-1]:
            some, new = new.tensor_split([self.capacity - fill], dim=-1)
            here[:, fill : fill + some.shape[-1]] = some
            fill += some.shape[-1]
            if fill == self.capacity:
                middles.append(self._merge_pairs(level))
                fill = 2 * self._tail
        self._fills[level] = fill
        if middles:
            self._push(level + 1, torch.cat(middles, dim=-1))

    def _merge_pairs(self, level: int) -> Tensor:
        """The midpoints of neighbors in a full level; what stays is moved to its front."""
        if level + 1 == self.levels:
            raise ValueError(
                f"a sketch of capacity {self.capacity} with {self.levels} levels is full after {self.n} numbers a "
                f"line: give more levels"
            )
        tail, here = self._tail, _sorted(self._items[level])
        pairs = here[:, tail : self.capacity - tail].unflatten(-1, (-1, 2))
        half = (pairs[..., 1] - pairs[..., 0]) / 2
        squares = half.square().sum(dim=-1)
        powers = squares if self.p == 2 else half.pow(self.p).sum(dim=-1)
        self._moved[:, level] += 2.0 ** (level + 1) * torch.stack([powers, squares])
        middles = pairs[..., 0] + half
        self._items[level, :, : 2 * tail] = torch.cat(
            [here[:, :tail], here[:, self.capacity - tail :]], dim=-1
        )
        return middles


def promise(n: int, capacity: int, p: float) -> float:
    """Return a bound of the error of any sketch of n numbers per line, as a fraction of the line's range.

    Level h is full at most n / (3/4 · capacity · 2^h) times, and the gaps of one time add up to the range at most.

    Args:
        n: Numbers per line.
        capacity: As in `Sketch`.
        p: Order of the distance.

    Example:
        >>> round(promise(10**7, 1024, 1), 4), promise(1000, 1024, 1)
        (0.0182, 0.0)
    """
    levels = max(0, math.floor(math.log2(n / capacity)) + 1) if n else 0
    merged = capacity - 2 * (capacity // 8)
    bound = levels / 2 * (2 / merged) ** (1 / p)
    return min(bound, math.sqrt(levels / (2 * merged))) if p <= 2 else bound


def _sorted(rows: Tensor) -> Tensor:
    if rows.device.type != "cpu":
        return rows.sort(dim=-1).values
    rows = rows.clone()
    rows.numpy().sort(axis=1)  # vectorized, unlike torch's sort on the CPU
    return rows
