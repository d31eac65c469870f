"""The figures of flows: basins over rates, particles and images on their way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.lab.colours import BLUE, GREEN, GREY, ORANGE
from slicewise.lab.report.pieces import Best, Row, as_png, best_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart by colour-blind readers, and by their marks without colour.
_LOOKS = {
    "sw": (BLUE, "o", "-"), "maxsw": (ORANGE, "s", "-"), "dsw": (GREEN, "^", "-"),
    "maxksw": ("#cc79a7", "v", "-"), "imsw": ("#e69f00", "D", "-"), "vimsw": ("#56b4e9", "P", "-"),
    "omsw": ("#000000", "X", "--"), "rmsw": (GREY, "*", "--"), "ebsw": ("#882255", "<", "--"),
    "rpsw": ("#44aa99", ">", "--"), "ebrpsw": ("#999933", "h", "--"),
}  # fmt: skip
LOWEST = 1e-16  # distances below are rounding


def _figure(width: float, height: float) -> Any:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def basins(
    searched: Mapping[str, Mapping[str, Sequence[Row]]],
    computed: Mapping[str, Sequence[Row]],
    edges: Mapping[str, float],
) -> bytes:
    """Exact W_2 that is left over the rate: a panel for each objective, a line for each variant.

    `searched` has rows by objective and variant, `computed` those without a rate, drawn at the left edge;
    `edges` has, by objective, the rate above which the theory says "sw" diverges.
    """
    figure = _figure(6.2 * len(searched), 4.4)
    panels = figure.subplots(1, len(searched), sharey=True, squeeze=False)[0]
    for panel, (objective, variants) in zip(panels, searched.items(), strict=True):
        rates: list[float] = []
        for variant, rows in variants.items():
            curve = {r: best_of(x for x in rows if x["lr"] == r) for r in {x["lr"] for x in rows}}
            at = sorted(curve)
            rates += at
            _line(panel, variant, at, [curve[rate] for rate in at])
        low = min(rates) / 4
        for variant, rows in computed.items():
            best = best_of(rows)
            if best is not None:
                colour, mark, _ = _LOOKS[variant]
                panel.plot([low], [max(best.mean, LOWEST)], mark, color=colour, ms=6, clip_on=False)
        panel.axvline(low * 1.8, color=GREY, lw=0.6)
        panel.text(low, 1.01, "computed", fontsize=7, ha="center", va="bottom", color=GREY,
                   transform=panel.get_xaxis_transform())  # fmt: skip
        if objective in edges and edges[objective] < 4 * max(rates):
            panel.axvline(edges[objective], color=BLUE, lw=1, ls=":")
            panel.text(edges[objective], 0.02, " edge of sw by theory", fontsize=7, color=BLUE, rotation=90,
                       va="bottom", ha="right", transform=panel.get_xaxis_transform())  # fmt: skip
        panel.set(xscale="log", yscale="log", xlabel=f"learning rate, {objective} objective")
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("exact W₂ that is left")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=11, fontsize=8, frameon=False)
    return as_png(figure)


def _line(panel: Axes, variant: str, rates: Sequence[float], found: Sequence[Best | None]) -> None:
    colour, mark, dash = _LOOKS[variant]
    height = [
        np.nan if one is None or np.isinf(one.mean) else max(one.mean, LOWEST) for one in found
    ]
    panel.plot(rates, height, mark + dash, color=colour, ms=4, lw=2 if variant == "sw" else 1,
               label=variant, zorder=3 if variant == "sw" else 2)  # fmt: skip


def ways(flows: Sequence[tuple[str, Row, np.ndarray[Any, Any], Sequence[Row]]]) -> bytes:
    """Particles of "sw" with the step computed, and the distance left beside that of every rate in the end.

    One line of pictures for each (setting, run, its way, the runs by rates).
    """
    columns = max(len(run["trace"]["shown"]) for _, run, _, _ in flows)
    figure = _figure(14, 2.3 * len(flows))
    grid = figure.add_gridspec(len(flows), columns + 1, width_ratios=[1] * columns + [1.6])
    for line, (setting, run, way, searched) in enumerate(flows):
        target, particles = way[0], way[1:]
        extent = 1.6 * np.abs(target).max()
        for column, step in enumerate(run["trace"]["shown"]):
            panel = figure.add_subplot(grid[line, column])
            panel.plot(*target.T, ".", ms=2, color=ORANGE)
            panel.plot(*particles[column].T, ".", ms=2.6, color=BLUE)
            panel.set(
                xlim=(-extent, extent), ylim=(-extent, extent), xticks=[], yticks=[], aspect="equal"
            )
            panel.set_title(f"{setting + ': ' if column == 0 else ''}step {step}", fontsize=10)
        panel = figure.add_subplot(grid[line, -1])
        trace = run["trace"]
        left = [None if w is None else max(w, LOWEST) for w in trace["w2"]]
        panel.plot(trace["w2_at"], left, color=BLUE, lw=2, label="step computed")
        ends = [row for row in searched if row["w2"] not in (None, float("inf"))]
        panel.plot([row["measures"]["steps"] for row in ends], [max(row["w2"], LOWEST) for row in ends],
                   "_", color=GREY, ms=10, label="each searched rate, in the end")  # fmt: skip
        panel.set(xscale="symlog", yscale="log", xlabel="steps", ylabel="exact W₂")
        panel.legend(fontsize=7, loc="lower left")
        panel.grid(alpha=0.25)
    return as_png(figure)


def gallery(rows: Sequence[tuple[str, np.ndarray[Any, Any]]]) -> bytes:
    """Lines of small images, (n, height, width[, 3]), each with its name."""
    columns = max(len(images) for _, images in rows)
    figure = _figure(1.1 * columns + 1.6, 1.15 * len(rows))
    panels = figure.subplots(len(rows), columns, squeeze=False)
    for line, (name, images) in enumerate(rows):
        for column in range(columns):
            panel = panels[line, column]
            panel.set(xticks=[], yticks=[])
            panel.set_frame_on(False)
            if column < len(images):
                panel.imshow(images[column], cmap="gray", vmin=0, vmax=255)
        panels[line, 0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=10)
    return as_png(figure)
