"""Figures of flows by matplotlib: distances over rates, losses over steps, particles along their path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slicewise.lab.data import Array
from slicewise.lab.images import BLUE, GRAY, ORANGE, PAGE_WIDTH, STYLES, blank, draw_variant
from slicewise.lab.report.best import Best, Row
from slicewise.lab.report.curves import LOWEST, REMAINING, columns_left_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


def basins(
    searched: Mapping[str, Mapping[str, Sequence[Best]]],
    unsearched: Mapping[str, Mapping[str, Best]],
    edges: Mapping[str, float],
    *,
    measure: str = REMAINING,
) -> Drawing:
    """Draw a measure over the rate: a panel for each objective, a line for each variant.

    Args:
        searched: the results at each rate, by objective and variant.
        unsearched: results without a searched rate, by what they are called and by variant; each a column of marks left
            of the lines, the first one leftmost.
        edges: the largest stable rate of "sw" by theory, by objective.
        measure: the name of the measure.
    """
    figure = blank(PAGE_WIDTH if len(searched) == 1 else 5.0 * len(searched), 4.4)
    panels = figure.subplots(1, len(searched), sharey=True, squeeze=False)[0]
    for panel, (objective, variants) in zip(panels, searched.items(), strict=True):
        rates: list[float] = []
        for variant, found in variants.items():
            some = [one for one in found if one.rate is not None and 0 < one.rate < np.inf]
            rates += [one.rate for one in some if one.rate is not None]
            _line(panel, variant, some)
        named = set(variants)
        for words, at in columns_left_of(min(rates), unsearched).items():
            for variant, best in unsearched[words].items():
                style, height = STYLES[variant], max(best.mean, LOWEST)
                # A variant without a line needs an entry of the legend, and one only.
                name = None if variant in named else variant
                named.add(variant)
                panel.plot(
                    [at], [height], style.mark, color=style.color, ms=6, clip_on=False, label=name
                )
            panel.text(at, 1.01, words.replace(" ", "\n"), fontsize=9, ha="center", va="bottom", color=GRAY,
                       transform=panel.get_xaxis_transform())  # fmt: skip
        if unsearched:
            panel.axvline(min(rates) / 2.2, color=GRAY, lw=0.6)
        if objective in edges and edges[objective] < 4 * max(rates):
            panel.axvline(edges[objective], color=BLUE, lw=1, ls=":")
            panel.text(edges[objective], 0.02, " edge of sw by theory", fontsize=9, color=BLUE, rotation=90,
                       va="bottom", ha="right", transform=panel.get_xaxis_transform())  # fmt: skip
        panel.set(xscale="log", xlabel=f"learning rate, {objective} objective")
        _rates_only(panel, min(rates) / 2.2)
        panel.grid()
    panels[0].set_ylabel(measure)
    _scaled(panels)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6)
    return figure


def _rates_only(panel: Axes, least: float) -> None:
    """Leave out the ticks of a logarithmic axis below the least rate, where marks without a rate are."""
    ticks = [tick for tick in panel.get_xticks() if tick >= least]
    minor = [tick for tick in panel.get_xticks(minor=True) if tick >= least]
    limits = panel.get_xlim()
    panel.set_xticks(ticks)
    panel.set_xticks(minor, minor=True)
    panel.set_xlim(*limits)


def _scaled(panels: Sequence[Axes]) -> None:
    """Set the common vertical axis: linear, or logarithmic with plain numbers if it spans few powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low = min(panel.dataLim.y0 for panel in panels)
    high = max(panel.dataLim.y1 for panel in panels)
    if high < 3 * low:
        return  # stays linear
    panels[0].set_yscale("log")
    if high < 100 * low:
        axis = panels[0].yaxis
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())


def _line(panel: Axes, variant: str, found: Sequence[Best]) -> None:
    height = [np.nan if np.isinf(one.mean) else max(one.mean, LOWEST) for one in found]
    draw_variant(panel, variant, [one.rate or np.nan for one in found], height)


def convergence(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> Drawing:
    """Draw losses over steps as distances: a panel for each way to choose the step, a line for each variant."""
    figure = blank(max(3.4 * len(found), 5.0), 3.8)
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for panel, (title, points) in zip(panels, found.items(), strict=True):
        for variant in STYLES:
            some = [point for point in points if point["variant"] == variant]
            if some:
                draw_variant(panel, variant, [p["step"] for p in some], [p["loss"] for p in some])
        panel.set(xscale="log", yscale="log", xlabel="step", title=title)
        panel.grid()
    panels[0].set_ylabel("SW₂ on the slices of the step")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6 if len(found) > 1 else 4)
    return figure


def flow_paths(flows: Sequence[tuple[str, Row, Array, Sequence[Row]]]) -> Drawing:
    """Draw particles of "sw" with computed steps, and their remaining distance beside that of every searched rate.

    Each row has (setting, run, its path, the runs at searched rates).
    """
    columns = max(len(run["trace"]["shown"]) for _, run, _, _ in flows)
    figure = blank(10, 1.8 * len(flows))
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
            panel.set_title(f"step {step}")
            if column == 0:
                panel.set_ylabel(setting, fontweight="bold")
        panel = figure.add_subplot(grid[line, -1])
        trace = run["trace"]
        remaining = [np.nan if w is None else max(w, LOWEST) for w in trace["w2"]]
        panel.plot(trace["w2_at"], remaining, color=BLUE, lw=2, label="step computed")
        ends = [row for row in searched if row["w2"] not in (None, float("inf"))]
        panel.plot([row["measures"]["steps"] for row in ends], [max(row["w2"], LOWEST) for row in ends],
                   "_", color=GRAY, ms=10, label="each searched rate, at the end")  # fmt: skip
        panel.set(xscale="symlog", yscale="log", xlabel="steps", ylabel="exact W₂")
        panel.grid()
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower right", ncols=2)
    return figure


def ends(found: Sequence[tuple[str, Array, str]]) -> Drawing:
    """Draw the final particles of each variant, given as (name, target and particles (2, n, 2), words)."""
    columns = min(len(found), 6)
    lines = -(-len(found) // columns)
    figure = blank(2.1 * columns, 2.4 * lines)
    panels = figure.subplots(lines, columns, squeeze=False)
    for panel in panels.flat:
        panel.set_axis_off()
    for panel, (name, (target, particles), words) in zip(panels.flat, found, strict=False):
        extent = 1.15 * np.abs(target).max()
        panel.plot(*target.T, "o", ms=5, mfc="none", mew=0.7, color=ORANGE)
        panel.plot(*particles.T, ".", ms=2.2, color=BLUE)
        panel.set(xlim=(-extent, extent), ylim=(-extent, extent), aspect="equal")
        panel.set_title(f"{name}\n{words}", fontsize=9)
    return figure
