"""What a check is (`Check`), and what checks share: presets and seeds, statistics of runs, columns of measurements, drawing.

A check asks one statement of the paper, or about estimators, of numbers. Each has a file in `theory/` or `estimators/`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from slicewise.lab.images import GRAY
from slicewise.lab.names import PRESETS
from slicewise.sampling import Randomness
from slicewise.support import check_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

Choice = TypeVar("Choice")
Column = NDArray[np.float64]
# The parameters of a measurement: plain numbers and words, such as {"d": 100, "k": 2, "n_slices": 50, "runs": 1000}.
Task = Mapping[str, Any]
Measures = Mapping[str, float]


@dataclass(frozen=True)
class Measured:
    """A task and its measurements."""

    task: Task
    measures: Measures


@dataclass(frozen=True)
class Check:
    """One statement, of the paper or about estimators, tested by measurements.

    Args:
        name: by which its runs are stored.
        title: in the report.
        statement: what is tested.
        tasks: returns what is measured for a preset.
        measure: measures one task; random numbers depend on the seed of the task only.
        draw: draws all measurements with their closed form.
        verdict: says in a sentence what holds.
        timed: whether measures are times, which depend on the machine.
        size: of the figure, in inches.
    """

    name: str
    title: str
    statement: str
    tasks: Callable[[str], list[Task]]
    measure: Callable[[Task], Measures]
    draw: Callable[[SubFigure, list[Measured]], None]
    verdict: Callable[[list[Measured]], str]
    timed: bool = False
    size: tuple[float, float] = (10.0, 4.2)


def by_preset(preset: str, *, quick: Choice, paper: Choice) -> Choice:
    """Return the value for a preset: a small one that takes seconds, or that of the paper."""
    check_choice("preset", preset, PRESETS)
    return quick if preset == "quick" else paper


def seeded(tasks: Iterable[dict[str, Any]]) -> list[Task]:
    """Return the tasks with a different seed each."""
    return [{**task, "seed": seed} for seed, task in enumerate(tasks)]


def generator_of(task: Task) -> torch.Generator:
    """Return the random generator of a task."""
    return torch.Generator().manual_seed(task["seed"])


def rng_of(task: Task) -> Randomness:
    """Return the random generator of a task, as `slicewise.sampling` takes it."""
    return Randomness(generator_of(task), torch.device("cpu"))


def chunks(total: int, numbers_each: int, *, at_most: int = 4_000_000) -> list[int]:
    """Split `total` runs into chunks of at most `at_most` numbers, which bounds the memory."""
    size = max(1, at_most // numbers_each)
    return [min(size, total - start) for start in range(0, total, size)]


def mean_of(values: Tensor) -> dict[str, float]:
    """Return mean and standard deviation of independent runs, and the standard errors of both."""
    n, mean = len(values), values.mean()
    squares = (values - mean).square()
    std = values.std()
    # The sample variance of n runs has variance (m4 − m2²) / n; that of its root follows by the derivative.
    error_of_std = squares.std() / (2 * std * math.sqrt(n)) if std > 0 else std
    return {
        "measured": float(mean),
        "std": float(std),
        "stderr": float(std / math.sqrt(n)),
        "std_stderr": float(error_of_std),
    }


def rms_of(squares: Tensor) -> dict[str, float]:
    """Return the root of the mean of independent squared errors, and its standard error."""
    rms = squares.mean().sqrt()
    error = squares.std() / math.sqrt(len(squares))
    return {"measured": float(rms), "stderr": float(error / (2 * rms)) if rms > 0 else 0.0}


def grouped(every: Iterable[Measured], *names: str) -> dict[tuple[Any, ...], list[Measured]]:
    """Group measurements by these entries of their tasks, in order."""
    groups: dict[tuple[Any, ...], list[Measured]] = {}
    for one in every:
        groups.setdefault(tuple(one.task[name] for name in names), []).append(one)
    return groups


def column(some: Iterable[Measured], name: str) -> Column:
    """Return one number of each measurement, from its measures or its task."""
    return np.array([{**one.task, **one.measures}[name] for one in some], dtype=np.float64)


def between(ratios: Column) -> str:
    """Return the range of some ratios in words."""
    return f"between {ratios.min():.3f} and {ratios.max():.3f}"


def slope(some: list[Measured], x: str, y: str) -> float:
    """Fit a power law y ∝ x^b, each point weighted by its error, and return b."""
    weights = column(some, y) / column(some, "stderr")
    found = np.polyfit(np.log(column(some, x)), np.log(column(some, y)), 1, w=weights)
    return float(found[0])


def rates(every: list[Measured]) -> str:
    """Say how measurements decrease with the number of slices, for each p."""
    return " and ".join(
        f"as L^({slope(some, 'n_slices', 'measured'):.2f}) for p = {p}"
        for (p,), some in grouped(every, "p").items()
        if len(some) > 1
    )


def points(
    axes: Axes, x: ArrayLike, y: ArrayLike, error: ArrayLike, color: str, **how: Any
) -> None:
    """Draw measurements with error bars."""
    style: dict[str, Any] = {"fmt": "o", "markersize": 4, "capsize": 2, "elinewidth": 1} | how
    axes.errorbar(x, y, yerr=error, color=color, zorder=3, **style)


def line(axes: Axes, x: ArrayLike, y: ArrayLike, color: str, **how: Any) -> None:
    """Draw a closed form."""
    axes.plot(x, y, color=color, **({"linewidth": 1.2} | how))


def claim(axes: Axes, x: ArrayLike, y: ArrayLike, color: str = GRAY, **how: Any) -> None:
    """Draw a claim of the paper, dashed."""
    line(axes, x, y, color, linestyle="--", **how)


def label(axes: Axes, x: str, y: str, *, log: str = "", **legend: Any) -> None:
    """Label the axes, make those in `log` ("xy") logarithmic, and show the legend."""
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.legend(**({"handlelength": 1.6} | legend))
