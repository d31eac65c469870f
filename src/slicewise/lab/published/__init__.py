"""The numbers that the paper prints, as they are printed: `results.csv`, read once.

Imports nothing of slicewise. Used by experiments and report.
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["Published", "find", "published"]


@dataclass(frozen=True)
class Published:
    """One cell of a table of the paper; `lr` is None where the table has no rate."""

    table: str
    variant: str
    setting: str
    lr: float | None
    metric: str
    mean: float
    std: float


@functools.cache
def published() -> tuple[Published, ...]:
    """Return all numbers of the paper's tables."""
    text = files("slicewise.lab.published").joinpath("results.csv").read_text()
    return tuple(
        Published(
            row["table"],
            row["method"].lower(),
            row["setting"],
            float(row["lr"]) if row["lr"] else None,
            row["metric"],
            float(row["mean"]),
            float(row["std"]) if row["std"] else float("nan"),
        )
        for row in csv.DictReader(text.splitlines())
    )


def find(table: str, variant: str, setting: str, metric: str) -> Published | None:
    """Return the number of a table with one number per variant, setting and metric; None if it has none."""
    for one in published():
        if (one.table, one.variant, one.setting, one.metric) == (table, variant, setting, metric):
            return one
    return None
