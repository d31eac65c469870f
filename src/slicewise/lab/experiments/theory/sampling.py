"""What measurements have in common: presets, seeds, random numbers, what a number of runs says."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor

from slicewise.lab.experiments.theory.check import Task
from slicewise.sampling import Randomness
from slicewise.support import check_choice

Choice = TypeVar("Choice")
PRESETS = ("quick", "paper")


def by_preset(preset: str, *, quick: Choice, paper: Choice) -> Choice:
    """What a preset takes: a glance that ends in seconds, or the counts of the paper."""
    check_choice("preset", preset, PRESETS)
    return quick if preset == "quick" else paper


def seeded(tasks: Iterable[dict[str, Any]]) -> list[Task]:
    """The tasks with a seed each, so that no two share their random numbers."""
    return [{**task, "seed": seed} for seed, task in enumerate(tasks)]


def generator_of(task: Task) -> torch.Generator:
    """The source of all randomness of a task."""
    return torch.Generator().manual_seed(task["seed"])


def rng_of(task: Task) -> Randomness:
    """The same source, as the library's laws of directions take it."""
    return Randomness(generator_of(task), torch.device("cpu"))


def pieces(total: int, numbers_each: int, *, at_most: int = 4_000_000) -> list[int]:
    """`total` runs cut into pieces that draw `at_most` numbers at a time, which bounds the memory."""
    size = max(1, at_most // numbers_each)
    return [min(size, total - start) for start in range(0, total, size)]


def mean_of(values: Tensor) -> dict[str, float]:
    """Mean and standard deviation of independent runs, and the standard error of either."""
    n, mean = len(values), values.mean()
    squares = (values - mean).square()
    std = values.std()
    # A sample variance of n runs has variance (m4 − m2²) / n; its root, by the slope of the root.
    error_of_std = squares.std() / (2 * std * math.sqrt(n)) if std > 0 else std
    return {
        "measured": float(mean),
        "std": float(std),
        "stderr": float(std / math.sqrt(n)),
        "std_stderr": float(error_of_std),
    }


def rms_of(squares: Tensor) -> dict[str, float]:
    """Root of the mean of independent squared errors, and its standard error."""
    rms = squares.mean().sqrt()
    error = squares.std() / math.sqrt(len(squares))
    return {"measured": float(rms), "stderr": float(error / (2 * rms)) if rms > 0 else 0.0}
