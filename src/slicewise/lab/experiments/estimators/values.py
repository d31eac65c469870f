"""The errors of estimates of SW_2²: bias and standard deviation with L slices."""

from __future__ import annotations

import math
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
    chunks,
    column,
    generator_of,
    grouped,
    seeded,
)
from slicewise.lab.experiments.estimators.contestants import CONTESTANTS, entered, samples, truth
from slicewise.lab.images import PAGE_WIDTH

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

_COLUMNS = 3  # of panels
# Dimensions of the space and of the data, and whether the means differ.
PLACES = (
    *((d, k, True) for d, k in ((2, 2), (3, 3), (10, 2), (10, 10), (100, 2), (100, 100))),
    *((d, k, False) for d, k in ((3, 3), (10, 10), (100, 2), (100, 100))),
)


def tasks(preset: str) -> list[Task]:
    """Return tasks for every estimator, setting and number of slices."""
    places = by_preset(preset, quick=PLACES, paper=(*PLACES, (784, 10, True), (784, 10, False)))
    counts = by_preset(preset, quick=(10, 50, 200), paper=(10, 50, 200, 1000))
    n, runs = by_preset(preset, quick=(50, 60), paper=(100, 200))
    known = by_preset(preset, quick=20_000, paper=200_000)
    return seeded(
        {
            "estimator": name,
            "d": d,
            "k": k,
            "moved": moved,
            "n_slices": count,
            "n": n,
            "runs": runs if d < 500 else runs // 5,  # a rotation of R^784 takes 0.2 s
            "known_by": known,
        }
        for d, k, moved in places
        for count in counts
        for name in entered(d)
    )


