"""Steps captured once as a CUDA graph and replayed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.flows.movers import Mover
from slicewise.flows.stepping import Trajectory, make_steps
from slicewise.flows.stopping import EndDetector
from slicewise.problem import Moment, Problem, Schedule, State
from slicewise.sampling import RunSeeds
from slicewise.support import CapturedGraph, side_stream


class Timetable:
    """Step numbers and schedule values on the device, which a graph reads and advances to the next steps."""

    def __init__(self, length: int, total: int, device: torch.device) -> None:
        self.steps = torch.zeros(length, dtype=torch.int64, device=device)
        self.total = total
        self._columns: dict[Schedule, Tensor] = {}  # (total,), the value at every step of the run
        self._now: dict[Schedule, Tensor] = {}  # (S,), at the present steps

    def turn_to(self, first: int) -> None:
        """Make the present steps `first` and those after it."""
        torch.arange(first, first + len(self.steps), out=self.steps)

    def turn_on(self) -> None:
        """Advance to the steps after the present ones."""
        self.steps.add_(len(self.steps))

    def forget(self) -> None:
        """Look schedules up again when they are next asked for."""
        self._now.clear()

    def now(self, schedule: Schedule) -> Tensor:
        """The values of a schedule at the present steps, (S,)."""
        if schedule not in self._columns:
            values = [schedule(t / self.total) for t in range(self.total)]
            column = torch.tensor(values, dtype=torch.float64, device=self.steps.device)
            self._columns[schedule] = column
        if schedule not in self._now:
            self._now[schedule] = self._columns[schedule][self.steps]
        return self._now[schedule]


@dataclass(frozen=True)
class Scheduled:
    """A moment of a run whose schedule values are in a timetable."""

    table: Timetable
    index: int

    @property
    def total(self) -> int:
        return self.table.total

    def of(self, schedule: Schedule) -> Tensor:
        return self.table.now(schedule)[self.index]


class Replay:
    """S steps of a mover as one graph, which reads and writes its own buffers.

    Each replay reads its step numbers from the device, and its random numbers follow from them. It records the
    particles at its start and the numbers of its steps; particles after each step come from replaying it once more.
    """

    def __init__(
        self,
        mover: Mover,
        problem: Problem,
        seeds: RunSeeds,
        state: State,
        total: int,
        length: int,
        most: int,
        detector: EndDetector,
    ) -> None:
        self.length, self.most = length, most  # steps of a replay; replays between two reads
        self.x, self.state = problem.x.clone(), {k: t.clone() for k, t in state.items()}
        self._problem = dataclasses.replace(problem, x=self.x)
        self._mover, self._seeds, self._detector = mover, seeds, detector
        self._table = Timetable(length, total, problem.x.device)
        self._slot = torch.zeros(1, dtype=torch.int64, device=problem.x.device)
        self._first = -1  # the step that the next replay would start with
        with side_stream():  # a trial, which compiles kernels and allocates
            self._mover.predraw(self._problem, self._seeds, self._table.steps)
            trial = self._make_steps(1)
        # What a step passes on unchanged need not be copied.
        self._constant = {k for k, t in trial.state.items() if t is self.state[k]}
        shape = (most, 3, length, trial.numbers.shape[-1])
        self._numbers = trial.numbers.new_empty(shape)
        self._starts = {k: t.new_empty(most, *t.shape) for k, t in self._buffers.items()}
        self._graph = CapturedGraph(self._capture)

    @property
    def _buffers(self) -> State:
        changing = {k: t for k, t in self.state.items() if k not in self._constant}
        return {"": self.x, **changing}

    def _capture(self) -> None:
        for name, tensor in self._buffers.items():
            self._starts[name].index_copy_(0, self._slot, tensor.unsqueeze(0))
        self._table.forget()  # what the trial looked up: each replay does so itself
        self._trajectory = self._make_steps(self.length)
        self.x.copy_(self._trajectory.xs[-1])
        for name in self.state.keys() - self._constant:
            self.state[name].copy_(self._trajectory.state[name])
        self._numbers.index_copy_(0, self._slot, self._trajectory.numbers.unsqueeze(0))
        self._table.turn_on()
        self._slot.add_(1)

    def _make_steps(self, length: int) -> Trajectory:
        def when(i: int) -> tuple[Tensor, Moment]:
            return self._table.steps[i], Scheduled(self._table, i)

        given = (self._mover, self._problem, self._seeds, self.state, when, length)
        return make_steps(*given, self._detector, self._table.steps[:length])

    def run(self, first: int, times: int) -> Tensor:
        """Replay several times, from step `first` on, and return the numbers of all steps, (3, S · times, R)."""
        if self._first != first:
            self._table.turn_to(first)
        self._first, self._times = first, times
        self._slot.zero_()
        for _ in range(times):
            self._graph.replay()
        self._first += self.length * times
        return self._numbers[:times].transpose(0, 1).clone().flatten(1, 2)

    def rerun(self, places: list[int]) -> Iterator[tuple[int, Trajectory]]:
        """The trajectories of some replays of the last `run`, by replaying them; each overwrites the one before."""
        if not places:
            return
        first = self._first - self.length * self._times
        end = {name: tensor.clone() for name, tensor in self._buffers.items()}
        for place in places:
            for name, tensor in self._buffers.items():
                tensor.copy_(self._starts[name][place])
            self._table.turn_to(first + place * self.length)
            self._slot.fill_(place)
            self._graph.replay()
            yield place, dataclasses.replace(self._trajectory, start=self._starts[""][place])
        for name, tensor in self._buffers.items():
            tensor.copy_(end[name])
        self._table.turn_to(self._first)
