"""Small charts as SVG: text and lines take their colors from the page, so that they follow its light or dark mode.

Elements of a variant have its name in `data-v`: the page draws them gray until they are pointed at, those of "sw" always
bold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from slicewise.lab.images import STYLES
from slicewise.lab.report.story.endings import REACHED, percent

_WIDTH, _HEIGHT = 360, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 8, 12, 40
_BAND = 20  # the height of the bands in which runs diverge, or are at their target


@dataclass(frozen=True)
class Point:
    """What is left of the initial distance at one rate; infinite where runs diverge."""

    rate: float
    left: float


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis from `low` to `high`, drawn from `at` to `to`."""

    low: float
    high: float
    at: float
    to: float

    def __call__(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.at + (self.to - self.at) * share


def basin(
    lines: Mapping[str, Sequence[Point]],
    computed: float | None,
    edge: float | None,
    title: str,
    told: Callable[[float], str] = percent,
) -> str:
    """Return a chart of what is left of the initial distance over the learning rate, a line for each variant.

    Args:
        lines: what is left at each rate, by variant.
        computed: what computed steps of "sw" leave; None if there are none.
        edge: the largest stable rate of "sw" by theory.
        title: what the chart shows, for readers who do not see it.
        told: what is left as text.
    """
    rates = [point.rate for some in lines.values() for point in some]
    low, high = min(rates), max(rates)
    x = Scale(low / 1.25, high * 1.25 if high > low else low * 2, _LEFT, _WIDTH - _RIGHT)
    finite = [p.left for some in lines.values() for p in some if p.left < math.inf]
    # Where shares of the initial distance are drawn, ten times that is as good as diverged.
    tallest = min(max([1.0, *finite]), 10.0) if told is percent else max([1e-3, *finite])
    least = min([p.left for some in lines.values() for p in some if p.left > REACHED], default=0.1)
    y = Scale(min(least / 2, 0.05), tallest * 1.1, _HEIGHT - _BOTTOM - _BAND - 4, _TOP + _BAND)  # fmt: skip
    parts = [*_frame(), *_ticks(x, y, told)]
    if edge is not None and x.low < edge < x.high:
        parts.append(_line(x(edge), _TOP, x(edge), _HEIGHT - _BOTTOM, "edge"))
        parts.append(f'<text class="edge" x="{x(edge) - 4:.1f}" y="{_HEIGHT - _BOTTOM - _BAND - 12}" text-anchor="end">sw stable ◂</text>')  # fmt: skip
    if computed is not None:
        at = y.at + 4 if computed <= REACHED else _height(y, computed)
        parts.append(_line(_LEFT, at, _WIDTH - _RIGHT, at, "computed"))
        words = (
            "sw, computed step" if computed <= REACHED else f"sw, computed step: {told(computed)}"
        )
        above = at + 14 if computed <= REACHED else at - 6
        parts.append(f'<text class="computed" x="{_WIDTH - _RIGHT - 4}" y="{above:.1f}" text-anchor="end">{words}</text>')  # fmt: skip
    # The bold line is drawn last, above the others.
    for variant in [v for v in lines if v != "sw"] + [v for v in lines if v == "sw"]:
        parts.append(_variant(variant, lines[variant], x, y, told))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(parts)}'
        f"</svg>"
    )


def _height(y: Scale, left: float) -> float:
    """Return where a value is drawn: in the bands at top and bottom if it is infinite or at its target."""
    if left == math.inf or left > y.high:
        return _TOP + _BAND / 2
    return y.at + 4 + _BAND / 2 if left <= REACHED else y(left)


def _variant(
    variant: str, points: Sequence[Point], x: Scale, y: Scale, told: Callable[[float], str]
) -> str:
    style, name = STYLES[variant], escape(variant)
    at = [(x(point.rate), _height(y, point.left), point) for point in points]
    path = "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b, _ in at)
    dash = f' stroke-dasharray="{" ".join(f"{part:g}" for part in style.dash)}"' if style.dash else ""  # fmt: skip
    marks = "".join(
        f'<path class="mark" d="{style.outline}" transform="translate({a:.1f},{b:.1f}) scale(4)">'
        f"<title>{name}, rate {point.rate:g}: {'diverges' if point.left == math.inf else f'{told(point.left)} left'}</title></path>"
        for a, b, point in at
    )
    return f'<g data-v="{name}"><path class="line" d="{path}"{dash}/>{marks}</g>'


def _frame() -> list[str]:
    top, bottom = _TOP, _HEIGHT - _BOTTOM
    wide = _WIDTH - _RIGHT - _LEFT
    return [
        f'<rect class="bad" x="{_LEFT}" y="{top}" width="{wide}" height="{_BAND}"/>',
        f'<rect class="good" x="{_LEFT}" y="{bottom - _BAND}" width="{wide}" height="{_BAND}"/>',
        f'<text class="band" x="{_LEFT + 5}" y="{top + 14}">diverges</text>',
        f'<text class="band" x="{_LEFT + 5}" y="{bottom - 6}">at the target</text>',
        _line(_LEFT, bottom, _WIDTH - _RIGHT, bottom, "axis"),
    ]


def _ticks(x: Scale, y: Scale, told: Callable[[float], str]) -> list[str]:
    found = []
    powers = range(math.ceil(math.log10(x.low)), math.floor(math.log10(x.high)) + 1)
    every = max(1, math.ceil(len(powers) / 5))
    for power in powers[::every] if powers else [math.log10(math.sqrt(x.low * x.high))]:
        at = x(10**power)
        words = f"{10**power:,g}" if -4 < power < 5 else f"1e{power:.0f}"
        found.append(f'<text class="tick" x="{at:.1f}" y="{_HEIGHT - _BOTTOM + 15}" text-anchor="middle">{words}</text>')  # fmt: skip
    for left in (
        10.0**power
        for power in range(math.floor(math.log10(y.high)), math.ceil(math.log10(y.low)) - 1, -1)
    ):
        words = told(left)
        found.append(_line(_LEFT, y(left), _WIDTH - _RIGHT, y(left), "grid"))
        found.append(f'<text class="tick" x="{_LEFT - 5}" y="{y(left) + 4:.1f}" text-anchor="end">{words}</text>')  # fmt: skip
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    found.append(f'<text class="tick" x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">learning rate</text>')  # fmt: skip
    return found


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
