"""Uniform slices of R^d seen from k dimensions of it: uniform, and independent of how much they see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from slicewise.lab.experiments.check import (
    Check,
    Column,
    Measured,
    Measures,
    Task,
    by_preset,
    chunks,
    column,
    grouped,
    label,
    line,
    points,
    rng_of,
    seeded,
)
from slicewise.lab.images import BLUE, ORANGE
from slicewise.sampling import orthonormal

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

# Of the Kolmogorov distance to the true law times √n, exceeded by chance in 1 of 1,000.
CRITICAL = 1.95


def tasks(preset: str) -> list[Task]:
    """A normal vector of R^d itself (k = d), and seen from fewer dimensions."""
    sizes = by_preset(
        preset,
        quick=((10, 10), (10, 2)),
        paper=((2, 2), (10, 10), (100, 100), (10, 2), (10, 5), (100, 2), (100, 50), (1000, 3)),
    )
    draws = by_preset(preset, quick=20_000, paper=400_000)
    return seeded({"d": d, "k": k, "draws": draws} for d, k in sizes)


def measure(task: Task) -> Measures:
    """Kolmogorov distances, in units of 1/√draws, of the direction u of UᵀZ from a uniform one.

    The square of its first coordinate is compared with Beta(1/2, (k − 1)/2), all of them (`measured`), and apart for the shorter
    and the longer half of the vectors (`short`, `long`): if length and direction are independent, both are of the same law.
    `correlation` is the correlation of ‖UᵀZ‖ with u₁² in standard errors.
    """
    from scipy.stats import beta

    d, k, draws = task["d"], task["k"], task["draws"]
    rng = rng_of(task)
    frame = orthonormal((k, d), rng) if k < d else torch.eye(d, dtype=torch.float64)
    seen = torch.cat([rng.normal(some, d).double() @ frame.mT for some in chunks(draws, d)])
    length = torch.linalg.vector_norm(seen, dim=-1)
    square = (seen[:, 0] / length).square()

    def apart(some: Tensor) -> float:
        law = beta.cdf(np.sort(some.numpy()), 0.5, (k - 1) / 2)
        steps = np.arange(len(law) + 1) / len(law)
        largest = max(np.max(steps[1:] - law), np.max(law - steps[:-1]))
        return float(largest * np.sqrt(len(law)))

    long = length > length.median()
    together = torch.corrcoef(torch.stack([length, square]))[0, 1]
    return {
        "measured": apart(square),
        "short": apart(square[~long]),
        "long": apart(square[long]),
        "correlation": float(together) * float(np.sqrt(draws)),
        "stderr": 0.26,  # standard deviation of the Kolmogorov law
        "expected": 0.8687,  # its mean
    }


def _largest(every: list[Measured]) -> Column:
    return np.max([column(every, name) for name in ("measured", "short", "long")], axis=0)


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """The largest of the three distances for each size, and what chance allows."""
    axes = figure.subplots()
    for full, color, words in ((True, BLUE, "k = d"), (False, ORANGE, "k < d")):
        some = [one for (d, k), ones in grouped(every, "d", "k").items() for one in ones if (k == d) == full]  # fmt: skip
        points(axes, column(some, "d"), _largest(some), column(some, "stderr"), color, label=words)  # fmt: skip
    line(axes, [2, 1000], [CRITICAL] * 2, "black", label="1 of 1,000 by chance")
    label(axes, "dimension $d$", r"Kolmogorov distance $\cdot\sqrt{n}$", log="x")
    axes.set_ylim(0, 2.5)


def verdict(every: list[Measured]) -> str:
    """Whether directions are uniform, given their length too."""
    beyond = int((_largest(every) > CRITICAL).sum())
    return (
        f"Directions of UᵀZ are uniform in R^k and independent of their length: Kolmogorov distance · √n at most "
        f"{_largest(every).max():.2f} over all, the shorter and the longer half in {len(every)} settings, {beyond} beyond {CRITICAL} "
        f"(1 of 1,000 by chance); correlation of length and direction within "
        f"{abs(column(every, 'correlation')).max():.1f} standard errors."
    )


PROJECTED = Check(
    name="projected-slices",
    title="Slices as the data see them",
    statement="‖Z‖ and Z/‖Z‖ are independent for Z ~ N(0, I), and Uᵀθ/‖Uᵀθ‖ is uniform in R^k for uniform θ of R^d.",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
)
