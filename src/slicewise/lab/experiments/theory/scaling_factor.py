"""ESSF(L), the scaling factor on L random slices: its mean C_k / C_d and its standard deviation by a Beta distribution."""

from __future__ import annotations

import math
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
    chunks,
    column,
    generator_of,
    grouped,
    label,
    mean_of,
    points,
    seeded,
)
from slicewise.lab.images import BLUE, GREEN, ORANGE
from slicewise.sampling import Randomness, orthonormal, uniform

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure
    from matplotlib.lines import Line2D


def tasks(preset: str) -> list[Task]:
    """Every d, k and L of the paper, for p = 1, 2."""
    dimensions = by_preset(preset, quick=(100, 1000), paper=(100, 500, 1000))
    ranks = by_preset(preset, quick=(2, 10), paper=(2, 10, 50))
    paper_counts = (10, 50, 100, 500, 1000, 5000, 10_000)
    counts = by_preset(preset, quick=(10, 100, 1000), paper=paper_counts)
    runs = by_preset(preset, quick=400, paper=1000)
    # Up to so many numbers in a task whole slices are drawn; beyond, only what decides their lengths.
    most = by_preset(preset, quick=4_000_000, paper=100_000_000)
    return seeded(
        {
            "p": p,
            "d": d,
            "k": k,
            "n_slices": n_slices,
            "runs": runs,
            "drawn": "slices" if runs * n_slices * d <= most else "lengths",
        }
        for p in (1, 2)
        for d in dimensions
        for k in ranks
        for n_slices in counts
    )


def expected_spread(d: int, k: int, p: float) -> float:
    """Standard deviation of ‖Uᵀθ‖^p for one uniform slice, by ‖Uᵀθ‖² ~ Beta(k/2, (d − k)/2)."""
    return math.sqrt(sw.essf(d, k, p=2 * p) - sw.essf(d, k, p=p) ** 2)


def measure(task: Task) -> Measures:
    """Mean and standard deviation of ESSF(L) over independent runs."""
    d, k, p, n_slices = task["d"], task["k"], task["p"], task["n_slices"]
    generator = generator_of(task)
    drawn = _by_slices if task["drawn"] == "slices" else _by_lengths
    return {
        **mean_of(drawn(task, generator)),
        "expected": sw.essf(d, k, p=p),
        "expected_std": expected_spread(d, k, p) / math.sqrt(n_slices),
    }


def _by_slices(task: Task, generator: torch.Generator) -> Tensor:
    """ESSF (runs,) of whole slices of R^d, on a random subspace."""
    d, k, n_slices = task["d"], task["k"], task["n_slices"]
    rng = Randomness(generator, torch.device("cpu"))
    basis = orthonormal((k, d), rng).mT
    found = [
        sw.empirical_essf(uniform((runs, n_slices, d), rng), basis, p=task["p"])
        for runs in chunks(task["runs"], n_slices * d)
    ]
    return torch.cat(found)


def _by_lengths(task: Task, generator: torch.Generator) -> Tensor:
    """ESSF (runs,) of the same law, from the few numbers it depends on.

    A uniform slice is a standard normal vector over its length. Turned so that the subspace is the first
    k axes, ‖Uᵀθ‖² is what k of its squared coordinates sum to, over that plus the sum of the others: an
    independent chi-square number with d − k degrees of freedom, drawn as such.
    """
    k, n_slices = task["k"], task["n_slices"]
    found = []
    for runs in chunks(task["runs"], n_slices * k):
        normal = torch.randn(runs, n_slices, k, generator=generator)
        inside = torch.linalg.vector_norm(normal, dim=-1, dtype=torch.float64).square()
        half_of_rest = torch.full_like(inside, (task["d"] - k) / 2)
        outside = 2 * torch._standard_gamma(half_of_rest, generator=generator)
        found.append((inside / (inside + outside)).pow(task["p"] / 2).mean(dim=-1))
    return torch.cat(found)


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """Means with their standard deviations; lines and bands are the closed forms of both."""
    panels = grouped(every, "p")
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    ranks = sorted({one.task["k"] for one in every})
    dimensions = sorted({one.task["d"] for one in every})
    colors = dict(zip(ranks, (BLUE, ORANGE, GREEN), strict=False))
    markers = dict(zip(dimensions, ("o", "s", "^"), strict=False))
    for axes, ((p,), panel) in zip(row, panels.items(), strict=True):
        for (d, k), some in grouped(panel, "d", "k").items():
            x, mean, std = (column(some, name) for name in ("n_slices", "expected", "expected_std"))
            axes.fill_between(x, mean - std, mean + std, color=colors[k], alpha=0.25, linewidth=0)
            axes.plot(x, mean, color=colors[k], linewidth=1)
            points(
                axes,
                x,
                column(some, "measured"),
                column(some, "std"),
                colors[k],
                fmt=markers[d],
                markersize=3,
            )
        axes.set_title(f"p = {p}", fontsize="medium")
        # For p = 1 the factors are larger, the axis is common: room for the legend.
        handles = [] if axes is not row[0] else _legend(colors, markers)
        label(axes, "slices $L$", "", log="xy", handles=handles, loc="lower center", ncols=2)
    row[0].set_ylabel("ESSF(L), mean ± std")


def _legend(colors: dict[int, str], markers: dict[int, str]) -> list[Line2D]:
    """Colors say k, markers say d."""
    from matplotlib.lines import Line2D

    return [
        *(Line2D([], [], color=color, label=f"k = {k}") for k, color in colors.items()),
        *(
            Line2D([], [], color="black", marker=marker, linestyle="", label=f"d = {d}")
            for d, marker in markers.items()
        ),
    ]


def verdict(every: list[Measured]) -> str:
    """How near mean and standard deviation are."""
    means = column(every, "measured") / column(every, "expected")
    stds = column(every, "std") / column(every, "expected_std")
    return (
        f"ESSF(L) has mean C_k / C_d and the standard deviation of a Beta law over √L: measured / closed form "
        f"{between(means)} for means and {between(stds)} for standard deviations, in {len(every)} settings."
    )


ESSF = Check(
    name="essf",
    title="The scaling factor on L slices",
    statement="ESSF(L) = mean ‖Uᵀθ‖^p has mean C_k / C_d and variance O(1/L).",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
)
