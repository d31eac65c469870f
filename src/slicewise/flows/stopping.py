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
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from slicewise.distance import Objective, distance_of_value
from slicewise.flows.stepping import Trajectory, largest
from slicewise.laws import Law
from slicewise.problem import Problem, State
from slicewise.sampling import RunSeeds, Stream, sphere
from slicewise.steps import moved, pull_of
from slicewise.support import renamed_arguments
from slicewise.transport import match_samples, matched_distance, wasserstein, within


@renamed_arguments(stop_w2="w2", finish="assign")
@dataclass(frozen=True)
class Stopping:
    """When the runs of a flow may end before their last step.

    Args:
        w2: End a run once its exact W_2 is at most this (extra `exact`). None: never for that reason.
        tolerance: End a run once no sample is asked to move further than this times the spread of the target (the median
            distance of its samples to their median), fresh uniform slices agree, and W_2 is at most a thousandth of the
            spread (ten times the tolerance, if that is more). With n ≠ m or weights: once the loss no longer falls.
            "auto" is 1e-9 for computed steps (1e-6 in float32) and None for given learning rates; None: never for that
            reason.
        assign: Match samples to targets one by one when a run first stalls, and end there: particles then are the
            target's samples. Sliced steps bring all particles near in some dozens of steps, but then need a number that
            grows with n. "auto" does so wherever it can: computed steps, equal numbers of samples of equal weight, a
            `tolerance`, and slices that change from step to step. False keeps to sliced steps; use it to compare
            objectives. True raises an error where it is not possible.

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
    assign: bool | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        if self.w2 is not None and not (isinstance(self.w2, (int, float)) and self.w2 > 0):
            raise ValueError(f"w2 = {self.w2!r}: give a positive distance, or None")
        number = isinstance(self.tolerance, (int, float)) and 0 <= self.tolerance < math.inf
        if self.tolerance is not None and self.tolerance != "auto" and not number:
            raise ValueError(
                f"tolerance = {self.tolerance}: give a part of the target's spread, 'auto' or None"
            )
        if not (isinstance(self.assign, bool) or self.assign == "auto"):
            raise ValueError(f"assign = {self.assign!r}: give True, False or 'auto'")


class Outcome(IntEnum):
    """How a run ended, as the codes that tensors and stored states hold."""

    NOT_ENDED = 0
    ARRIVED = 1
    DIVERGED = 2
    ASSIGNED = 3  # arrived by an assignment, not by sliced steps
    MINIMUM = 4  # of a loss that in general cannot be zero: n ≠ m, or weights
    STALLED = 5  # at rest away from the target


class RunEnd(NamedTuple):
    """The end of one run."""

    row: int  # of the batch being worked on
    after: int  # steps of the trajectory that the run made
    outcome: Outcome
    x: Tensor  # (n, k), its final particles
    partners: Tensor | None = None  # (n,), the target sample each is, for a run that was assigned
    jump: float = 0.0  # root mean square of what the assignment moved


# A particle this many times further out than any sample was at the start will not come back.
_DIVERGENCE_FACTOR = 1e8
# A run has arrived only if its W_2 is at most this part of the target's spread.
_ARRIVED_WITHIN = 1e-3
# Steps cannot be told from none below some units in the last place of a coordinate.
_ULPS = 4
# What is matched to targets is the point this part of the way from a particle's start to where it is. Nearer to the
# start the whole way is shorter, nearer to the end the last jump.
_WAY = 0.25
# Why a step of a run is to be examined, as bits.
_DIVERGED, _STILL, _NEAR, _SIGNAL = 1, 2, 4, 8


@dataclass(frozen=True, eq=False)
class EndDetector:
    """Finds the runs that have ended, among those being worked on."""

    problem: Problem  # x of any step; y and sample weights with R or shared
    seeds: RunSeeds
    scales: Scales  # of the samples, one of each run
    original: Original
    stopping: Stopping  # with its tolerance resolved to a number or None, and `assign` to a bool
    objective: Objective

    @property
    def tolerance(self) -> float | None:
        """The tolerance as a number."""
        assert self.stopping.tolerance != "auto"
        return self.stopping.tolerance

    @property
    def one_to_one(self) -> bool:
        """Whether samples can be matched one to one, and the loss be zero."""
        return is_one_to_one(self.problem)

    def signal(self, state: State) -> Tensor | None:
        """What the mover's state says of an end, (R,): the runs where it is positive are examined. None: nothing."""
        if self.stopping.assign:
            # A loss of zero halves for ever.
            return torch.where(state["mark"] == 0, 1, state["escaping"])
        return state["settled"] if self.tolerance is not None and "settled" in state else None

    def reasons(
        self, loss: Tensor, size: Tensor, reach: Tensor | None, signal: Tensor | None
    ) -> Tensor:
        """Why to examine which steps of which runs, as bits, (S, R). Reads no number on the host.

        Args:
            loss: Loss of each step, (S, R).
            size: Largest coordinate of a particle at the end, (R,).
            reach: How far the particle that was asked to move furthest was asked to move, (S, R).
            signal: What `signal` gave after each step, (S, R).
        """
        stopping = self.stopping
        n, d = self.problem.x.shape[-2:]
        reasons = (_DIVERGED * self._has_diverged(size)).unsqueeze(0)
        if len(loss) > 1:
            # The size is known at the end only. Before, the loss of the next step tells: uniform slices see a particle
            # that far out as at least this, and whatever comes near it is examined. So is NaN.
            seen = distance_of_value(loss[1:].double(), self.problem, self.objective)
            near = seen <= 1e-2 * _DIVERGENCE_FACTOR * self.scales.largest / math.sqrt(n * d)
            reasons = torch.cat([_DIVERGED * ~near, reasons])
        if reach is not None and self.tolerance is not None:
            resolution = _ULPS * torch.finfo(self.problem.x.dtype).eps * self.scales.largest
            reasons = reasons + _STILL * (reach <= self.tolerance * self.scales.spread + resolution)
        if stopping.w2 is not None:
            p = self.problem.p
            # No sliced W_p is above W_p, and that is at most n^(1/2 − 1/p) W_2 for p > 2. Ten times that: the loss
            # is from the start of the step, whose end may be a good deal nearer.
            seen = distance_of_value(loss.double(), self.problem, self.objective)
            near = seen <= 10 * n ** max(0.0, 1 / 2 - 1 / p) * stopping.w2
            reasons = reasons + _NEAR * near
        if signal is not None:
            reasons = reasons + _SIGNAL * (signal > 0)
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
        return ~(largest <= _DIVERGENCE_FACTOR * self.scales.largest)  # true of NaN as well

    def _ends_at(
        self, reasons: Tensor, x: Tensor, before: Tensor, after: int, steps: int
    ) -> Iterator[RunEnd]:
        """The runs that end at one step, given the reasons (R,) to examine them."""
        diverged = (reasons & _DIVERGED) > 0
        still = ((reasons & _STILL) > 0) & ~diverged
        if bool(still.any()):
            still = still & self._is_still(x, steps).cpu()
        signaled = ((reasons & _SIGNAL) > 0) & ~diverged
        for row in torch.nonzero(reasons).flatten().tolist():
            if diverged[row]:
                yield RunEnd(row, after, Outcome.DIVERGED, before[row].clone())
            elif reasons[row] & _NEAR and self._is_near(x, row):
                yield RunEnd(row, after, Outcome.ARRIVED, x[row].clone())
            elif still[row]:
                yield self._end_of_still(x, row, after)
            elif signaled[row] and self.stopping.assign:
                yield self._assigned(x, row, after)
            elif signaled[row]:
                yield RunEnd(row, after, Outcome.MINIMUM, x[row].clone())

    def _end_of_still(self, x: Tensor, row: int, after: int) -> RunEnd:
        """The end of a run in which no particle is asked to move."""
        if not self.one_to_one:
            return RunEnd(row, after, Outcome.MINIMUM, x[row].clone())
        if self._has_arrived(x, row):
            return RunEnd(row, after, Outcome.ARRIVED, x[row].clone())
        if self.stopping.assign:
            return self._assigned(x, row, after)
        return RunEnd(row, after, Outcome.STALLED, x[row].clone())

    def _assigned(self, x: Tensor, row: int, after: int) -> RunEnd:
        """The end of a run by an assignment.

        Candidates are the targets near each particle. Among them, those are chosen that are near a point between where
        the particle began and where it is, up to a shift of all: of the matchings near the flow's end, one that also
        makes the whole way short.
        """
        start, now, y = self.original(x, row)
        shift = (now - start).median(dim=-2).values
        between = start + shift + _WAY * (now - start - shift)
        partners = match_samples(between, y, near=now).to(y.device)
        one = self._one(x, row)
        jump = float((now - y[partners]).double().square().sum(dim=-1).mean().sqrt())
        return RunEnd(row, after, Outcome.ASSIGNED, one.y[partners], partners, jump)

    def _is_still(self, x: Tensor, steps: int) -> Tensor:
        """Whether fresh uniform slices suggest no move either, (R,): a variant's own may not see what is left."""
        assert self.tolerance is not None
        runs, _, k = x.shape
        n_slices = max(50, 5 * k)
        rng = self.seeds.at(steps, Stream.ARRIVAL_CHECK)
        slices = sphere.uniform((runs, n_slices, k), rng, x.dtype)
        even = slices.new_full((runs, n_slices), 1 / n_slices)
        moves = moved(pull_of(dataclasses.replace(self.problem, x=x), slices, even))
        resolution = _ULPS * torch.finfo(x.dtype).eps * x.abs().amax(dim=-1)  # (R, n)
        allowed = 100 * self.tolerance * self.scales.spread.unsqueeze(-1) + resolution
        return (torch.linalg.vector_norm(moves, dim=-1, dtype=torch.float64) <= allowed).all(dim=-1)

    def _has_arrived(self, x: Tensor, row: int) -> bool:
        """Whether W_2 of a run is small against the spread of its target, in the coordinates that were given.

        An outlier can hide from the frame a run is worked in that the others have a spread at all.
        """
        _, now, y = self.original(x, row)
        resolution = _ULPS * torch.finfo(x.dtype).eps * float(y.double().norm(dim=-1).median())
        within = max(_ARRIVED_WITHIN, 10 * (self.tolerance or 0.0)) * float(spread_of(y))
        return matched_distance(now, y) <= within + resolution

    def _is_near(self, x: Tensor, row: int) -> bool:
        """Whether the exact W_2 of a run is small enough, in the coordinates that were given."""
        assert self.stopping.w2 is not None
        _, now, y = self.original(x, row)
        if self.one_to_one:
            return within(now, y, self.stopping.w2)
        one = self._one(x, row)
        a, b = one.x_weights, one.y_weights
        return float(wasserstein(now, y, x_weights=a, y_weights=b)) <= self.stopping.w2

    def _one(self, x: Tensor, row: int) -> Problem:
        return rows_of(dataclasses.replace(self.problem, x=x), torch.tensor(row))


