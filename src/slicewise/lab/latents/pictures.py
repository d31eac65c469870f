"""Figures of latents: explained variance, the split and the domains in the plane, decoded pictures."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from slicewise.judging import mean_and_root
from slicewise.lab.data import Array
from slicewise.lab.images import BLUE, GRAY, ORANGE, blank, gallery
from slicewise.lab.latents.sets import Latents

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

# More points would hide each other.
_POINTS = 3_000
_MARKED = (0.5, 0.9, 0.99)


def explained_variance(rows: Tensor) -> Array:
    """Return the share of the variance in the first 1, 2, … principal axes, (min(n, d),)."""
    spread = torch.linalg.svdvals(mean_and_root(rows.double())[1]).square()
    total = spread.sum()
    if not float(total) > 0:
        return np.ones(len(spread))  # all rows are equal
    return (spread.cumsum(dim=0) / total).numpy()


def axes_for(explained: Array, share: float) -> int:
    """Return how many axes hold this share of the variance."""
    return min(int(np.searchsorted(explained, share - 1e-12)) + 1, len(explained))


def participation_ratio(rows: Tensor) -> float:
    """Return (Σ λ)² / Σ λ² of the variances along the principal axes: an effective dimension, d if all are equal."""
    explained = explained_variance(rows)
    shares = np.diff(explained, prepend=0)
    return float(1 / np.square(shares).sum())


def _curve(panel: Axes, latents: Latents) -> None:
    explained = explained_variance(latents.train)
    panel.plot(np.arange(1, len(explained) + 1), explained, color=BLUE, lw=2)
    for index, share in enumerate(_MARKED):
        at = axes_for(explained, share)
        panel.plot([at, at, 0], [0, share, share], color=GRAY, lw=0.8, ls=":")
        inwards = at > 0.9 * len(explained)  # so that words stay inside the frame
        # At different heights, so that both can be read where two shares need about as many axes.
        panel.text(at, 0.03 + 0.25 * index, f"{share:.0%}: {at}", fontsize=8, rotation=90, va="bottom",
                   ha="right" if inwards else "left")  # fmt: skip
    panel.set(xlabel="principal axes", ylabel="share of the variance", ylim=(0, 1.02))
    panel.set_xlim(0, len(explained))
    panel.set_title(f"explained variance, d = {latents.d}", fontsize=10)
    panel.grid(alpha=0.25)


def in_the_plane(latents: Latents, method: str = "pca", seed: int = 0) -> tuple[Array, Array]:
    """Return positions (n, 2) of some rows in the plane, by PCA or UMAP, and the indices of these rows."""
    chosen = np.sort(np.random.default_rng(seed).permutation(len(latents.rows))[:_POINTS])
    rows = latents.rows[torch.from_numpy(chosen)].double()
    if method == "umap":
        return _by_umap(rows.float().numpy(), seed), chosen
    train = latents.train.double()
    _, _, axes = torch.linalg.svd(mean_and_root(train)[1], full_matrices=False)
    return ((rows - train.mean(dim=0)) @ axes[:2].mT).numpy(), chosen


def has_umap() -> bool:
    """Return whether the package umap-learn is installed."""
    return importlib.util.find_spec("umap") is not None


def _by_umap(rows: Array, seed: int) -> Array:
    import umap

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # with a seed it uses one thread
        return np.asarray(umap.UMAP(random_state=seed).fit_transform(rows))


def views(latents: Latents) -> Drawing:
    """Draw the explained variance, and the split and the domains in the plane by PCA, and by UMAP if installed."""
    methods = ["pca", *(["umap"] if has_umap() else [])]
    columns = 2 + len(latents.pairs)
    figure = blank(3.5 * columns, 3.5 * len(methods))
    panels = figure.subplots(len(methods), columns, squeeze=False)
    for line, method in zip(panels, methods, strict=True):
        if method == "pca":
            _curve(line[0], latents)
        else:
            line[0].set_axis_off()
        places, rows = in_the_plane(latents, method)
        held = latents.held[rows]
        title = f"{method.upper()} of {len(rows):,} rows"
        _scatter(line[1], places, {"to train on": ~held, "held out": held}, title)
        for panel, pair in zip(line[2:], latents.pairs, strict=True):
            sides = {side: latents.domains[side][rows] for side in pair}
            _scatter(panel, places, sides, f"{method.upper()}: {' and '.join(pair)}")
    return figure


def _scatter(panel: Axes, places: Array, sides: Mapping[str, Array], title: str) -> None:
    rest = ~np.logical_or.reduce(list(sides.values()))
    panel.plot(*places[rest].T, ".", ms=1.5, color=GRAY, alpha=0.3)
    # In a random order; otherwise the last domain would hide the first.
    order = np.random.default_rng(0).permutation(np.flatnonzero(~rest))
    colors = dict(zip(sides, (BLUE, ORANGE), strict=True))
    of = np.full(len(places), GRAY, dtype="U7")
    for side, mask in sides.items():
        of[mask] = colors[side]
    panel.scatter(places[order, 0], places[order, 1], s=3, c=of[order], alpha=0.6, linewidths=0)
    for side, mask in sides.items():
        panel.plot([], [], "o", ms=5, color=colors[side], label=f"{side} ({mask.sum():,})")
    panel.legend(fontsize=7, loc="best", frameon=True)
    panel.set(xticks=[], yticks=[])
    panel.set_title(title, fontsize=10)


def made_by(latents: Latents, made: Mapping[str, Tensor], count: int = 10) -> Drawing:
    """Draw decoded samples (n, d) of several methods, a row for each, after real held-out ones."""
    lines = {"held out": latents.held_out, **made}
    return gallery([(name, latents.decode(some[:count])) for name, some in lines.items()])


def translated(
    latents: Latents,
    source: Tensor,
    moved: Mapping[str, Tensor],
    names: tuple[str, str],
    count: int = 10,
) -> Drawing:
    """Draw decoded sources (n, d) in the first row, and below each its translations, a row for each method."""
    lines = [(names[0], latents.decode(source[:count]))]
    lines += [
        (f"→ {names[1]}\n{method}" if method else f"→ {names[1]}", latents.decode(some[:count]))
        for method, some in moved.items()
    ]
    return gallery(lines)


def mosaic(pictures: Array, columns: int = 8, gap: int = 2) -> Array:
    """Join pictures (n, height, width[, 3]) into one, row by row, with white between them."""
    count, (height, width), color = len(pictures), pictures.shape[1:3], pictures.shape[3:]
    if not count:
        raise ValueError("pictures is empty: give at least one")
    columns = min(columns, count)
    lines = -(-count // columns)
    size = (lines * (height + gap) - gap, columns * (width + gap) - gap)
    sheet = np.full((*size, *color), 255, np.uint8)
    for index, picture in enumerate(pictures):
        top, left = (height + gap) * (index // columns), (width + gap) * (index % columns)
        sheet[top : top + height, left : left + width] = picture
    return sheet
