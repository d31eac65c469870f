"""Draw how the steps and seconds of flows grow with n, from a record of `make bench-steps`.

python -m benchmarks.steps.picture benchmarks/results/steps-2026-11-16.json docs/images/growth.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from slicewise.lab.images import BLUE, GREEN, ORANGE, PAGE_WIDTH, blank, in_style, save_png

_COLORS = {2: BLUE, 10: ORANGE, 50: GREEN}


def draw(record: Path, out: Path) -> None:
    """Write the picture of a record's part `growth`."""
    rows = json.loads(record.read_text())["parts"]["growth"]
    kinds = (
        ("sliced steps", "steps", "sliced steps alone"),
        ("seconds, two cores", "seconds", "their seconds"),
    )
    with in_style():
        figure = blank(PAGE_WIDTH, 4.0)
        panels = figure.subplots(1, 2)
        for panel, (name, default, alone) in zip(panels, kinds, strict=True):
            for d, color in _COLORS.items():
                for key, style, words in (
                    (default, "-o", "default"),
                    (alone, "--o", "sliced alone"),
                ):
                    some = [
                        (row["n"], row[key]) for row in rows if row["d = k"] == d and key in row
                    ]
                    filled = color if style == "-o" else "none"
                    panel.plot(
                        *zip(*some, strict=True),
                        style,
                        color=color,
                        markerfacecolor=filled,
                        label=f"d = {d}, {words}",
                    )
            panel.set(xscale="log", yscale="log", xlabel="samples n", ylabel=name)
            panel.grid()
        steps = [row["steps"] for row in rows]
        most = max(row["n"] for row in rows)
        slowest = max(row["seconds"] for row in rows if row["n"] == most)
        panels[0].set_title(f"The default takes {min(steps)} to {max(steps)} sliced\nsteps from n = {min(row['n'] for row in rows):,} to {most:,}")  # fmt: skip
        panels[1].set_title(f"It arrives within {slowest:.1f} s\nat n = {most:,}")
        figure.legend(*panels[0].get_legend_handles_labels(), ncols=3, loc="outside lower center")
        save_png(figure, out)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
