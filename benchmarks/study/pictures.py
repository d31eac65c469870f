"""Pictures of the study at full size, from the records and from flows with the same settings.

Titles are findings: the numbers in them are computed from what is drawn, and a title whose words no longer hold is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import slicewise as sw
from benchmarks.study.records import Line, Records
from slicewise.lab.data import toy
from slicewise.lab.errors import UserError
from slicewise.lab.experiments import CHECKS, ELEVEN
from slicewise.lab.images import (
    BLUE,
    GRAY,
    ORANGE,
    PAGE_WIDTH,
    SKY,
    STYLES,
    blank,
    draw_variant,
    in_style,
    save_png,
)
from slicewise.lab.names import ESTIMATORS, GENERATE, GRADIENT_FLOW, TRANSLATE
from slicewise.lab.report.theory import drawn, of_one_preset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Below it, W_2 of samples of size 1 is rounding.
LOWEST = 1e-16
# A flow has arrived whose samples, of size 1, are this near.
ARRIVED = 1e-6
SHOWN = (0, 3, 10)
WAYS = (("swiss", 50), ("8gaussians", 2), ("knot", 100))
# `sw` is drawn last, above the others.
_ORDER = (*ELEVEN[1:], ELEVEN[0])


def basin(records: Records, setting: str = "swiss d=50") -> Figure:
    """Draw the distance left over the rate, on the root and on the square, with computed steps at the left."""
    figure = blank(PAGE_WIDTH, 4.9)
    panels = figure.subplots(1, 2, sharey=True)
    computed = {variant: _height(records.computed(setting, variant)) for variant in ELEVEN}
    for panel, objective in zip(panels, ("root", "power"), strict=True):
        least = {}
        every: list[float] = []
        for variant in _ORDER:
            lines = records.searched(GRADIENT_FLOW, setting, variant, objective)
            rates, heights = _rates(lines), [_height(line) for line in lines]
            every += rates
            least[variant] = np.nanmin(heights)
            draw_variant(panel, variant, rates, heights)
        _beside(panel, computed, min(every), "computed steps")
        panel.set(xscale="log", yscale="log", xlabel="learning rate", ylim=(LOWEST / 4, 10))
        _ticks(panel, min(every), max(every))
        panel.set_title(_of_objective(objective, least))
        panel.grid()
    panels[0].set_ylabel("exact W₂ left")
    _require(max(computed.values()) < ARRIVED, "a variant does not arrive by computed steps")
    figure.suptitle(
        f"Swiss roll, d = 50: by computed steps all {len(ELEVEN)} variants end below "
        f"{_above(max(computed.values()))}"
    )
    _legend(figure, panels[0])
    return figure


def _of_objective(objective: str, least: Mapping[str, float]) -> str:
    arrive = sum(value < ARRIVED for value in least.values())
    if objective == "root":
        _require(arrive == 0, "a rate on SW₂ arrives")
        return f"SW₂: no rate gets below {_below(min(least.values()))}"
    _require(arrive == len(least), "a variant arrives at none of its rates on SW₂²")
    return "SW₂²: all arrive, at rates of their own"


def color_basin(records: Records) -> Figure:
    """Draw the distance left over the published rate for every variant on the three pairs of photographs."""
    figure = blank(PAGE_WIDTH, 4.4)
    panels = figure.subplots(1, 3, sharey=True)
    others = np.inf
    for panel, setting in zip(panels, ("set1", "set2", "set3"), strict=True):
        for variant in _ORDER:
            found = records.colors(setting, variant)
            if not found:  # dsw has no runs of this length
                continue
            heights = [_height(line, 1e-6) for line in found.values()]
            draw_variant(panel, variant, list(found), heights)
            if variant == "sw":
                good = sum(height <= 1e-6 for height in heights)
            else:
                others = min(others, np.nanmin(heights))
        panel.set(xscale="log", yscale="log", ylim=(4e-7, 2e4), title=f"{setting}: sw arrives at {good} rates")  # fmt: skip
        _ticks(panel, 1e-4, 1e2)
        panel.grid()
    panels[0].set_ylabel("exact W₂ left, in levels of 0 to 255")
    panels[1].set_xlabel("the paper's learning rate")
    figure.suptitle(f"sw on SW₂² arrives at the colors; on SW₂ no other gets below {_below(others)} levels")  # fmt: skip
    _legend(figure, panels[0])
    return figure


def translation_basin(records: Records) -> Figure:
    """Draw the held-out W_2 of translations over the rate."""
    figure = blank(PAGE_WIDTH, 4.6)
    panels = figure.subplots(1, 2)
    for panel, setting in zip(panels, ("male to female", "adult to child"), strict=True):
        best = {}
        for variant in _ORDER:
            lines = records.searched(TRANSLATE, setting, variant, "root")
            heights = [float(line["w2_mean"]) for line in lines]
            best[variant] = min(heights)
            draw_variant(panel, variant, _rates(lines), heights)
        first, second = sorted(best, key=lambda variant: best[variant])[:2]
        _require(first == "dsw", f"{first} is the nearest of {setting}")
        spread = max(best.values()) / best[second] - 1
        panel.set(xscale="log", xlabel="learning rate, on SW₂")
        panel.set_title(f"{setting}: dsw {best[first]:.2f}, the others\n{best[second]:.2f} to {max(best.values()):.2f}")  # fmt: skip
        _require(spread < 0.01, f"others differ by {spread:.1%} at their best rates")
        _ticks(panel, 1e-6, 1)
        panel.grid()
    panels[0].set_ylabel("W₂ to held-out rows of the target")
    figure.suptitle("Translations: at their best rates all variants but dsw are within 1 % of each other")  # fmt: skip
    _legend(figure, panels[0])
    return figure


def latent_basin(records: Records) -> Figure:
    """Draw the held-out SW_2 of generators over the rate, beside the displacement that nobody searched for."""
    figure = blank(PAGE_WIDTH, 4.4)
    panel = figure.subplots()
    beside, ratios = {}, []
    for variant in _ORDER:
        lines = records.searched(GENERATE, "generation", variant, "root")
        heights = [float(line["sw2_mean"]) for line in lines]
        (one,) = records.searched(GENERATE, "generation", variant, "displacement")
        beside[variant] = float(one["sw2_mean"])
        ratios.append(beside[variant] / min(heights))
        draw_variant(panel, variant, _rates(lines), heights)
    _beside(panel, beside, 1e-3, "displacement\n0.1")
    panel.set(xscale="log", yscale="log", xlabel="learning rate, on SW₂", ylabel="SW₂ to held-out rows")  # fmt: skip
    _ticks(panel, 1e-3, 1, every=1)
    ticks = (0.05, 0.1, 0.2, 0.4)
    panel.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.minorticks_off()
    panel.grid()
    most = 100 * (max(ratios) - 1)
    panel.set_title(f"For every variant displacement 0.1 is within {np.ceil(most):.0f} % of the best of seven searched rates")  # fmt: skip
    _legend(figure, panel)
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
    figure = blank(PAGE_WIDTH, 5.0)
    columns = len(SHOWN) + 1
    grid = figure.add_gridspec(len(WAYS), columns + 1, width_ratios=[1] * columns + [2.1])
    counts = []
    for row, (name, d) in enumerate(WAYS):
        pair = toy(name, 300, d, 0)
        steps = steps_of_way(name, d)
        counts.append(steps)
        shown = [*SHOWN, steps]
        at = sorted({*shown, *np.unique(np.geomspace(1, steps, 24).astype(int)).tolist()})
        path = sw.flow(
            *(pair.x, pair.y, "sw"),
            seeds=0,
            defaults="paper",
            max_steps=steps,
            stopping=sw.Stopping(tolerance=None),
            recording=sw.Recording(w2_at=at, particles_at=shown, progress_bar=False),
        ).history
        _require(float(path.w2[-1]) < ARRIVED, f"{name} does not arrive")
        plane = sw.effective_subspace(pair.x, pair.y)
        target = plane.reduce(pair.y)[:, :2].numpy()
        extent = 1.6 * np.abs(target).max()
        for column, step in enumerate(shown):
            panel = figure.add_subplot(grid[row, column])
            points = plane.reduce(path.particles[column])[:, :2].numpy()
            panel.plot(*target.T, "o", ms=3, mfc="none", mew=0.6, color=ORANGE)
            panel.plot(*points.T, ".", ms=2.4, color=BLUE)
            panel.set(xlim=(-extent, extent), ylim=(-extent, extent), xticks=[], yticks=[], aspect="equal")  # fmt: skip
            panel.set_title(f"step {step}")
            panel.spines[:].set_visible(False)
            if column == 0:
                panel.set_ylabel(f"{name}\nd = {d}", fontweight="bold")
        panel = figure.add_subplot(grid[row, -1])
        panel.plot(at, np.maximum(path.w2.numpy(), LOWEST), color=BLUE, lw=2, label="computed steps")  # fmt: skip
        # Both after 10,000 steps: wide gray dashes show beside narrow ones.
        for objective, color, size, words in (
            ("root", GRAY, 20, "SW₂"),
            ("power", SKY, 9, "SW₂²"),
        ):
            lines = records.searched(GRADIENT_FLOW, f"{name} d={d}", "sw", objective)
            ends = [_height(line) for line in lines if np.isfinite(float(line["w2_mean"]))]
            panel.plot([10_000] * len(ends), ends, "_", color=color, ms=size, mew=1, label=f"{len(lines)} rates on {words}, after 10,000 steps")  # fmt: skip
        panel.set(xscale="symlog", yscale="log", ylabel="exact W₂", ylim=(LOWEST / 3, 10))
        panel.set_xticks([0, 1, 10, 100, 1000, 10_000])
        panel.set_yticks([1e-15, 1e-10, 1e-5, 1])
        panel.minorticks_off()
        panel.grid()
    panel.set_xlabel("steps")
    some = ", ".join(map(str, counts[:-1]))
    figure.suptitle(f"sw with computed steps is at the target after {some} and {counts[-1]} steps")
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _comparison(name: str) -> Callable[[Records], Figure]:
    """Return what draws a comparison of estimators, as their report does."""

    def draw_comparison(records: Records) -> Figure:
        check = CHECKS[ESTIMATORS][name]
        if name not in records.estimators:
            raise UserError(
                f"{records.folder} has no estimators of {name}: run `slicewise reproduce estimators --preset paper --store "
                f"estimators.db`, then `slicewise runs estimators.db --keep {records.folder}`"
            )
        return drawn(check, of_one_preset(check, records.estimators[name]))

    return draw_comparison


PICTURES = {
    "basin": basin,
    "ways": ways,
    "color-basin": color_basin,
    "translation-basin": translation_basin,
    "latent-basin": latent_basin,
    **{f"estimators-{name}": _comparison(name) for name in CHECKS[ESTIMATORS]},
}


def with_records(records: Records) -> list[str]:
    """Return the pictures whose records are kept; times of estimators are those of a quiet machine, or of none."""
    prefix = "estimators-"
    return [n for n in PICTURES if not n.startswith(prefix) or n.removeprefix(prefix) in records.estimators]  # fmt: skip


def draw(records: Records, folder: Path, names: tuple[str, ...] = ()) -> None:
    """Write pictures as PNG; all that have records if none is named."""
    for name in names or with_records(records):
        with in_style():
            save_png(PICTURES[name](records), folder / f"{name}.png")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RuntimeError(f"the title of a picture no longer holds: {otherwise}")


def _rates(lines: Sequence[Line]) -> list[float]:
    return [float(line["lr"]) for line in lines]


def _height(line: Line, lowest: float = LOWEST) -> float:
    value = float(line["w2_mean"])
    return max(value, lowest) if np.isfinite(value) else np.nan


def _beside(panel: Axes, found: Mapping[str, float], least: float, words: str) -> None:
    """Draw marks of what has no rate, left of the least rate, next to each other so that equal ones can be told."""
    places = np.geomspace(least / 24, least / 4, len(ELEVEN))
    for place, variant in zip(places, ELEVEN, strict=True):
        style = STYLES[variant]
        panel.plot([place], [found[variant]], style.mark, color=style.color, ms=4.5)
    panel.axvline(least / 2.2, color=GRAY, lw=0.6)
    panel.text(least / 10, 0.97, words, rotation=90, ha="center", va="top", color="0.35", fontsize=9, transform=panel.get_xaxis_transform())  # fmt: skip


def _ticks(panel: Axes, least: float, most: float, *, every: int = 2) -> None:
    """Put ticks at powers of ten from the least rate on, none where steps have no rate."""
    low, high = round(np.log10(least)), round(np.log10(most))
    panel.set_xticks([10.0**power for power in range(low, high + 1, every)])
    panel.minorticks_off()
    panel.set_xlim(right=3 * most)


def _above(value: float) -> str:
    """Return a round number above a value, as in "below 1e-9"."""
    return _power(10.0 ** np.ceil(np.log10(value)))


def _below(value: float) -> str:
    """Return a number of two digits not above a value."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return _power(np.floor(value / unit) * unit)


def _power(value: float) -> str:
    power = int(np.floor(np.log10(value) + 1e-9))
    if power >= -3:
        return f"{value:.2g}"
    ten = "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    first = f"{value / 10.0**power:.2g}"
    return ten if first == "1" else f"{first}·{ten}"


def _legend(figure: Figure, panel: Axes) -> None:
    found = dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    names = [variant for variant in ELEVEN if variant in found]
    figure.legend([found[v] for v in names], names, loc="outside lower center", ncols=6)
