"""Evaluate a loss at weights that were moved on trial, and leave everything as it was."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from slicewise.optim.ranks import FailedElsewhereError, local
from slicewise.optim.walker import Walker

_log = logging.getLogger("slicewise")
# torch has one level of dual numbers for all threads.
_one_at_a_time = threading.RLock()
# How many numbers of a measurement are averaged over ranks.
N_AVERAGED = 3


class Ahead(NamedTuple):
    """A loss where a step ends on trial, and how it gets there; one number for each run."""

    value: Tensor  # (*runs,), dual if it was differentiated forward
    # With plans held, along the tangent of outputs, or along their change if they have none; None if it is not known.
    curvature: Tensor | None
    expected: Tensor | None = (
        None  # the same along the tangent, as slices drawn afresh would show it
    )


class Measured(NamedTuple):
    """What one more forward pass tells about a direction; one number for each run."""

    curvature: Tensor  # of the loss along the direction
    expected: Tensor | None  # the curvature that the next batch is expected to have along it


class NoForwardDerivative(NotImplementedError):
    """An operation of a network cannot be differentiated forward."""


class Derivatives:
    """How the curvature of a network's loss is measured: by forward derivatives, until these have failed once.

    Args:
        forward: Whether to try forward derivatives at all.
        may_fall_back: Whether to measure by differences where they are missing, or to raise.
    """

    def __init__(self, *, forward: bool = True, may_fall_back: bool = True) -> None:
        self.forward, self.may_fall_back = forward, may_fall_back

    def measured(
        self, measure: Callable[[bool], Measured], *, tried_twice: bool = True
    ) -> Measured:
        """Measure, by differences where there are no forward derivatives.

        Args:
            measure: Measures, with forward derivatives or without.
            tried_twice: Whether it may be called again; within a capture nothing can be.

        Raises:
            NoForwardDerivative: If there are none and it is not to be called again.
        """
        if self.forward:
            try:
                return measure(True)
            except (NoForwardDerivative, FailedElsewhereError) as missing:
                if not (self.may_fall_back and tried_twice):
                    raise
                self.forward = False
                _log.warning(
                    "no forward derivatives of this network (%s): the curvature is measured by differences",
                    missing,
                )
        return measure(False)


def measured_curvature(
    walker: Walker,
    parameters: Sequence[Tensor],
    evaluate: Callable[[], Ahead],
    before: Tensor,
    trial: Tensor,
    *,
    forward: bool,
    mean: Callable[[Tensor], Tensor] = lambda number: number,
) -> Measured:
    """Measure the second derivative of a loss along the direction of a walker, by one more forward pass.

    At weights θ + s u the loss has the slope L′(s), which forward-mode differentiation gives, and the curvature is
    (L′(s) − L′(0)) / s. Where forward mode is missing, the value alone will do: 2 (L(s) − L(0) − s L′(0)) / s². A network
    may curve its loss downward on the way, which says little about the next batch: the curvature that the outputs' change
    has with plans held is the least that counts.

    Args:
        walker: Has the direction u and the slope −L′(0).
        parameters: The network's, in the order of the walker's; moved on trial and put back.
        evaluate: Computes the loss at the weights as they are then.
        before: The loss L(0), (*runs,).
        trial: The length s, (*runs,).
        forward: Whether to differentiate forward.
        mean: Averages numbers over ranks, (`N_AVERAGED`, *runs); called once, at the end.

    Returns:
        The curvature along the direction, now and as the next batch should see it.

    Raises:
        NoForwardDerivative: With `forward`, if an operation has no forward derivative.
    """
    with torch.no_grad(), _moved(walker, parameters, trial, forward=forward):
        found = _evaluated(evaluate, forward=forward)
        slope = walker.slope()
        if forward:
            value, tangent = forward_ad.unpack_dual(found.value)
            if tangent is None:
                raise NoForwardDerivative("the loss has none")
            # Nothing is known of a loss that is not finite; its tangent may be.
            ahead = torch.where(value.isfinite(), tangent.float(), torch.inf)
        else:
            ahead = (found.value - before).detach().float()
        others = (found.curvature, found.expected)
        known = [torch.zeros_like(slope) if one is None else one.float() for one in others]
        ahead, *known = mean(torch.stack([ahead, *known])).unbind(0)
        least, expected = (one.clamp(min=0) for one in known)
        if not forward:
            there = torch.maximum(2 * (ahead + slope * trial), least)
            return Measured(there / trial.square(), None)
        curvature = torch.maximum((ahead + slope) / trial, least)
        # What a network and other terms curve beyond the slices, the next batch sees as well.
        fresh = None if found.expected is None else curvature - least + expected.minimum(least)
        return Measured(curvature, fresh)


def _evaluated(evaluate: Callable[[], Ahead], *, forward: bool) -> Ahead:
    try:
        return evaluate()
    except (RuntimeError, NotImplementedError) as wrong:
        missing = any(words in str(wrong) for words in ("forward AD", "forward mode AD"))
        if forward and missing:
            raise NoForwardDerivative(str(wrong).partition("\n")[0]) from wrong
        raise


@contextmanager
def _moved(
    walker: Walker, parameters: Sequence[Tensor], trial: Tensor, *, forward: bool
) -> Iterator[None]:
    """Weights θ + s u, with tangents u if derivatives are to be taken forward; θ again afterwards."""
    kept = [w.clone() for w in walker.weights]
    try:
        if not forward:
            walker.shift(walker.weights, trial)
            yield
            return
        with _one_at_a_time, forward_ad.dual_level():
            along = _along(walker, parameters)
            for parameter, u in zip(parameters, along, strict=True):
                step = u * _shaped(trial, u, walker.stacked).to(u.dtype)
                parameter.add_(forward_ad.make_dual(step, u))
            yield
    finally:
        torch._foreach_copy_(walker.weights, kept)


def _along(walker: Walker, parameters: Sequence[Tensor]) -> list[Tensor]:
    """The direction in the shapes of the parameters, which in a stack are pieces of one tensor."""
    if not walker.stacked:
        return list(walker.along)
    sizes = [p[0].numel() for p in parameters]
    pieces = walker.along[0].split(sizes, dim=1)
    return [piece.reshape(p.shape) for piece, p in zip(pieces, parameters, strict=True)]


def _shaped(length: Tensor, like: Tensor, stacked: bool) -> Tensor:
    return length.reshape(-1, *(1,) * (like.dim() - 1)) if stacked else length


def modules_with(parameters: Iterable[Tensor]) -> list[nn.Module]:
    """Find the modules that some parameters belong to, with all that is inside of them.

    They are looked for among all objects: an optimizer is given parameters alone, and hooks on every module would be in
    the way of `torch.compile`.
    """
    wanted = {id(p) for p in parameters}
    every = [one for one in gc.get_objects() if issubclass(type(one), nn.Module)]
    mine = [one for one in every if any(id(p) in wanted for p in one.parameters())]
    inside = {id(one): one for module in mine for one in module.modules()}
    return list(inside.values())


@contextmanager
def untouched(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Leave buffers, such as running statistics, as they are, whatever happens inside."""
    kept = [
        (module, name, buffer, buffer.clone())
        for module in modules
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for module, name, buffer, values in kept:
                module._buffers[name] = buffer
                local(buffer).copy_(local(values))


@contextmanager
def lent_copies(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Let modules work on copies of their buffers, so that what was computed can still be differentiated afterwards."""
    kept = [
        (module, name, buffer)
        for module in modules
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    try:
        for module, name, buffer in kept:
            module._buffers[name] = buffer.clone()
        yield
    finally:
        for module, name, buffer in kept:
            module._buffers[name] = buffer


class Randomness:
    """The state of torch's global generators, to draw the same numbers again."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._cpu, self._cuda = self._states()

    def _states(self) -> tuple[Tensor, Tensor | None]:
        on_cuda = self._device.type == "cuda"
        return torch.get_rng_state(), torch.cuda.get_rng_state(self._device) if on_cuda else None

    def _set(self, cpu: Tensor, cuda: Tensor | None) -> None:
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state(cuda, self._device)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Draw once more what was drawn since this was made; afterwards go on from where things are now."""
        now = self._states()
        self._set(self._cpu, self._cuda)
        try:
            yield
        finally:
            self._set(*now)
