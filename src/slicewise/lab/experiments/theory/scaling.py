"""SW_p^p of k-dimensional data in R^d is smaller by the factor C_k / C_d."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import slicewise as sw
from slicewise.lab.experiments.check import (
    Check,
    Measured,
    Measures,
    Task,
    between,
    by_preset,
    column,
    grouped,
    label,
    line,
    mean_of,
    points,
    rng_of,
    seeded,
)
from slicewise.lab.images import BLUE, ORANGE
from slicewise.sampling import orthonormal, uniform

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

DIMENSIONS = (10, 30, 50, 80, 100, 300, 500, 800, 1000)


def tasks(preset: str) -> list[Task]:
    """The paper's two cases, k = 2 in more and more dimensions and more and more of 1000, for p = 1, 2."""
    dimensions = by_preset(preset, quick=(10, 50, 200), paper=DIMENSIONS)
    largest = dimensions[-1]
    counts = by_preset(
        preset,
        quick={"n": 100, "n_slices": 300, "runs": 10},
        paper={"n": 500, "n_slices": 1000, "runs": 10},
    )
    return seeded(
        {"varied": varied, "p": p, **sizes, **counts, "y_mean": 1.0, "y_std": 2.0}
        for p in (1, 2)
        for varied in ("d", "k")
        for size in dimensions
        for sizes in ({"d": size, "k": 2} if varied == "d" else {"d": largest, "k": size},)
    )


def measure(task: Task) -> Measures:
    """The ratio of SW_p^p in R^d to SW_p^p in R^k, slices drawn apart for either, over a number of runs.

    The samples are of N(0, I_k) and N(y_mean, y_std² I_k), carried into R^d by a random frame.
    """
    n, d, k, p = task["n"], task["d"], task["k"], task["p"]
    rng, ratios = rng_of(task), []
    frame = orthonormal((k, d), rng)
    for _ in range(task["runs"]):
        x = rng.normal(n, k).double()
        y = task["y_mean"] + task["y_std"] * rng.normal(n, k).double()
        outer, inner = (
            sw.sliced_wasserstein(
                *pair, p=p, objective="power", slices=uniform((task["n_slices"], m), rng)
            )
            for pair, m in (((x @ frame, y @ frame), d), ((x, y), k))
        )
        ratios.append(outer / inner)
    return {**mean_of(torch.stack(ratios)), "expected": sw.essf(d, k, p=p)}


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """Ratios against the dimension that is varied, C_k / C_d through them."""
    axes = figure.subplots()
    for (p, varied), some in grouped(every, "p", "varied").items():
        color, marker = BLUE if p == 1 else ORANGE, "o" if varied == "d" else "s"
        x = column(some, varied)
        held = "k = 2, d varied" if varied == "d" else f"d = {some[0].task['d']}, k varied"
        line(axes, x, column(some, "expected"), color)
        points(
            axes,
            x,
            column(some, "measured"),
            column(some, "std"),
            color,
            fmt=marker,
            label=f"p = {p}: {held}",
        )
    label(axes, "dimension varied", "$SW_p^p$ in $R^d$ / in $R^k$; lines: $C_k/C_d$", log="xy")


def verdict(every: list[Measured]) -> str:
    """How near the closed form is."""
    ratios = column(every, "measured") / column(every, "expected")
    errors = column(every, "stderr") / column(every, "expected")
    return (
        f"SW in R^d over SW in R^k is C_k / C_d as the paper says: measured / closed form {between(ratios)} in "
        f"{len(every)} settings, with standard errors {between(errors)}."
    )


SCALING = Check(
    name="scaling",
    title="Data of k dimensions in R^d",
    statement="SW_p^p in R^d = (C_k / C_d) · SW_p^p in the data's own R^k.",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
)
