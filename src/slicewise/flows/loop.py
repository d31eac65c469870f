"""The loop of a flow: all groups of runs, step by step.

How many steps to make before looking at what they did.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from slicewise.flows.group import Group, Passage
from slicewise.flows.result import Trace
from slicewise.flows.setup import Runs
from slicewise.flows.stopping import Status
from slicewise.support import CheckpointFile, progress_bar
from slicewise.transport import wasserstein

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


class Loop:
    """All runs of one call, their trace, and where they are."""

    def __init__(self, runs: Runs, groups: list[Group], trace: Trace, identity: str) -> None:
        self.runs, self.groups, self.trace = runs, groups, trace
        self._identity = identity
        self._step = 0
        self._seconds = 0.0
        self._pace = Pace(runs.problem.x.device)
        self._boundary = self._mark()

    def run(self, steps: int, checkpoint: CheckpointFile | None, bar: bool | None) -> None:
        """Go on to this many steps, or until every run has ended."""
        self._clock = time.perf_counter() - self._seconds
        self._look()
        with progress_bar(steps, bar) as tick:
            try:
                while self._step < steps and self._alive():
                    self._advance(steps)
                    tick(self._step, f"{self._alive()} of {len(self.runs.seeds)} runs")
                    if checkpoint is not None:
                        self._boundary = self._mark()
                        if checkpoint.due():
                            checkpoint.save(self.saved(), self._identity)
            finally:
                # An interrupt too leaves a state to go on from: that of the last whole step.
                if checkpoint is not None:
                    checkpoint.save(self.saved(), self._identity)
        self._boundary = self._mark()
        for step in (*self.trace.w2_at, *self.trace.particles_at):
            if self._step < step <= steps:  # every run had ended before: it stays as it is
                self._look(step)

    def _alive(self) -> int:
        return sum(group.n_alive for group in self.groups)

    def _advance(self, steps: int) -> None:
        stride = self._pace.next(self.groups, self._step, steps)
        length = stride.steps
        wanted = (*self.trace.w2_at, *self.trace.particles_at)
        looks = sorted({s - self._step for s in wanted if 0 < s - self._step < length})
        views = {after: self.particles() for after in looks}
        before = self._seconds
        passages = []
        for group in self.groups:
            done = group.advance(self._step, steps, stride, looks)
            if done is None:
                continue
            passages.append(done)
            for after, particles in done.views.items():
                views[after][group.ids.to(particles.device)] = particles
        self._seconds = time.perf_counter() - self._clock
        if not self._alive():  # all have ended, perhaps some steps ago
            length = max(int(group.steps.max()) for group in self.groups) - self._step
        self._note(passages, length, before)
        for after, particles in views.items():
            if after > length:
                continue  # looked at in the end, as it stays
            self._look(self._step + after, self._with_absent(particles))
        self._step += length
        self._look()

    def _note(self, passages: list[Passage], length: int, before: float) -> None:
        """Add what the groups tell of some steps to the trace."""
        n_runs, dtype = len(self.runs.seeds), self.runs.problem.x.dtype
        if len(passages) == 1 and len(passages[0].ids) == n_runs:  # all runs, in order
            loss, size = passages[0].loss[:length], passages[0].step[:length]
        else:
            loss, size = (torch.full((length, n_runs), torch.nan, dtype=dtype) for _ in range(2))
            for done in passages:
                loss[:, done.ids] = done.loss[:length].to(dtype)
                size[:, done.ids] = done.step[:length].to(dtype)
        seconds = torch.full((1, n_runs), self._seconds, dtype=dtype)
        if length > 1:
            share = torch.arange(1, length + 1).unsqueeze(-1) / length
            seconds = (before + share * (self._seconds - before)).to(dtype).expand(-1, n_runs)
        self.trace.add(loss=loss, step=size, seconds=seconds)

    def _mark(self) -> dict[str, Any]:
        """Where everything is between two steps, by reference: an interrupt may come in the middle of one."""
        return {
            "step": self._step,
            "seconds": self._seconds,
            "groups": [group.snapshot() for group in self.groups],
            "trace": self.trace.mark(),
        }

    def _look(self, step: int | None = None, particles: Tensor | None = None) -> None:
        """Note what was asked for after this many steps; of the particles there, or as they are now."""
        step = self._step if step is None else step
        if step not in self.trace.particles_at and step not in self.trace.w2_at:
            return
        particles = self.particles() if particles is None else particles
        if step in self.trace.particles_at and not self.trace.has("particles", step):
            self.trace.keep("particles", step, particles.cpu())
        if step in self.trace.w2_at and not self.trace.has("w2", step):
            problem = self.runs.problem
            a, b = problem.x_weights, problem.y_weights
            left = wasserstein(particles, problem.y, x_weights=a, y_weights=b)
            lost = (self.whole("status") == Status.DIVERGED) & (self.whole("steps") <= step)
            self.trace.keep("w2", step, torch.where(lost, torch.inf, left))

    def particles(self) -> Tensor:
        """Where all particles are, (R, n, d), in the coordinates they came in."""
        particles = torch.empty_like(self.runs.problem.x)
        for group in self.groups:
            particles[group.ids.to(particles.device)] = group.now()
        return self._with_absent(particles)

    def _with_absent(self, particles: Tensor) -> Tensor:
        if self.runs.absent is None:
            return particles
        there, given = self.runs.absent  # samples of weight zero stay where they were given
        return torch.where(there, particles, given)

    def whole(self, name: str) -> Tensor:
        """A number of each run, (R,)."""
        numbers = torch.zeros(len(self.runs.seeds), dtype=torch.int64)
        for group in self.groups:
            numbers[group.ids] = getattr(group, name)
        return numbers

    def saved(self) -> dict[str, Any]:
        """All that is needed to go on."""
        return {
            "identity": self._identity,
            "step": self._boundary["step"],
            "seconds": self._boundary["seconds"],
            "seeds": self.runs.seeds.reshape(self.runs.batch),
            "groups": [
                group.saved(snapshot)
                for group, snapshot in zip(self.groups, self._boundary["groups"], strict=True)
            ],
            "trace": self.trace.saved(self._boundary["trace"]),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved."""
        self._step, self._seconds = saved["step"], saved["seconds"]
        for group, state in zip(self.groups, saved["groups"], strict=True):
            group.restore(state)
        self.trace.restore(saved["trace"])
        self._boundary = self._mark()


def check_state(state: Any, identity: str) -> None:
    """A state to go on from must be of the same flow."""
    if not isinstance(state, dict):
        raise ValueError(
            f"resume is a {type(state).__name__}: give the `state` of a flow, as in resume=found.state"
        )
    if state.get("identity") != identity:
        raise ValueError(
            "the state to resume is of other samples or settings: give those it began with (only "
            "`steps`, and what is looked at, may change), or start anew without it"
        )
