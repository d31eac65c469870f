"""The style of all figures and the looks of variants; an empty figure, rows of small images, photographs with their names.

Matplotlib is imported when something is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


from slicewise.lab.data import Array
from slicewise.support import write_whole

# Colors that color-blind readers can tell apart (Okabe and Ito).
BLUE, ORANGE, GREEN, GRAY = "#0072b2", "#d55e00", "#009e73", "#777777"
PINK, SKY, YELLOW = "#cc79a7", "#56b4e9", "#e69f00"
# Of ten kinds of samples, such as digits.
CLASSES = (BLUE, ORANGE, GREEN, PINK, SKY, YELLOW, GRAY, "#000000", "#8c510a", "#8a6bbf")
# The lighter blue and orange of the same palette, for a dark background.
DARK_BLUE, DARK_ORANGE = SKY, YELLOW

# The style of every figure, for `matplotlib.style.use`.
STYLE_FILE = Path(__file__).with_name("slicewise.mplstyle")
# Inches of the column of text of the site, 736 CSS pixels of 1/96 inch: a figure this wide is shown with letters of the size
# that they were drawn with, and wider ones with smaller letters.
PAGE_WIDTH = 7.6
_DOTS_PER_INCH = 180

_DASHED, _DOTTED, _MIXED = (5.0, 3.0), (1.5, 2.0), (7.0, 2.0, 1.5, 2.0)


@dataclass(frozen=True)
class Style:
    """The color of a variant, readable on white and black, and its mark: a matplotlib name and an SVG outline.

    Marks and dashes differ too, so that no variant is told by its color alone.
    """

    color: str
    mark: str
    outline: str  # in the square from −1 to 1
    dash: tuple[float, ...] = ()  # lengths of dashes and gaps; empty for a solid line


# How each variant is drawn in every figure.
STYLES = {
    "sw": Style(BLUE, "o", "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0Z"),
    "maxsw": Style(ORANGE, "s", "M-.9,-.9H.9V.9H-.9Z"),
    "dsw": Style(GREEN, "^", "M0,-1L1,.8H-1Z"),
    "maxksw": Style("#c06a98", "v", "M0,1L1,-.8H-1Z"),
    "imsw": Style("#b07900", "D", "M0,-1.1L.9,0L0,1.1L-.9,0Z", _DOTTED),
    "vimsw": Style("#3a94cf", "P", "M-.4,-1H.4V-.4H1V.4H.4V1H-.4V.4H-1V-.4H-.4Z", _MIXED),
    "omsw": Style("#8a6bbf", "X",
                 "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z", _DASHED),
    "rmsw": Style(GRAY, "*",
                 "M0,-1.2L.35,-.49L1.14,-.37L.57,.19L.71,.97L0,.6L-.71,.97L-.57,.19L-1.14,-.37L-.35,-.49Z", _MIXED),
    "ebsw": Style("#b0406a", "<", "M-1,0L.8,-1V1Z", _DASHED),
    "rpsw": Style("#2f8f80", ">", "M1,0L-.8,-1V1Z", _DOTTED),
    "ebrpsw": Style("#85852c", "h", "M-.5,-.87H.5L1,0L.5,.87H-.5L-1,0Z", _DASHED),
}  # fmt: skip


@contextmanager
def in_style() -> Iterator[None]:
    """Draw in the style of the project, whatever the user's own is.

    Figures are made and saved inside: ticks and their labels are made when a figure is saved.
    """
    from matplotlib.style import context

    with context(STYLE_FILE, after_reset=True):
        yield


def blank(width: float, height: float) -> Drawing:
    """A figure of this size in inches with nothing on it, which no window will show."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def draw_variant(panel: Axes, variant: str, x: Sequence[float], y: Sequence[float]) -> None:
    """Draw a line with its marks in the look of a variant; "sw", which the others are compared with, is wider and on top."""
    style, first = STYLES[variant], variant == "sw"
    panel.plot(
        x,
        y,
        marker=style.mark,
        ls=(0, style.dash) if style.dash else "-",
        color=style.color,
        ms=4.5 if first else 4,
        lw=2.2 if first else 1,
        label=variant,
        zorder=3 if first else 2,
    )


def save_png(figure: Drawing, path: Path) -> None:
    """Write a figure for a page, sharp on screens with two pixels for each CSS pixel."""
    from PIL import Image

    drawn, file = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=_DOTS_PER_INCH)
    with Image.open(drawn) as image:
        picture = image.convert("RGB")
    # Lines and marks have few colors, and take a third of the space as a palette; colors that are data are kept.
    if not any(panel.images for panel in figure.axes):
        picture = picture.quantize(256, dither=Image.Dither.NONE)
    picture.save(file, "PNG", optimize=True)
    write_whole(path, file.getvalue())


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
