"""Draw how the steps and seconds of flows grow with n, from a record of `make bench-steps`.

python -m benchmarks.steps.picture benchmarks/results/steps-2026-11-16.json docs/images/growth.png
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

from slicewise.lab.images.figures import blank
from slicewise.support import write_whole

# Of Okabe and Ito, readable for the color-blind.
_COLORS = {2: "#0072b2", 10: "#d55e00", 50: "#009e73"}


def draw(record: Path, out: Path) -> None:
    """Write the picture of a record's part `growth`."""
    rows = json.loads(record.read_text())["parts"]["growth"]
    figure = blank(10.5, 3.8)
    panels = figure.subplots(1, 2)
    kinds = (
        ("sliced steps", "steps", "sliced steps alone"),
        ("seconds", "seconds", "their seconds"),
    )
    for panel, (name, default, alone) in zip(panels, kinds, strict=True):
        for d, color in _COLORS.items():
            for key, style, words in ((default, "-o", "default"), (alone, "--o", "sliced alone")):
                some = [(row["n"], row[key]) for row in rows if row["d = k"] == d and key in row]
                filled = color if style == "-o" else "none"
                panel.plot(
                    *zip(*some, strict=True),
                    style,
                    color=color,
                    markerfacecolor=filled,
                    label=f"d = {d}, {words}",
                )
        panel.set(xscale="log", yscale="log", xlabel="samples n", ylabel=name)
        panel.grid(alpha=0.3)
    panels[0].set_title("Steps of the default hardly grow with n", fontsize=11)
    panels[1].set_title("Seconds, two cores", fontsize=11)
    figure.legend(*panels[0].get_legend_handles_labels(), fontsize=9, loc="outside right center")
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    write_whole(out, file.getvalue())


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
