"""The time of an estimate with L slices, value and gradient, relative to plain SW."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import slicewise as sw
from slicewise.lab.experiments.check import (
    Check,
    Measured,
    Measures,
    Task,
    by_preset,
    column,
    generator_of,
    grouped,
    label,
    seeded,
)
from slicewise.lab.experiments.estimators.contestants import CONTESTANTS, entered, samples

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure


def tasks(preset: str) -> list[Task]:
    """Return tasks of single calls, as in a training."""
    dimensions = by_preset(preset, quick=(3, 100), paper=(3, 10, 100, 784))
    counts = by_preset(preset, quick=(50,), paper=(50, 500))
    calls = by_preset(preset, quick=20, paper=100)
    return seeded(
        {"estimator": name, "d": d, "k": min(d, 10), "n_slices": count, "n": 1000, "calls": calls}
        for d in dimensions
        for count in counts
        for name in entered(d)
    )


def measure(task: Task) -> Measures:
    """Measure the least time over calls, which other processes disturb least; the first calls, which compile, do not count."""
    x, y = samples(task["n"], task["d"], task["k"])
    recipe = CONTESTANTS[task["estimator"]].recipe(task["n_slices"])
    generator = generator_of(task)

    def once() -> float:
        begun = time.perf_counter()
        sw.value_and_grad(x, y, recipe, objective="power", generator=generator)
        return time.perf_counter() - begun

    for _ in range(3):
        once()
    seconds = [once() for _ in range(task["calls"])]
    return {"measured": min(seconds), "median": statistics.median(seconds)}


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """Draw times relative to sw: a column for each dimension, a row for each number of slices."""
    places = grouped(every, "d", "n_slices")
    dimensions, counts = (sorted(set(of)) for of in zip(*places, strict=True))
    panels = figure.subplots(len(counts), len(dimensions), squeeze=False)
    for (d, count), some in places.items():
        panel = panels[counts.index(count), dimensions.index(d)]
        names = [one.task["estimator"] for one in some]
        seconds = column(some, "measured")
        ratios = seconds / seconds[names.index("sw")]
        panel.barh(names, ratios, color=[CONTESTANTS[name].color for name in names])
        panel.invert_yaxis()
        panel.axvline(1, color="black", linewidth=0.6)
        panel.set_title(f"d = {d}, L = {count}", fontsize=7)
        label(panel, "", "", log="x", handles=[])
        # Ticks at decades only would leave most panels with one number, or none.
        panel.set_xlim(min(0.3, 0.9 * ratios.min()), max(3, 1.1 * ratios.max()))
        low, high = panel.get_xlim()
        marks = [mark for mark in (0.03, 0.1, 0.3, 1, 3, 10, 30, 100) if low <= mark <= high]
        panel.set_xticks(marks, [f"{mark:g}" for mark in marks])
        panel.minorticks_off()
        panel.tick_params(labelsize=6 if len(counts) == 1 else 5)
    figure.supxlabel("time / time of sw", fontsize="small")


def verdict(every: list[Measured]) -> str:
    """Say which estimators take the most and the least time."""
    told = []
    for (d, count), some in grouped(every, "d", "n_slices").items():
        names = [one.task["estimator"] for one in some]
        seconds = column(some, "measured")
        ratios = dict(zip(names, seconds / seconds[names.index("sw")], strict=True))
        order = sorted(ratios, key=lambda name: ratios[name])
        ends = ", ".join(f"{name} {ratios[name]:.2g}" for name in (order[0], order[-2], order[-1]))
        told.append(
            f"d = {d}, L = {count}: sw {1e3 * seconds[names.index('sw')]:.2g} ms, {ends} times"
        )
    return "; ".join(told) + "."


TIMES = Check(
    name="times",
    title="What an estimate costs",
    statement="Cleverer slices cost little beside sorting.",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
    timed=True,
)
