"""A batch of runs that advance together and end one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from slicewise.distance import Objective
from slicewise.flows.movers import Course
from slicewise.flows.replay import Replay
from slicewise.flows.stepping import Track, steps_in_a_row
from slicewise.flows.stopping import Ending, Hindsight, Status, Stopping, rows_of
from slicewise.problem import Instant, Moment, Problem, State, Subspace, graph_safe
from slicewise.sampling import RunSeeds

if TYPE_CHECKING:
    from slicewise.flows.loop import Stride

Snapshot = dict[str, Any]


class Passage(NamedTuple):
    """What a group tells of some steps."""

    ids: Tensor  # (W,), of the runs that were worked on
    loss: Tensor  # (S, W), NaN once a run has ended
    step: Tensor
    views: dict[int, Tensor]  # particles (R, n, d) of all its runs, after the steps asked for


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
        self.problem = problem  # of all R runs, as they began
        self.particles = problem.x  # (R, n, k), of all, as they were when they last changed hands
        self.status = torch.full((n_runs,), int(Status.FINISHED))
        self.steps = torch.zeros(n_runs, dtype=torch.int64)
        self._seeds = seeds
        self._objective = objective
        self._size = _size(problem)  # (R,)
        self._take(torch.arange(n_runs))
        self.state = course.start(self._problem, self._streams) | extra

    def _take(self, rows: Tensor) -> None:
        """Work on these runs from now on."""
        self.working = rows  # (W,)
        self.going = torch.ones(len(rows), dtype=torch.bool)  # (W,): some may have ended meanwhile
        self.n_alive = len(rows)
        self._streams = RunSeeds(self._seeds[rows], self.problem.x.device)
        whole = dataclasses.replace(self.problem, x=self.particles)
        self._problem = rows_of(whole, rows)
        self._hindsight = Hindsight(
            self._problem,
            self._streams,
            self._size[rows.to(self._size.device)],
            self.stopping,
            self._objective,
        )
        self._replay: Replay | None = None

    @property
    def alive(self) -> Tensor:
        """Rows of the runs that go on."""
        return self.working if self.n_alive == len(self.working) else self.working[self.going]

    @property
    def bytes_at_work(self) -> int:
        """How much particles and state take."""
        tensors = (self._problem.x, *self.state.values())
        return sum(t.numel() * t.element_size() for t in tensors)

    @property
    def replayable(self) -> bool:
        """Can steps be captured as a CUDA graph?"""
        return self._streams.counts_on_device and graph_safe(self.course)

    def advance(self, first: int, total: int, stride: Stride, looks: list[int]) -> Passage | None:
        """Some steps of all that are alive.

        `looks` are the steps, counted from here, after which the particles of all runs are wanted.
        """
        if self.n_alive == 0:
            return None
        rows = self.working
        self.steps = self.steps.index_fill(0, self.alive, first + stride.steps)
        numbers, tracks = self._made(first, total, stride)
        loss, step, said = numbers.cpu()  # (S, W) each: the one look at the device
        reasons = said.int()
        worth = [after - 1 for after in looks]
        if bool(reasons.any()):
            reasons = torch.where(self.going, reasons, 0)
            worth += torch.nonzero(reasons.any(dim=1)).flatten().tolist()
        endings: list[Ending] = []
        views = {}
        length = stride.length
        for place, track in tracks(sorted({i // length for i in worth})):
            begin = place * length
            these = slice(begin, begin + length)
            found = self._hindsight.endings(track, reasons[these], self.going, first + begin)
            ended = [e._replace(after=begin + e.after) for e in found]
            for after in looks:
                if begin < after <= begin + length:
                    x = track.xs[after - begin - 1]
                    views[after] = self._lifted(self._seen(x, after, endings + ended))
            self.going = self.going.index_fill(0, _rows(ended), False)
            self.n_alive -= len(ended)
            endings += ended
        if endings:
            self._end(endings, first)
        if endings or self.n_alive < len(self.going):
            made = (first + torch.arange(len(loss))).unsqueeze(-1) < self.steps[rows]  # (S, W)
            loss, step = (torch.where(made, numbers, torch.nan) for numbers in (loss, step))
        return Passage(self.ids[rows], loss, step, views)

    def _made(
        self, first: int, total: int, stride: Stride
    ) -> tuple[Tensor, Callable[[list[int]], Iterable[tuple[int, Track]]]]:
        """Make the steps: their numbers (3, S, W), and how to have the tracks of some parts of them."""
        if self._replay is not None and not stride.replays:
            self._set(self._replay.x.clone(), {k: t.clone() for k, t in self.state.items()})
            self._replay = None
        given = (self.course, self._problem, self._streams, self.state)
        if stride.replays:
            if self._replay is None or self._replay.length != stride.length:
                self._replay = Replay(*given, total, stride.length, stride.most, self._hindsight)
            numbers = self._replay.go(first, stride.replays)
            self._set(self._replay.x, self._replay.state)
            return numbers, self._replay.again

        def when(i: int) -> tuple[int, Moment]:
            return first + i, Instant(first + i, total)

        track = steps_in_a_row(*given, when, stride.length, self._hindsight)
        self._set(track.xs[-1], track.state)
        return track.numbers, lambda places: [(place, track) for place in places]

    def _set(self, x: Tensor, state: State) -> None:
        self._problem, self.state = dataclasses.replace(self._problem, x=x), state

    def _seen(self, x: Tensor, after: int, endings: list[Ending]) -> Tensor:
        """Particles (R, n, k) of all runs, those at work at x (W, n, k), so many steps from the last look."""
        moving = torch.nonzero(self.going).flatten()
        rows = self.working[moving].to(x.device)
        particles = self.particles.index_copy(0, rows, x[moving.to(x.device)])
        for ending in endings:
            if ending.after <= after:
                particles[self.working[ending.row]] = ending.x
        return particles

    def _end(self, endings: list[Ending], first: int) -> None:
        """Take out the runs that ended on a track."""
        rows = self.working[_rows(endings)]
        ended = torch.stack([ending.x for ending in endings])
        self.particles = self.particles.index_copy(0, rows.to(ended.device), ended)
        self.status = self.status.index_copy(0, rows, torch.tensor([e.status for e in endings]))
        after = torch.tensor([first + ending.after for ending in endings])
        self.steps = self.steps.index_copy(0, rows, after)
        # A graph is captured for one batch: runs that have ended stay in it, unheeded, while they are few.
        if self._replay is None or 2 * self.n_alive <= len(self.going):
            snapshot = self.snapshot()
            self.particles, self.state = _merged(snapshot), snapshot["state"]
            self._take(snapshot["alive"])

    def now(self) -> Tensor:
        """Particles (R, n, d) of all runs, in the coordinates they came in."""
        return self._lifted(_merged(self.snapshot()))

    def _lifted(self, particles: Tensor) -> Tensor:
        return particles if self.frame is None else self.frame.embed(particles)

    def snapshot(self) -> Snapshot:
        """Where the group is: nothing in it is ever written to again."""
        x, state = self._problem.x, self.state
        if self.n_alive < len(self.going):
            rows = torch.nonzero(self.going).flatten().to(x.device)
            x, state = x[rows], {k: t[rows] if t.dim() else t for k, t in state.items()}
        elif self._replay is not None:
            x, state = x.clone(), {k: t.clone() for k, t in state.items()}
        return {
            "alive": self.alive,
            "particles": self.particles,
            "moving": x,
            "status": self.status,
            "steps": self.steps,
            "state": state,
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
        self.status, self.steps = saved["status"], saved["steps"]
        self.state = {k: t.to(device) for k, t in saved["state"].items()}
        self._take(saved["alive"])


def _rows(endings: list[Ending]) -> Tensor:
    return torch.tensor([ending.row for ending in endings], dtype=torch.int64)


def _merged(snapshot: Snapshot) -> Tensor:
    """Particles of all runs, those that go on where they are now."""
    rows = snapshot["alive"].to(snapshot["particles"].device)
    return snapshot["particles"].index_copy(0, rows, snapshot["moving"])


def _size(problem: Problem) -> Tensor:
    """The largest coordinate among the samples of each run, (R,)."""
    x, y = (t.abs().amax(dim=(-2, -1)) for t in (problem.x, problem.y))
    size = torch.maximum(x, y.expand_as(x))
    return torch.where(size > 0, size, 1)
