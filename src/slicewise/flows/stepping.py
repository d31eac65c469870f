"""Blocks of steps, made without reading a number: what happened on them is examined afterwards."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slicewise.flows.movers import Mover
from slicewise.problem import Moment, Problem, State
from slicewise.sampling import RunSeeds
from slicewise.support import kernels_for

if TYPE_CHECKING:
    from slicewise.flows.stopping import EndDetector

# Up to so many bytes of particles, those of all steps are stacked and measured at once.
_STACKED_BYTES = 2**20


@dataclass(frozen=True, eq=False)
class Trajectory:
    """S consecutive steps of R runs."""

    start: Tensor  # (R, n, k), particles before the first step
    xs: list[Tensor]  # S of (R, n, k), particles after each step
    state: State  # after the last
    numbers: (
        Tensor  # (3, S, R): loss, step, and the reasons to examine it (see `EndDetector.reasons`)
    )


def make_steps(
    mover: Mover,
    problem: Problem,
    seeds: RunSeeds,
    state: State,
    when: Callable[[int], tuple[int | Tensor, Moment]],
    length: int,
    detector: EndDetector,
    steps: Tensor | None = None,
) -> Trajectory:
    """Make `length` steps from where the problem is; `when(i)` gives the number and the moment of the i-th one.

    With `steps` (S,), all their numbers on the device, slices are drawn ahead for all of them where possible.
    """
    start = problem.x
    predrawn = None if steps is None else mover.predraw(problem, seeds, steps)
    xs, moves, losses, sizes, signals = [], [], [], [], []
    for i in range(length):
        t, moment = when(i)
        before = problem.x
        progress = t / moment.total if isinstance(t, int) else problem.progress
        now = dataclasses.replace(problem, moment=moment, progress=progress)
        ahead = None if predrawn is None else predrawn.at(i)
        done = mover.advance(now, seeds, t, state, ahead)
        problem, state = dataclasses.replace(problem, x=done.x), done.state
        xs.append(done.x)
        losses.append(done.loss)
        sizes.append(done.step.to(start.dtype))
        if detector.tolerance is not None:
            moves.append(done.x - before if done.move is None else done.move)
        if (signal := detector.signal(done.state)) is not None:
            signals.append(signal)
    loss = _stacked(losses)
    reasons = detector.reasons(
        loss,
        largest(xs[-1]),
        _measured(moves, furthest) if moves else None,
        _stacked(signals) if signals else None,
    )
    numbers = torch.stack([loss, _stacked(sizes), reasons.to(loss.dtype)])
    return Trajectory(start, xs, state, numbers)


def _stacked(tensors: list[Tensor]) -> Tensor:
    return torch.stack(tensors) if len(tensors) > 1 else tensors[0].unsqueeze(0)


def _measured(tensors: list[Tensor], measure: Callable[[Tensor], Tensor]) -> Tensor:
    """A number of each run at each step, (S, R)."""
    if len(tensors) > 1 and tensors[0].numel() * tensors[0].element_size() <= _STACKED_BYTES:
        return measure(torch.stack(tensors))
    return _stacked([measure(tensor) for tensor in tensors])


def largest(x: Tensor) -> Tensor:
    """The largest absolute coordinate of each run, (R,)."""
    kernels = kernels_for(x)
    if kernels is not None and x.dim() == 3:
        return kernels.largest_of(x)
    return torch.linalg.vector_norm(x, ord=torch.inf, dim=(-2, -1))


def furthest(move: Tensor) -> Tensor:
    """The longest move of a particle of each run, (..., R); in float64, where squares of small moves are not zero."""
    return torch.linalg.vector_norm(move, dim=-1, dtype=torch.float64).amax(dim=-1)
