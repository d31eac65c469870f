"""How checks look: measured points with error bars, closed forms through them, the paper dashed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from slicewise.lab.images.palette import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def points(
    axes: Axes, x: ArrayLike, y: ArrayLike, error: ArrayLike, colour: str, **how: Any
) -> None:
    """What was measured, with its error."""
    style: dict[str, Any] = {"fmt": "o", "markersize": 4, "capsize": 2, "elinewidth": 1} | how
    axes.errorbar(x, y, yerr=error, color=colour, zorder=3, **style)


def line(axes: Axes, x: ArrayLike, y: ArrayLike, colour: str, **how: Any) -> None:
    """A closed form."""
    axes.plot(x, y, color=colour, **({"linewidth": 1.2} | how))


def claim(axes: Axes, x: ArrayLike, y: ArrayLike, colour: str = GREY, **how: Any) -> None:
    """What the paper says."""
    line(axes, x, y, colour, linestyle="--", **how)


def label(axes: Axes, x: str, y: str, *, log: str = "", **legend: Any) -> None:
    """Name the axes, say which of them are logarithmic ("xy"), show the legend."""
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(**({"fontsize": "small", "frameon": False, "handlelength": 1.6} | legend))
