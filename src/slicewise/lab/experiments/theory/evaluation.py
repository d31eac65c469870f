"""The smallest distance that an evaluation in single precision can resolve."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from slicewise.lab.data import TOYS, Array, toy
from slicewise.lab.experiments.check import (
    Check,
    Measured,
    Measures,
    Task,
    by_preset,
    claim,
    column,
    grouped,
    label,
    mean_of,
    points,
    seeded,
)
from slicewise.lab.images import BLUE, GREEN, ORANGE
from slicewise.lab.published import find

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure


_DIMENSIONS = (2, 50, 100)


def tasks(preset: str) -> list[Task]:
    """The paper's targets at its sizes: it takes no time."""
    moves = by_preset(preset, quick=3, paper=20)
    return seeded(
        {"toy": name, "d": d, "n": 300, "moves": moves} for name in TOYS for d in _DIMENSIONS
    )


def measured_distance(x: Array, y: Array, dtype: type) -> float:
    """Return the exact W_2 from squared distances |x|² + |y|² − 2 x·y, computed in this precision."""
    from scipy.optimize import linear_sum_assignment

    x, y = x.astype(dtype), y.astype(dtype)
    costs = (x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * (x @ y.T)
    costs = np.maximum(costs, 0)
    return float(costs[linear_sum_assignment(costs)].astype(np.float64).mean() ** 0.5)


def measure(task: Task) -> Measures:
    """Of the target, and itself moved by 1e-7 a coordinate, some times: single, double, and the paper's for "sw"."""
    y = toy(task["toy"], task["n"], task["d"], task["seed"]).y.numpy()
    rng = np.random.default_rng(task["seed"])
    single, doubt = [], []
    for _ in range(task["moves"]):
        moved = y + 1e-7 * rng.standard_normal(y.shape)
        single.append(measured_distance(moved, y, np.float32))
        truth = ((moved - y) ** 2).sum(1).mean() ** 0.5
        doubt.append(abs(measured_distance(moved, y, np.float64) / truth - 1))
    paper = find("gradient_flow_best", "sw", f"{task['toy']} d={task['d']}", "W2")
    assert paper is not None  # every toy is in its table
    return {**mean_of(torch.tensor(single)), "double_error": float(max(doubt)), "paper": paper.mean}


@functools.cache
def _noise(name: str, d: int, n: int) -> float:
    return measure({"toy": name, "d": d, "n": n, "seed": 0, "moves": 3})["measured"]


def noise_of(task: Mapping[str, Any]) -> float | None:
    """Return the smallest distance that single precision resolves on a toy of the paper; None for other tasks."""
    known = task.get("toy") in TOYS and task.get("d") in _DIMENSIONS
    return _noise(task["toy"], task["d"], task["n"]) if known else None


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """What single precision says of samples 1e-7 apart, beside the paper's best distances."""
    axes = figure.subplots()
    looks = zip(grouped(every, "toy").items(), (BLUE, ORANGE, GREEN), strict=False)
    for ((name,), some), color in looks:
        d, error = column(some, "d"), column(some, "stderr")
        points(axes, d, column(some, "measured"), error, color, label=f"{name}, single precision")
        claim(axes, d, column(some, "paper"), color, marker="s", label=f"{name}, paper: sw at best")
    label(axes, "d", "W₂ of samples 1e-7 apart", log="y")
    axes.set_xticks([2, 50, 100])


def verdict(every: list[Measured]) -> str:
    """How the paper's best distances compare."""
    single, paper = column(every, "measured"), column(every, "paper")
    below = int((paper <= single).sum())
    return (
        f"Samples 1e-7 apart are {single.min():.1e} to {single.max():.1e} apart for an evaluation in single precision "
        f"(in double: right within {column(every, 'double_error').max():.0e}). Of the {len(every)} distances printed for sw {below} are "
        f"not above that, and the largest is {(paper / single).max():.1f} times as much."
    )


EVALUATION = Check(
    name="evaluation",
    title="The noise of the evaluation",
    statement="Distances of 0.0001 to 0.0006 rank methods.",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
)
