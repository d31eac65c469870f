"""A batch of runs that advance together and end one by one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from slicewise import sphere
from slicewise.gradient import Objective
from slicewise.judge import assignment, wasserstein, within
from slicewise.learn.courses import Advance, Course, sliced_distance
from slicewise.learn.seeds import RunSeeds
from slicewise.learned import State
from slicewise.problem import Problem
from slicewise.rules import moved, pull_of
from slicewise.subspace import Subspace


class Status(IntEnum):
    """How a run ended."""

    FINISHED = 0  # all its steps were made
    CONVERGED = 1
    DIVERGED = 2
    ASSIGNED = 3  # converged by the finish "assign", not by the flow


Snapshot = dict[str, Any]

# A particle this many times further out than any sample was at the start will not come back.
_LOST = 1e8


@dataclass(frozen=True)
class Stopping:
    """When a run may end before its last step; None: never for that reason."""

    w2: float | None  # exact W_2 at most this
    tolerance: float | None  # no particle is asked to go further than this share of the data's size
    assign: bool  # at the first stall, jump to the exact assignment


NEVER = Stopping(None, None, assign=False)


class Group:
    """Runs of one dimension k, alive or ended, in the coordinates they are worked in."""

    def __init__(
        self,
        problem: Problem,
        frame: Subspace | None,
        course: Course,
        seeds: Tensor,
        ids: Tensor,
        stopping: Stopping,
        objective: Objective,
        extra: State,
    ) -> None:
        self.frame, self.course, self.stopping = frame, course, stopping
        self.ids = ids  # (R,), which runs of the whole these are
        self.dimension = problem.d
        n_runs = len(ids)
        self.alive = torch.arange(n_runs)  # rows of those that go on
        self.problem = problem  # of all R runs, as they began
        self.particles = problem.x  # (R, n, k), of all
        self.status = torch.full((n_runs,), int(Status.FINISHED))
        self.steps = torch.zeros(n_runs, dtype=torch.int64)
        self._seeds = seeds
        self._objective = objective
        self._size = _size(problem)  # (R,)
        self._take(self.alive)
        self.state = course.start(self._problem, self._streams) | extra

    def _take(self, rows: Tensor) -> None:
        """Work on these runs from now on."""
        self.alive = rows
        self._streams = RunSeeds(self._seeds[rows], self.problem.x.device)
        whole = dataclasses.replace(self.problem, x=self.particles)
        self._problem = rows_of(whole, rows)

    def advance(self, t: int, progress: float) -> Advance | None:
        """One step of all that are alive; what it did, in the order of `alive` before the step."""
        if len(self.alive) == 0:
            return None
        problem = dataclasses.replace(self._problem, progress=progress)
        done = self.course.advance(problem, self._streams, t, self.state)
        self.state = done.state
        self._end(done, t + 1)
        return done

    def _end(self, done: Advance, steps: int) -> None:
        """Take out the runs that this step ended."""
        before, rows, stopping = self._problem.x, self.alive, self.stopping
        self.steps = self.steps.index_fill(0, rows, steps)
        size = self._size[rows]
        diverged = ~(done.x.abs().amax(dim=(-2, -1)) <= _LOST * size)  # NaN too
        if stopping == NEVER and not bool(diverged.any()):
            self._problem = dataclasses.replace(self._problem, x=done.x)
            return
        x = torch.where(diverged[:, None, None], before, done.x) if bool(diverged.any()) else done.x
        status = torch.where(diverged, int(Status.DIVERGED), -1)
        if stopping.tolerance is not None:
            reach = torch.linalg.vector_norm(done.move, dim=-1).amax(dim=-1)
            still = ~diverged & (reach <= stopping.tolerance * size)
            if bool(still.any()):
                still = still & self._seen_by_all(x, size, steps)
            status = torch.where(still, int(Status.CONVERGED), status)
        self._problem = dataclasses.replace(self._problem, x=x)
        if stopping.w2 is not None:
            self._judge(done, status)
        if stopping.assign:
            self._assign(status)
        ended = status >= 0
        if bool(ended.any()):
            self.particles = self.particles.index_copy(0, rows.to(x.device), self._problem.x)
            ended = ended.cpu()
            self.status = self.status.index_copy(0, rows[ended], status.cpu()[ended])
            self.state = {k: t[~ended] if t.dim() else t for k, t in self.state.items()}
            self._take(rows[~ended])

    def _seen_by_all(self, x: Tensor, size: Tensor, steps: int) -> Tensor:
        """Do fresh uniform slices have nowhere to go either? A variant's own may be blind to what is left."""
        assert self.stopping.tolerance is not None
        problem = dataclasses.replace(self._problem, x=x)
        runs, _, k = x.shape
        n_slices = max(50, 5 * k)
        slices = sphere.uniform((runs, n_slices, k), self._streams.at(steps, purpose=3), x.dtype)
        pull = pull_of(problem, slices, slices.new_full((runs, n_slices), 1 / n_slices))
        reach = torch.linalg.vector_norm(moved(pull), dim=-1).amax(dim=-1)
        return reach <= 100 * self.stopping.tolerance * size

    def _judge(self, done: Advance, status: Tensor) -> None:
        """End runs whose exact W_2 is small enough. The sliced loss only says whether a look is worth it."""
        assert self.stopping.w2 is not None
        n, p = self._problem.x.shape[-2], self._problem.p
        # No sliced W_p is above W_p, and that is at most n^(1/2 − 1/p) W_2 for p > 2. Ten times that: the
        # loss is where the step began, by now it may be a good deal less.
        seen = sliced_distance(done.loss.double(), self._problem, self._objective)
        near = seen <= 10 * n ** max(0.0, 1 / 2 - 1 / p) * self.stopping.w2
        for row in torch.nonzero(near & (status < 0)).flatten():
            one = rows_of(self._problem, row)
            if one.x_weights is None and one.y_weights is None and n == one.y.shape[-2]:
                close = within(one.x, one.y, self.stopping.w2)
            else:
                distance = wasserstein(
                    one.x, one.y, x_weights=one.x_weights, y_weights=one.y_weights
                )
                close = float(distance) <= self.stopping.w2
            if close:
                status[row] = int(Status.CONVERGED)

    def _assign(self, status: Tensor) -> None:
        for row in torch.nonzero((self.state["escaping"] > 0) & (status < 0)).flatten():
            one = rows_of(self._problem, row)
            jumped = one.y[assignment(one.x, one.y).to(one.y.device)]
            x = self._problem.x.index_copy(0, row.reshape(1), jumped.unsqueeze(0))
            self._problem = dataclasses.replace(self._problem, x=x)
            status[row] = int(Status.ASSIGNED)

    def now(self) -> Tensor:
        """Particles (R, n, d) of all runs, in the coordinates they came in."""
        particles = _merged(self.snapshot())
        return particles if self.frame is None else self.frame.lift(particles)

    def snapshot(self) -> Snapshot:
        """Where the group is, by reference: nothing in it is ever written to again."""
        return {
            "alive": self.alive,
            "particles": self.particles,
            "moving": self._problem.x,
            "status": self.status,
            "steps": self.steps,
            "state": self.state,
        }

    def saved(self, snapshot: Snapshot) -> Snapshot:
        """All that is needed to go on from a snapshot, as tensors."""
        saved = {name: snapshot[name] for name in ("alive", "status", "steps", "state")}
        saved["particles"] = _merged(snapshot)
        if self.frame is not None:
            saved |= {"basis": self.frame.basis, "mean": self.frame.mean}
        return saved

    def restore(self, saved: Snapshot) -> None:
        """Go on from what was `saved`."""
        device = self.particles.device
        self.particles = saved["particles"].to(device)
        self.alive, self.status, self.steps = (saved[k] for k in ("alive", "status", "steps"))
        self.state = {k: t.to(device) for k, t in saved["state"].items()}
        self._take(self.alive)


def _merged(snapshot: Snapshot) -> Tensor:
    """Particles of all runs, those that go on where they are now."""
    rows = snapshot["alive"].to(snapshot["particles"].device)
    return snapshot["particles"].index_copy(0, rows, snapshot["moving"])


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


def _size(problem: Problem) -> Tensor:
    """The largest coordinate among the samples of each run, (R,)."""
    x, y = (t.abs().amax(dim=(-2, -1)) for t in (problem.x, problem.y))
    size = torch.maximum(x, y.expand_as(x))
    return torch.where(size > 0, size, 1)
