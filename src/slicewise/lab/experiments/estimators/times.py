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
    seeded,
)
from slicewise.lab.experiments.estimators.contestants import CONTESTANTS, entered, samples
from slicewise.lab.images import BLUE, GREEN, ORANGE, PAGE_WIDTH, SKY

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

# Of the dimensions.
_MARKS = ((SKY, "o"), (GREEN, "s"), (BLUE, "D"), (ORANGE, "^"))


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
    """Draw times relative to sw: a panel for each number of slices, a mark for each dimension."""
    by_count = grouped(every, "n_slices")
    names = [name for (name,) in grouped(every, "estimator")]
    panels = figure.subplots(1, len(by_count), sharey=True, squeeze=False)[0]
    for panel, ((count,), mine) in zip(panels, by_count.items(), strict=True):
        spans: dict[str, list[float]] = {}
        for ((d,), some), (color, mark) in zip(grouped(mine, "d").items(), _MARKS, strict=False):
            ratios = _relative(some)
            for name, ratio in ratios.items():
                spans.setdefault(name, []).append(ratio)
            panel.plot(list(ratios.values()), [names.index(name) for name in ratios], mark, color=color, ms=5, label=f"d = {d}")  # fmt: skip
        panel.set_title(_told(count, spans))
        panel.axvline(1, color="black", linewidth=0.6, zorder=0)
        panel.set(xscale="log", xlabel="time / time of sw")
        # Ticks at decades only would leave few numbers.
        low, high = panel.get_xlim()
        marks = [mark for mark in (0.03, 0.1, 0.3, 1, 3, 10, 30, 100) if low <= mark <= high]
        panel.set_xticks(marks, [f"{mark:g}" for mark in marks])
        panel.minorticks_off()
        panel.grid()
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


def _told(count: int, spans: dict[str, list[float]]) -> str:
    """Return the title of a panel: what orthosw costs, which is the one to use, and the slowest."""
    slowest = max(spans, key=lambda name: max(spans[name]))
    most = f"{slowest} up to {max(spans[slowest]):.2g} times sw"
    if "orthosw" not in spans:  # of a comparison that was stopped early
        return f"L = {count}: {most}"
    return (
        f"L = {count}: orthosw {min(spans['orthosw']):.1f} to {max(spans['orthosw']):.1f},\n{most}"
    )


def _relative(some: list[Measured]) -> dict[str, float]:
    """Return times relative to that of sw, by estimator."""
    names = [one.task["estimator"] for one in some]
    seconds = column(some, "measured")
    return dict(zip(names, (seconds / seconds[names.index("sw")]).tolist(), strict=True))


def verdict(every: list[Measured]) -> str:
    """Say which estimators take the most and the least time."""
    told = []
    for (d, count), some in grouped(every, "d", "n_slices").items():
        ratios = _relative(some)
        plain = column([one for one in some if one.task["estimator"] == "sw"], "measured")[0]
        order = sorted(ratios, key=lambda name: ratios[name])
        ends = ", ".join(f"{name} {ratios[name]:.2g}" for name in (order[0], order[-2], order[-1]))
        told.append(f"d = {d}, L = {count}: sw {1e3 * plain:.2g} ms, {ends} times")
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
    size=(PAGE_WIDTH, 4.6),
)
