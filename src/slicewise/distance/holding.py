"""Losses that are computed twice: once as they are, then with slices and plans held while a network takes a trial step.

A `Tape` notes what the losses of one forward pass computed. Played back, each loss of a second pass is the quadratic of
the first (`HeldLoss`), where it has one; else it is computed anew on the slices of the first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slicewise.distance.displacement import displaced_gradient
from slicewise.distance.objective import Objective
from slicewise.distance.pricing import differentiated, priced
from slicewise.distance.request import Prepared
from slicewise.laws import Law
from slicewise.parts import weights_for
from slicewise.problem import Problem, State
from slicewise.sampling import Generators
from slicewise.steps import HeldLoss, held_loss
from slicewise.support import full_precision
from slicewise.transport import root_slope
from slicewise.variants import Recipe

if TYPE_CHECKING:
    from torch import nn


@torch.no_grad()
def held_for(
    recipe: Recipe,
    problem: Problem,
    slices: Tensor,
    objective: Objective,
    *,
    displaced: bool = False,
) -> HeldLoss:
    """Compute a loss on slices that are known, and hold its plans.

    The outer root of an objective is linearized, as Gauss and Newton do: along a line it falls where the power falls.

    Args:
        recipe: Of the loss; its slices are linear in the samples.
        problem: The samples, in the convention of means.
        slices: Directions, (*batch, L, d).
        objective: What is computed of the costs.
        displaced: Whether gradients are displacements, with their signs turned.

    Returns:
        The loss with plans held.
    """
    problem, slices = problem.detached(), slices.detach()
    with full_precision(slices.device.type):
        if recipe.closed_form_gradient:
            value, gradient = priced(recipe, problem, slices, objective)
        else:
            value, gradient, _ = differentiated(
                recipe, problem, objective, lambda p: Prepared(p, slices, None, None)
            )
        weights = held_weights(recipe, problem, slices, objective)
        if displaced:
            moves = displaced_gradient(recipe, problem, slices)[1]
            size = gradient.square().sum(dim=(-2, -1))
            along = (moves * gradient).sum(dim=(-2, -1))
            factor = torch.where(size > 0, along / torch.where(size > 0, size, 1), 0)
            weights, gradient = weights * factor.unsqueeze(-1), moves
        return held_loss(problem, slices, weights, value, gradient, sought=recipe.seeks_slices)


def held_weights(recipe: Recipe, problem: Problem, slices: Tensor, objective: Objective) -> Tensor:
    """The derivative of an objective in the cost of each slice, slice weights held, (*batch, L)."""
    weights = weights_for(recipe.weighting, slices, problem, hold=True)
    if not callable(weights) and objective == "power":
        return weights
    costs = problem.costs(slices)
    weights = weights(costs) if callable(weights) else weights
    if objective == "mean_root":
        return weights * root_slope(costs, problem.p)
    if objective == "root":
        power = (weights * costs).sum(dim=-1)
        return weights * root_slope(power, problem.p).unsqueeze(-1)
    return weights


@dataclass(frozen=True, eq=False)
class Before:
    """What a loss begins with: what its parts have learned so far, and the states of generators of its own."""

    state: State | None
    generators: tuple[tuple[torch.Generator, Tensor], ...]

    @classmethod
    def of(cls, state: State | None, generator: Generators) -> Before:
        """As things are now."""
        some = generator if isinstance(generator, (list, tuple)) else (generator,)
        own = [one for one in some if isinstance(one, torch.Generator)]
        return cls(state, tuple((one, one.get_state()) for one in own))

    @contextmanager
    def again(self) -> Iterator[State | None]:
        """Let generators draw the same numbers once more; afterwards they go on from where they are now."""
        now = [(one, one.get_state()) for one, _ in self.generators]
        for one, state in self.generators:
            one.set_state(state)
        try:
            yield self.state
        finally:
            for one, state in now:
                one.set_state(state)


@dataclass(frozen=True, eq=False)
class Call:
    """A loss that was computed while a tape recorded."""

    loss: nn.Module
    problem: Problem
    slices: Tensor
    can_be_held: bool
    before: Before
    upstream: list[Tensor] = field(
        default_factory=list
    )  # the derivative of the whole loss in this one


class OtherLosses(ValueError):
    """A closure computes other losses when it is called again."""

    def __init__(self) -> None:
        super().__init__(
            "a second call of the closure computed other losses than the first: let it compute the same loss of the same "
            "batch each time, and draw batches outside of it"
        )


class Tape:
    """The losses of one forward pass, in the order of their calls.

    Attributes:
        calls: What was recorded.
        playing: Whether a second pass is being made.
        rehearsing: Whether the pass is made for what it compares alone: losses draw what they will draw again, and
            learn nothing.
        curvature: Of a second pass: the curvature of all losses together along the change of their samples, plans held,
            which is the tangent of the samples if they have one; None if a loss could not be held.
        expected: The same as slices drawn afresh would show it on average.
        compared: Of a rehearsal: what was compared, loss by loss, with all that it depends on; without weighted samples.
    """

    def __init__(self, *, rehearsing: bool = False) -> None:
        self.calls: list[Call] = []
        self.playing, self.rehearsing = False, rehearsing
        self.loss_scale: float | Tensor = (
            1.0  # what the loss was multiplied by before it was differentiated
        )
        self.curvature: Tensor | None = None
        self.expected: Tensor | None = None
        self.compared: list[tuple[Tensor, Tensor | Law]] = []
        self._played = 0

    @property
    def can_be_held(self) -> bool:
        """Whether every loss has a quadratic, so that the pass can be differentiated forward."""
        return all(call.can_be_held for call in self.calls)

    def note(
        self,
        loss: nn.Module,
        problem: Problem,
        slices: Tensor,
        before: Before,
        *,
        can_be_held: bool,
    ) -> Call:
        """Record a loss."""
        call = Call(loss, problem.detached(), slices.detach(), can_be_held, before)
        self.calls.append(call)
        return call

    def add_curvatures(self, call: Call, curvature: Tensor, expected: Tensor | None) -> None:
        """Add what one loss of a second pass curves, each of the shape of its value."""
        for upstream in call.upstream[:1]:
            weight = upstream / self.loss_scale
            self.curvature = _more(self.curvature, curvature, weight)
            self.expected = _more(self.expected, expected, weight)

    def next(self, loss: nn.Module) -> Call:
        """The call that belongs to the next loss of a second pass.

        Raises:
            OtherLosses: If the second pass computes other losses than the first.
        """
        known = self.calls[self._played].loss if self._played < len(self.calls) else None
        # One that was made anew within the closure is as good as itself.
        if known is not loss and (known is None or repr(known) != repr(loss)):
            raise OtherLosses()
        self._played += 1
        return self.calls[self._played - 1]

    def check_played(self) -> None:
        """Refuse a second pass that computed fewer losses than the first."""
        if self._played != len(self.calls):
            raise OtherLosses()


def _more(before: Tensor | None, more: Tensor | None, weight: Tensor) -> Tensor | None:
    if more is None:
        return before
    found = (more * weight.to(more)).sum()
    return found if before is None else before + found


class _InUse(threading.local):
    """The tapes of a thread that are recording or playing; losses follow the last one."""

    def __init__(self) -> None:
        self.tapes: list[Tape] = []


_in_use = _InUse()


def tape_in_use() -> Tape | None:
    """The tape that losses have to follow now, if any."""
    if torch.compiler.is_compiling():  # compiled code outlives a tape
        return None
    tapes = _in_use.tapes
    return tapes[-1] if tapes else None


@contextmanager
def recording(*, rehearsing: bool = False) -> Iterator[Tape]:
    """Record the losses of a forward pass, which may be one that is made again afterwards."""
    tape = Tape(rehearsing=rehearsing)
    _in_use.tapes.append(tape)
    try:
        yield tape
    finally:
        _in_use.tapes.remove(tape)


@contextmanager
def playing(tape: Tape) -> Iterator[None]:
    """Let the losses of a second forward pass be those that were recorded, with slices and plans held."""
    tape.playing, tape._played = True, 0
    tape.curvature = tape.expected = None
    _in_use.tapes.append(tape)
    try:
        yield
    finally:
        _in_use.tapes.remove(tape)
        tape.playing = False
