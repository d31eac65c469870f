"""Animations of a flow, as a GIF or as an HTML page with its own player, and the steps worth showing.

`film` chooses what is shown and projects it to the plane; `as_gif` and `as_html` draw it.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicewise.lab.images.figure_colors import BLUE, ORANGE
from slicewise.problem import effective_subspace

_GRAY = "#888888"
# More points cannot be told apart, and files grow with them.
SHOWN = 2_000
# Positions on the page are integers from 0 to this.
_GRID = 4_000


@dataclass(frozen=True, eq=False)
class Film:
    """Particles after chosen steps and their target, as points of the unit square."""

    steps: list[int]  # (F,)
    particles: Tensor  # (F, n, 2)
    target: Tensor  # (m, 2)
    w2: list[float] | None  # (F,), the exact remaining distance
    names: tuple[str, str]  # of particles and target
    words: str  # a caption
    colors: tuple[Tensor, Tensor] | None = None  # (F, n, 3) and (m, 3), each point's own


def film(
    steps: Sequence[int],
    particles: Tensor,
    target: Tensor,
    *,
    names: tuple[str, str],
    w2: Sequence[float] | None = None,
    colors: bool = False,
) -> Film:
    """Return an animation of particles, before it is drawn.

    In one dimension the vertical axis is the share of samples below each value. In three dimensions and more, samples are
    projected to the first two principal directions of particles and target.

    Args:
        steps: the steps after which particles are shown, (F,).
        particles: (F, n, d).
        target: (m, d).
        names: of particles and target.
        w2: the exact remaining distance after each step, (F,).
        colors: whether samples are colors in [0, 1], so that points show their own color.

    Returns:
        The film; at most 2,000 points of either side are kept.
    """
    particles, target = particles.double().cpu(), target.double().cpu()
    d = target.shape[-1]
    words = ""
    if d == 1:
        words = "one dimension: upwards, the share of samples below"
        at, there = _ranked(particles), _ranked(target)
    elif d == 2:
        at, there = particles, target
    else:
        span = effective_subspace(particles[0], target)
        seen = float(
            span.spectrum[:2].square().sum() / span.spectrum.square().sum().clamp(min=1e-300)
        )
        words = (
            f"the plane of the first two principal directions of {d} ({seen:.0%} of the variance)"
        )
        plane = torch.nn.functional.pad(span.basis[:, :2], (0, max(0, 2 - span.k)))
        at, there = particles @ plane, target @ plane
    at, there = _in_square(at, there, alike=d > 1)
    some, few = _shown(particles.shape[-2]), _shown(len(target))
    if len(some) < particles.shape[-2] or len(few) < len(target):
        words = f"{len(some)} particles and {len(few)} of the target are shown; {words}".rstrip(
            "; "
        )
    own = None
    if colors:
        words = f"each point in its own color; {words}"
        own = (particles[:, some].clamp(0, 1), target[few].clamp(0, 1))
    return Film(
        list(steps), at[:, some], there[few], None if w2 is None else list(w2), names, words, own
    )


def _ranked(values: Tensor) -> Tensor:
    """Return values (..., n, 1) with the share of the others below them, (..., n, 2)."""
    n = values.shape[-2]
    ranks = values.argsort(dim=-2, stable=True).argsort(dim=-2)
    return torch.cat([values, (ranks.double() + 0.5) / n], dim=-1)


def _in_square(at: Tensor, there: Tensor, *, alike: bool) -> tuple[Tensor, Tensor]:
    """Scale so that the target and most of the start fill the unit square; both axes by the same factor if `alike`."""
    share = torch.tensor([0.02, 0.98], dtype=at.dtype)
    ends = torch.cat([at[0].quantile(share, dim=0), there])
    low, high = ends.amin(dim=0), ends.amax(dim=0)
    extent = (high - low).amax().expand(2) if alike else high - low
    extent = torch.where(extent > 0, extent, 1.0) * 1.08
    corner = (low + high) / 2 - extent / 2
    # Particles may leave the square; far ones are clamped, which keeps the page small.
    return ((at - corner) / extent).clamp(-10, 10), (there - corner) / extent


def _shown(n: int) -> Tensor:
    return torch.linspace(0, n - 1, min(n, SHOWN), dtype=torch.float64).round().long()


def as_gif(film: Film, *, fps: float) -> bytes:
    """Draw a film as an animated GIF, whose last frame is held for two seconds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(figsize=(4.8, 5.5), dpi=110)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.02, 0.13, 0.96, 0.96 * 4.8 / 5.5 - 0.03), xlim=(0, 1), ylim=(0, 1))
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color("#cccccc")
    size = max(3.0, min(16.0, 4000 / film.particles.shape[1]))
    target: dict[str, Any] = {"c": ORANGE, "linewidths": 0}
    dot: dict[str, Any] = {"c": BLUE, "linewidths": 0}
    if film.colors is not None:  # an outline, so that white points can be seen
        size = 2 * size
        target = {"c": film.colors[1].numpy(), "edgecolors": ORANGE, "linewidths": 0.25}
        dot = {"c": film.colors[0][0].numpy(), "edgecolors": _GRAY, "linewidths": 0.25}
    axes.scatter(
        film.target[:, 0].numpy(),
        film.target[:, 1].numpy(),
        s=size,
        marker="^",
        alpha=0.55,
        **target,
    )
    first = film.particles[0]
    dots = axes.scatter(first[:, 0].numpy(), first[:, 1].numpy(), s=size, zorder=3, **dot)
    where = figure.text(0.03, 0.95, "", fontsize=12, weight="bold")
    left = figure.text(0.97, 0.95, "", fontsize=12, ha="right")
    for height, name, color, mark in zip(
        (0.09, 0.058), film.names, (BLUE, ORANGE), "●▲", strict=True
    ):
        figure.text(
            0.03, height, f"{mark} {_short(name)}", fontsize=10, color=color, parse_math=False
        )
    figure.text(0.03, 0.01, textwrap.fill(film.words, 80), fontsize=7, color=_GRAY)
    pictures = []
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph"
        )  # about names in letters that the font lacks
        for i, step in enumerate(film.steps):
            dots.set_offsets(film.particles[i].numpy())
            if film.colors is not None:
                dots.set_facecolor(film.colors[0][i].tolist())
            where.set_text(f"step {step}")
            left.set_text("" if film.w2 is None else f"W₂ = {_number(film.w2[i])}")
            canvas.draw()
            size_in_pixels = canvas.get_width_height()
            pixels = bytes(canvas.buffer_rgba())
            pictures.append(Image.frombytes("RGBA", size_in_pixels, pixels).convert("RGB"))
    # One palette for all frames, so that pixels that do not change are stored once.
    sheet = Image.new("RGB", (pictures[0].width, 2 * pictures[0].height))
    sheet.paste(pictures[0], (0, 0))
    sheet.paste(pictures[-1], (0, pictures[0].height))
    palette = sheet.quantize(32 if film.colors is None else 255)
    flat = [p.quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures]
    each = max(20, round(1000 / fps))
    durations = [*[each] * (len(flat) - 1), 2000]
    file = io.BytesIO()
    flat[0].save(file, "GIF", save_all=True, append_images=flat[1:], duration=durations, loop=0)
    return file.getvalue()


