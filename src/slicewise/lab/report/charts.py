"""Interactive charts as Vega-Lite specifications: distances over the rate, and losses over the steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slicewise.lab.images import GRAY
from slicewise.lab.report.best import Best, number, spread, steps_of
from slicewise.lab.report.layout import STYLES

if TYPE_CHECKING:
    import altair as alt

REMAINING = "exact W₂ that remains"
LOWEST = 1e-16  # smaller distances are rounding errors
Point = dict[str, Any]


def basin(
    searched: Mapping[str, Sequence[Best]],
    unsearched: Mapping[str, Mapping[str, Best]],
    edge: float | None,
    *,
    measure: str = REMAINING,
) -> dict[str, Any]:
    """Return a chart of a measure over the rate, a line for each variant.

    Args:
        searched: the results at each rate, by variant.
        unsearched: results without a searched rate, by what they are called and by variant; each a column of marks left
            of the lines, the first one leftmost.
        edge: the largest stable rate of "sw" by theory, drawn as a line.
        measure: the name of the measure.
    """
    import altair as alt

    at_rates = [_basin_point(v, one) for v, some in searched.items() for one in some]
    at_rates = [p for p in at_rates if p["w2"] is not None and 0 < p["rate"] < float("inf")]
    lowest = min((point["rate"] for point in at_rates), default=1.0)
    columns = columns_left_of(lowest, unsearched)
    without = [
        {**_basin_point(v, one), "rate": columns[name]}
        for name, some in unsearched.items()
        for v, one in some.items()
    ]
    without = [point for point in without if point["w2"] is not None]
    rates = [point["rate"] for point in [*at_rates, *without]] + ([edge] if edge else [])
    heights = [point["w2"] for point in [*at_rates, *without]]
    x = alt.X(
        "rate:Q", title="learning rate", scale=_log(rates), axis=_axis(rates, above=lowest / 2)
    )
    y = alt.Y("w2:Q", title=measure, scale=_log(heights), axis=_axis(heights))
    tooltip = [
        alt.Tooltip("variant:N"),
        alt.Tooltip("told_rate:N", title="rate"),
        alt.Tooltip("told:N", title=measure),
        alt.Tooltip("steps:N"),
        alt.Tooltip("seeds:Q"),
    ]
    layers = [
        *_lines(alt, at_rates, x, y, tooltip, across="rate"),
        _marks(alt, without, x, y, tooltip=tooltip, filled=False),
        alt.Chart(_values(alt, [{"rate": lowest / 2}]))
        .mark_rule(color=GRAY, opacity=0.4)
        .encode(x=x),
        alt.Chart(_values(alt, [{"rate": at, "told": name} for name, at in columns.items()]))
        .mark_text(fontSize=10, color=GRAY, clip=False)
        .encode(x=x, y=alt.value(-8), text="told:N"),
    ]
    if edge is not None:
        there = [{"rate": edge, "told": f"edge of sw by theory: {edge:,.0f}"}]
        layers.append(
            alt.Chart(_values(alt, there))
            .mark_rule(color=STYLES["sw"].color, strokeDash=[2, 3], size=2)
            .encode(x=x, tooltip=alt.Tooltip("told:N", title="rate"))
        )
    return _specified(alt, layers)


def columns_left_of(lowest: float, names: Iterable[str]) -> dict[str, float]:
    """Return where columns of marks are drawn on a logarithmic axis of rates: left of the least rate, the last one next to it."""
    there = list(names)
    return {name: lowest / 4 ** (len(there) - i) for i, name in enumerate(there)}


def loss_curves(found: Mapping[str, Best]) -> list[Point]:
    """Return the loss of every variant over its steps as a distance, of the first seed."""
    return [point for variant, one in found.items() for point in _loss_curve(variant, one)]


def convergence(points: Sequence[Point]) -> dict[str, Any]:
    """Return a chart of these points, a line for each variant."""
    import altair as alt

    steps, losses = ([point[name] for point in points] for name in ("step", "loss"))
    x = alt.X("step:Q", title="step", scale=_log(steps), axis=_axis(steps))
    y = alt.Y(
        "loss:Q", title="SW₂ on the slices of the step", scale=_log(losses), axis=_axis(losses)
    )
    tooltip = [
        alt.Tooltip("variant:N"),
        alt.Tooltip("told_rate:N", title="rate"),
        alt.Tooltip("step:Q"),
        alt.Tooltip("told:N", title="SW₂"),
    ]
    return _specified(alt, _lines(alt, points, x, y, tooltip, across="step", size=16))


def _basin_point(variant: str, one: Best) -> Point:
    finite = one.mean != float("inf")
    return {
        "variant": variant,
        "rate": one.rate,
        "w2": max(one.mean, LOWEST) if finite else None,
        "told": spread(one),
        "told_rate": "computed" if one.rate is None else f"{one.rate:g}",
        "steps": steps_of(one),
        "seeds": len(one.runs),
    }


def _loss_curve(variant: str, one: Best) -> list[Point]:
    row = min(one.runs, key=lambda row: row["seed"])
    trace = row["trace"]
    format_measure = "computed" if row["lr"] is None else f"{row['lr']:g}"
    points = []
    for step, loss in zip(trace.get("at", ()), trace.get("loss", ()), strict=False):
        distance = as_distance(loss, row)
        if distance is not None and step > 0:  # a logarithmic axis has no 0
            points.append({
                "variant": variant, "step": step, "loss": max(distance, LOWEST), "told": number(distance, 3),
                "told_rate": format_measure,
            })  # fmt: skip
    return points


def as_distance(loss: float | None, row: Mapping[str, Any]) -> float | None:
    """Return the loss of a step as SW_2 in the unit of the samples; None if it is not finite."""
    if loss is None or not 0 <= loss < float("inf"):
        return None
    given = row["given"]
    n = given["task"]["n"] if given["convention"] == "reference" else 1
    if row["objective"] == "power":
        return float(loss / n**2) ** 0.5
    return float(loss / n**1.5)


def _values(alt: Any, points: Sequence[Point]) -> alt.InlineData:
    return alt.InlineData(values=list(points))


def _log(values: Sequence[float]) -> alt.Scale:
    """Return a logarithmic scale with room for marks at both ends."""
    import altair as alt

    low, high = min(values, default=1.0), max(values, default=1.0)
    room = max((high / low) ** 0.05, 1.2)
    return alt.Scale(type="log", nice=False, domain=[low / room, high * room])


def _axis(values: Sequence[float], above: float = 0.0) -> alt.Axis:
    """Return an axis with plain numbers if they are short, else powers of ten; no labels below `above`."""
    import altair as alt

    short = all(1e-3 <= value < 1e5 for value in values)
    return alt.Axis(
        format="~g" if short else "~e",
        labelExpr=f"datum.value < {above:g} ? '' : datum.label",
        labelOverlap="greedy",
        labelSeparation=8,
        tickCount=8,
    )


def _lines(
    alt: Any,
    points: Sequence[Point],
    x: Any,
    y: Any,
    tooltip: Sequence[Any],
    *,
    across: str,
    size: int = 45,
) -> list[Any]:
    """Return lines of all variants with marks that have tooltips; the chart can be moved and zoomed."""
    lines = (
        alt.Chart(_values(alt, points))
        .mark_line(strokeWidth=1.6, clip=True)
        .encode(
            x=x, y=y, color=_color(alt), strokeDash=alt.StrokeDash(
                "variant:N", scale=alt.Scale(domain=list(STYLES), range=[list(one.dash) or [1, 0] for one in STYLES.values()]),
                legend=None,
            ),
        )
        .transform_filter(_CHOSEN)
    )  # fmt: skip
    # Zoom needs shift, so that scrolling the page over a chart still works.
    moved = alt.selection_interval(
        bind="scales",
        zoom="wheel![event.shiftKey]",
        translate="[mousedown, window:mouseup] > window:mousemove!",
        name="moved",
    )
    near = alt.selection_point(
        on="pointerover", clear="pointerout", empty=False, name="near", fields=["variant", across]
    )
    marks = _marks(
        alt, points, x, y, size=alt.condition(near, alt.value(3 * size), alt.value(size))
    )
    # Invisible larger marks make tooltips easy to hit.
    around = _marks(alt, points, x, y, tooltip=tooltip, size=alt.value(350), opacity=0)
    return [lines, marks, around.add_params(moved, near)]


def _marks(
    alt: Any,
    points: Sequence[Point],
    x: Any,
    y: Any,
    *,
    tooltip: Sequence[Any] | None = None,
    size: Any = None,
    filled: bool = True,
    opacity: float = 1,
) -> Any:
    shapes = alt.Scale(domain=list(STYLES), range=[one.outline for one in STYLES.values()])
    return (
        alt.Chart(_values(alt, points))
        .mark_point(filled=filled, opacity=opacity, clip=True, strokeWidth=2)
        .encode(
            x=x,
            y=y,
            color=_color(alt),
            shape=alt.Shape("variant:N", scale=shapes, legend=None),
            size=alt.value(60) if size is None else size,
            tooltip=alt.value(None) if tooltip is None else list(tooltip),
        )
        .transform_filter(_CHOSEN)
    )


# The page sets which variants are drawn, in all charts.
_CHOSEN = "indexof(chosen, datum.variant) >= 0"


def _color(alt: Any) -> Any:
    scale = alt.Scale(domain=list(STYLES), range=[one.color for one in STYLES.values()])
    return alt.Color("variant:N", scale=scale, legend=None)


def _specified(alt: Any, layers: Sequence[Any]) -> dict[str, Any]:
    chosen = alt.param(name="chosen", value=list(STYLES))
    chart = alt.layer(*layers).add_params(chosen).properties(width="container", height=320)
    spec: dict[str, Any] = chart.to_dict()
    return spec
