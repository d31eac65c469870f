"""SW on normal slices: the same in R^d as in the data's own R^k, and C_d times that on uniform ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

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
from slicewise.sampling import normalize, orthonormal

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure


def tasks(preset: str) -> list[Task]:
    """Two dimensions in more and more, and half of them, p = 1, 2."""
    sizes = by_preset(
        preset,
        quick=((10, 2), (50, 25)),
        paper=((10, 2), (10, 5), (100, 2), (100, 50), (1000, 2), (1000, 500)),
    )
    counts = by_preset(
        preset,
        quick={"n": 50, "n_slices": 200, "runs": 20},
        paper={"n": 200, "n_slices": 1000, "runs": 40},
    )
    return seeded({"p": p, "d": d, "k": k, **counts} for p in (1, 2) for d, k in sizes)


def measure(task: Task) -> Measures:
    """SW_p^p on normal slices in R^d over that on others in R^k, and over C_d · SW_p^p on uniform slices, run by run."""
    n, d, k, p = task["n"], task["d"], task["k"], task["p"]
    rng = rng_of(task)
    frame = orthonormal((k, d), rng)
    ratios, scaled = [], []
    for _ in range(task["runs"]):
        x, y = rng.normal(n, k).double(), 1 + 2 * rng.normal(n, k).double()
        outer = _on_normal(x @ frame, y @ frame, rng.normal(task["n_slices"], d).double(), p)
        inner = _on_normal(x, y, rng.normal(task["n_slices"], k).double(), p)
        slices = normalize(rng.normal(task["n_slices"], d).double())
        plain = sw.sliced_wasserstein(x @ frame, y @ frame, p=p, objective="power", slices=slices)
        ratios.append(outer / inner)
        scaled.append(outer / (plain * sw.gaussian_constant(d, p=p)))
    constant = mean_of(torch.stack(scaled))
    return {
        **mean_of(torch.stack(ratios)),
        "expected": 1.0,
        "constant": constant["measured"],
        "constant_stderr": constant["stderr"],
    }


def _on_normal(x: Tensor, y: Tensor, slices: Tensor, p: float) -> Tensor:
    """SW_p^p on slices of any length: each scales its W_p^p by its length to the p."""
    one_by_one = sw.sliced_wasserstein(
        x.expand(len(slices), *x.shape),
        y,
        p=p,
        objective="power",
        slices=normalize(slices).unsqueeze(-2),
    )
    return (torch.linalg.vector_norm(slices, dim=-1) ** p * one_by_one).mean()


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """Ratios in R^d to R^k, which are 1."""
    axes = figure.subplots()
    for (p,), some in grouped(every, "p").items():
        color = BLUE if p == 1 else ORANGE
        x, y = column(some, "d"), column(some, "measured")
        points(axes, x, y, column(some, "stderr"), color, label=f"p = {p}")
    line(axes, [10, 1000], [1, 1], "black", label="the paper")
    label(axes, "dimension $d$", "on normal slices: in $R^d$ / in $R^k$", log="x")


def verdict(every: list[Measured]) -> str:
    """How near 1 both ratios are."""
    errors = abs(column(every, "measured") - 1) / column(every, "stderr")
    return (
        f"SW on normal slices is the same in R^d as in R^k: ratio {between(column(every, 'measured'))} in {len(every)} settings, at "
        f"most {errors.max():.1f} standard errors from 1; over C_d · SW on uniform slices it is "
        f"{between(column(every, 'constant'))}."
    )


GAUSSIAN_SLICES = Check(
    name="gaussian-slices",
    title="SW on normal slices",
    statement="SW_p^p on N(0, I_d) in R^d = SW_p^p on N(0, I_k) in the data's R^k = C_d · SW_p^p on uniform slices of R^d.",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
)
