"""Processes meet: they compare what they were given, and make one problem of their shares."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicewise.distributed.collectives import Ranks
from slicewise.distributed.exchange import Exchange, route_for
from slicewise.distributed.handshake import Header, exchange_headers
from slicewise.distributed.matching import ByProjections, BySlices, Side
from slicewise.distributed.populations import Amplified, Gathered, Replicated, Shards
from slicewise.problem import Problem
from slicewise.support import check_weight_sum, is_transformed
from slicewise.variants import Recipe

_SLICES = 2  # their place in `Header.asks`
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class Terms:
    """On which terms a loss is shared: with whom, what each has, what travels, what becomes of gradients."""

    ranks: Ranks
    samples: str = "sharded"
    exchange: str = "auto"
    averaged: bool = False

    def corrected(self, value: Tensor) -> Tensor:
        """The value, with the gradient that an average over ranks will bring back to the true one."""
        return Amplified.apply(value, self.ranks.size) if self.averaged else value

    def agreed(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """What rank 0 has learned: its slices count, and the others' networks began elsewhere."""
        return {name: self.ranks.from_first(tensor.detach()) for name, tensor in state.items()}

    @property
    def shared(self) -> str:
        """What must be the same on every rank."""
        return f"samples={self.samples!r}, exchange={self.exchange!r}, averaged={self.averaged}"

    def __str__(self) -> str:
        return f"rank {self.ranks.rank} of {self.ranks.size}, {self.shared}"


def terms_for(group: Any, samples: str, exchange: str, averaged: bool) -> Terms:
    """Terms that go together."""
    if samples == "replicated" and exchange != "auto":
        raise ValueError(
            f"exchange = {exchange!r} with samples='replicated', which every rank has already: leave it out"
        )
    if samples == "replicated" and averaged:
        raise ValueError(
            "averaged=True with samples='replicated': every rank has the whole gradient already, and its average is "
            "right as it is; leave averaged out"
        )
    return Terms(Ranks(group), samples, exchange, averaged)


def meet(
    terms: Terms,
    recipe: Recipe,
    settings: str,
    own: Callable[[], tuple[Problem, Tensor | None]],
    *,
    whole_plans: bool = False,
) -> tuple[Problem, Tensor | None, Exchange]:
    """The joint problem, the slices if they were given, and what will be exchanged.

    `own` gives this rank's problem and slices. If it fails, the others are told before they wait in vain.
    """
    ranks = terms.ranks
    ranks.check_there()  # every rank knows by itself
    # One way for everyone's header, wherever samples are: by the host if the group can.
    device = ranks.usual_device()
    try:
        problem, slices = own()
        if problem.law is not None and terms.samples == "sharded" and ranks.rank > 0:
            # A law is there once: the first rank has its frame, and the gradient in its parameters.
            problem = dataclasses.replace(problem, y=problem.y[..., :0, :])
        inputs = (problem.x, problem.y, slices, problem.x_weights, problem.y_weights)
        if is_transformed(*inputs):
            raise ValueError(
                "group= inside torch.compile or a transform of torch.func: call the loss outside of it"
            )
        mine = _header(terms, recipe, settings, problem, slices)
        ranks.check_device(problem.x.device)
    except Exception as trouble:  # of any kind: the others wait
        told = Header(trouble=f"{type(trouble).__name__}: {trouble}")
        exchange_headers(ranks, told, device)
        raise
    headers = exchange_headers(ranks, mine, device)
    if terms.averaged and any(h.asks[_SLICES] for h in headers):
        raise ValueError(
            "averaged=True with slices that ask for a gradient, which every rank gets whole: leave averaged out and divide "
            "the other gradients' average yourself, or detach the slices"
        )
    problem, slices = _alike(problem, slices, headers)
    if terms.samples == "replicated":
        _check_replicas(headers)
        # A target that was sorted along slices of its own: those of rank 0 count.
        problem = dataclasses.replace(problem, y_sorted=None)
    elif not (sum(h.n for h in headers) and sum(h.m for h in headers)):
        raise ValueError("no rank has a sample of x, or of y: give at least one of each in all")
    what, why = route_for(terms.exchange, terms.samples, recipe, headers, whole_plans=whole_plans)
    if terms.samples == "sharded":
        sides = Side([h.n for h in headers]), Side([h.m for h in headers])
        problem = _gathered(problem, ranks, *sides) if what == "samples" else problem
        problem = _shared_out(problem, ranks, *sides) if what == "projections" else problem
    elif what == "slices":
        problem = dataclasses.replace(problem, matcher=BySlices(ranks, problem.matcher))
    if what != "projections":
        problem = dataclasses.replace(problem, others=Replicated(ranks))
    return problem, slices, Exchange(what, why, ranks.size)


