"""The rank of a minibatch: at most 2B − 1, and equal to it for data with noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import slicewise as sw
from slicewise.lab.experiments.check import (
    Check,
    Measured,
    Measures,
    Task,
    by_preset,
    claim,
    column,
    generator_of,
    grouped,
    label,
    line,
    seeded,
)
from slicewise.lab.images import BLUE, GREEN, ORANGE
from slicewise.sampling import Randomness, orthonormal

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

SIDE = 28  # pixels: d = 784, as MNIST
# Data and noise -> color, marker, its size, what to call them.
STYLES = {
    ("subspace", 0.0): (BLUE, "o", 7, "50 dimensions, shifted"),
    ("subspace", 0.01): (ORANGE, "s", 5, "the same, 1 % noise"),
    ("digits", 0.0): (GREEN, "^", 4, "drawn digits"),
}


def tasks(preset: str) -> list[Task]:
    """Batches of all sizes: of 50 dimensions, of the same with noise, of pictures of noughts and ones."""
    batches = by_preset(preset, quick=(4, 16, 64), paper=(2, 4, 8, 16, 32, 64, 128, 256, 512, 1024))
    kinds: tuple[dict[str, str | float], ...] = (
        {"data": "subspace", "k": 50, "noise": 0.0},
        {"data": "subspace", "k": 50, "noise": 0.01},
        {"data": "digits", "noise": 0.0},
    )
    return seeded(
        {**kind, "d": SIDE**2, "batch": batch, "variance": 0.99}
        for kind in kinds
        for batch in batches
    )


def measure(task: Task) -> Measures:
    """Dimensions of B samples of either side by several counts, beside min(2B − 1, d).

    `rank` is numerical, of all samples less their common mean; `halves` that of each side less its own
    mean, at most 2B − 2. `by_variance` is how many directions hold the share `variance`, `participation`
    (Σλ)² / Σλ² of the variances λ. `expected` is the rank there must be, if a formula says.
    """
    batch, d = task["batch"], task["d"]
    x, y = _batches(task)
    whole = sw.effective_subspace(x, y)
    variances = whole.spectrum.square()
    bound = min(2 * batch - 1, d)
    known = {} if task["data"] == "digits" else {"expected": min(bound, _rank(task))}
    found = {
        "rank": whole.k,
        "bound": bound,
        **known,
        "halves": sw.effective_subspace(x - x.mean(dim=0), y - y.mean(dim=0)).k,
        "halves_bound": min(2 * batch - 2, d),
        "by_variance": sw.effective_subspace(x, y, variance=task["variance"]).k,
        "participation": variances.sum() ** 2 / variances.square().sum(),
    }
    return {name: float(value) for name, value in found.items()}


def _rank(task: Task) -> int:
    """That of endless samples: noise fills the space."""
    return int(task["d"] if task["noise"] else task["k"] + 1)


def _batches(task: Task) -> tuple[Tensor, Tensor]:
    generator = generator_of(task)
    batch, d = task["batch"], task["d"]
    if task["data"] == "digits":
        return noughts(batch, generator), ones(batch, generator)
    k = task["k"]
    rng = Randomness(generator, torch.device("cpu"))
    frame = orthonormal((k + 1, d), rng)  # k dimensions that both sides share, and one between them
    x, y = (rng.normal(batch, k).double() @ frame[:k] for _ in range(2))
    x, y = (side + task["noise"] * rng.normal(batch, d).double() for side in (x, y))
    return x, y + frame[k]


def noughts(n: int, generator: torch.Generator) -> Tensor:
    """Pictures (n, 784) of rings of random place, height, width and pen."""
    right, down, height, width, pen = _strokes(n, generator)
    row, column = _pixels()
    across = (column - right / 8) / (0.35 + width / 10)
    along = (row - down / 8) / (0.6 + height / 10)
    distance = (torch.hypot(across, along) - 1) * 0.45
    return torch.exp(-(distance / (0.12 + pen / 40)).square() / 2).flatten(1)


def ones(n: int, generator: torch.Generator) -> Tensor:
    """Pictures (n, 784) of slanted bars of random place, slant, length and pen."""
    right, slant, down, length, pen = _strokes(n, generator)
    row, column = _pixels()
    across = column - right / 8 - slant / 2 * row
    beyond = (row - down / 8).abs().sub(0.6 + length / 10).clamp(min=0)
    width = 0.12 + pen / 40
    return torch.exp(-((across / width).square() + (beyond / width).square()) / 2).flatten(1)


def _strokes(n: int, generator: torch.Generator) -> Tensor:
    """Five numbers in [−1, 1] for each picture, (5, n, 1, 1)."""
    drawn = torch.rand(5, n, 1, 1, generator=generator, dtype=torch.float64)
    return 2 * drawn - 1


def _pixels() -> tuple[Tensor, Tensor]:
    """Where pixels are, in [−1.2, 1.2]: rows (28, 1) and columns (1, 28)."""
    axis = torch.linspace(-1.2, 1.2, SIDE, dtype=torch.float64)
    return axis[:, None], axis[None, :]


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """Ranks against the batch's size, filled; directions that hold 99 % of the variance, hollow."""
    axes = figure.subplots()
    bound = sorted(every, key=lambda one: int(one.task["batch"]))
    x, most = column(bound, "batch"), column(bound, "bound")
    claim(axes, x, most, "black", zorder=4, label="paper: min(2B − 1, d)")
    for kind, some in grouped(every, "data", "noise").items():
        color, marker, size, name = STYLES[kind]
        x = column(some, "batch")
        how: dict[str, Any] = {"color": color, "marker": marker, "markersize": size}
        axes.plot(x, column(some, "rank"), linestyle="", label=name, **how)
        hollow = {**how, "markerfacecolor": "none", "linewidth": 0.8, "linestyle": ":"}
        axes.plot(x, column(some, "by_variance"), **hollow)
        if "expected" in some[0].measures:
            line(axes, x, column(some, "expected"), color)
    axes.plot([], [], "o:", color="black", markerfacecolor="none", label="99 % of the variance")
    label(axes, "samples $B$ of either side", "dimensions", log="xy")


def verdict(every: list[Measured]) -> str:
    """Whether the bound holds, and what it says."""
    held = column(every, "rank") <= column(every, "bound")
    halves = column(every, "halves") <= column(every, "halves_bound")
    reached = column(every, "rank") == column(every, "bound")
    silent = column(every, "bound") == column(every, "d")
    largest = max(every, key=lambda one: int(one.task["batch"])).task["batch"]
    seen = ", ".join(
        f"{one.measures['rank']:.0f} and {one.measures['by_variance']:.0f} ({STYLES[kind][-1]})"
        for kind, some in grouped(every, "data", "noise").items()
        for one in some
        if one.task["batch"] == largest
    )
    return (
        f"The rank of 2B samples less their mean is at most min(2B − 1, d) at {int(held.sum())} of {len(every)} points (less each side's own, "
        f"2B − 2: at {int(halves.sum())}) and equal to it at {int(reached.sum())}; at {int(silent.sum())} the bound is d and says nothing; "
        f"for B = {largest}, the rank and what holds 99 % of the variance are {seen}."
    )


MINIBATCH = Check(
    name="minibatch",
    title="The rank of a minibatch",
    statement="2B centered samples lie in at most min(2B − 1, d) dimensions.",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
)
