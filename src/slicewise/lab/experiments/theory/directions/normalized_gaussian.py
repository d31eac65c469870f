"""Normalized Gaussian vectors: uniform on the sphere if and only if the covariance is cI."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from slicewise.lab.experiments.check import (
    Check,
    Measured,
    Measures,
    Task,
    between,
    by_preset,
    claim,
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
from slicewise.sampling import normalize

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure


def tasks(preset: str) -> list[Task]:
    """One axis longer than the others, from not at all (twice as long, all of them) to ten times."""
    ratios = by_preset(preset, quick=(1.0, 3.0, 10.0), paper=(1.0, 1.5, 2.0, 3.0, 5.0, 10.0))
    draws = by_preset(preset, quick=40_000, paper=1_000_000)
    return seeded(
        {"d": d, "ratio": ratio, "scale": 2.0, "draws": draws} for d in (2, 10) for ratio in ratios
    )


def expected_moment(ratio: float, d: int, power: int) -> float:
    """E u₁^power for u = g / ‖g‖, power 2 or 4, where g₁ has `ratio` times the std of g₂, …, g_d.

    By 1/‖g‖² = ∫ e^(−t‖g‖²) dt and 1/‖g‖⁴ = ∫ t e^(−t‖g‖²) dt, under which each axis is a normal integral.
    For d = 2 the second moment comes to ratio / (ratio + 1).
    """
    from scipy.integrate import quad

    def of(t: float) -> float:
        stretched, other = 1 + 2 * t * ratio**2, 1 + 2 * t
        rest = stretched**-0.5 * other ** (-(d - 1) / 2)
        share = ratio**2 / stretched
        return rest * share if power == 2 else rest * 3 * t * share**2

    return float(quad(of, 0, math.inf, epsabs=1e-12, epsrel=1e-10, limit=200)[0])


def measure(task: Task) -> Measures:
    """Second and fourth moments of the first coordinate of N(0, scale² diag(ratio², 1, …, 1)), normalized."""
    d, ratio = task["d"], task["ratio"]
    stds = np.array([task["scale"] * ratio] + [task["scale"]] * (d - 1))
    draws = rng_of(task).normal(task["draws"], d).double()
    squares = normalize(draws.mul_(draws.new_tensor(stds)))[:, 0].square()
    fourth = mean_of(squares.square())
    return {
        **mean_of(squares),
        "expected": expected_moment(ratio, d, 2),
        "paper": 1 / d,
        "fourth": fourth["measured"],
        "fourth_stderr": fourth["stderr"],
        "expected_fourth": expected_moment(ratio, d, 4),
        "paper_fourth": 3 / (d * (d + 2)),
    }


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """The second moment against the ratio of lengths, beside the 1/d of a uniform direction."""
    axes = figure.subplots()
    fine = np.geomspace(1, 10, 40)
    for ((d,), some), color in zip(grouped(every, "d").items(), (BLUE, ORANGE), strict=False):
        line(axes, fine, [expected_moment(ratio, d, 2) for ratio in fine], color)
        points(
            axes,
            column(some, "ratio"),
            column(some, "measured"),
            column(some, "stderr"),
            color,
            label=f"d = {d}",
        )
        claim(axes, [1, 10], [1 / d, 1 / d], color)
    claim(axes, [], [], "black", label="paper: uniform, 1/d")
    label(axes, r"$\sigma_1/\sigma_2$, std of one axis over the others", "$E\\,u_1^2$", log="x")
    axes.set_ylim(0, 1)
    axes.set_xticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    axes.minorticks_off()


def verdict(every: list[Measured]) -> str:
    """Where the moments are those of a uniform direction, and where not."""
    ratios = column(every, "measured") / column(every, "expected")
    apart = abs(column(every, "measured") - column(every, "paper"))
    errors = apart / column(every, "stderr")
    uneven = column(every, "ratio") != 1
    worst = every[int(np.argmax(apart))]
    return (
        f"Normalised normal vectors are uniform for Σ = cI (second moments within {apart[~uneven].max():.1g} of 1/d) and for no other Σ "
        f"tried: at least {errors[uneven].min():.0f} standard errors off, {worst.measures['measured']:.3f} for a uniform "
        f"{worst.measures['paper']:.3f} at σ₁/σ₂ = {worst.task['ratio']:g} in R^{worst.task['d']}; measured / closed form {between(ratios)}."
    )


GAUSSIAN = Check(
    name="gaussian",
    title="Normal vectors over their length",
    statement="N(0, Σ), normalized, is uniform on the sphere for every Σ of full rank.",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
)
