"""φ_U(θ) = ‖Uᵀθ‖: its bounds and invariance, and what a slice outside the span of the data can show of a distance."""

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
    by_preset,
    claim,
    column,
    grouped,
    label,
    points,
    rng_of,
    seeded,
)
from slicewise.lab.images import BLUE, ORANGE
from slicewise.sampling import normalize, orthonormal, uniform
from slicewise.transport import wasserstein

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure


def tasks(preset: str) -> list[Task]:
    """Data of 2 dimensions to all of them, p = 1, 2."""
    sizes = by_preset(
        preset,
        quick=((3, 2), (30, 2)),
        paper=((3, 2), (10, 2), (10, 9), (100, 2), (100, 50), (1000, 2)),
    )
    counts = by_preset(preset, quick={"n": 30, "draws": 300}, paper={"n": 100, "draws": 2000})
    return seeded({"p": p, "d": d, "k": k, **counts} for p in (1, 2) for d, k in sizes)


def measure(task: Task) -> Measures:
    """Extremes over many slices of what the paper bounds, each the largest where 0 or 1 is promised.

    `least`, `most`: φ_U of uniform slices. `inside`, `outside`: how far φ_U is from 1 in the span and from 0 orthogonal to it.
    `turned`: how much φ changes from U to UQ. `share`: the largest W_p^p of a slice over W_p^p of the data, which is at most 1;
    `share_bound`: the same with φ_U(θ)^p in the bound. `share_outside`: on slices orthogonal to the data.
    """
    n, d, k, p = task["n"], task["d"], task["k"], task["p"]
    rng = rng_of(task)
    frame = orthonormal((k, d), rng)  # U, transposed
    turn = orthonormal((k, k), rng)
    slices = uniform((task["draws"], d), rng)
    inside = uniform((task["draws"], k), rng) @ frame
    rest = uniform((task["draws"], d), rng)
    outside = normalize(rest - rest @ frame.mT @ frame)
    x, y = rng.normal(n, k).double(), 1 + 2 * rng.normal(n, k).double()
    whole = float(wasserstein(x, y, p=p)) ** p
    phi = _informativeness(frame, slices)
    shares = _one_by_one(x @ frame, y @ frame, slices, p) / whole
    in_span = _one_by_one(x @ frame, y @ frame, inside, p) / whole
    return {
        "least": float(phi.min()),
        "most": float(phi.max()),
        "inside": float((_informativeness(frame, inside) - 1).abs().max()),
        "outside": float(_informativeness(frame, outside).max()),
        "turned": float((_informativeness(turn @ frame, slices) - phi).abs().max()),
        "measured": float(max(shares.max(), in_span.max())),
        "share_bound": float((shares / phi**p).max()),
        "share_outside": float(_one_by_one(x @ frame, y @ frame, outside, p).max() / whole),
        "stderr": 0.0,
    }


def _informativeness(frame: Tensor, slices: Tensor) -> Tensor:
    return torch.linalg.vector_norm(slices @ frame.mT, dim=-1)


def _one_by_one(x: Tensor, y: Tensor, slices: Tensor, p: float) -> Tensor:
    """W_p^p on every slice by itself."""
    sets = slices.unsqueeze(-2)
    return sw.sliced_wasserstein(
        x.expand(len(sets), *x.shape), y, p=p, objective="power", slices=sets
    )


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """The largest share of the distance that a slice shows, against the dimension."""
    axes = figure.subplots()
    for (p,), some in grouped(every, "p").items():
        color = BLUE if p == 1 else ORANGE
        x, y = column(some, "d"), column(some, "measured")
        points(axes, x, y, column(some, "stderr"), color, label=f"p = {p}")
    claim(axes, [3, 1000], [1, 1], "black", label="the paper's bound")
    label(axes, "dimension $d$", "largest $W_p^p$ of a slice / $W_p^p$", log="x")
    axes.set_ylim(0, 1.1)


def verdict(every: list[Measured]) -> str:
    """Whether every bound held."""
    off = max(column(every, name).max() for name in ("inside", "outside", "turned"))
    draws = sum(int(one.task["draws"]) for one in every)
    within = bool(
        (column(every, "least") >= 0).all() and (column(every, "most") <= 1 + 1e-12).all()
    )
    bounded = bool((column(every, "measured") <= 1 + 1e-12).all())
    return (
        f"φ_U lies {'in' if within else 'outside of'} [0, 1] on {draws:,} slices; it is 1 in the span, 0 orthogonal to it and the "
        f"same for U and UQ, up to {off:.1g}. No slice shows more than the distance itself: at most "
        f"{column(every, 'measured').max():.3f} of it{'' if bounded else ', which breaks the bound'}, and at most "
        f"{column(every, 'share_outside').max():.1g} orthogonal to the data."
    )


INFORMATIVENESS = Check(
    name="informativeness",
    title="How much of the data a slice sees",
    statement="0 ≤ φ_U ≤ 1, with 1 in the span and 0 orthogonal to it; φ_U = φ_UQ; W_p^p on a slice ≤ W_p^p of the data.",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
)
