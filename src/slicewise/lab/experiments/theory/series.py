"""Measurements in order: groups that make one curve, and their numbers as columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.lab.experiments.theory.check import Measured

Column = NDArray[np.float64]


def grouped(every: Iterable[Measured], *names: str) -> dict[tuple[Any, ...], list[Measured]]:
    """Measurements that agree in these entries of their tasks, in the order they came."""
    groups: dict[tuple[Any, ...], list[Measured]] = {}
    for one in every:
        groups.setdefault(tuple(one.task[name] for name in names), []).append(one)
    return groups


def column(some: Iterable[Measured], name: str) -> Column:
    """One number of each measurement, found by measuring or asked for by the task."""
    return np.array([{**one.task, **one.measures}[name] for one in some], dtype=np.float64)


def between(ratios: Column) -> str:
    """The range of some ratios in words."""
    return f"between {ratios.min():.3f} and {ratios.max():.3f}"


def slope(some: list[Measured], x: str, y: str) -> float:
    """The exponent b of the power law y ∝ x^b that fits best, each point weighed by its error."""
    weights = column(some, y) / column(some, "stderr")
    found = np.polyfit(np.log(column(some, x)), np.log(column(some, y)), 1, w=weights)
    return float(found[0])


def rates(every: list[Measured]) -> str:
    """How what was measured falls with the number of slices, in words, for each p."""
    return " and ".join(
        f"as L^({slope(some, 'n_slices', 'measured'):.2f}) for p = {p}"
        for (p,), some in grouped(every, "p").items()
        if len(some) > 1
    )
