"""The experiment `gradient-flow`: flows to toy targets at every rate of the paper and with computed steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

import slicewise as sw
from slicewise.distance import Objective
from slicewise.lab.data import TOYS, Array, toy
from slicewise.lab.experiments.flows import ELEVEN, FlowCell, timed_cells
from slicewise.lab.names import GRADIENT_FLOW as NAME
from slicewise.problem import Convention

# {1, 3, 5, 8} · 10^{−6 … 2} as in the paper; the squared loss, a mean over samples, is stable up to larger ones.
RATES = tuple(float(f"{digit}e{power}") for power in range(-6, 3) for digit in (1, 3, 5, 8))
LARGER_RATES = (1e3, 3e3, 5e3, 8e3, 1e4, 3e4)
OBJECTIVES: tuple[Objective, ...] = ("root", "power")
SHOWN = (0, 3, 10, 20, 40)
# Of settings where steps are computed without the reduction to the data's own two dimensions.
UNREDUCED = ", all dimensions"
QUICK_RATES: dict[Objective, tuple[float, ...]] = {
    "root": (1.0, 3.0, 10.0, 30.0, 100.0),
    "power": (10.0, 100.0, 300.0, 800.0, 3e3),
}


def on_scale(
    rates: dict[Objective, tuple[float, ...]], convention: Convention, n: int
) -> dict[Objective, tuple[float, ...]]:
    """Convert rates for losses that are means over n samples to a convention; published losses are n times sums."""
    if convention == "mean":
        return rates
    return {
        objective: tuple(rate / n ** (1.5 if objective == "root" else 2.0) for rate in some)
        for objective, some in rates.items()
    }


@dataclass(frozen=True)
class ToyTask:
    """A normal cloud and a toy target of the plane, both rotated into R^d."""

    name: str
    d: int
    n: int

    @property
    def setting(self) -> str:
        return f"{self.name} d={self.d}"

    @property
    def given(self) -> Mapping[str, Any]:
        return {"toy": self.name, "d": self.d, "n": self.n}

    @property
    def noted(self) -> Mapping[str, Any]:
        return {}

    @property
    def shown(self) -> Sequence[int]:
        return SHOWN

    @property
    def pictured(self) -> bool:
        return False

    @property
    def filmed(self) -> bool:
        return True

    def samples(self, seed: int) -> tuple[Tensor, Tensor]:
        pair = toy(self.name, self.n, self.d, seed)
        return pair.x, pair.y

    def picture(self, particles: Tensor, seed: int) -> Array:
        """Return target and particles in the plane of the data, (1 + S, n, 2)."""
        x, y = self.samples(seed)
        plane = sw.effective_subspace(x, y)
        seen = [plane.reduce(points.to(y))[..., :2] for points in (y[None], particles)]
        return np.concatenate([points.float().numpy() for points in seen])


def cells(preset: str, convention: Convention = "mean", machine: str = "here") -> list[FlowCell]:
    """Return the cells: quick has each target in one dimension and few rates, paper everything as published."""
    seeds: tuple[int, ...]
    rates: dict[Objective, tuple[float, ...]]
    if preset == "quick":
        tasks = [ToyTask(name, d, 100) for name, d in zip(TOYS, (50, 2, 100), strict=True)]
        seeds, steps, searched = (0,), 150, 1000
        rates = on_scale(QUICK_RATES, convention, 100)
    else:
        tasks = [ToyTask(name, d, 300) for name in TOYS for d in (2, 50, 100)]
        seeds, steps, searched = (0, 1, 2), 10_000, 10_000
        rates = {"root": RATES, "power": RATES + LARGER_RATES}
    made: list[FlowCell] = []
    for task in tasks:
        for variant in ELEVEN:
            known = (NAME, task, variant)
            made.append(FlowCell(*known, "power", None, seeds, searched, convention, reduce=True))
            if preset != "quick" and task.d > 2:
                whole = FlowCell(*known, "power", None, seeds, searched, convention)
                made.append(replace(whole, suffix=UNREDUCED))
            made += [
                FlowCell(*known, objective, rates[objective], seeds, steps, convention)
                for objective in OBJECTIVES
            ]
    timed = ToyTask("swiss", 50, tasks[0].n)
    return made + timed_cells(NAME, timed, steps, convention, machine, seeds)
