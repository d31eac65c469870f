"""When runs end: what a caller asks for, and the detection of ended runs.

Steps are made in blocks, on a CUDA device without reading any number back. Each block reports which steps of which
runs may have ended them; only those are examined, afterwards.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from slicewise.distance import Objective, distance_of_value
from slicewise.flows.stepping import Trajectory, furthest, largest
from slicewise.problem import Problem
from slicewise.sampling import RunSeeds, Stream, sphere
from slicewise.steps import moved, pull_of
from slicewise.support import renamed_arguments
from slicewise.transport import assignment, wasserstein, within


@renamed_arguments(stop_w2="w2", finish="assign")
@dataclass(frozen=True)
class Stopping:
    """When the runs of a flow may end before their last step.

    Args:
        w2: End a run once its exact W_2 is at most this (extra `exact`). None: never for that reason.
        tolerance: End a run once no sample is asked to move further than this, relative to the largest coordinate of
            the data, and fresh uniform slices agree. "auto" is 1e-9 for computed steps (1e-6 in float32) and None for
            given learning rates; None: never for that reason.
        assign: Solve one exact assignment when a run first stalls, and jump to its solution. Needs computed steps and
            equal numbers of samples of equal weight. The answer is then a solver's, not the flow's: do not compare
            objectives by such runs. They are marked in `Flow.assigned`.

    Raises:
        ValueError: If `w2` is not positive, or `tolerance` is negative.

    Example:
        >>> import slicewise as sw
        >>> x, y = torch.randn(2, 30, 2, dtype=torch.float64)
        >>> bool(sw.flow(x, y, seeds=0, stopping=sw.Stopping(w2=0.01)).w2 <= 0.01)
        True
    """

    w2: float | None = None
    tolerance: float | Literal["auto"] | None = "auto"
    assign: bool = False

    def __post_init__(self) -> None:
        if self.w2 is not None and not (isinstance(self.w2, (int, float)) and self.w2 > 0):
            raise ValueError(f"w2 = {self.w2!r}: give a positive distance, or None")
        number = isinstance(self.tolerance, (int, float)) and 0 <= self.tolerance < math.inf
        if self.tolerance is not None and self.tolerance != "auto" and not number:
            raise ValueError(
                f"tolerance = {self.tolerance}: give a number relative to the data's size, 'auto' or None"
            )
        if not isinstance(self.assign, bool):
            raise ValueError(f"assign = {self.assign!r}: give True or False")


class Outcome(IntEnum):
    """How a run ended, as the codes that tensors and stored states hold."""

    NOT_ENDED = 0
    ARRIVED = 1
    DIVERGED = 2
    ASSIGNED = 3  # arrived by `Stopping(assign=True)`, not by the flow


class RunEnd(NamedTuple):
    """The end of one run."""

    row: int  # of the batch being worked on
    after: int  # steps of the trajectory that the run made
    outcome: Outcome
    x: Tensor  # (n, k), its final particles


# A particle this many times further out than any sample was at the start will not come back.
_DIVERGENCE_FACTOR = 1e8
# Why a step of a run is to be examined, as bits.
_DIVERGED, _STILL, _NEAR, _STALLED = 1, 2, 4, 8


@dataclass(frozen=True, eq=False)
class EndDetector:
    """Finds the runs that have ended, among those being worked on."""

    problem: Problem  # x of any step; y and sample weights with R or shared
    seeds: RunSeeds
    size: Tensor  # (R,), the largest coordinate of the samples
    stopping: Stopping  # with its tolerance resolved to a number or None
    objective: Objective

    @property
    def tolerance(self) -> float | None:
        """The tolerance as a number."""
        assert self.stopping.tolerance != "auto"
        return self.stopping.tolerance

    def reasons(
        self, loss: Tensor, size: Tensor, reach: Tensor | None, escaping: Tensor | None
    ) -> Tensor:
        """Why to examine which steps of which runs, as bits, (S, R). Reads no number on the host.

        Args:
            loss: Loss of each step, (S, R).
            size: Largest coordinate of a particle at the end, (R,).
            reach: How far the particle that was asked to move furthest was asked to move, (S, R).
            escaping: How many steps of an escape are left, (S, R).
        """
        stopping = self.stopping
        n, d = self.problem.x.shape[-2:]
        reasons = (_DIVERGED * self._has_diverged(size)).unsqueeze(0)
        if len(loss) > 1:
            # The size is known at the end only. Before, the loss of the next step tells: uniform slices see a particle
            # that far out as at least this, and whatever comes near it is examined. So is NaN.
            seen = distance_of_value(loss[1:].double(), self.problem, self.objective)
            near = seen <= 1e-2 * _DIVERGENCE_FACTOR * self.size / math.sqrt(n * d)
            reasons = torch.cat([_DIVERGED * ~near, reasons])
        if reach is not None and self.tolerance is not None:
            reasons = reasons + _STILL * (reach <= self.tolerance * self.size)
        if stopping.w2 is not None:
            p = self.problem.p
            # No sliced W_p is above W_p, and that is at most n^(1/2 − 1/p) W_2 for p > 2. Ten times that: the loss
            # is from the start of the step, whose end may be a good deal nearer.
            seen = distance_of_value(loss.double(), self.problem, self.objective)
            near = seen <= 10 * n ** max(0.0, 1 / 2 - 1 / p) * stopping.w2
            reasons = reasons + _NEAR * near
        if escaping is not None:
            reasons = reasons + _STALLED * (escaping > 0)
        return reasons

    def ends(
        self, trajectory: Trajectory, reasons: Tensor, going: Tensor, first: int
    ) -> Iterator[RunEnd]:
        """The runs that end on a trajectory.

        Args:
            trajectory: S steps of R runs.
            reasons: Why to examine them, (S, R).
            going: The runs that had not ended before, (R,).
            first: The number of the trajectory's first step.
        """
        if bool((reasons & _DIVERGED).any()):
            # Some run has diverged: find out at which step.
            lost = torch.stack([self._has_diverged(largest(x)) for x in trajectory.xs])
            reasons = torch.where(lost.cpu() & going, reasons | _DIVERGED, reasons & ~_DIVERGED)
        ended = ~going
        for i in torch.nonzero(reasons.any(dim=1)).flatten().tolist():
            before = trajectory.start if i == 0 else trajectory.xs[i - 1]
            here = torch.where(ended, 0, reasons[i])
            for end in self._ends_at(here, trajectory.xs[i], before, i + 1, first + i + 1):
                ended[end.row] = True
                yield end

    def _has_diverged(self, largest: Tensor) -> Tensor:
        return ~(largest <= _DIVERGENCE_FACTOR * self.size)  # true of NaN as well

    def _ends_at(
        self, reasons: Tensor, x: Tensor, before: Tensor, after: int, steps: int
    ) -> Iterator[RunEnd]:
        """The runs that end at one step, given the reasons (R,) to examine them."""
        diverged = (reasons & _DIVERGED) > 0
        still = ((reasons & _STILL) > 0) & ~diverged
        if bool(still.any()):
            still = still & self._is_still(x, steps).cpu()
        for row in torch.nonzero(reasons).flatten().tolist():
            if diverged[row]:
                yield RunEnd(row, after, Outcome.DIVERGED, before[row].clone())
            elif still[row] or (reasons[row] & _NEAR and self._is_near(x, row)):
                yield RunEnd(row, after, Outcome.ARRIVED, x[row].clone())
            elif reasons[row] & _STALLED:
                one = self._one(x, row)
                jumped = one.y[assignment(one.x, one.y).to(one.y.device)]
                yield RunEnd(row, after, Outcome.ASSIGNED, jumped)

    def _is_still(self, x: Tensor, steps: int) -> Tensor:
        """Whether fresh uniform slices suggest no move either, (R,): a variant's own may not see what is left."""
        assert self.tolerance is not None
        problem = dataclasses.replace(self.problem, x=x)
        runs, _, k = x.shape
        n_slices = max(50, 5 * k)
        rng = self.seeds.at(steps, Stream.ARRIVAL_CHECK)
        slices = sphere.uniform((runs, n_slices, k), rng, x.dtype)
        pull = pull_of(problem, slices, slices.new_full((runs, n_slices), 1 / n_slices))
        return furthest(moved(pull)) <= 100 * self.tolerance * self.size

    def _is_near(self, x: Tensor, row: int) -> bool:
        """Whether the exact W_2 of a run is small enough."""
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
