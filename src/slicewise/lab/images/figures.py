"""Figures of pictures: an empty figure, rows of small images, photographs with their names. Matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


from slicewise.lab.data import Array

# Colors that color-blind readers can tell apart (Okabe and Ito).
BLUE, ORANGE, GREEN, GRAY = "#0072b2", "#d55e00", "#009e73", "#777777"
# The lighter blue and orange of the same palette, for a dark background.
DARK_BLUE, DARK_ORANGE = "#56b4e9", "#e69f00"


def blank(width: float, height: float) -> Drawing:
    """A figure of this size in inches with nothing on it, which no window will show."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def gallery(rows: Sequence[tuple[str, Array]]) -> Drawing:
    """Lines of small images, (n, height, width[, 3]), each with its name."""
    columns = max(len(images) for _, images in rows)
    figure = blank(1.1 * columns + 1.6, 1.15 * len(rows))
    panels = figure.subplots(len(rows), columns, squeeze=False)
    for line, (name, images) in enumerate(rows):
        for column in range(columns):
            panel = panels[line, column]
            panel.set(xticks=[], yticks=[])
            panel.set_frame_on(False)
            if column < len(images):
                panel.imshow(images[column], cmap="gray", vmin=0, vmax=255)
        panels[line, 0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=10)
    return figure


def photographs(found: Sequence[tuple[str, Array]]) -> Drawing:
    """Photographs of one size, (height, width, 3), each with its name."""
    columns = min(len(found), 6)
    lines = -(-len(found) // columns)
    height, width = found[0][1].shape[:2]
    figure = blank(2.3 * columns, (2.3 * height / width + 0.3) * lines)
    panels = figure.subplots(lines, columns, squeeze=False)
    for panel in panels.flat:
        panel.set_axis_off()
    for panel, (name, image) in zip(panels.flat, found, strict=False):
        panel.imshow(image)
        panel.set_title(name, fontsize=9)
    return figure
