"""Numbers that several figures draw: losses over the steps as distances, and where marks without a rate are put."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slicewise.lab.report.best import Best

REMAINING = "exact W₂ that remains"
LOWEST = 1e-16  # smaller distances are rounding errors
Point = dict[str, Any]


def columns_left_of(lowest: float, names: Iterable[str]) -> dict[str, float]:
    """Return where columns of marks are drawn on a logarithmic axis of rates: left of the least rate, the last one next to it."""
    there = list(names)
    return {name: lowest / 4 ** (len(there) - i) for i, name in enumerate(there)}


def loss_curves(found: Mapping[str, Best]) -> list[Point]:
    """Return the loss of every variant over its steps as a distance, of the first seed."""
    return [
        {"variant": variant, "step": step, "loss": loss}
        for variant, one in found.items()
        for step, loss in loss_curve(one)
    ]


def loss_curve(one: Best) -> list[tuple[int, float]]:
    """Return steps and the loss there as a distance, of the first seed."""
    row = min(one.runs, key=lambda row: row["seed"])
    trace = row["trace"]
    found = []
    for step, loss in zip(trace.get("at", ()), trace.get("loss", ()), strict=False):
        distance = as_distance(loss, row)
        if distance is not None and step > 0:  # a logarithmic axis has no 0
            found.append((step, max(distance, LOWEST)))
    return found


def as_distance(loss: float | None, row: Mapping[str, Any]) -> float | None:
    """Return the loss of a step as SW_2 in the unit of the samples; None if it is not finite."""
    if loss is None or not 0 <= loss < float("inf"):
        return None
    given = row["given"]
    n = given["task"]["n"] if given["convention"] == "reference" else 1
    if row["objective"] == "power":
        return float(loss / n**2) ** 0.5
    return float(loss / n**1.5)
