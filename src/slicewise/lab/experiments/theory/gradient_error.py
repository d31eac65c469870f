"""The error of one factor for all slices, of gradients: L^(−1/2) in the span of the data, and far larger outside."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

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
    points,
    rates,
    rms_of,
    seeded,
)
from slicewise.lab.experiments.theory.embedded import embedded, every_angle, moment, sliced
from slicewise.lab.images import BLUE, ORANGE

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

# Where the paper's probability is asked for, in units of p q K / √L: it promises 1 − 2 e^(−0.9²) = 0.11.
LEVEL = 0.9


def tasks(preset: str) -> list[Task]:
    """Few slices to many, a tenfold in two steps, for p = 1, 2."""
    paper_counts = (10, 30, 100, 300, 1000, 3000, 10_000)
    counts = by_preset(preset, quick=(10, 30, 100, 300, 1000), paper=paper_counts)
    sizes = {"n": 20, "d": by_preset(preset, quick=300, paper=500), "runs": 100}
    return seeded(
        {"p": p, "n_slices": n_slices, **sizes, "data_seed": 0, "confidence": 0.95, "level": LEVEL}
        for p in (1, 2)
        for n_slices in counts
    )


def measure(task: Task) -> Measures:
    """Root mean square over runs and samples of ∇SW_p^p in R^d less ESSF(L) · ∇SW_p^p in R^k.

    With g the gradient on the slice's direction in the plane, a slice of R^d pulls a sample by r^p g in the
    span, and by r^(p−1) √(1 − r²) ‖g‖ along its own part outside, which the paper leaves out. The first
    gives the sample covariance of r^p and g, the second a mean of independent terms of mean zero:
    E‖·‖² is (L − 1) / L² · Var r^p · tr Cov g, and (E r^(2p−2) − E r^(2p)) E‖g‖² / L.

    `kept` is the share of whole errors that are at most `level` · p q K / √L, `kept_in_span` that of the errors in the span,
    `promised` the paper's bound of it. `quantile`, `paper_bound` and `correct_bound` (Chebyshev's, by ‖g‖ ≤ p q K) are of whole errors too.
    """
    p, n, n_slices = task["p"], task["n"], task["n_slices"]
    unsure = 1 - task["confidence"]
    data = embedded(task)
    unit = p / n * data.diameter ** (p - 1)
    within, beyond = [], []  # squared errors (runs, n)
    for slices, r, directions in sliced(task, data.frame):
        outer, inner = data.gradients(slices, p), data.gradients(directions, p)
        in_span = outer @ data.frame.mT
        factor = (r**p).mean(dim=-1)[:, None, None]
        within.append((in_span - factor * inner).square().sum(dim=-1))
        beyond.append((outer - in_span @ data.frame).square().sum(dim=-1))
    inside, outside = torch.cat(within), torch.cat(beyond)
    whole = (inside + outside).sqrt().flatten()
    pulls = data.gradients(every_angle(), p)  # (angles, n, 2)
    size = float(pulls.square().sum(dim=-1).mean())
    spread = size - float(pulls.mean(dim=0).square().sum(dim=-1).mean())
    variance = moment(task, 2 * p) - moment(task, p) ** 2
    leaving = moment(task, 2 * p - 2) - moment(task, 2 * p)
    out = rms_of(outside.mean(dim=-1))
    return {
        **rms_of(inside.mean(dim=-1)),
        "expected": math.sqrt((n_slices - 1) * variance * spread) / n_slices,
        "outside": out["measured"],
        "outside_stderr": out["stderr"],
        "expected_outside": math.sqrt(leaving * size / n_slices),
        "quantile": float(whole.quantile(task["confidence"])),
        "paper_bound": unit * math.sqrt(math.log(2 / unsure) / n_slices),
        "correct_bound": unit * math.sqrt((variance + leaving) / (unsure * n_slices)),
        "promised": 1 - 2 * math.exp(-(task["level"] ** 2)),
        "kept": _kept(whole, n_slices, task["level"] * unit),
        "kept_in_span": _kept(inside.sqrt(), n_slices, task["level"] * unit),
    }


def _kept(errors: Tensor, n_slices: int, level: float) -> float:
    """The share of errors that are at most `level` / √L."""
    return float((errors * math.sqrt(n_slices) <= level).double().mean())


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """Errors in the span and outside of it against L, their closed forms through them."""
    axes = figure.subplots()
    for (p,), some in grouped(every, "p").items():
        color, x = BLUE if p == 1 else ORANGE, column(some, "n_slices")
        claim(axes, x, column(some, "paper_bound"), color)
        for name, error, expected, marker, where in (
            ("outside", "outside_stderr", "expected_outside", "s", "outside"),
            ("measured", "stderr", "expected", "o", "in the span"),
        ):
            line(axes, x, column(some, expected), color)
            points(
                axes,
                x,
                column(some, name),
                column(some, error),
                color,
                fmt=marker,
                label=f"p = {p}: {where}",
            )
    claim(axes, [], [], "black", label="paper: 95 % below")
    label(axes, "slices $L$", "error of a sample's gradient, rms", log="xy", ncols=2)
    axes.set_ylim(top=axes.get_ylim()[1] * 30)


def verdict(every: list[Measured]) -> str:
    """The rate, the closed forms, what lies outside the span, whether the promise is kept."""
    inside = column(every, "measured") / column(every, "expected")
    outside = column(every, "outside") / column(every, "expected_outside")
    larger = column(every, "outside") / column(every, "measured")
    broken = [one for one in every if one.measures["kept"] < one.measures["promised"]]
    least = min(column(every, "kept"))
    # Stores of before have no such measure.
    inner = [one.measures["kept_in_span"] for one in every if "kept_in_span" in one.measures]
    span = f"; for the error in the span it holds ({min(inner):.3f} kept)" if inner and min(inner) >= every[0].measures["promised"] else ""  # fmt: skip
    return (
        f"The gradient's error in the span falls {rates(every)}, measured / closed "
        f"form {between(inside)}; outside of it, where the paper counts none, it is {larger.min():.0f} to "
        f"{larger.max():.0f} times larger (measured / closed form {between(outside)}), so the paper's probability bound is broken "
        f"at {len(broken)} of {len(every)} points: {column(every, 'promised')[0]:.3f} promised, as little as {least:.3f} kept{span}."
    )


GRADIENT = Check(
    name="gradient",
    title="One factor for all slices: gradients",
    statement="P(‖ε_L(x_i)‖ ≤ ε) ≥ 1 − 2e^(−ε²L/(p q_i K)²), K = max ‖x − y‖^(p−1).",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
)