def as_html(film: Film, *, fps: float, title: str, facts: Sequence[tuple[str, str]] = ()) -> str:
    """Draw a film as one HTML page that plays it and loads nothing else."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("slicewise.lab"), autoescape=True)
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    data = {
        "steps": film.steps,
        "particles": [_whole(frame) for frame in film.particles],
        "target": _whole(film.target),
        "w2": None if film.w2 is None else [_number(w) for w in film.w2],
        "heights": None if film.w2 is None else _heights(film.w2),
        "fps": fps,
        "grid": _GRID,
        "colors": None,
    }
    if film.colors is not None:
        particles, target = film.colors
        data["colors"] = {"particles": [_hex(c) for c in particles], "target": _hex(target)}
    return environment.get_template("flow.html").render(
        film=film, data=data, title=title, facts=facts, blue=BLUE, orange=ORANGE, gray=_GRAY
    )


def _whole(points: Tensor) -> list[int]:
    """Return x and y in turn, y downwards as on a screen."""
    flipped = torch.stack([points[:, 0], 1 - points[:, 1]], dim=-1)
    return (flipped * _GRID).round().long().flatten().tolist()


def _hex(colors: Tensor) -> str:
    """Return six hexadecimal digits for each color, joined."""
    return bytes((255 * colors).round().to(torch.uint8).flatten().tolist()).hex()


def _heights(w2: Sequence[float]) -> list[float]:
    """Return heights on a logarithmic scale from 10⁻⁴ of the largest distance (0) to the largest (1)."""
    largest = max((w for w in w2 if w < math.inf), default=0.0) or 1.0
    shares = [min(1.0, max(1e-4, w / largest)) for w in w2]
    return [round(1 + math.log10(share) / 4, 3) for share in shares]


def _number(value: float) -> str:
    return f"{value:.3g}"


def _short(name: str, most: int = 60) -> str:
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-most // 2 :]}"


def log_spaced(last: int, most: int) -> list[int]:
    """Return at most `most` steps from 0 to `last`, about evenly spaced in their logarithm.

    The first steps of a flow change the most.

    >>> log_spaced(100, 6)
    [0, 1, 3, 10, 32, 100]
    """
    steps = [0]
    while steps[-1] < last:
        now, missing = steps[-1], most - len(steps)
        ahead = now * (last / now) ** (1 / missing) if now else 1
        # Where the next step of equal ratio is less than one away, the ratio is computed again from there.
        steps.append(last if missing <= 1 else max(now + 1, round(ahead)))
    return steps


def nearest(available: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Return, for each wanted step, the nearest one available; each once.

    >>> nearest([0, 1, 2, 8], [0, 2, 7])
    [0, 2, 8]
    """
    return sorted({min(available, key=lambda step: abs(step - w)) for w in wanted})
