"""One step from a sample to its target: exact with the right rate and sign, not with the printed ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

import slicewise as sw
from slicewise.lab.experiments.check import (
    Check,
    Measured,
    Measures,
    Task,
    between,
    by_preset,
    chunks,
    column,
    grouped,
    label,
    line,
    points,
    rms_of,
    rng_of,
    seeded,
)
from slicewise.lab.images import BLUE, GREEN, ORANGE
from slicewise.sampling import orthonormal, uniform
from slicewise.steps import theory

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

D, K = 20, 2
# The dimensionless step a of each update x ← x − a M (x − y), M the mean of θθᵀ over the slices.
UPDATES = {"right": float(D), "paper's rate": float(K), "paper's sign": -float(D)}
COLORS = {"right": BLUE, "paper's rate": ORANGE, "paper's sign": GREEN}
FORMULAS = {
    "right": "rate d/(2q)",
    "paper's rate": "paper's rate k/(2q)",
    "paper's sign": "paper's x − (y − x)",
}


def tasks(preset: str) -> list[Task]:
    """One pair of samples of a plane in R^20, by whole orthonormal frames and by independent slices."""
    counts = by_preset(preset, quick=(20, 200, 2000), paper=(20, 100, 400, 2000, 20_000))
    runs = by_preset(preset, quick=50, paper=200)
    return seeded(
        {"law": law, "update": update, "step": step, "n_slices": n, "d": D, "k": K, "runs": runs}
        for law in ("uniform", "orthonormal")
        for update, step in UPDATES.items()
        for n in counts
    )


def measure(task: Task) -> Measures:
    """What is left of the distance after one step, root mean square over runs.

    Fresh uniform slices leave √(1 − 2a/d + a² (L + d − 1) / (L d²)), whole frames |1 − a/d|: with a = d the
    first goes to 0 as √((d − 1)/L), the second is 0. The paper's rate k/(2q) is right inside R^k; its
    update as printed, x − (y − x), goes to 2x − y as L grows.
    """
    d, n_slices, step = task["d"], task["n_slices"], task["step"]
    rng = rng_of(task)
    frame = orthonormal((task["k"], d), rng)
    x, y = (rng.normal(1, task["k"]).double() @ frame for _ in range(2))
    independent = task["law"] == "uniform"
    law = uniform if independent else orthonormal
    left = []
    for runs in chunks(task["runs"], n_slices * d):
        slices = law((runs, n_slices, d), rng)
        _, gradient = sw.value_and_grad(x.expand(runs, 1, d), y, objective="power", slices=slices)
        moved = x - theory.rate_of_step(step, n=1) * gradient  # (runs, 1, d)
        left.append((moved - y).square().sum(dim=(-2, -1)) / (x - y).square().sum())
    share = math.sqrt(theory.contraction(step, n_slices, d)) if independent else abs(1 - step / d)
    return {**rms_of(torch.cat(left)), "expected": share}


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """What is left against the number of slices, filled for independent ones, hollow for frames."""
    axes = figure.subplots()
    fine = np.geomspace(D, max(column(every, "n_slices")), 60)
    for (update, law), some in grouped(every, "update", "law").items():
        color, filled = COLORS[update], law == "uniform"
        if filled:
            exact = [math.sqrt(theory.contraction(UPDATES[update], n, D)) for n in fine]
            line(axes, fine, exact, color)
        points(
            axes,
            column(some, "n_slices"),
            column(some, "measured"),
            column(some, "stderr"),
            color,
            fmt="o" if filled else "s",
            markerfacecolor=color if filled else "none",
            label=FORMULAS[update] if filled else None,
        )
    axes.plot([], [], "s", color="black", markerfacecolor="none", label="on whole frames")
    label(
        axes, f"slices $L$ ($d = {D}$, $k = {K}$)", "distance left after one step / before", log="x"
    )
    axes.set_ylim(-0.1, 3.4)


def verdict(every: list[Measured]) -> str:
    """What each update leaves on the most slices."""
    most = max(int(one.task["n_slices"]) for one in every)
    last = [one for one in every if one.task["n_slices"] == most]
    slices = {"uniform": f"{most} independent slices", "orthonormal": "whole frames"}
    said = "; ".join(
        f"{FORMULAS[update]}: "
        + " and ".join(
            f"{one.measures['measured']:.2g} on {slices[one.task['law']]}" for one in some
        )
        for (update,), some in grouped(last, "update").items()
    )
    drawn = [one for one in every if one.measures["expected"] > 0]
    ratios = column(drawn, "measured") / column(drawn, "expected")
    return f"One step leaves, of the distance, {said}; measured / closed form {between(ratios)}."


ONE_STEP = Check(
    name="one-step",
    title="To the target in one step",
    statement="With the rate k/(2q_i) the update x − (y − x) = y reaches the target in one step.",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
)
