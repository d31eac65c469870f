"""Draws of single calls on a CUDA device: counted numbers, keyed by the state of torch's global generator.

torch's generator has a seed and an offset. A call takes a stretch of offsets as its ticket, and draws what Philox counts
from (seed, offset): a seed means the same numbers whether a call is a captured graph, which reads its ticket from the
device, or not; whoever saves and restores the generator's state restores these draws with it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from slicewise.sampling.generators import Randomness
from slicewise.sampling.run_seeds import Stream
from slicewise.support import DeviceDraws, registered

_EACH = 4  # torch counts offsets in fours
_HALF = 2**63
_COUNTS = hasattr(torch.Generator, "get_offset") and hasattr(torch.Generator, "set_offset")


class Ticket(NamedTuple):
    """Which draws of a device's global generator a call has: a seed, and the first of a stretch of offsets."""

    seed: int  # signed, as the device counts
    offset: int


def can_take_tickets(device: torch.device) -> bool:
    """Can calls on this device draw by ticket? Not where kernels cannot be compiled, nor while a graph is captured."""
    if device.type != "cuda" or not _COUNTS or torch.compiler.is_compiling():
        return False
    backend = registered()
    if backend is None or backend.kernels(device) is None:
        return False
    return not torch.cuda.is_current_stream_capturing()


def take_ticket(device: torch.device, elements: int) -> Ticket:
    """The next ticket of a device's global generator, for a batch of so many elements."""
    index = torch.cuda.current_device() if device.index is None else device.index
    generator = torch.cuda.default_generators[index]
    seed, offset = generator.initial_seed(), generator.get_offset()
    generator.set_offset(offset + _EACH * -(-elements // _EACH))
    return Ticket(seed if seed < _HALF else seed - 2 * _HALF, offset)


def by_next_ticket(device: torch.device, batch: tuple[int, ...]) -> ByTicket:
    """The draws of a call that is made now."""
    return ByTicket(*on_device(take_ticket(device, math.prod(batch)), device), batch)


def on_device(ticket: Ticket, device: torch.device) -> tuple[Tensor, Tensor]:
    """Seed and offset as tensors (1,), by fills: a copy from the host would wait for the device."""
    kind: dict[str, Any] = {"dtype": torch.int64, "device": device}
    return torch.full((1,), ticket.seed, **kind), torch.full((1,), ticket.offset, **kind)


class ByTicket(Randomness):
    """The draws of one call, by its ticket on the device: seeds (1,) and offsets (1,), whole numbers."""

    def __init__(self, seeds: Tensor, offsets: Tensor, batch: tuple[int, ...]) -> None:
        super().__init__(None, seeds.device, batch)
        elements = math.prod(batch)
        if elements > 1:  # each element of the batch has an offset of its own
            seeds = seeds.repeat(elements)
            offsets = offsets + torch.arange(elements, device=seeds.device)
        backend = registered()
        draws = None if backend is None else backend.draws(seeds, offsets, Stream.CALLS)
        assert draws is not None  # `can_take_tickets`
        self._by_element = _ByElement(draws, batch, elements)

    @property
    def fused(self) -> DeviceDraws:
        """Whole laws drawn in one go."""
        return self._by_element

    def _draw(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        return self._by_element.numbers(kind, shape)


class _ByElement:
    """Draws for any batch, of draws that know only a list of runs: its elements one after another."""

    def __init__(self, draws: DeviceDraws, batch: tuple[int, ...], elements: int) -> None:
        self._draws, self._batch, self._elements = draws, batch, elements

    def numbers(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        return self._draws.numbers(kind, self._listed(shape)).view(shape)

    def directions(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return self._draws.directions(self._listed(shape), dtype).view(shape)

    def orthogonal_to(self, directions: Tensor) -> Tensor:
        return self._draws.orthogonal_to(self._in_a_list(directions)).view(directions.shape)

    def around(self, directions: Tensor, law: Tensor) -> Tensor:
        return self._draws.around(self._in_a_list(directions), law).view(directions.shape)

    def power_around(self, directions: Tensor, law: Tensor, *, boost: bool) -> Tensor:
        listed = self._in_a_list(directions)
        return self._draws.power_around(listed, law, boost=boost).view(directions.shape)

    def paths(self, x: Tensor, y: Tensor, shape: tuple[int, ...]) -> Tensor:
        sides = (self._one_or_each(x), self._one_or_each(y))
        return self._draws.paths(*sides, self._listed(shape)).view(shape)

    def _listed(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (self._elements, *shape[len(self._batch) :])

    def _in_a_list(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(self._listed(tensor.shape))

    def _one_or_each(self, samples: Tensor) -> Tensor:
        """Samples (..., n, d), one set that all elements share or one for each of them."""
        if math.prod(samples.shape[:-2]) == 1:
            return samples.reshape(1, *samples.shape[-2:])
        return samples.expand(*self._batch, *samples.shape[-2:])
