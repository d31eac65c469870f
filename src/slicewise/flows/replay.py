"""Steps captured once as a CUDA graph and replayed: the host only says go."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.flows.movers import Course
from slicewise.flows.stepping import Track, Watch, steps_in_a_row
from slicewise.parts import State
from slicewise.problem import Moment, Problem, Schedule
from slicewise.sampling import RunSeeds
from slicewise.support import CapturedGraph, side_stream


class Timetable:
    """What changes from step to step, on the device: a graph reads it, and turns it to the next steps."""

    def __init__(self, length: int, total: int, device: torch.device) -> None:
        self.steps = torch.zeros(length, dtype=torch.int64, device=device)
        self.total = total
        self._columns: dict[
            Schedule, Tensor
        ] = {}  # (total,), what each says at every step of the run
        self._now: dict[Schedule, Tensor] = {}  # (S,), at the steps at hand

    def turn_to(self, first: int) -> None:
        """The next steps are `first` and those after it."""
        torch.arange(first, first + len(self.steps), out=self.steps)

    def turn_on(self) -> None:
        """The next steps are those after these."""
        self.steps.add_(len(self.steps))

    def forget(self) -> None:
        """Read schedules anew from here on."""
        self._now.clear()

    def now(self, schedule: Schedule) -> Tensor:
        """What a schedule says at each of the steps, (S,)."""
        if schedule not in self._columns:
            said = [schedule(t / self.total) for t in range(self.total)]
            column = torch.tensor(said, dtype=torch.float64, device=self.steps.device)
            self._columns[schedule] = column
        if schedule not in self._now:
            self._now[schedule] = self._columns[schedule][self.steps]
        return self._now[schedule]


@dataclass(frozen=True)
class Scheduled:
    """A moment whose numbers stand in a timetable."""

    table: Timetable
    index: int

    @property
    def total(self) -> int:
        return self.table.total

    def of(self, schedule: Schedule) -> Tensor:
        return self.table.now(schedule)[self.index]


class Replay:
    """S steps of a course as one graph, from buffers of its own and back into them.

    Each replay reads its step numbers, and with them its random numbers, from the device. It notes where it
    began and the numbers of its steps; particles on the way are had by replaying it once more.
    """

    def __init__(
        self,
        course: Course,
        problem: Problem,
        seeds: RunSeeds,
        state: State,
        total: int,
        length: int,
        most: int,
        watch: Watch,
    ) -> None:
        self.length, self.most = length, most  # steps of a replay; replays before a look
        self.x, self.state = problem.x.clone(), {k: t.clone() for k, t in state.items()}
        self._problem = dataclasses.replace(problem, x=self.x)
        self._course, self._seeds, self._watch = course, seeds, watch
        self._table = Timetable(length, total, problem.x.device)
        self._slot = torch.zeros(1, dtype=torch.int64, device=problem.x.device)
        self._first = -1  # the step that the next replay would begin with
        with side_stream():  # once for nothing
            self._course.foresee(self._problem, self._seeds, self._table.steps)
            trial = self._run(1)
        # What a step hands on as it is need not be copied.
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
        self._table.forget()  # what the trial read: every replay reads for itself
        self._track = self._run(self.length)
        self.x.copy_(self._track.xs[-1])
        for name in self.state.keys() - self._constant:
            self.state[name].copy_(self._track.state[name])
        self._numbers.index_copy_(0, self._slot, self._track.numbers.unsqueeze(0))
        self._table.turn_on()
        self._slot.add_(1)

    def _run(self, length: int) -> Track:
        def when(i: int) -> tuple[Tensor, Moment]:
            return self._table.steps[i], Scheduled(self._table, i)

        given = (self._course, self._problem, self._seeds, self.state, when, length, self._watch)
        return steps_in_a_row(*given, self._table.steps[:length])

    def go(self, first: int, times: int) -> Tensor:
        """Replay so often, from step `first` on: the numbers of all its steps, (3, S · times, R)."""
        if self._first != first:
            self._table.turn_to(first)
        self._first, self._times = first, times
        self._slot.zero_()
        for _ in range(times):
            self._graph.replay()
        self._first += self.length * times
        return self._numbers[:times].transpose(0, 1).clone().flatten(1, 2)

    def again(self, places: list[int]) -> Iterator[tuple[int, Track]]:
        """The tracks of some of the replays of the last `go`, by making them once more.

        What is yielded, the next one overwrites.
        """
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
            yield place, dataclasses.replace(self._track, start=self._starts[""][place])
        for name, tensor in self._buffers.items():
            tensor.copy_(end[name])
        self._table.turn_to(self._first)
