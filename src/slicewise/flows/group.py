"""A batch of runs of one dimension that advance together and end one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from slicewise.distance import Objective
from slicewise.flows.movers import Mover
from slicewise.flows.replay import Replay
from slicewise.flows.stepping import Trajectory, make_steps
from slicewise.flows.stopping import EndDetector, Outcome, RunEnd, Scales, Stopping, rows_of
from slicewise.problem import Instant, Moment, Problem, State, Subspace, graph_safe
from slicewise.sampling import RunSeeds

if TYPE_CHECKING:
    from slicewise.flows.loop import StepPlan

Snapshot = dict[str, Any]
_SAVED = ("alive", "outcome", "n_steps", "partners", "jump", "state")


class StepRecord(NamedTuple):
    """What a group reports of S steps."""

    ids: Tensor  # (W,), of the runs that were worked on
    loss: Tensor  # (S, W), NaN once a run has ended
    step: Tensor  # (S, W)
    views: dict[int, Tensor]  # particles (R, n, d) of all its runs, after the steps asked for


@dataclass(frozen=True, eq=False)
class _Originals:
    """The samples of runs at work, in their original coordinates.

    It knows nothing of its group: a cycle of references would leave CUDA graphs to the garbage collector, which may free
    them while another one is captured, and so spoil that.
    """

    given: Problem
    frame: Subspace | None
    rows: Tensor  # (W,), of the runs at work

    def __call__(self, x: Tensor, row: int) -> tuple[Tensor, Tensor, Tensor]:
        """The start (n, d), the present particles (n, d) and the target (m, d) of a run."""
        place = int(self.rows[row])
        one, now = rows_of(self.given, torch.tensor(place)), x[row]
        if self.frame is not None:
            basis, mean = self.frame.basis, self.frame.mean
            basis = basis if basis.dim() == 2 else basis[place]
            mean = mean if mean.dim() == 1 else mean[place]
            now = dataclasses.replace(self.frame, basis=basis, mean=mean).embed(now)
        return one.x, now, one.y


class Group:
    """Runs of one dimension k, alive or ended, in the coordinates they are worked in."""

    def __init__(
        self,
        problem: Problem,
        given: Problem,
        frame: Subspace | None,
        mover: Mover,
        seeds: Tensor,
        ids: Tensor,
        stopping: Stopping,
        objective: Objective,
        extra: State,
    ) -> None:
        self.frame, self.mover, self.stopping = frame, mover, stopping
        self._given = given  # the problem in its original coordinates
        self.ids = ids  # (R,), which runs of the whole flow these are
        self.dimension = problem.d
        n_runs = len(ids)
        self.problem = problem  # of all R runs, at the start
        self.particles = problem.x  # (R, n, k), of all runs; up to date for those that have ended
        self.outcome = torch.zeros(n_runs, dtype=torch.int64)  # (R,), codes of `Outcome`
        self.n_steps = torch.zeros(n_runs, dtype=torch.int64)
        # (R, n), the target sample that each particle is, in runs that an assignment ended
        self.partners = torch.zeros(n_runs, problem.x.shape[-2] if stopping.assign else 0).long()
        self.jump = torch.zeros(
            n_runs, dtype=torch.float64
        )  # of those, how far particles were moved
        self._seeds = seeds
        self._objective = objective
        self._scales = Scales.of(problem)
        self._take(torch.arange(n_runs))
        self.state = mover.start(self._problem, self._streams) | extra

    def _take(self, rows: Tensor) -> None:
        """Work on these runs from now on."""
        self.working = rows  # (W,)
        self.going = torch.ones(len(rows), dtype=torch.bool)  # (W,), those that have not ended
        self.n_alive = len(rows)
        self._streams = RunSeeds(self._seeds[rows], self.problem.x.device)
        whole = dataclasses.replace(self.problem, x=self.particles)
        self._problem = rows_of(whole, rows)
        self._detector = EndDetector(
            self._problem,
            self._streams,
            self._scales.rows(rows),
            _Originals(self._given, self.frame, rows),
            self.stopping,
            self._objective,
        )
        self._replay: Replay | None = None

    @property
    def alive(self) -> Tensor:
        """Rows of the runs that have not ended."""
        return self.working if self.n_alive == len(self.working) else self.working[self.going]

    @property
    def bytes_at_work(self) -> int:
        """Memory of particles and state."""
        tensors = (self._problem.x, *self.state.values())
        return sum(t.numel() * t.element_size() for t in tensors)

    @property
    def replayable(self) -> bool:
        """Whether steps can be captured as a CUDA graph."""
        return self._streams.counts_on_device and graph_safe(self.mover)

    def advance(
        self, first: int, total: int, plan: StepPlan, looks: list[int]
    ) -> StepRecord | None:
        """Make some steps of all runs that have not ended; None if all have.

        `looks` are the steps, counted from here, after which the particles of all runs are wanted.
        """
        if self.n_alive == 0:
            return None
        rows = self.working
        self.n_steps = self.n_steps.index_fill(0, self.alive, first + plan.steps)
        numbers, trajectories = self._make_steps(first, total, plan)
        loss, step, bits = numbers.cpu()  # (S, W) each: the only time the device is waited for
        reasons = bits.int()
        examined = [after - 1 for after in looks]
        if bool(reasons.any()):
            reasons = torch.where(self.going, reasons, 0)
            examined += torch.nonzero(reasons.any(dim=1)).flatten().tolist()
        ends: list[RunEnd] = []
        views = {}
        length = plan.length
        for place, trajectory in trajectories(sorted({i // length for i in examined})):
            begin = place * length
            these = slice(begin, begin + length)
            found = self._detector.ends(trajectory, reasons[these], self.going, first + begin)
            ended = [e._replace(after=begin + e.after) for e in found]
            for after in looks:
                if begin < after <= begin + length:
                    x = trajectory.xs[after - begin - 1]
                    # At its last step an assigned run is still where sliced steps have brought it.
                    seen = [
                        end
                        for end in ends + ended
                        if end.after < after or (end.after == after and end.partners is None)
                    ]
                    views[after] = self._lifted(self._seen(x, seen), seen)
            self.going = self.going.index_fill(0, _rows(ended), False)
            self.n_alive -= len(ended)
            ends += ended
        if ends:
            self._end(ends, first)
        if ends or self.n_alive < len(self.going):
            made = (first + torch.arange(len(loss))).unsqueeze(-1) < self.n_steps[rows]  # (S, W)
            loss, step = (torch.where(made, numbers, torch.nan) for numbers in (loss, step))
        return StepRecord(self.ids[rows], loss, step, views)

    def _make_steps(
        self, first: int, total: int, plan: StepPlan
    ) -> tuple[Tensor, Callable[[list[int]], Iterable[tuple[int, Trajectory]]]]:
        """Make steps. Returns their numbers (3, S, W), and a function that gives the trajectories of some blocks."""
        if self._replay is not None and not plan.replays:
            self._set(self._replay.x.clone(), {k: t.clone() for k, t in self.state.items()})
            self._replay = None
        given = (self.mover, self._problem, self._streams, self.state)
        if plan.replays:
            if self._replay is None or self._replay.length != plan.length:
                self._replay = Replay(*given, total, plan.length, plan.most, self._detector)
            numbers = self._replay.run(first, plan.replays)
            self._set(self._replay.x, self._replay.state)
            return numbers, self._replay.rerun

        def when(i: int) -> tuple[int, Moment]:
            return first + i, Instant(first + i, total)

        trajectory = make_steps(*given, when, plan.length, self._detector)
        self._set(trajectory.xs[-1], trajectory.state)
        return trajectory.numbers, lambda places: [(place, trajectory) for place in places]

    def _set(self, x: Tensor, state: State) -> None:
        self._problem, self.state = dataclasses.replace(self._problem, x=x), state

    def _seen(self, x: Tensor, ends: list[RunEnd]) -> Tensor:
        """Particles (R, n, k) of all runs, given x (W, n, k) of those worked on and which of them have ended."""
        moving = torch.nonzero(self.going).flatten()
        rows = self.working[moving].to(x.device)
        particles = self.particles.index_copy(0, rows, x[moving.to(x.device)])
        for end in ends:
            particles[self.working[end.row]] = end.x
        return particles

    def _end(self, ends: list[RunEnd], first: int) -> None:
        """Take out the runs that have ended."""
        rows = self.working[_rows(ends)]
        ended = torch.stack([end.x for end in ends])
        self.particles = self.particles.index_copy(0, rows.to(ended.device), ended)
        self.outcome = self.outcome.index_copy(0, rows, torch.tensor([e.outcome for e in ends]))
        after = torch.tensor([first + end.after for end in ends])
        self.n_steps = self.n_steps.index_copy(0, rows, after)
        assigned = [end for end in ends if end.partners is not None]
        if assigned:
            partners = torch.stack([e.partners for e in assigned if e.partners is not None]).cpu()
            at = self.working[_rows(assigned)]
            self.partners = self.partners.index_copy(0, at, partners)
            jumps = torch.tensor([end.jump for end in assigned], dtype=torch.float64)
            self.jump = self.jump.index_copy(0, at, jumps)
        # A graph is captured for one batch: finished runs stay in it and are ignored until half of them have finished.
        if self._replay is None or 2 * self.n_alive <= len(self.going):
            snapshot = self.snapshot()
            self.particles, self.state = _merged(snapshot), snapshot["state"]
            self._take(snapshot["alive"])

    def now(self) -> Tensor:
        """Particles (R, n, d) of all runs, in their original coordinates."""
        return self._lifted(_merged(self.snapshot()))

    def _lifted(self, particles: Tensor, ends: Iterable[RunEnd] = ()) -> Tensor:
        """Particles (R, n, k) in their original coordinates, (R, n, d), with runs that are ending just now."""
        if self.frame is None:
            return particles
        lifted = self.frame.embed(particles)
        # Assigned particles are samples of the target, to the last bit.
        rows = torch.nonzero(self.outcome == Outcome.ASSIGNED).flatten().tolist()
        exact = [(row, self.partners[row]) for row in rows]
        exact += [(int(self.working[e.row]), e.partners) for e in ends if e.partners is not None]
        for row, partners in exact:
            target = rows_of(self._given, torch.tensor(row)).y
            lifted[row] = target[partners.to(target.device)]
        return lifted

    def snapshot(self) -> Snapshot:
        """Where the group is, in tensors that are never written to again."""
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
            "outcome": self.outcome,
            "n_steps": self.n_steps,
            "partners": self.partners,
            "jump": self.jump,
            "state": state,
        }

    def saved(self, snapshot: Snapshot) -> Snapshot:
        """All that is needed to continue from a snapshot, as tensors."""
        saved = {name: snapshot[name] for name in _SAVED}
        saved["particles"] = _merged(snapshot)
        if self.frame is not None:
            saved |= {"basis": self.frame.basis, "mean": self.frame.mean}
        return saved

    def restore(self, saved: Snapshot) -> None:
        """Continue from what was `saved`."""
        device = self.particles.device
        self.particles = saved["particles"].to(device)
        self.outcome, self.n_steps = saved["outcome"], saved["n_steps"]
        self.partners = saved["partners"]
        # States of earlier versions do not have it.
        self.jump = saved.get("jump", torch.full_like(self.jump, torch.nan))
        self.state = {k: t.to(device) for k, t in saved["state"].items()}
        self._take(saved["alive"])


def _rows(ends: list[RunEnd]) -> Tensor:
    return torch.tensor([end.row for end in ends], dtype=torch.int64)


def _merged(snapshot: Snapshot) -> Tensor:
    """Particles of all runs, up to date for those that have not ended."""
    rows = snapshot["alive"].to(snapshot["particles"].device)
    return snapshot["particles"].index_copy(0, rows, snapshot["moving"])
