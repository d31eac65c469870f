"""The probability that a slice is nearly orthogonal to a direction: smaller than the paper says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from slicewise.lab.experiments.check import (
    Check,
    Column,
    Measured,
    Measures,
    Task,
    by_preset,
    chunks,
    claim,
    column,
    grouped,
    label,
    line,
    points,
    rng_of,
    seeded,
)
from slicewise.lab.images import BLUE, GRAY, GREEN, ORANGE
from slicewise.sampling import normalize, uniform

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

# ε in units of 1/√d, the typical size of a cosine in R^d.
MULTIPLES = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)


def tasks(preset: str) -> list[Task]:
    """Cosines up to three times their typical size, in few and in many dimensions."""
    dimensions = by_preset(preset, quick=(10, 100), paper=(10, 100, 1000))
    draws = by_preset(preset, quick=40_000, paper=200_000)
    return seeded(
        {"d": d, "epsilon": multiple / math.sqrt(d), "draws": draws}
        for d in dimensions
        for multiple in MULTIPLES
    )


def exact(epsilon: float | Column, d: int) -> Column:
    """Pr(|⟨θ, x₀⟩| ≤ ε), by ⟨θ, x₀⟩² ~ Beta(1/2, (d − 1)/2)."""
    from scipy.special import betainc

    return np.asarray(betainc(0.5, (d - 1) / 2, np.square(epsilon)))


def measure(task: Task) -> Measures:
    """The share of uniform slices within ε of orthogonal to a unit vector, beside the two bounds."""
    d, epsilon, draws = task["d"], task["epsilon"], task["draws"]
    rng = rng_of(task)
    direction = normalize(rng.normal(d).double())
    cosines = [uniform((some, d), rng) @ direction for some in chunks(draws, d)]
    expected = float(exact(epsilon, d))
    return {
        "measured": float((torch.cat(cosines).abs() <= epsilon).double().mean()),
        "stderr": math.sqrt(expected * (1 - expected) / draws),
        "expected": expected,
        "paper_bound": -math.expm1(-d * epsilon**2),
        "correct_bound": 1 - 2 * math.exp(-d * epsilon**2 / 2),
    }


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """The probability of the contrary, where the bounds are straight to see: both must lie above it."""
    axes = figure.subplots()
    fine = np.linspace(0.4, 3.1, 100)
    looks = ((BLUE, "o"), (ORANGE, "s"), (GRAY, "^"))
    for ((d,), some), (color, marker) in zip(grouped(every, "d").items(), looks, strict=False):
        line(axes, fine, 1 - exact(fine / math.sqrt(d), d), color)
        points(
            axes,
            column(some, "epsilon") * math.sqrt(d),
            1 - column(some, "measured"),
            column(some, "stderr"),
            color,
            fmt=marker,
            label=f"d = {d}",
        )
    claim(axes, fine, np.exp(-(fine**2)), "black", label=r"paper: $< e^{-d\epsilon^2}$")
    correct = np.minimum(1, 2 * np.exp(-(fine**2) / 2))
    line(axes, fine, correct, GREEN, label=r"correct: $\leq 2e^{-d\epsilon^2/2}$")
    label(axes, r"$\epsilon\sqrt{d}$", r"$\Pr(|\langle\theta, x_0\rangle| > \epsilon)$", log="y")
    axes.set_ylim(1e-4, 1.3)  # below, none of the draws are left


def verdict(every: list[Measured]) -> str:
    """How often either bound is broken, and where worst."""
    off = abs(column(every, "measured") - column(every, "expected")) / column(every, "stderr")
    # By more than chance: three standard errors.
    upper = column(every, "measured") + 3 * column(every, "stderr")
    broken, correct = (upper < column(every, name) for name in ("paper_bound", "correct_bound"))
    worst = max(every, key=lambda one: one.measures["paper_bound"] - one.measures["measured"])
    return (
        f"The paper's bound 1 − e^(−dε²) is broken at {int(broken.sum())} of {len(every)} points (d = {worst.task['d']}, "
        f"ε = {worst.task['epsilon']:.2f}: {worst.measures['measured']:.4f} measured, more than "
        f"{worst.measures['paper_bound']:.4f} claimed), 1 − 2e^(−dε²/2) at {int(correct.sum())}; the Beta law is at most "
        f"{off.max():.1f} standard errors off."
    )


ORTHOGONALITY = Check(
    name="orthogonality",
    title="Slices nearly orthogonal to a direction",
    statement="Pr(|⟨θ, x₀⟩| ≤ ε) > 1 − e^(−dε²).",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
)
