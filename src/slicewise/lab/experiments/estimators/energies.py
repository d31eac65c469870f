"""Four estimators of energy-based SW: weighted, resampled, and two chains, at equal numbers of slices evaluated."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

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
from slicewise.lab.experiments.estimators.contestants import samples
from slicewise.lab.images import PAGE_WIDTH, SKY, STYLES, YELLOW

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

# How many slices each evaluates for one that enters the mean; its color and mark.
PRICED = {"ebsw": 1, "sirebsw": 2, "imhebsw": 3, "rmhebsw": 3}
_LOOKS = {
    "ebsw": (STYLES["ebsw"].color, STYLES["ebsw"].mark),
    "sirebsw": (YELLOW, "o"),
    "imhebsw": (SKY, "s"),
    "rmhebsw": ("black", "^"),
}


def tasks(preset: str) -> list[Task]:
    """Return tasks at a high temperature (nearly uniform slices) and a low one, in units of SW_2²."""
    counts = by_preset(preset, quick=(30, 90, 300), paper=(30, 90, 300, 900))
    sizes = by_preset(preset, quick={"n": 50, "runs": 60}, paper={"n": 100, "runs": 400})
    places = by_preset(preset, quick=((3, 3), (30, 3)), paper=((3, 3), (30, 3), (30, 30), (100, 3)))
    return seeded(
        {"estimator": name, "d": d, "k": k, "temperature": t, "priced": count, **sizes}
        for d, k in places
        for t in (1.0, 0.1)
        for count in counts
        for name in PRICED
    )


@functools.lru_cache(maxsize=16)
def _truth(n: int, d: int, k: int, temperature: float) -> tuple[float, float]:
    """Return EBSW by many weighted slices, and SW_2², the unit of its temperature."""
    x, y = samples(n, d, k)
    plain = float(sw.evaluate(x, y, n_slices=20_000, generator=torch.Generator().manual_seed(0)).power)  # fmt: skip
    found = sw.evaluate(
        x,
        y,
        "ebsw",
        n_slices=100_000,
        temperature=temperature * plain,
        generator=torch.Generator().manual_seed(1),
    )
    return float(found.power), plain


def measure(task: Task) -> Measures:
    """Measure bias, standard deviation and root mean square of the relative errors."""
    n, d, k, name = task["n"], task["d"], task["k"], task["estimator"]
    wanted, unit = _truth(n, d, k, task["temperature"])
    count = task["priced"] // PRICED[name]
    options = {"n_slices": count, "temperature": task["temperature"] * unit}
    if PRICED[name] == 3:
        options["n_steps"] = count  # one chain, as published
    x, y = samples(n, d, k)
    generator = generator_of(task)
    found = torch.cat(
        [
            sw.evaluate(x.expand(runs, n, d), y, name, generator=generator, **options).power
            for runs in chunks(task["runs"], task["priced"] * (d + n))
        ]
    )
    errors = found / wanted - 1
    rms = errors.square().mean().sqrt()
    return {
        "measured": float(rms),
        "stderr": float(errors.square().std() / math.sqrt(len(errors)) / (2 * rms)),
        "bias": float(errors.mean()),
        "std": float(errors.std()),
    }


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """Draw errors against slices evaluated: a column for each setting, a row for each temperature."""
    from matplotlib.ticker import LogLocator, NullFormatter

    laws = grouped(every, "d", "k", "temperature")
    settings = list(grouped(every, "d", "k"))
    temperatures = [t for (t,) in grouped(every, "temperature")]
    panels = figure.subplots(len(temperatures), len(settings), sharex=True, sharey="col", squeeze=False)  # fmt: skip
    for (d, k, t), some in laws.items():
        panel = panels[temperatures.index(t), settings.index((d, k))]
        for (name,), mine in grouped(some, "estimator").items():
            x, (color, mark) = column(mine, "priced"), _LOOKS[name]
            panel.plot(x, column(mine, "measured"), mark, ls="-", color=color, ms=4, label=name)
            panel.plot(x, abs(column(mine, "bias")), ":", color=color, linewidth=1)
        panel.set(xscale="log", yscale="log")
        if panel in panels[0]:
            panel.set_title(f"d = {d}, k = {k}")
        if panel in panels[:, 0]:
            panel.set_ylabel(f"error (bias: dotted)\nat temperature {t:g} SW₂²")
        panel.set_xticks([30, 100, 300, 900], ["30", "", "300", ""])
        panel.minorticks_off()
        panel.grid()
    for panel in panels[0]:
        low, high = panel.get_ylim()
        if high < 100 * low:
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
            panel.yaxis.set_major_formatter("{x:g}")
            panel.yaxis.set_minor_formatter(NullFormatter())
    wins, _ = _wins(every)
    figure.suptitle(f"Importance weights (ebsw) have the least error in {wins['ebsw']} of {sum(wins.values())} settings")  # fmt: skip
    for panel in panels[-1]:
        panel.set_xlabel("slices evaluated")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


def _wins(every: list[Measured]) -> tuple[dict[str, int], float]:
    """Return how often each has the least error, and the largest ratio of an error to that of ebsw."""
    wins = dict.fromkeys(PRICED, 0)
    worst = 0.0
    for some in grouped(every, "d", "k", "temperature", "priced").values():
        errors = {one.task["estimator"]: one.measures["measured"] for one in some}
        wins[min(errors, key=lambda name: errors[name])] += 1
        worst = max(worst, max(errors.values()) / errors["ebsw"])
    return wins, worst


def verdict(every: list[Measured]) -> str:
    """Say which estimator has the least error, and how often."""
    wins, worst = _wins(every)
    told = ", ".join(f"{name} {count}" for name, count in wins.items())
    return (
        f"Number of the {sum(wins.values())} settings in which each has the least error: {told}. At equal numbers of slices evaluated "
        f"the error of a sampler is up to {worst:.1f} times that of weighted uniform slices."
    )


ENERGIES = Check(
    name="energies",
    title="Estimators of energy-based SW",
    statement="Resampling and chains draw from the energy distribution that weighted uniform slices approximate.",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
    size=(PAGE_WIDTH, 4.8),
)