def measure(task: Task) -> Measures:
    """Measure the relative errors: their mean (`bias`), standard deviation (`std`) and root mean square."""
    n, d, k, n_slices = task["n"], task["d"], task["k"], task["n_slices"]
    one = CONTESTANTS[task["estimator"]]
    x, y = samples(n, d, k, task["moved"])
    reduced, doubt = truth(n, k, task["moved"], task["known_by"])
    wanted = reduced if one.reduces else reduced * sw.essf(d, k)
    generator = generator_of(task)
    found = torch.cat(
        [
            sw.evaluate(x.expand(runs, n, d), y, one.recipe(n_slices), generator=generator).power
            for runs in chunks(task["runs"], n_slices * (d + n))
        ]
    )
    errors = found / wanted - 1
    squares = errors.square()
    rms = squares.mean().sqrt()
    runs, std = len(errors), float(errors.std())
    return {
        "measured": float(rms),
        "stderr": float(squares.std() / math.sqrt(runs) / (2 * rms)) if std > 0 else 0.0,
        "bias": float(errors.mean()),
        "bias_stderr": math.hypot(std / math.sqrt(runs), doubt / reduced),
        "std": std,
        "negative": float((found < 0).double().mean()),
    }


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """Draw the relative error against L, a panel for each setting; its title names what beats sw at the largest L."""
    places = grouped(every, "d", "k", "moved")
    lines = -(-len(places) // _COLUMNS)
    panels = figure.subplots(lines, _COLUMNS, sharex=True, squeeze=False)
    count = int(column(every, "n_slices").max())
    beaten = 0
    for panel, ((d, k, moved), some) in zip(panels.flat, places.items(), strict=False):
        for (name,), mine in grouped(some, "estimator").items():
            one = CONTESTANTS[name]
            look: dict[str, Any] = {"color": "0.75", "linewidth": 0.9, "zorder": 1}
            if one.color is not None:
                look = {"color": one.color, "linestyle": one.line, "zorder": 2, "label": name}
                look["linewidth"] = 2.2 if name == "sw" else 1.4
            panel.plot(column(mine, "n_slices"), column(mine, "measured"), **look)
        winner = _better([one for one in some if one.task["n_slices"] == count])
        beaten += winner is not None
        place = f"d = {d}, k = {k}{'' if moved else ', one mean'}"
        panel.set_title(f"{place}\n{f'least: {winner}' if winner else 'nothing beats sw'}")
        panel.set(xscale="log", yscale="log")
        panel.minorticks_off()
        panel.grid()
    for panel in panels[:, 0]:
        panel.set_ylabel("relative error")
    for panel in panels[-1]:
        panel.set_xlabel("slices L")
    for empty in list(panels.flat)[len(places) :]:
        empty.set_axis_off()
    figure.suptitle(f"SW₂² by {count:,} slices: in {beaten} of {len(places)} settings another estimator beats sw")  # fmt: skip
    known = {t: h for panel in panels.flat for h, t in zip(*panel.get_legend_handles_labels(), strict=True)}  # fmt: skip
    others = [name for (name,) in grouped(every, "estimator") if CONTESTANTS[name].color is None]
    if others:
        known[", ".join(others[:2]) + ",\n" + ", ".join(others[2:])] = panels.flat[0].plot([], [], color="0.75")[0]  # fmt: skip
    figure.legend(known.values(), known, loc="outside lower center", ncols=4)


def _better(some: list[Measured]) -> str | None:
    """Return the random estimator with the least error, if it is that of sw less two standard errors of their difference."""
    random = [one for one in some if one.measures["std"] > _FIXED]
    least = min(random, key=lambda one: one.measures["measured"])
    (plain,) = (one for one in some if one.task["estimator"] == "sw")
    doubt = math.hypot(least.measures["stderr"], plain.measures["stderr"])
    gain = plain.measures["measured"] - least.measures["measured"]
    return str(least.task["estimator"]) if gain > 2 * doubt else None


Place = tuple[int, int, bool, int]
_FIXED = 1e-12  # standard deviation of an estimator that is not random


def best(every: list[Measured]) -> dict[Place, tuple[str, float, float]]:
    """Return, for each setting and L, the random estimator with the least error, its error, and that of sw.

    Fixed slices do not count: their error may be small by chance, and says nothing about other samples.
    """
    found = {}
    random = [one for one in every if one.measures["std"] > _FIXED]
    for place, some in grouped(random, "d", "k", "moved", "n_slices").items():
        errors = dict(
            zip([one.task["estimator"] for one in some], column(some, "measured"), strict=True)
        )
        name = min(errors, key=lambda one: errors[one])
        d, k, moved, count = place
        found[d, k, moved, count] = (name, float(errors[name]), float(errors["sw"]))
    return found


def verdict(every: list[Measured]) -> str:
    """Say which estimator has the least error, and which are biased."""
    winners = best(every)
    told = []
    for (d, k, moved), some in grouped(every, "d", "k", "moved").items():
        count = int(column(some, "n_slices").max())
        name, least, plain = winners[d, k, moved, count]
        place = f"d = {d}, k = {k}" + ("" if moved else ", one mean")
        told.append(f"{place}: {name} {least:.2g} (sw {plain:.2g})")
    # The bias of a random estimator counts if chance does not explain it.
    random = [one for one in every if one.measures["std"] > _FIXED]
    fixed = [one for one in every if one.task["estimator"] == "qsw"]
    ratios = np.abs(column(random, "bias") / column(random, "bias_stderr"))
    biased = sorted({m.task["estimator"] for m, r in zip(random, ratios, strict=True) if r > 4})
    return (
        f"Least error at the largest L, of those that draw: {'; '.join(told)}. Beyond four standard errors biased: "
        f"{', '.join(biased) or 'none of these'}.{_of_fixed(fixed)}"
    )


def _of_fixed(every: list[Measured]) -> str:
    if not every:
        return ""
    errors = column(every, "measured")
    return (
        f" Fixed slices (qsw) are wrong by {errors.min():.2g} to {errors.max():.2g}, as it happens."
    )


VALUES = Check(
    name="values",
    title="Estimators of SW_2² at equal numbers of slices",
    statement="Even slices, control variates and chains are less noisy than independent uniform ones.",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
    size=(PAGE_WIDTH, 9.4),
)
