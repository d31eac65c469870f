"""The loop of a flow: all groups of runs, step by step, and how many steps to make before reading their results."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from slicewise.flows.group import Group, StepRecord
from slicewise.flows.history import History
from slicewise.flows.setup import Runs
from slicewise.flows.stopping import Outcome
from slicewise.support import CheckpointFile, progress_bar
from slicewise.transport import wasserstein

# Measured on one host: a replay costs so many seconds beside its steps, and capturing a step about this part of the
# time that making it eagerly takes. From these follows the length that costs least.
_REPLAY_SECONDS = 1.5e-4
_CAPTURE_COST = 1 / 8
_LONGEST = 96
# Results are read after at most so many steps; the particles at the start of all replays are kept that long.
_MOST_UNREAD = 512
_KEPT_BYTES = 2**28
# Steps that are made one by one on a device, to measure how long they take to launch.
_TRIALS = 2
# Steps left over by graphs are made in blocks, too: reading a result means waiting for the device.
_EAGER_BLOCK = 16


class StepPlan(NamedTuple):
    """What to do next: `replays` of a graph of `length` steps, or with 0 replays `length` steps made eagerly."""

    length: int
    replays: int
    most: int = 1  # replays between two reads that are ever planned

    @property
    def steps(self) -> int:
        return self.length * max(1, self.replays)


class StepPlanner:
    """Plans one step at a time on a CPU; on a CUDA device many, captured as a graph where that is possible.

    How many does not change what the steps do, only when their results are read: rarely later in a flow, often at its
    start, so that runs that end early are noticed early.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_device = device.type == "cuda"
        self._trials = 0
        self._last_time = 0.0
        self._graph: StepPlan | None = None

    def next(self, groups: list[Group], step: int, steps: int) -> StepPlan:
        """The plan for the next steps, of `steps` in all, after `step` were made."""
        left = steps - step
        if not self._on_device:
            return StepPlan(1, 0)
        if not all(group.replayable for group in groups):
            return StepPlan(1, 0)  # a caller's own part may fail on the NaN of a diverged run
        eager = StepPlan(min(left, _EAGER_BLOCK), 0)
        if self._trials <= _TRIALS:
            now = time.perf_counter()
            taken, self._last_time = now - self._last_time, now
            self._trials += 1
            if self._trials <= _TRIALS:
                return StepPlan(1, 0)
            self._graph = self._choose(groups, taken, left)
        if self._graph is None or left < self._graph.length:
            return eager
        length, replays, most = self._graph
        self._graph = StepPlan(length, min(2 * replays, most), most)
        return StepPlan(length, min(replays, left // length), most)

    def _choose(self, groups: list[Group], taken: float, left: int) -> StepPlan | None:
        """A graph of such a length that few steps remain at the end; None if none would pay off."""
        least = math.sqrt(left * _REPLAY_SECONDS / (_CAPTURE_COST * max(taken, 1e-5)))
        longest = max(4, min(_LONGEST, int(least)))
        if left < 2 * longest:
            return None
        length = min(range(longest, longest // 2, -1), key=lambda length: left % length)
        kept = sum(group.bytes_at_work for group in groups)
        most = max(1, min(_MOST_UNREAD // length, _KEPT_BYTES // max(kept, 1)))
        return StepPlan(length, 1, most)


class FlowLoop:
    """All runs of one call, their history, and where they are."""

    def __init__(self, runs: Runs, groups: list[Group], history: History, identity: str) -> None:
        self.runs, self.groups, self.history = runs, groups, history
        self._identity = identity
        self._step = 0
        self._seconds = 0.0
        self._planner = StepPlanner(runs.problem.x.device)
        self._boundary = self._mark()

    def run(self, steps: int, checkpoint: CheckpointFile | None, show_bar: bool | None) -> None:
        """Continue to this many steps, or until every run has ended."""
        self._clock = time.perf_counter() - self._seconds
        self._observe()
        with progress_bar(steps, show_bar) as tick:
            try:
                while self._step < steps and self._alive():
                    self._advance(steps)
                    tick(self._step, f"{self._alive()} of {len(self.runs.seeds)} runs")
                    if checkpoint is not None:
                        self._boundary = self._mark()
                        if checkpoint.due():
                            checkpoint.save_if_possible(self.saved(), self._identity)
            finally:
                # An interrupt, too, leaves a state to resume from: that of the last whole step.
                if checkpoint is not None:
                    checkpoint.save_if_possible(self.saved(), self._identity)
        self._boundary = self._mark()
        for step in (*self.history.w2_at, *self.history.particles_at):
            if self._step < step <= steps:  # every run ended before, and stays where it is
                self._observe(step)

    def _alive(self) -> int:
        return sum(group.n_alive for group in self.groups)

    def _advance(self, steps: int) -> None:
        plan = self._planner.next(self.groups, self._step, steps)
        length = plan.steps
        wanted = (*self.history.w2_at, *self.history.particles_at)
        # What is looked at after the last of these steps is recorded below, but for runs that an assignment ends there.
        last = any(group.stopping.assign for group in self.groups)
        looks = sorted({s - self._step for s in wanted if 0 < s - self._step < length + last})
        views = {after: self.particles() for after in looks}
        before = self._seconds
        records = []
        for group in self.groups:
            done = group.advance(self._step, steps, plan, looks)
            if done is None:
                continue
            records.append(done)
            for after, particles in done.views.items():
                views[after][group.ids.to(particles.device)] = particles
        self._seconds = time.perf_counter() - self._clock
        if not self._alive():  # all have ended, perhaps some steps ago
            length = max(int(group.n_steps.max()) for group in self.groups) - self._step
        self._record(records, length, before)
        for after, particles in views.items():
            if after > length:
                continue  # recorded at the end: the particles stay where they are
            self._observe(self._step + after, self._with_absent(particles))
        self._step += length
        self._observe()

    def _record(self, records: list[StepRecord], length: int, before: float) -> None:
        """Add what the groups report of some steps to the history."""
        n_runs, dtype = len(self.runs.seeds), self.runs.problem.x.dtype
        if len(records) == 1 and len(records[0].ids) == n_runs:  # all runs, in order
            loss, size = records[0].loss[:length], records[0].step[:length]
        else:
            loss, size = (torch.full((length, n_runs), torch.nan, dtype=dtype) for _ in range(2))
            for done in records:
                loss[:, done.ids] = done.loss[:length].to(dtype)
                size[:, done.ids] = done.step[:length].to(dtype)
        seconds = torch.full((1, n_runs), self._seconds, dtype=dtype)
        if length > 1:
            share = torch.arange(1, length + 1).unsqueeze(-1) / length
            seconds = (before + share * (self._seconds - before)).to(dtype).expand(-1, n_runs)
        self.history.add(loss=loss, step=size, seconds=seconds)

    def _mark(self) -> dict[str, Any]:
        """Where everything is between two steps, without copies: an interrupt may come in the middle of one."""
        return {
            "step": self._step,
            "seconds": self._seconds,
            "groups": [group.snapshot() for group in self.groups],
            "history": self.history.mark(),
        }

    def _observe(self, step: int | None = None, particles: Tensor | None = None) -> None:
        """Record what was asked for after this many steps, of the given particles or the present ones."""
        step = self._step if step is None else step
        if step not in self.history.particles_at and step not in self.history.w2_at:
            return
        particles = self.particles() if particles is None else particles
        if step in self.history.particles_at and not self.history.has("particles", step):
            self.history.keep("particles", step, particles.cpu())
        if step in self.history.w2_at and not self.history.has("w2", step):
            problem = self.runs.problem
            a, b = problem.x_weights, problem.y_weights
            left = wasserstein(particles, problem.y, x_weights=a, y_weights=b)
            lost = self.whole("outcome") == Outcome.DIVERGED
            lost &= self.whole("n_steps") <= step
            self.history.keep("w2", step, torch.where(lost, torch.inf, left))

    def particles(self) -> Tensor:
        """All particles, (R, n, d), in their original coordinates."""
        particles = torch.empty_like(self.runs.problem.x)
        for group in self.groups:
            particles[group.ids.to(particles.device)] = group.now()
        return self._with_absent(particles)

    def _with_absent(self, particles: Tensor) -> Tensor:
        if self.runs.absent is None:
            return particles
        there, given = self.runs.absent  # samples of weight zero do not move
        return torch.where(there, particles, given)

    def whole(self, name: str) -> Tensor:
        """A number that groups have of each run, for all runs, (R,)."""
        numbers = None
        for group in self.groups:
            own = torch.as_tensor(getattr(group, name))
            if numbers is None:
                numbers = torch.zeros(len(self.runs.seeds), dtype=own.dtype)
            numbers[group.ids] = own
        return torch.zeros(0, dtype=torch.int64) if numbers is None else numbers

    def saved(self) -> dict[str, Any]:
        """All that is needed to continue."""
        return {
            "identity": self._identity,
            "step": self._boundary["step"],
            "seconds": self._boundary["seconds"],
            "seeds": self.runs.seeds.reshape(self.runs.batch),
            "groups": [
                group.saved(snapshot)
                for group, snapshot in zip(self.groups, self._boundary["groups"], strict=True)
            ],
            "history": self.history.saved(self._boundary["history"]),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from what was saved."""
        self._step, self._seconds = saved["step"], saved["seconds"]
        for group, state in zip(self.groups, saved["groups"], strict=True):
            group.restore(state)
        self.history.restore(saved["history"])
        self._boundary = self._mark()


def check_state(state: Any, identity: str) -> None:
    """Check that a state to resume belongs to the same flow."""
    if not isinstance(state, dict):
        raise ValueError(
            f"resume is a {type(state).__name__}: give the `state` of a flow, as in resume=found.state"
        )
    if state.get("identity") != identity:
        raise ValueError(
            "the state to resume is of other samples or settings: give those it began with (only "
            "`max_steps` and `recording` may change), or start anew without it"
        )
