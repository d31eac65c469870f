"""Evaluate a loss at weights that were moved on trial, and leave everything as it was."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from slicewise.optim.ranks import local, reshard
from slicewise.optim.walker import Walker

_log = logging.getLogger("slicewise")


def measured_curvature(
    walker: Walker,
    parameters: Sequence[Tensor],
    evaluate: Callable[[], tuple[Tensor, Tensor | None]],
    before: Tensor,
    trial: Tensor,
    *,
    forward: bool,
    mean: Callable[[Tensor], Tensor] = lambda number: number,
) -> Tensor:
    """Measure the second derivative of a loss along the direction of a walker, by one more forward pass.

    At weights θ + s u the loss has the slope L′(s), which forward-mode differentiation gives, and the curvature is
    (L′(s) − L′(0)) / s. Where forward mode is missing, the value alone will do: 2 (L(s) − L(0) − s L′(0)) / s². A network
    may curve its loss downward on the way, which says little about the next batch: the curvature that the outputs' change
    has with plans held is the least that counts.

    Args:
        walker: Has the direction u and the slope −L′(0).
        parameters: The network's, in the order of the walker's; moved on trial and put back.
        evaluate: Computes the loss, (*runs,), and its curvature with plans held, along the tangent of the outputs, or
            along their change if they have none; None if that is not known.
        before: The loss L(0), (*runs,).
        trial: The length s, (*runs,).
        forward: Whether to differentiate forward.
        mean: Averages numbers over ranks, (2, *runs); called once, at the end.

    Returns:
        The curvature, (*runs,).

    Raises:
        RuntimeError, NotImplementedError: With `forward`, if an operation has no forward derivative.
    """
    with torch.no_grad(), _moved(walker, parameters, trial, forward=forward):
        found, held = evaluate()
        slope = walker.slope()
        least = torch.zeros_like(slope) if held is None else held.float()
        if forward:
            value, tangent = forward_ad.unpack_dual(found)
            if tangent is None:
                raise NotImplementedError("the loss has no forward derivative")
            # Nothing is known of a loss that is not finite; its tangent may be.
            ahead = torch.where(value.isfinite(), tangent.float(), torch.inf)
            ahead, least = mean(torch.stack([ahead, least])).unbind(0)
            return torch.maximum((ahead + slope) / trial, least)
        gain, least = mean(torch.stack([(found - before).float(), least])).unbind(0)
        return torch.maximum(2 * (gain + slope * trial), least) / trial.square()


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
        with forward_ad.dual_level():
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


class Modules:
    """The modules that a forward pass calls, so that a second one can leave their buffers as they are."""

    def __init__(self) -> None:
        self._found: dict[int, nn.Module] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note every module that is called."""

        def note(module: nn.Module, _: object) -> None:
            self._found.setdefault(id(module), module)

        handle = nn.modules.module.register_module_forward_pre_hook(note)
        try:
            yield
        finally:
            handle.remove()

    def add(self, others: Modules) -> None:
        """Note modules that another one has found."""
        self._found.update(others._found)

    def all(self) -> list[nn.Module]:
        """The modules that were called, with those inside of them."""
        every = {id(one): one for module in self._found.values() for one in module.modules()}
        return list(every.values())

    def reshard(self) -> None:
        """Let those of FSDP gather their weights anew when they are called next: shards are about to change."""
        reshard(self.all())


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
