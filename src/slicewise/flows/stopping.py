"""How runs end, found out in hindsight: from a track of steps that were made without looking."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from slicewise.distance import Objective
from slicewise.flows.movers import sliced_distance
from slicewise.flows.stepping import Track, furthest, largest
from slicewise.problem import Problem
from slicewise.sampling import RunSeeds, sphere
from slicewise.steps import moved, pull_of
from slicewise.transport import assignment, wasserstein, within


class Status(IntEnum):
    """How a run ended."""

    FINISHED = 0  # all its steps were made
    CONVERGED = 1
    DIVERGED = 2
    ASSIGNED = 3  # converged by the finish "assign", not by the flow


# A particle this many times further out than any sample was at the start will not come back.
_LOST = 1e8


@dataclass(frozen=True)
class Stopping:
    """When a run may end before its last step; None: never for that reason."""

    w2: float | None  # exact W_2 at most this
    tolerance: float | None  # no particle is asked to go further than this share of the data's size
    assign: bool  # at the first stall, jump to the exact assignment


class Ending(NamedTuple):
    """One run's end."""

    row: int  # of the batch at work
    after: int  # steps of the track that were its own
    status: Status
    x: Tensor  # (n, k), where its particles stay


# Reasons to look closer at a step of a run, as bits.
_DIVERGED, _STILL, _NEAR, _STALLED = 1, 2, 4, 8


@dataclass(frozen=True, eq=False)
class Hindsight:
    """What is known of the runs at work, to tell which have ended."""

    problem: Problem  # x of any step; y and sample weights with R or shared
    seeds: RunSeeds
    size: Tensor  # (R,), the largest coordinate of the samples
    stopping: Stopping
    objective: Objective

    @property
    def wants_reach(self) -> bool:
        return self.stopping.tolerance is not None

    @property
    def wants_escaping(self) -> bool:
        return self.stopping.assign

    def reasons(
        self, loss: Tensor, size: Tensor, reach: Tensor | None, escaping: Tensor | None
    ) -> Tensor:
        """See `Watch`."""
        stopping = self.stopping
        n, d = self.problem.x.shape[-2:]
        reasons = (_DIVERGED * self._lost(size)).unsqueeze(0)
        if len(loss) > 1:
            # Sizes are measured in the end alone. Before, the loss of the next step tells: a particle that far out
            # is seen by uniform slices as at least this, and whoever comes near it is worth a look. NaN too.
            seen = sliced_distance(loss[1:].double(), self.problem, self.objective)
            near = seen <= 1e-2 * _LOST * self.size / math.sqrt(n * d)
            reasons = torch.cat([_DIVERGED * ~near, reasons])
        if reach is not None and stopping.tolerance is not None:
            reasons = reasons + _STILL * (reach <= stopping.tolerance * self.size)
        if stopping.w2 is not None:
            p = self.problem.p
            # No sliced W_p is above W_p, and that is at most n^(1/2 − 1/p) W_2 for p > 2. Ten times that:
            # the loss is where the step began, by now it may be a good deal less.
            seen = sliced_distance(loss.double(), self.problem, self.objective)
            near = seen <= 10 * n ** max(0.0, 1 / 2 - 1 / p) * stopping.w2
            reasons = reasons + _NEAR * near
        if escaping is not None:
            reasons = reasons + _STALLED * (escaping > 0)
        return reasons

    def endings(self, track: Track, reasons: Tensor, going: Tensor, first: int) -> Iterator[Ending]:
        """The runs that end on a track of steps from `first` on, by the reasons (S, R) found on it.

        `going` (R,) are those that had not ended before.
        """
        if bool((reasons & _DIVERGED).any()):
            # Someone is lost: see when.
            lost = torch.stack([self._lost(largest(x)) for x in track.xs]).cpu() & going
            reasons = torch.where(lost, reasons | _DIVERGED, reasons & ~_DIVERGED)
        ended = ~going
        for i in torch.nonzero(reasons.any(dim=1)).flatten().tolist():
            before = track.start if i == 0 else track.xs[i - 1]
            here = torch.where(ended, 0, reasons[i])
            for ending in self._at(here, track.xs[i], before, i + 1, first + i + 1):
                ended[ending.row] = True
                yield ending

    def _lost(self, largest: Tensor) -> Tensor:
        return ~(largest <= _LOST * self.size)  # NaN too

    def _at(
        self, reasons: Tensor, x: Tensor, before: Tensor, after: int, steps: int
    ) -> Iterator[Ending]:
        """The endings at one step, from the reasons (R,) to look."""
        diverged = (reasons & _DIVERGED) > 0
        still = ((reasons & _STILL) > 0) & ~diverged
        if bool(still.any()):
            still = still & self._seen_by_all(x, steps).cpu()
        for row in torch.nonzero(reasons).flatten().tolist():
            if diverged[row]:
                yield Ending(row, after, Status.DIVERGED, before[row].clone())
            elif still[row] or (reasons[row] & _NEAR and self._arrived(x, row)):
                yield Ending(row, after, Status.CONVERGED, x[row].clone())
            elif reasons[row] & _STALLED:
                one = self._one(x, row)
                jumped = one.y[assignment(one.x, one.y).to(one.y.device)]
                yield Ending(row, after, Status.ASSIGNED, jumped)

    def _seen_by_all(self, x: Tensor, steps: int) -> Tensor:
        """Do fresh uniform slices have nowhere to go either? A variant's own may be blind to what is left."""
        assert self.stopping.tolerance is not None
        problem = dataclasses.replace(self.problem, x=x)
        runs, _, k = x.shape
        n_slices = max(50, 5 * k)
        slices = sphere.uniform((runs, n_slices, k), self.seeds.at(steps, purpose=3), x.dtype)
        pull = pull_of(problem, slices, slices.new_full((runs, n_slices), 1 / n_slices))
        return furthest(moved(pull)) <= 100 * self.stopping.tolerance * self.size

    def _arrived(self, x: Tensor, row: int) -> bool:
        """Is the exact W_2 small enough? The sliced loss only said that a look is worth it."""
        assert self.stopping.w2 is not None
        one = self._one(x, row)
        a, b = one.x_weights, one.y_weights
        if a is None and b is None and one.x.shape[-2] == one.y.shape[-2]:
            return within(one.x, one.y, self.stopping.w2)
        return float(wasserstein(one.x, one.y, x_weights=a, y_weights=b)) <= self.stopping.w2

    def _one(self, x: Tensor, row: int) -> Problem:
        return rows_of(dataclasses.replace(self.problem, x=x), torch.tensor(row))


def rows_of(problem: Problem, rows: Tensor) -> Problem:
    """The problem of some runs: rows of what runs have each their own; what all share stays."""
    rows = rows.to(problem.x.device)

    def weights(tensor: Tensor | None) -> Tensor | None:
        return tensor if tensor is None or tensor.dim() == 1 else tensor[rows]

    return dataclasses.replace(
        problem,
        x=problem.x[rows],
        y=problem.y if problem.y.dim() == 2 else problem.y[rows],
        x_weights=weights(problem.x_weights),
        y_weights=weights(problem.y_weights),
    )