class Original(Protocol):
    """Gives the samples of a run in the coordinates of the caller."""

    def __call__(self, x: Tensor, row: int) -> tuple[Tensor, Tensor, Tensor]:
        """Particles before the first step (n, d), particles now, target (m, d); x (R, n, k) of the runs at work."""
        ...


class Scales(NamedTuple):
    """How large the samples of each run are, (R,)."""

    largest: Tensor  # the largest coordinate
    spread: Tensor  # `spread_of` the targets

    @classmethod
    def of(cls, problem: Problem) -> Scales:
        """The scales of a problem with R runs; all positive."""
        x, y = problem.x, problem.y
        if problem.law is not None:
            frame = y if y.dim() > 2 else None
            return cls._of_law(x, problem.law, frame)
        largest = torch.maximum(*(t.abs().amax(dim=(-2, -1)).expand(len(x)) for t in (x, y)))
        spread = spread_of(y).expand(len(x))
        if bool((spread == 0).any()):  # the targets of a run are one point: the way to it counts
            both = torch.cat([x, y.expand(len(x), *y.shape[-2:])], dim=-2)
            spread = torch.where(spread > 0, spread, spread_of(both))
        return cls(torch.where(largest > 0, largest, 1), torch.where(spread > 0, spread, 1))

    @classmethod
    def _of_law(cls, x: Tensor, law: Law, frame: Tensor | None) -> Scales:
        mean, spread = law.mean_and_spread(x.shape[-1], frame)
        width = x.detach().abs().amax(dim=(-2, -1))
        # A law without a variance: what the particles span says as much as anything.
        spread = torch.where(spread.isfinite() & (spread > 0), spread.to(width), width)
        largest = torch.maximum(width, mean.abs().amax(dim=-1).to(width) + spread)
        one = torch.ones_like(width)
        return cls(*(torch.where(t > 0, t, one).expand(len(x)) for t in (largest, spread.double())))

    def rows(self, rows: Tensor) -> Scales:
        """Those of some runs."""
        return Scales(*(t[rows.to(t.device)] for t in self))


def spread_of(samples: Tensor) -> Tensor:
    """How far samples (..., n, d) typically are from their middle, (...), whatever a few outliers do, in float64.

    The median distance to the componentwise median; the mean one where more than half of them are one point.
    """
    gaps = (samples - samples.median(dim=-2, keepdim=True).values).double()
    unit = gaps.abs().amax(dim=(-2, -1), keepdim=True)  # so that no square is zero or infinite
    unit = torch.where(unit > 0, unit, 1)
    distances = torch.linalg.vector_norm(gaps / unit, dim=-1)
    middle = distances.median(dim=-1).values
    return torch.where(middle > 0, middle, distances.mean(dim=-1)) * unit[..., 0, 0]


def is_one_to_one(problem: Problem) -> bool:
    """Whether samples can be matched one to one: equal numbers, no weights. Else a distance in general cannot be zero."""
    equal = problem.x.shape[-2] == problem.y.shape[-2] and problem.law is None
    return equal and problem.x_weights is None and problem.y_weights is None


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
