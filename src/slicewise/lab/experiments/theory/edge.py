"""The largest stable rate: n L d / (L + d − 1), not the paper's k / (2 p_i)."""

from __future__ import annotations

from itertools import cycle
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
    column,
    generator_of,
    grouped,
    label,
    line,
    mean_of,
    points,
    seeded,
)
from slicewise.lab.images import BLUE, GRAY, GREEN, ORANGE
from slicewise.steps import theory

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

MULTIPLES = (0.5, 0.8, 0.9, 1.0, 1.1, 1.3, 1.6)


def tasks(preset: str) -> list[Task]:
    """Rates as multiples of the edge, and the paper's own, for fewer and for more dimensions than slices."""
    settings = by_preset(preset, quick=((2, 20), (40, 20)), paper=((2, 50), (50, 50), (100, 50)))
    counts = by_preset(preset, quick={"n": 20, "runs": 100}, paper={"n": 100, "runs": 400})
    return seeded(
        {"d": d, "n_slices": n_slices, "multiple": multiple, **counts, "steps": 3, "noise": 1e-4}
        for d, n_slices in settings
        for multiple in sorted({*MULTIPLES, paper_multiple(n_slices, d)})
    )


def paper_multiple(n_slices: int, d: int) -> float:
    """The paper's rate k / (2 p_i) over the edge, for data of full rank k = d and weights p_i = 1/n."""
    return theory.paper_step(d, 1.0) / theory.rate_of_step(theory.stability_limit(n_slices, d), n=1)


def measure(task: Task) -> Measures:
    """The mean of |e′|² / |e|² over one step of a flow, e = X − Y, from Y plus noise so small that no sample
    changes its partner.

    Given e, its mean is 1 − 2a/d + a² (L + d − 1) / (L d²) at every step, where a = 2h/n is the dimensionless
    step of the rate h. `typical` is the growth of most runs, the exponential of the mean logarithm.
    """
    n, d, n_slices = task["n"], task["d"], task["n_slices"]
    generator = generator_of(task)
    y, noise = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    step = task["multiple"] * theory.stability_limit(n_slices, d)
    seeds = torch.randint(2**31, (task["runs"],), generator=generator).tolist()
    found = sw.flow(
        y + task["noise"] * noise,
        y,
        lr=theory.rate_of_step(step, n),
        seeds=seeds,
        n_slices=n_slices,
        max_steps=task["steps"],
        recording=sw.Recording(particles_at=range(task["steps"] + 1), progress_bar=False),
    )
    squares = (found.history.particles - y).square().sum(dim=(-2, -1))  # (steps + 1, runs)
    ratios = squares[1:] / squares[:-1]
    return {
        **mean_of(ratios.mean(dim=0)),
        "expected": theory.contraction(step, n_slices, d),
        "typical": float(ratios.log().mean().exp()),
        "paper_multiple": paper_multiple(n_slices, d),
    }


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """Growth against the rate: below 1 it contracts; dashed, where the paper says convergence is sure."""
    axes = figure.subplots()
    fine = np.linspace(0.3, 1.65, 100)
    axes.axhline(1, color=GRAY, linewidth=0.8)
    groups = grouped(every, "d", "n_slices")
    for ((d, n_slices), some), color in zip(
        groups.items(), cycle((BLUE, ORANGE, GREEN)), strict=False
    ):
        step = fine * theory.stability_limit(n_slices, d)
        line(axes, fine, [theory.contraction(a, n_slices, d) for a in step], color)
        axes.axvline(some[0].measures["paper_multiple"], color=color, linestyle="--", linewidth=1)
        points(
            axes,
            column(some, "multiple"),
            column(some, "measured"),
            column(some, "stderr"),
            color,
            label=f"d = {d}, L = {n_slices}",
        )
    axes.plot([], [], "--", color="black", linewidth=1, label="paper: $k/(2p_i)$")
    label(
        axes,
        "rate / $nLd/(L+d-1)$",
        "growth of $|e|^2$ in a step",
        log="y",
        loc="lower right",
        frameon=True,
        framealpha=1,
        edgecolor="none",
    )


def verdict(every: list[Measured]) -> str:
    """Which rates contract, and what the paper's does."""
    ratios = column(every, "measured") / column(every, "expected")
    below = [one for one in every if one.task["multiple"] < 0.95]
    above = [one for one in every if one.task["multiple"] > 1.05]
    contract = sum(one.measures["measured"] < 1 for one in below)
    diverge = sum(one.measures["measured"] > 1 for one in above)
    papers = [one for one in every if one.task["multiple"] == one.measures["paper_multiple"]]
    said = "; ".join(
        f"{one.measures['measured']:.2f} for d = {one.task['d']}, L = {one.task['n_slices']}"
        for one in papers
    )
    return (
        f"{contract} of {len(below)} rates below the edge contract and {diverge} of {len(above)} above it diverge, measured / closed "
        f"form {between(ratios)}; the paper's k/(2p_i), where convergence is said to be guaranteed, multiplies |e|² by {said}."
    )


EDGE = Check(
    name="edge",
    title="The longest stable step",
    statement="Convergence is guaranteed for rates h_i ≤ k / (2 p_i).",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
)
