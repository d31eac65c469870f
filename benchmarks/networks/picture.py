"""Draw ours over the best of Adam's rates, a point for each setting, from a record of `make bench-networks`.

python -m benchmarks.networks.picture benchmarks/results/networks-2026-11-19.json docs/images/networks-grid.png
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from slicewise.lab.images import BLUE, GREEN, ORANGE, PAGE_WIDTH, blank, in_style, save_png

_COLORS = {"generator": BLUE, "translator": ORANGE, "autoencoder": GREEN}
_MARKS = {"generator": "o", "translator": "s", "autoencoder": "^"}
# Ratios beyond these, and divergences, are drawn here.
_LOWEST, _HIGHEST = 0.05, 10.0


def draw(record: Path, out: Path) -> None:
    """Write the picture of a record."""
    found = json.loads(record.read_text())
    rows, sums = found["settings"], found["sums"]
    horizons = sorted({row["steps"] for row in rows})
    with in_style():
        figure = blank(PAGE_WIDTH, 4.7)
        panels = figure.subplots(1, len(horizons), sharey=True, squeeze=False)[0]
        for panel, steps in zip(panels, horizons, strict=True):
            some = [row for row in rows if row["steps"] == steps]
            (common,) = (row for row in sums if row["steps"] == steps and "rate" in row)
            place = found["rates"].index(common["rate"])
            for bound, style in ((1.0, "-"), (1.25, ":")):
                panel.axhline(bound, color="0.35", linestyle=style, linewidth=1, zorder=0)
            panel.scatter(
                [row["scale"] for row in some],
                [_height(row["rates"][place]) for row in some],
                s=14,
                color="0.72",
                label=f"Adam, one rate for all settings ({_common_rates(found)})",
            )
            for task, color in _COLORS.items():
                of_task = [row for row in some if row["task"] == task]
                panel.scatter(
                    [row["scale"] for row in of_task],
                    [_height(row["ratio"]) for row in of_task],
                    s=24,
                    color=color,
                    marker=_MARKS[task],
                    label=f"no rate: {task}s",
                )
            ours = next(row for row in sums if row["steps"] == steps and row["rule"] == "ours")
            panel.set_title(
                f"{steps:,} steps: median {ours['median']:.2f},\n"
                f"{100 * ours['within 25 %']:.0f} % of settings within 25 %"
            )
            panel.set(xscale="log", yscale="log", xlabel="scale of the data", ylim=(0.045, 13))
            panel.set_xlim(7e-4, 1.4e3)
            ticks = (_LOWEST, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, _HIGHEST)
            panel.set_yticks(ticks, ["≤ 0.05", *(f"{t:g}" for t in ticks[1:-1]), "≥ 10"])
            panel.set_xticks([1e-3, 1e-1, 1e1, 1e3])
            panel.minorticks_off()
            panel.grid()
        panels[0].set_ylabel("held-out distance / best of Adam's rates")
        entries = {
            label: handle
            for panel in panels
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        order = sorted(entries, key=lambda label: label.startswith("Adam"))
        figure.legend(
            [entries[label] for label in order], order, loc="outside lower center", ncols=2
        )
        save_png(figure, out)


def _common_rates(found: dict[str, Any]) -> str:
    """Return the rate that serves all settings best, for each number of steps."""
    rows = sorted((row for row in found["sums"] if "rate" in row), key=lambda row: row["steps"])
    return ", ".join(f"{row['rate']:.2g}" for row in rows)


def _height(ratio: float | None) -> float:
    return (
        _HIGHEST
        if ratio is None or not math.isfinite(ratio)
        else min(max(ratio, _LOWEST), _HIGHEST)
    )


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
