"""Films of a flow drawn: as a GIF, a video, or an HTML page with its own player.

`scenes` chooses the frames and their axes. Particles are filled, the target is hollow and on top; points outside the axes
are marked by arrows at the border; the distance that is left is a curve below.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from slicewise.lab.images.figures import BLUE, DARK_BLUE, DARK_ORANGE, GRAY, ORANGE
from slicewise.lab.images.scenes import Film, log_ticks, ticks
from slicewise.lab.images.video import Encoder

if TYPE_CHECKING:
    from PIL.Image import Image

# Positions on the page are integers: so many for the unit, the extent of the target.
_GRID = 4_000
# Seconds for which the last frame is held.
_HELD = 2.0
# The curve of the distance goes down at most so many decades from its largest value.
_DECADES = 5.0
# In a GIF of points in their own colors.
_OWN_COLORS = 128
_INK, _LINE = "#333333", "#cccccc"
# Points of all letters but the title, and inches left of the plane.
_LETTERS, _LEFT = 9, 0.55
# Outward arrows at the left, right, lower and upper border.
_ARROWS = ("<", ">", "v", "^")
Tick = Callable[[int, str], object]


def as_gif(film: Film, *, fps: float, tick: Tick | None = None) -> bytes:
    """Draw a film as an animated GIF, whose last frame is held for two seconds.

    Args:
        film: what is shown.
        fps: frames per second.
        tick: called after each frame with how many are drawn and a few words.
    """
    from PIL import Image

    pictures = _pictures(film, tick)
    # One palette for all frames, so that pixels that do not change are stored once.
    palette = _palette() if film.colors is None else _palette_of([pictures[0], pictures[-1]])
    flat = [p.quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures]
    each = max(20, round(1000 / fps))
    durations = [*[each] * (len(flat) - 1), round(1000 * _HELD)]
    file = io.BytesIO()
    flat[0].save(file, "GIF", save_all=True, append_images=flat[1:], duration=durations, loop=0)
    return file.getvalue()


def _palette() -> Image:
    """Return an image with the colors of a frame and their blends at edges; white is white."""
    from matplotlib.colors import to_rgb
    from PIL import Image

    def blends(one: str, other: str, n: int) -> np.ndarray:
        ends = np.array([to_rgb(one), to_rgb(other)])
        return (
            np.linspace(1, 0, n + 1)[:, None] * ends[0]
            + np.linspace(0, 1, n + 1)[:, None] * ends[1]
        )

    ramps = [("white", BLUE, 6), ("white", ORANGE, 6), (BLUE, ORANGE, 4), ("white", "black", 8)]
    colors = np.concatenate([blends(*ramp) for ramp in ramps])
    unique = np.unique((255 * colors).round().astype(np.uint8), axis=0)
    palette = Image.new("P", (1, 1))
    palette.putpalette(unique.tobytes())
    return palette


def _palette_of(pictures: Sequence[Image]) -> Image:
    """Return an image with colors that suit some pictures of equal size, white among them."""
    from PIL import Image

    width, height = pictures[0].size
    sheet = Image.new("RGB", (width, len(pictures) * height))
    for i, picture in enumerate(pictures):
        sheet.paste(picture, (0, i * height))
    palette = sheet.quantize(_OWN_COLORS)
    colors = np.array(palette.getpalette(), dtype=np.uint8).reshape(-1, 3)
    # The background stays white: Pillow looks colors up in cubes of several levels.
    colors[colors.min(axis=1) > 240] = 255
    palette.putpalette(colors.tobytes())
    return palette


def as_video(film: Film, encoder: Encoder, *, fps: float, tick: Tick | None = None) -> bytes:
    """Draw a film as a video, whose last frame is held for two seconds.

    Args:
        film: what is shown.
        encoder: from `find_encoder`, which also decides the format.
        fps: frames per second.
        tick: called after each frame with how many are drawn and a few words.
    """
    pictures = [np.asarray(picture) for picture in _pictures(film, tick)]
    pictures += [pictures[-1]] * round(_HELD * fps)
    return encoder.encode(pictures, fps)


def _pictures(film: Film, tick: Tick | None) -> list[Image]:
    """Draw every frame."""
    pictures = []
    with warnings.catch_warnings():
        # About names in letters that the font lacks.
        warnings.filterwarnings("ignore", message="Glyph")
        drawing = _Drawing(film)
        for i in range(len(film.steps)):
            pictures.append(drawing.picture(i))
            if tick is not None:
                tick(i + 1, film.labels[i])
    return pictures


class _Drawing:
    """A figure of matplotlib that shows one frame after another."""

    def __init__(self, film: Film) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self._film = film
        # In inches: the plane, below it the curve and the caption.
        width, plane, below = 5.0, 4.4, 1.65 if film.curve else 0.35
        caption = textwrap.fill(film.words, 72)
        foot = 0.08 + 0.17 * (caption.count("\n") + 1 if caption else 0)
        height = 0.62 + plane + 0.3 + below + foot
        # Even numbers of pixels, as video formats want.
        width, height = (2 * round(55 * side) / 110 for side in (width, height))
        self._figure = Figure(figsize=(width, height), dpi=110)
        self._canvas = FigureCanvasAgg(self._figure)
        corner = (_LEFT / width, (foot + below + 0.3) / height)
        self._axes = self._figure.add_axes((*corner, plane / width, plane / height))
        for axis, name in zip((self._axes.xaxis, self._axes.yaxis), film.axes, strict=True):
            axis.set_tick_params(length=2, labelsize=_LETTERS, color=_LINE, labelcolor=GRAY, pad=2)
            axis.set_label_text(name, fontsize=_LETTERS, color=GRAY)
            axis.labelpad = 1
        self._axes.spines[:].set_color(_LINE)
        self._texts(width, height, caption)
        self._points()
        self._moving: list[Any] = [self._axes, self._where, self._left]
        if film.curve:
            self._trace((_LEFT / width, (foot + 0.38) / height, plane / width, 0.97 / height))
            self._moving.append(self._dot)
        for artist in self._moving:
            artist.set_animated(True)
        # What does not move is drawn once.
        self._canvas.draw()
        self._still = self._canvas.copy_from_bbox(self._figure.bbox)

    def _texts(self, width: float, height: float, caption: str) -> None:
        """Write the line above, the legend and the caption."""
        top = 1 - 0.2 / height
        line: dict[str, Any] = {"fontsize": 12, "va": "center"}
        self._where = self._figure.text(_LEFT / width, top, "", weight="bold", **line)
        self._left = self._figure.text((_LEFT + 4.4) / width, top, "", ha="right", **line)
        self._figure.text(
            _LEFT / width, 0.05 / height, caption, fontsize=_LETTERS, color=GRAY, parse_math=False
        )

    def _points(self) -> None:
        """Draw target and particles once, with their legend; frames move them."""
        film, axes = self._film, self._axes
        most = max(film.particles.shape[1], len(film.target))
        size = max(3.0, min(16.0, 5000 / most))
        ring = max(0.4, min(1.2, 14 / math.sqrt(most)))
        own, edge = film.colors, "none"
        if own is not None:  # an outline, so that white points can be seen
            size, edge = 1.5 * size, GRAY
        color = BLUE if own is None else GRAY
        filled: dict[str, Any] = {"facecolors": color, "edgecolors": edge, "linewidths": 0.25}
        hollow: dict[str, Any] = {
            "facecolors": "none",
            "edgecolors": ORANGE if own is None else GRAY,
            "linewidths": ring,
        }
        self._dots = axes.scatter([], [], s=size, zorder=2, **filled)
        self._rings = axes.scatter([], [], s=2.2 * size, zorder=4, **hollow)
        if own is not None:
            # Beneath the rings a wider one: rings of pale colors are seen on white.
            wide = {**hollow, "edgecolors": GRAY, "linewidths": 2.2 * ring}
            self._outlines = axes.scatter([], [], s=2.2 * size, zorder=3, **wide)
        filled, hollow = {**filled, "edgecolors": "none"}, {**hollow, "linewidths": 0.8}
        self._out, self._beyond = (
            [axes.scatter([], [], s=s, marker=m, zorder=5, clip_on=False, **style) for m in _ARROWS]
            for s, style in ((20.0, filled), (52.0, hollow))
        )
        self._outside = axes.text(
            0.985,
            0.015,
            "",
            transform=axes.transAxes,
            ha="right",
            fontsize=_LETTERS,
            color=_INK,
            zorder=7,
        )
        legend = self._figure.legend(
            handles=[self._dots, self._rings],
            labels=["particles", "target"],  # named below: names may look like formulas
            loc="lower left",
            bbox_to_anchor=(-0.012, 0.995),
            bbox_transform=axes.transAxes,
            ncols=2,
            frameon=False,
            fontsize=_LETTERS,
            handletextpad=0.1,
            columnspacing=1.2,
            borderaxespad=0.1,
        )
        for handle, text, name in zip(
            legend.legend_handles, legend.get_texts(), film.names, strict=True
        ):
            handle.set_sizes([26.0])  # type: ignore[union-attr]
            handle.set_linewidths([1.0])  # type: ignore[union-attr]
            if own is not None:
                handle.set_edgecolor(GRAY)  # type: ignore[union-attr]
            text.set_parse_math(False)
            text.set_text(_short(name))

    def _trace(self, place: tuple[float, float, float, float]) -> None:
        """Draw the curve of the distance, with a dot for frames to move."""
        assert self._film.curve is not None
        name, points = self._film.curve
        axes = self._figure.add_axes(place)
        low, high = curve_range([value for _, value in points])
        axes.set_yscale("log")
        axes.set_ylim(low, high)
        first, last = points[0][0], max(points[-1][0], self._film.steps[-1], 1)
        axes.set_xlim(first - 0.015 * (last - first), last + 0.015 * (last - first))
        steps, values = zip(*points, strict=True)
        axes.plot(steps, np.clip(values, low, None), color=GRAY, linewidth=1.2)
        (self._dot,) = axes.plot([], [], "o", color=BLUE, markersize=5, clip_on=False, zorder=5)
        axes.tick_params(length=2, labelsize=_LETTERS, color=_LINE, labelcolor=GRAY, pad=2)
        axes.tick_params(which="minor", length=0, labelleft=False)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["bottom", "left"]].set_color(_LINE)
        for axis, marks in ((axes.yaxis, log_ticks(low, high)), (axes.xaxis, ticks(0, last))):
            axis.set_ticks([v for v, _ in marks], [text for _, text in marks])
        axes.set_title(f"{name}, log scale", loc="right", fontsize=_LETTERS, color=_INK, pad=2)
        axes.set_xlabel("step", fontsize=_LETTERS, color=GRAY, labelpad=1.5)
        self._floor = low

    def picture(self, i: int) -> Image:
        """Draw frame i."""
        from PIL import Image

        film, axes = self._film, self._axes
        view = film.views[i].numpy()
        axes.set_xlim(*view[:, 0])
        axes.set_ylim(*view[:, 1])
        for k, axis in enumerate((axes.xaxis, axes.yaxis)):
            corner, extent = float(film.corner[k]), float(film.extent[k])
            corner -= film.base[k]
            marks = ticks(*(corner + extent * view[:, k]))
            axis.set_ticks([(v - corner) / extent for v, _ in marks], [text for _, text in marks])
        outside = self._place(film.particles[i].numpy(), view, [self._dots], self._out)
        inside = ~outside
        if film.colors is not None:
            self._dots.set_facecolor(film.colors[0][i].numpy()[inside])
        target = film.target.numpy()
        rings = [self._rings] if film.colors is None else [self._rings, self._outlines]
        beyond = self._place(target, view, rings, self._beyond)
        if film.colors is not None:
            self._rings.set_edgecolor(film.colors[1].numpy()[~beyond])
        self._outside.set_text(outside_words(int(outside.sum()), int(beyond.sum())))
        self._where.set_text(film.labels[i])
        self._left.set_text("" if film.w2 is None else f"W₂ = {_number(film.w2[i])}")
        if film.curve:
            step, value = curve_at(film, i)
            self._dot.set_data([step], [max(value, self._floor)])
        self._canvas.restore_region(self._still)
        for artist in self._moving:
            self._figure.draw_artist(artist)
        pixels = bytes(self._canvas.buffer_rgba())
        return Image.frombytes("RGBA", self._canvas.get_width_height(), pixels).convert("RGB")

    def _place(
        self, points: np.ndarray, view: np.ndarray, inner: list[Any], arrows: list[Any]
    ) -> np.ndarray:
        """Move the marks of some points, (n, 2); return which are outside the view, (n,)."""
        below, above = (view[0] - points).T, (points - view[1]).T
        excess = np.stack([below[0], above[0], below[1], above[1]])  # (4, n)
        outside = excess.max(axis=0) > 0
        for marks in inner:
            marks.set_offsets(points[~outside])
        side = excess.argmax(axis=0)
        border = points.clip(view[0], view[1])
        for k, marks in enumerate(arrows):
            marks.set_offsets(border[outside & (side == k)])
        return outside


def curve_range(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis for distances: at most five decades, at least one."""
    largest = max(values) or 1.0
    low = max(min(values), largest * 10**-_DECADES)
    return min(low, largest / 10) / 1.3, 1.5 * largest


