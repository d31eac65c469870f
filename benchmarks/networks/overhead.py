"""The time of a step without a rate over that of a step of Adam, in `train` and in a loop written out."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import slicewise as sw
from benchmarks.networks import rules
from slicewise.optim import Walker
from slicewise.training import Generator
from slicewise.training.replay import STEPS_PER_GRAPH

LIMIT = 1.6  # promised


@dataclass(frozen=True)
class Size:
    """A generator and its batches."""

    d: int
    width: int
    depth: int
    batch: int
    n_slices: int

    @property
    def name(self) -> str:
        """The size in a line."""
        return f"{self.depth} layers of {self.width}, d {self.d}, B {self.batch}, L {self.n_slices}"

    def network(self, device: torch.device) -> Generator:
        """A fresh network."""
        hidden = (self.width,) * (self.depth - 1)
        return Generator(self.d, hidden=hidden, generator=0).to(device)


SIZES = (
    Size(64, 128, 3, 256, 50),
    Size(64, 512, 4, 1024, 100),
    Size(512, 512, 4, 2048, 50),
    Size(512, 1024, 6, 512, 200),
)
QUICK = (Size(16, 64, 3, 64, 20),)


def measure(device: torch.device, *, quick: bool) -> list[dict[str, Any]]:
    """Return a row for each size and way of training: seconds of either step, medians over rounds."""
    rows = []
    for size in QUICK if quick else SIZES:
        for way, times in (("train", _by_train), ("loop", _by_loop)):
            rounds = 2 if quick else 5
            ours, adam = times(size, device, rounds, 40 if quick else _steps(size, device))
            rows.append(
                {
                    "what": f"{way}, {size.name}",
                    "device": device.type,
                    "adam, µs": 1e6 * adam,
                    "computed, µs": 1e6 * ours,
                    "ratio": ours / adam,
                    "promised": f"≤ {LIMIT}",
                    "met": ours / adam <= LIMIT,
                }
            )
            print(rows[-1], flush=True)
    return rows


def _steps(size: Size, device: torch.device) -> int:
    """Steps that take about half a second."""
    if device.type == "cuda":
        return 640
    weights = size.width**2 * (size.depth - 2) + size.width * (size.d + 8)
    every = Walker.MEASURED_EVERY  # as many steps that measure as there are in the long run
    return every * max(1, min(25, int(0.5 / (6 * weights * size.batch / 40e9)) // every))


# Steps that are not timed: the first ones of a computed training measure more often, and graphs are captured after them.
_FIRST = Walker.LATER
_CAPTURED = _FIRST + 4 * STEPS_PER_GRAPH


def _by_train(size: Size, device: torch.device, rounds: int, steps: int) -> tuple[float, float]:
    """Seconds per step of `train`: a longer training less a shorter one, so that preparations and first steps cancel."""
    generator = torch.Generator().manual_seed(0)
    target = torch.rand(20_000, size.d, generator=generator).to(device)
    how = {"batch": size.batch, "n_slices": size.n_slices, "progress_bar": False}

    def adam(max_steps: int) -> float:
        net = size.network(device)
        return rules.searched(net, target, "sw", 1e-3, max_steps=max_steps, **how).seconds  # type: ignore[arg-type]

    def ours(max_steps: int) -> float:
        return rules.computed(
            size.network(device), target, "sw", max_steps=max_steps, **how
        ).seconds

    first = _CAPTURED if device.type == "cuda" else _FIRST
    return _interleaved(
        [
            lambda rule=rule: (rule(first + 2 * steps) - rule(first)) / (2 * steps)  # type: ignore[misc]
            for rule in (ours, adam)
        ],
        rounds,
    )


def _by_loop(size: Size, device: torch.device, rounds: int, steps: int) -> tuple[float, float]:
    """Seconds per step of a loop written out, with the loss as a module."""
    generator = torch.Generator().manual_seed(0)
    data = torch.rand(size.batch, size.d, generator=generator).to(device)
    noise = torch.randn(size.batch, 8, generator=generator).to(device)

    def timed(computed: bool) -> float:
        network = size.network(device)
        loss = sw.SlicedWasserstein("sw", n_slices=size.n_slices, objective="power")
        if computed:
            step = rules.computed_steps(network.parameters(), 10 * (_FIRST + steps))
        else:
            step = rules.plain_steps(torch.optim.Adam(network.parameters(), lr=1e-3))
        for _ in range(_FIRST):
            step(lambda: loss(network(noise), data))
        _wait(device)
        begun = time.perf_counter()
        for _ in range(steps):
            step(lambda: loss(network(noise), data))
        _wait(device)
        return (time.perf_counter() - begun) / steps

    return _interleaved([lambda: timed(True), lambda: timed(False)], rounds)


def _interleaved(ways: list[Callable[[], float]], rounds: int) -> tuple[float, float]:
    for way in ways:
        way()  # compiles and warms up
    times = [[way() for way in ways] for _ in range(rounds)]
    ours, adam = (statistics.median(some) for some in zip(*times, strict=True))
    return ours, adam


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
