"""Pictures of the study at full size, from the records and from flows with the same settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import slicewise as sw
from benchmarks.study.records import Line, Records
from slicewise.lab.data import toy
from slicewise.lab.experiments import ELEVEN
from slicewise.lab.images import BLUE, GRAY, ORANGE, blank
from slicewise.lab.names import GRADIENT_FLOW, TRANSLATE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Below it, W_2 of samples of size 1 is rounding.
LOWEST = 1e-16
# Of the variants other than sw: a color and a mark each, no two alike.
STYLES = dict(
    zip(
        ELEVEN,
        (
            (BLUE, "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#cc79a7", "v"), ("#e69f00", "D"), ("#56b4e9", "P"),
            ("#000000", "X"), ("#777777", "*"), ("#882255", "<"), ("#44aa99", ">"), ("#999933", "p"),
        ),
        strict=True,
    )
)  # fmt: skip
SHOWN = (0, 3, 10, 20, 40)
WAYS = (("swiss", 50), ("8gaussians", 2), ("knot", 100))


def basin(records: Records, setting: str = "swiss d=50") -> Figure:
    """Draw the distance left over the rate, on the root and on the square, with computed steps at the left."""
    figure = blank(12.4, 4.8)
    panels = figure.subplots(1, 2, sharey=True)
    titles = {
        "root": "on SW₂: no rate comes to rest",
        "power": "on SW₂²: most arrive, each at its own rates",
    }
    computed = {v: records.computed(setting, v) for v in ELEVEN}
    for panel, (objective, title) in zip(panels, titles.items(), strict=True):
        least, most = np.inf, 0.0
        for variant in (*ELEVEN[1:], ELEVEN[0]):
            lines = records.searched(GRADIENT_FLOW, setting, variant, objective)
            rates = [float(line["lr"]) for line in lines]
            least, most = min(least, *rates), max(most, *rates)
            _drawn(panel, variant, rates, [_height(line) for line in lines])
        for variant, line in computed.items():
            color, mark = STYLES[variant]
            panel.plot([least / 12], [_height(line)], mark, color=color, ms=6, clip_on=False)
        panel.axvline(least / 4, color=GRAY, lw=0.6)
        panel.set(xscale="log", yscale="log", xlabel="learning rate", title=title)
        # No tick left of the rates, where steps were computed.
        panel.set_xticks([tick for tick in panel.get_xticks() if tick >= least / 2])
        panel.set_xlim(least / 40, 3 * most)
        panel.minorticks_off()
        panel.text(least / 12, 1.01, "no rate:\ncomputed", fontsize=7, ha="center", va="bottom", color=GRAY, transform=panel.get_xaxis_transform())  # fmt: skip
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("exact W₂ left")
    _legend(figure, panels[0])
    return figure


def color_basin(records: Records) -> Figure:
    """Draw the distance left over the published rate for every variant on the three pairs of photographs."""
    figure = blank(14, 4.6)
    panels = figure.subplots(1, 3, sharey=True)
    for panel, setting in zip(panels, ("set1", "set2", "set3"), strict=True):
        for variant in (*ELEVEN[1:], ELEVEN[0]):
            found = records.colors(setting, variant)
            _drawn(panel, variant, list(found), [_height(line, 1e-6) for line in found.values()])
        panel.set(xscale="log", yscale="log", xlabel="the paper's learning rate", title=setting, ylim=(5e-7, 1e4))  # fmt: skip
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("exact W₂ left, levels of 0 to 255")
    _legend(figure, panels[0])
    return figure


def latent_basins(records: Records) -> Figure:
    """Draw the held-out W_2 of translations over the rate."""
    figure = blank(12.4, 4.6)
    panels = figure.subplots(1, 2)
    for panel, setting in zip(panels, ("male to female", "adult to child"), strict=True):
        for variant in (*ELEVEN[1:], ELEVEN[0]):
            lines = records.searched(TRANSLATE, setting, variant, "root")
            _drawn(panel, variant, [float(x["lr"]) for x in lines], [float(x["w2_mean"]) for x in lines])  # fmt: skip
        panel.set(xscale="log", xlabel="learning rate, root", title=setting)
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("W₂ to held-out rows of the target")
    _legend(figure, panels[0])
    return figure


def steps_of_way(name: str, d: int) -> int:
    """Return how many computed steps `sw` takes to a toy target: 300 particles, seed 0, at most 10,000."""
    pair = toy(name, 300, d, 0)
    made = sw.flow(
        *(pair.x, pair.y, "sw"),
        seeds=0,
        defaults="paper",
        max_steps=10_000,
        stopping=sw.Stopping(assign=False),
        recording=sw.Recording(progress_bar=False),
    )
    return int(made.n_steps)


def ways(records: Records) -> Figure:
    """Draw particles of three flows of `sw` with computed steps, and their distance beside the ends of all searched rates."""
    figure = blank(14, 7.2)
    grid = figure.add_gridspec(
        len(WAYS), len(SHOWN) + 2, width_ratios=[1] * (len(SHOWN) + 1) + [1.7]
    )
    for row, (name, d) in enumerate(WAYS):
        pair = toy(name, 300, d, 0)
        steps = steps_of_way(name, d)
        shown = [*(step for step in SHOWN if step < steps), steps]
        at = sorted({*shown, *np.unique(np.geomspace(1, steps, 24).astype(int)).tolist()})
        path = sw.flow(
            *(pair.x, pair.y, "sw"),
            seeds=0,
            defaults="paper",
            max_steps=steps,
            stopping=sw.Stopping(tolerance=None),
            recording=sw.Recording(w2_at=at, particles_at=shown, progress_bar=False),
        ).history
        plane = sw.effective_subspace(pair.x, pair.y)
        target = plane.reduce(pair.y)[:, :2].numpy()
        extent = 1.6 * np.abs(target).max()
        for column, step in enumerate(shown):
            panel = figure.add_subplot(grid[row, column])
            points = plane.reduce(path.particles[column])[:, :2].numpy()
            panel.plot(*target.T, ".", ms=1.6, color=ORANGE)
            panel.plot(*points.T, ".", ms=2.0, color=BLUE)
            panel.set(xlim=(-extent, extent), ylim=(-extent, extent), xticks=[], yticks=[], aspect="equal")  # fmt: skip
            panel.set_title(f"{f'{name} d={d}: ' if column == 0 else ''}step {step}", fontsize=10)
        panel = figure.add_subplot(grid[row, -1])
        panel.plot(
            at, np.maximum(path.w2.numpy(), LOWEST), color=BLUE, lw=2, label="sw, step computed"
        )
        # Both after 10,000 steps: wide gray dashes show beside narrow ones.
        for objective, color, size, words in (
            ("root", GRAY, 20, "SW₂"),
            ("power", ORANGE, 9, "SW₂²"),
        ):
            lines = records.searched(GRADIENT_FLOW, f"{name} d={d}", "sw", objective)
            ends = [_height(line) for line in lines if np.isfinite(float(line["w2_mean"]))]
            panel.plot([10_000] * len(ends), ends, "_", color=color, ms=size, label=f"sw, each rate on {words}")  # fmt: skip
        panel.set(xscale="symlog", yscale="log", xlabel="steps", ylabel="exact W₂", ylim=(LOWEST / 3, 3))  # fmt: skip
        panel.legend(fontsize=6.5, loc="lower left")
        panel.grid(alpha=0.25)
    return figure


PICTURES = {
    "basin": basin,
    "ways": ways,
    "color-basin": color_basin,
    "translation-basin": latent_basins,
}


def draw(records: Records, folder: Path, names: tuple[str, ...] = ()) -> None:
    """Write pictures as PNG; all of them if none is named."""
    for name in names or PICTURES:
        PICTURES[name](records).savefig(folder / f"{name}.png", dpi=110)


def _height(line: Line, lowest: float = LOWEST) -> float:
    value = float(line["w2_mean"])
    return max(value, lowest) if np.isfinite(value) else np.nan


def _drawn(panel: Axes, variant: str, x: list[float], y: list[float]) -> None:
    color, mark = STYLES[variant]
    first = variant == "sw"
    panel.plot(x, y, marker=mark, color=color, ms=5 if first else 3, lw=2.4 if first else 0.9, label=variant, zorder=4 if first else 2)  # fmt: skip


def _legend(figure: Figure, panel: Axes) -> None:
    found = dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    figure.legend([found[v] for v in ELEVEN], ELEVEN, loc="outside lower center", ncols=11, fontsize=8, frameon=False)  # fmt: skip