def _header(
    terms: Terms, recipe: Recipe, settings: str, problem: Problem, slices: Tensor | None
) -> Header:
    x, y, a, b = problem.x, problem.y, problem.x_weights, problem.y_weights
    recording = torch.is_grad_enabled()
    content = []
    if terms.samples == "replicated":
        content = [number for t in (x, y, a, b) if t is not None for number in _sums(t)]
    return Header(
        d=problem.d,
        dtype=str(problem.precision),
        device=x.device.type,
        variant=_ADDRESS.sub("", repr(recipe)),
        settings=f"{settings}, {terms.shared}",
        grad=recording,
        x_batch=list(x.shape[:-2]),
        y_batch=list(y.shape[:-2]),
        slices=None if slices is None else list(slices.shape),
        x_weights=None if a is None else [str(a.dtype), *map(str, a.shape[:-1])],
        y_weights=None if b is None else [str(b.dtype), *map(str, b.shape[:-1])],
        n=x.shape[-2],
        m=y.shape[-2],
        asks=[recording and t is not None and t.requires_grad for t in (x, y, slices, a, b)],
        content=content,
    )


def _alike(
    problem: Problem, slices: Tensor | None, headers: list[Header]
) -> tuple[Problem, Tensor | None]:
    """What someone wants a gradient of has one everywhere: slopes travel for all ranks or for none."""
    asked = [any(flags) for flags in zip(*(h.asks for h in headers), strict=True)]
    x, y, slices, a, b = (
        t.detach().requires_grad_() if t is not None and wanted and not t.requires_grad else t
        for t, wanted in zip(
            (problem.x, problem.y, slices, problem.x_weights, problem.y_weights), asked, strict=True
        )
    )
    assert x is not None
    assert y is not None
    return dataclasses.replace(problem, x=x, y=y, x_weights=a, y_weights=b), slices


def _sums(tensor: Tensor) -> list[float]:
    """What tells a tensor from another, its order included: the size of its numbers, and their sum by place."""
    flat = tensor.detach().double().flatten()
    places = torch.arange(len(flat), dtype=flat.dtype, device=flat.device)
    return [float(flat.abs().sum()), float(flat @ torch.cos(places))]


def _check_replicas(headers: list[Header]) -> None:
    first = headers[0]
    rounding = 1e-9 if first.dtype == "torch.float64" else 1e-6
    for rank, header in enumerate(headers):
        different = (header.n, header.m) != (first.n, first.m)
        for i in range(0, 0 if different else len(first.content), 2):
            size = first.content[i]
            ours, theirs = first.content[i : i + 2], header.content[i : i + 2]
            different |= any(
                abs(a - b) > rounding * size for a, b in zip(ours, theirs, strict=True)
            )
        if different:
            raise ValueError(
                f"samples='replicated', but ranks 0 and {rank} hold different ones, or in another order ({first.n} and "
                f"{first.m} against {header.n} and {header.m} samples, sums {first.content} against {header.content}): "
                f"give all samples to every rank in one order, or samples='sharded'"
            )


def _gathered(problem: Problem, ranks: Ranks, x: Side, y: Side) -> Problem:
    every: dict[str, Any] = {
        "x": Gathered.apply(problem.x, ranks, x, -2),
        "y": Gathered.apply(problem.y, ranks, y, -2),
    }
    for name, weights, side in (
        ("x_weights", problem.x_weights, x),
        ("y_weights", problem.y_weights, y),
    ):
        every[name] = None if weights is None else Gathered.apply(weights, ranks, side, -1)
        check_weight_sum(name, every[name])
    return dataclasses.replace(problem, **every, y_sorted=None)


def _shared_out(problem: Problem, ranks: Ranks, x: Side, y: Side) -> Problem:
    sides = []
    for name, weights, side in (
        ("x_weights", problem.x_weights, x),
        ("y_weights", problem.y_weights, y),
    ):
        every = None if weights is None else Gathered.apply(weights.detach(), ranks, side, -1)
        check_weight_sum(name, every)
        sides.append(Side(side.sizes, every))
    return dataclasses.replace(
        problem,
        matcher=ByProjections(ranks, sides[0], sides[1], problem.matcher),
        others=Shards(ranks, sides[0], sides[1]),
        y_sorted=None,
    )
