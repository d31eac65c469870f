"""How many steps to make before looking at what they did."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import torch

from slicewise.learn.runs import Group

# Measured on one host: a replay costs so many seconds beside its steps, and capturing a step about this part of
# the time that making it by itself takes. From these follows the length that costs least.
_REPLAY = 1.5e-4
_CAPTURE = 1 / 8
_LONGEST = 96
# After so many steps at most one looks; the starts of all replays are kept that long.
_UNSEEN = 512
_KEPT_BYTES = 2**28
# Steps that are made one by one on a device, to see how long they take to launch.
_TRIALS = 2
# Steps left over by graphs are looked at in bunches, too: looking means waiting.
_BUNCH = 16


class Stride(NamedTuple):
    """What to do next: `replays` of a graph of `length` steps, or these steps one by one (0)."""

    length: int
    replays: int
    most: int = 1  # replays before a look, ever

    @property
    def steps(self) -> int:
        return self.length * max(1, self.replays)


class Pace:
    """One step at a time on a CPU; on a CUDA device many, captured as a graph where that is possible.

    How many does not change what the steps do, only when they are looked at. Looks become rarer as a flow
    goes on: who ends early is seen early.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_device = device.type == "cuda"
        self._trials = 0
        self._asked = 0.0
        self._graph: Stride | None = None

    def next(self, groups: list[Group], step: int, steps: int) -> Stride:
        """What to do from here."""
        left = steps - step
        if not self._on_device:
            return Stride(1, 0)
        if not all(group.replayable for group in groups):
            return Stride(1, 0)  # a part of a caller's own may not bear what a lost run becomes
        bunch = Stride(min(left, _BUNCH), 0)
        if self._trials <= _TRIALS:
            now = time.perf_counter()
            taken, self._asked = now - self._asked, now
            self._trials += 1
            if self._trials <= _TRIALS:
                return Stride(1, 0)
            self._graph = self._choose(groups, taken, left)
        if self._graph is None or left < self._graph.length:
            return bunch
        length, replays, most = self._graph
        self._graph = Stride(length, min(2 * replays, most), most)
        return Stride(length, min(replays, left // length), most)

    def _choose(self, groups: list[Group], taken: float, left: int) -> Stride | None:
        """A graph of such a length that few steps remain at the end; None where none would pay."""
        least = math.sqrt(left * _REPLAY / (_CAPTURE * max(taken, 1e-5)))
        longest = max(4, min(_LONGEST, int(least)))
        if left < 2 * longest:
            return None
        length = min(range(longest, longest // 2, -1), key=lambda length: left % length)
        kept = sum(group.bytes_at_work for group in groups)
        most = max(1, min(_UNSEEN // length, _KEPT_BYTES // max(kept, 1)))
        return Stride(length, 1, most)
