"""The experiment `color`: flows between palettes of 3,000 colors, at the rates of the paper and with computed steps."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.distance import Objective
from slicewise.lab.data import Array, PhotographPair, photograph_pairs
from slicewise.lab.experiments.flows import ELEVEN, FlowCell, timed_cells
from slicewise.lab.experiments.theory.evaluation import measured_distance
from slicewise.lab.names import COLOR as NAME

# {1, 3, 5, 8} · 10^{−4 … 1} and 100, as the paper lists them.
RATES = (
    *(float(f"{digit}e{power}") for power in range(-4, 2) for digit in (1, 3, 5, 8)),
    100.0,
)
QUICK_RATES: dict[Objective, tuple[float, ...]] = {
    "root": (0.001, 0.01, 0.1, 1.0),
    "power": (0.01, 0.1, 1.0, 3.0),
}
OBJECTIVES: tuple[Objective, ...] = ("root", "power")


def on_mean_scale(rate: float, objective: str, n: int) -> float:
    """Convert a published rate for losses that are means over n colors.

    Published losses are n times the root of a sum; that of "sw" is, by the paper's numbers, the sum of squares.
    """
    return float(f"{rate * n ** (1.5 if objective == 'root' else 1.0):.12g}")


def published_rate(rate: float, objective: str, n: int) -> float:
    """Convert a rate for means over n colors to the scale of the paper."""
    return float(f"{rate / n ** (1.5 if objective == 'root' else 1.0):.6g}")


def published_objective(variant: str) -> Objective:
    """Return the objective of a column of the paper, judged by how its numbers depend on the rate."""
    return "power" if variant == "sw" else "root"


@dataclass(frozen=True)
class ColorTask:
    """Moving the palette of one photograph to that of another, n colors each, found by k-means."""

    number: int
    n: int
    folder: str | None = None

    def _pair(self) -> PhotographPair:
        return photograph_pairs(self.folder)[self.number]

    @property
    def setting(self) -> str:
        return f"set{self.number + 1}"

    @property
    def given(self) -> Mapping[str, Any]:
        # The name of the last entry is part of the keys of stored runs.
        return {"photographs": list(self._pair().digests), "n": self.n, "colours": "k-means, 0–255"}

    @property
    def noted(self) -> Mapping[str, Any]:
        return {"source": self._pair().name, "noise": _noise(self._pair())}

    @property
    def shown(self) -> Sequence[int]:
        return (0, 3, 10, 30, 100)

    @property
    def pictured(self) -> bool:
        return False

    @property
    def filmed(self) -> bool:
        return False

    def samples(self, seed: int) -> tuple[Tensor, Tensor]:
        """Return both palettes; seeds differ in their slices only."""
        x, y = (torch.from_numpy(side) for side in self._pair().palettes(self.n))
        return x, y

    def picture(self, particles: Tensor, seed: int) -> Array:
        """Return thumbnails (1 + S, height, width, 3): the target, and the source with its colors moved like the nearest of the palette."""
        source, _ = self._pair().palettes(self.n)
        photograph, target = self._pair().small
        pixels = photograph.reshape(-1, 3).astype(np.float64)
        moves = particles.double().nan_to_num().cpu().numpy() - source
        moved = pixels + moves[:, _nearest(source, pixels)]
        pictures = np.clip(np.round(moved), 0, 255).astype(np.uint8)
        return np.concatenate([target[None], pictures.reshape(-1, *photograph.shape)])


@functools.cache
def _noise(pair: PhotographPair) -> float:
    """Return the W_2 of equal colors (300 of the target) as single precision computes it."""
    pixels = pair.target.reshape(-1, 3)
    chosen = np.random.default_rng(0).permutation(len(pixels))[:300]
    some = pixels[chosen] + np.random.default_rng(1).random((len(chosen), 3))
    return measured_distance(some + 1e-5, some, np.float32)


def _nearest(palette: Array, pixels: Array) -> Array:
    from scipy.spatial import KDTree

    found: Array = KDTree(palette).query(pixels)[1]
    return found


@functools.cache
def _tasks(n: int, folder: str | None) -> tuple[ColorTask, ...]:
    return tuple(ColorTask(number, n, folder) for number in range(len(photograph_pairs(folder))))


def cells(
    preset: str,
    machine: str = "here",
    *,
    photographs: str | None = None,
) -> list[FlowCell]:
    """Return the cells: quick has fewer colors, and rates for two variants; paper everything as published, on both objectives."""
    quick = preset == "quick"
    tasks = _tasks(200 if quick else 3000, photographs)
    seeds = (0,) if quick else (0, 1, 2)
    made: list[FlowCell] = []
    for task in tasks:
        for variant in ELEVEN:
            if not quick or variant == "sw" or task is tasks[0]:
                most = 1000 if quick else 5000
                made.append(FlowCell(NAME, task, variant, "power", None, seeds, most, reduce=True))
            if not quick or (task is tasks[0] and variant in ("sw", "ebsw")):
                made += [_searched(task, variant, o, seeds, quick) for o in OBJECTIVES]
    return made + timed_cells(NAME, tasks[0], 30 if quick else 2000, "mean", machine)


def _searched(
    task: ColorTask, variant: str, objective: Objective, seeds: tuple[int, ...], quick: bool
) -> FlowCell:
    rates = QUICK_RATES[objective] if quick else RATES
    scaled = tuple(on_mean_scale(rate, objective, task.n) for rate in rates)
    steps = 300 if quick else 50_000
    return FlowCell(NAME, task, variant, objective, scaled, seeds, steps, lower_bound=0.0)