def curve_at(film: Film, i: int) -> tuple[float, float]:
    """Return step and distance of frame i, on the line through the points of the curve."""
    assert film.curve is not None
    points, step = film.curve[1], min(film.steps[i], film.curve[1][-1][0])
    if film.w2 is not None and film.w2[i] < math.inf:
        return step, film.w2[i]
    after = next(k for k, (s, _) in enumerate(points) if s >= step)
    (s1, v1), (s0, v0) = points[after], points[max(0, after - 1)]
    share = (step - s0) / (s1 - s0) if s1 > s0 else 1.0
    return step, v0 ** (1 - share) * v1**share if v0 > 0 else v1


def outside_words(particles: int, target: int) -> str:
    """Say how many points the arrows at the border stand for."""
    ones = "particle" if particles == 1 else "particles"
    said = [f"{n} {what}" for n, what in ((particles, ones), (target, "of the target")) if n]
    return f"outside: {' and '.join(said)}" if said else ""


def as_html(film: Film, *, fps: float, title: str, facts: Sequence[tuple[str, str]] = ()) -> str:
    """Draw a film as one HTML page that plays it and loads nothing else."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("slicewise.lab"), autoescape=True)
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    data = {
        "steps": [int(step) if step == int(step) else step for step in film.steps],
        "labels": film.labels,
        "particles": [_whole(frame) for frame in film.particles],
        "target": _whole(film.target),
        "views": [_whole(view) for view in film.views],  # left, bottom, right and top of each frame
        "corner": [float(c) - base for c, base in zip(film.corner, film.base, strict=True)],
        "extent": film.extent.tolist(),
        "axes": film.axes,
        "w2": None if film.w2 is None else [_number(w) for w in film.w2],
        "curve": None,
        "fps": fps,
        "grid": _GRID,
        "colors": None,
    }
    if film.curve:
        name, points = film.curve
        low, high = curve_range([value for _, value in points])
        dots = [curve_at(film, i) for i in range(len(film.steps))]
        marks = log_ticks(low, high)
        data["curve"] = {
            "name": name,
            "points": points,
            "dots": dots,
            "low": low,
            "high": high,
            "marks": marks,
        }
    if film.colors is not None:
        particles, target = film.colors
        data["colors"] = {"particles": [_hex(c) for c in particles], "target": _hex(target)}
    colors = {"dot": (BLUE, DARK_BLUE), "ring": (ORANGE, DARK_ORANGE), "accent": (BLUE, DARK_BLUE)}
    if film.colors is not None:  # the legend tells filled from hollow, not blue from orange
        colors["dot"] = colors["ring"] = (GRAY, GRAY)
    return environment.get_template("flow.html").render(
        film=film, data=data, title=title, facts=facts, colors=colors
    )


def _whole(points: Tensor) -> list[int]:
    """Return x and y in turn, y downwards as on a screen."""
    flipped = torch.stack([points[:, 0], 1 - points[:, 1]], dim=-1)
    return (flipped * _GRID).round().long().flatten().tolist()


def _hex(colors: Tensor) -> str:
    """Return six hexadecimal digits for each color, joined."""
    return bytes((255 * colors).round().to(torch.uint8).flatten().tolist()).hex()


def _number(value: float) -> str:
    return f"{value:.3g}"


def _short(name: str, most: int = 28) -> str:
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-most // 2 :]}"
