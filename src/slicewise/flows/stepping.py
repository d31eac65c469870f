"""Steps in a row, made without looking: what happened on them is read off afterwards."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from slicewise.flows.movers import Course
from slicewise.parts import State
from slicewise.problem import Moment, Problem
from slicewise.sampling import RunSeeds
from slicewise.support import kernels_for

# Up to so many bytes of particles, those of all steps are stacked and measured at once.
_STACKED_BYTES = 2**20


class Watch(Protocol):
    """Says which steps of which runs are worth a closer look, without taking one."""

    @property
    def wants_reach(self) -> bool: ...

    @property
    def wants_escaping(self) -> bool: ...

    def reasons(
        self, loss: Tensor, size: Tensor, reach: Tensor | None, escaping: Tensor | None
    ) -> Tensor:
        """Reasons as bits, (S, R), from numbers (S, R): the loss, the furthest any particle was asked to go, the
        steps of an escape that are left; and (R,): the largest coordinate of a particle in the end."""
        ...


@dataclass(frozen=True, eq=False)
class Track:
    """S steps of R runs."""

    start: Tensor  # (R, n, k), where it began
    xs: list[Tensor]  # S of (R, n, k), where the particles were after each step
    state: State  # after the last
    numbers: Tensor  # (3, S, R): loss, step, and the reasons to look closer


def steps_in_a_row(
    course: Course,
    problem: Problem,
    seeds: RunSeeds,
    state: State,
    when: Callable[[int], tuple[int | Tensor, Moment]],
    length: int,
    watch: Watch,
    steps: Tensor | None = None,
) -> Track:
    """`length` steps from where the problem is; `when(i)` is the i-th one's step and moment.

    With all their numbers on the device, `steps` (S,), what can be is drawn ahead for all of them.
    """
    start = problem.x
    foresight = None if steps is None else course.foresee(problem, seeds, steps)
    xs, moves, losses, sizes, escaping = [], [], [], [], []
    for i in range(length):
        t, moment = when(i)
        before = problem.x
        progress = t / moment.total if isinstance(t, int) else problem.progress
        now = dataclasses.replace(problem, moment=moment, progress=progress)
        ahead = None if foresight is None else foresight.at(i)
        done = course.advance(now, seeds, t, state, ahead)
        problem, state = dataclasses.replace(problem, x=done.x), done.state
        xs.append(done.x)
        losses.append(done.loss)
        sizes.append(done.step.to(start.dtype))
        if watch.wants_reach:
            moves.append(done.x - before if done.move is None else done.move)
        if watch.wants_escaping:
            escaping.append(done.state["escaping"])
    loss = _stacked(losses)
    reasons = watch.reasons(
        loss,
        largest(xs[-1]),
        _measured(moves, furthest) if moves else None,
        _stacked(escaping) if escaping else None,
    )
    numbers = torch.stack([loss, _stacked(sizes), reasons.to(loss.dtype)])
    return Track(start, xs, state, numbers)


def _stacked(tensors: list[Tensor]) -> Tensor:
    return torch.stack(tensors) if len(tensors) > 1 else tensors[0].unsqueeze(0)


def _measured(tensors: list[Tensor], measure: Callable[[Tensor], Tensor]) -> Tensor:
    """A number of each run at each step, (S, R)."""
    if len(tensors) > 1 and tensors[0].numel() * tensors[0].element_size() <= _STACKED_BYTES:
        return measure(torch.stack(tensors))
    return _stacked([measure(tensor) for tensor in tensors])


def largest(x: Tensor) -> Tensor:
    """The largest size of a coordinate in each run, (R,)."""
    kernels = kernels_for(x)
    if kernels is not None and x.dim() == 3:
        return kernels.largest_of(x)
    return torch.linalg.vector_norm(x, ord=torch.inf, dim=(-2, -1))


def furthest(move: Tensor) -> Tensor:
    """How far the particle goes that goes furthest, (..., R); in float64, where squares of small moves are not zero."""
    return torch.linalg.vector_norm(move, dim=-1, dtype=torch.float64).amax(dim=-1)
