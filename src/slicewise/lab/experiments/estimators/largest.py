"""How much of the maximum over slices an ascent finds, and how tight the upper bound is."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

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
from slicewise.lab.experiments.estimators.contestants import samples
from slicewise.lab.images import PAGE_WIDTH, SKY, STYLES, YELLOW

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

_WAYS: dict[str, dict[str, Any]] = {
    "one climb, T = 10": {},
    "one climb, T = 100": {"n_steps": 100},
    "ten climbs, T = 10": {"restarts": 10},
    "a search": {"search": 100, "restarts": 10, "n_steps": 50},
}
# All are maxsw: in its color the default, and those that search more in others.
_LOOKS = dict(zip(_WAYS, ((STYLES["maxsw"].color, "s"), (YELLOW, "o"), (SKY, "D"), ("black", "^")), strict=True))  # fmt: skip


def tasks(preset: str) -> list[Task]:
    """Return tasks in several dimensions."""
    places = by_preset(preset, quick=((2, 2), (10, 10), (100, 10)), paper=((2, 2), (10, 10), (100, 2), (100, 10), (100, 100), (784, 10)))  # fmt: skip
    sizes = by_preset(preset, quick={"runs": 10, "transports": 50}, paper={"runs": 100, "transports": 300})  # fmt: skip
    return seeded(
        {"way": way, "d": d, "k": k, "n": 100, **sizes} for d, k in places for way in _WAYS
    )


@functools.lru_cache(maxsize=16)
def _bounds(n: int, d: int, k: int, transports: int) -> tuple[float, float]:
    x, y = samples(n, d, k)
    generator = torch.Generator().manual_seed(0)
    quick = float(sw.evaluate(x, y, "maxsw", generator=generator, **_WAYS["a search"]).bound)
    robust = sw.subspace_robust_wasserstein(x, y, 1, max_steps=transports)
    return min(quick, float(robust.upper)), quick


def measure(task: Task) -> Measures:
    """Measure values relative to an upper bound: the mean and the least.

    The bound is the smaller one of couplings along slices (`Evaluation.bound`, here `quick_bound`) and of exact ones.
    """
    n, d, k = task["n"], task["d"], task["k"]
    x, y = samples(n, d, k)
    bound, quick = _bounds(n, d, k, task["transports"])
    many = x.expand(task["runs"], n, d)
    found = sw.sliced_wasserstein(many, y, "maxsw", generator=generator_of(task), **_WAYS[task["way"]])  # fmt: skip
    shares = found / bound
    return {
        "measured": float(shares.mean()),
        "least": float(shares.min()),
        "bound": bound,
        "quick_bound": quick,
    }


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """Draw the share of the bound, mean and least."""
    axes = figure.subplots()
    places = [f"d = {d}\nk = {k}" for d, k in grouped(every, "d", "k")]
    worst = {}
    for shift, ((way,), some) in enumerate(grouped(every, "way").items()):
        at = [i + 0.18 * (shift - 1.5) for i in range(len(places))]
        mean, least = 100 * column(some, "measured"), 100 * column(some, "least")
        worst[way] = least.min()
        color, mark = _LOOKS[way]
        axes.errorbar(at, mean, yerr=np.stack([mean - least, 0 * mean]), fmt=mark, ms=5, color=color, capsize=2, label=way.replace("climb", "ascent"))  # fmt: skip
    axes.axhline(100, color="black", linewidth=0.6)
    axes.set_xticks(range(len(places)), places)
    axes.set_ylabel("% of the upper bound:\nmean, and least of all seeds")
    axes.grid(axis="y")
    first, *_, last = worst
    axes.set_title(f"A search finds at least {worst[last]:.1f} % of the bound of the largest slice, one short ascent {worst[first]:.1f} %")  # fmt: skip
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)


def verdict(every: list[Measured]) -> str:
    """Say what each search finds at worst."""
    told = []
    for (way,), some in grouped(every, "way").items():
        told.append(f"{way}: {column(some, 'least').min():.1%}")
    searched = [m for m in every if m.task["way"] == "a search"]
    quick = column(searched, "quick_bound") / column(searched, "bound")
    return (
        f"Of the upper bound, at worst over places and seeds: {'; '.join(told)}. The bound of couplings along slices alone is "
        f"{quick.min():.3f} to {quick.max():.3f} times that of exact ones."
    )


LARGEST = Check(
    name="largest",
    title="The largest slice",
    statement="Max-SW is what an ascent of ten steps returns.",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
    size=(PAGE_WIDTH, 3.6),
)
