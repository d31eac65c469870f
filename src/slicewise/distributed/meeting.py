"""Processes meet: they compare what they were given, and make one problem of their shares."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicewise.checks import check_choice, check_weight_sum
from slicewise.distributed.collectives import Ranks
from slicewise.distributed.header import Header, exchange_headers
from slicewise.distributed.matching import ByProjections, BySlices, Side
from slicewise.distributed.pools import Amplified, Gathered, Shards, Together
from slicewise.distributed.routes import EXCHANGES, Exchange, route_for
from slicewise.problem import Problem
from slicewise.recipe import Recipe
from slicewise.transforms import is_transformed

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

    @property
    def shared(self) -> str:
        """What must be the same on every rank."""
        return f"samples={self.samples!r}, exchange={self.exchange!r}, averaged={self.averaged}"

    def __str__(self) -> str:
        return f"rank {self.ranks.rank} of {self.ranks.size}, {self.shared}"


def terms_for(group: Any, samples: str, exchange: str, averaged: bool) -> Terms:
    """Checked terms."""
    check_choice("samples", samples, ("sharded", "replicated"))
    check_choice("exchange", exchange, EXCHANGES)
    if samples == "replicated" and exchange != "auto":
        raise ValueError(
            f"exchange = {exchange!r} with samples='replicated', which every rank has already: leave it out"
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
    # One way for everyone's header, wherever samples are: by the host if the group can.
    device = ranks.usual_device()
    try:
        problem, slices = own()
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
    problem, slices = _alike(problem, slices, headers)
    if terms.samples == "replicated":
        _check_replicas(headers)
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
        problem = dataclasses.replace(problem, others=Together(ranks))
    return problem, slices, Exchange(what, why, ranks.size)


def _header(
    terms: Terms, recipe: Recipe, settings: str, problem: Problem, slices: Tensor | None
) -> Header:
    x, y, a, b = problem.x, problem.y, problem.x_weights, problem.y_weights
    recording = torch.is_grad_enabled()
    content = []
    if terms.samples == "replicated":
        content = [float(t.detach().double().sum()) for t in (x, x.abs(), y, y.abs())]
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
        x_weights=None if a is None else list(a.shape[:-1]),
        y_weights=None if b is None else list(b.shape[:-1]),
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


def _check_replicas(headers: list[Header]) -> None:
    first = headers[0]
    for rank, header in enumerate(headers):
        sums = zip(first.content, header.content, strict=True)
        apart = [abs(one - other) for one, other in sums]
        sizes = first.content[1], first.content[1], first.content[3], first.content[3]
        different = any(gap > 1e-3 * size for gap, size in zip(apart, sizes, strict=True))
        if (header.n, header.m) != (first.n, first.m) or different:
            raise ValueError(
                f"samples='replicated', but ranks 0 and {rank} hold different ones ({first.n} and {first.m} "
                f"against {header.n} and {header.m} samples, sums {first.content} against {header.content}): "
                f"give all samples to every rank, or samples='sharded'"
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
