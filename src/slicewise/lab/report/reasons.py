"""Reasons why a number differs from the paper's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slicewise.lab.experiments import noise_of, published_objective
from slicewise.lab.report.best import Best, by_rate, number
from slicewise.lab.report.flow_runs import Flows

ALIKE = 2.0  # numbers within this factor agree
# How reasons begin where numbers agree, and where they cannot be compared.
AGREES, OTHER_SIZES = "agrees", "made with smaller sizes"


@dataclass(frozen=True)
class Sizes:
    """The sizes of the paper's runs, and the precision of its numbers."""

    n: int
    steps: int
    rates: int
    rounded: float  # half the last digit
    stuck: float  # the squared loss has not converged at any rate if more than this remains


SIZES = {
    "gradient-flow": Sizes(300, 10_000, 36, 5e-5, 1e-3),
    "color": Sizes(3000, 50_000, 25, 5e-3, 0.5),
}


def column_objective(experiment: str, variant: str) -> str:
    """Return the objective of the paper's column: for colors that of "sw" is the square, all others are the root."""
    return published_objective(variant) if experiment == "color" else "root"


def reason(flows: Flows, group: str, variant: str) -> str:
    """Compare the best rate on the objective of the paper (for colors, "sw" on the square, else the root) with its number."""
    column = column_objective(flows.experiment, variant)
    paper, ours = flows.published(variant, group), flows.best(group, variant, column)
    if paper is None:
        return "the paper prints none"
    if ours is None:
        return ""
    given, sizes = ours.runs[0]["given"], SIZES[flows.experiment]
    if other_sizes(flows.experiment, given):
        return OTHER_SIZES
    also = "; other photographs" if flows.experiment == "color" else ""
    theirs = max(paper.mean, sizes.rounded)
    if (paper.mean - sizes.rounded) / ALIKE <= ours.mean <= (paper.mean + sizes.rounded) * ALIKE:
        return f"{AGREES}, within a factor of {ALIKE:g}{also}"
    noise = given.get("noise") or noise_of(given["task"])
    if noise is not None and max(ours.mean, theirs) <= noise:
        return f"both below the resolution of single precision, {number(noise)}{also}"
    squared = flows.best(group, variant, "power")
    if ours.mean > theirs and squared is not None and squared.mean > sizes.stuck:
        return (
            f"stuck at every rate: the squared loss, which does not oscillate, ends with {number(squared.mean)} at its "
            f"best rate{also}"
        )
    if column == "power":
        return (
            f"ours is a squared loss at the rate {ours.rate:g}, evaluated in double precision{also}"
        )
    if ours.mean > theirs:
        found = by_rate(flows.some(group, variant, column))
        return f"{_oscillates(ours)}; {_smaller(found, ours, given)}{also}"
    known = "" if paper.lr is not None else "; the paper does not print the rate of its number"
    return f"{_oscillates(ours)}{known}{also}"


def other_sizes(experiment: str, given: dict[str, Any]) -> str:
    """Return a remark for runs that are smaller than the paper's."""
    theirs = SIZES.get(experiment)
    ours = (given["task"]["n"], given["steps"])
    if theirs is None or ours == (theirs.n, theirs.steps):
        return ""
    return (
        f"Ours is made with smaller sizes, n = {ours[0]} and {ours[1]:,} steps; the paper's n = {theirs.n}, {theirs.steps:,} steps, "
        f"{theirs.rates} rates. The preset `paper` has the same sizes."
    )


def _oscillates(ours: Best) -> str:
    return f"the root oscillates in proportion to its rate, ours is {ours.rate:g}"


def _smaller(found: list[Best], ours: Best, given: dict[str, Any]) -> str:
    """Say why the next smaller rate is not better."""
    rates = [one.rate for one in found]
    below = rates.index(ours.rate) - 1
    if below < 0:
        return "no smaller rate was tried"
    next_smaller = found[below]
    seeds = sorted(float("inf") if row["w2"] is None else row["w2"] for row in next_smaller.runs)
    what = (
        f"the next smaller of the grid, {next_smaller.rate:g}, leaves {number(next_smaller.mean)}"
    )
    # One of n particles in a wrong mode of the eight Gaussians has a distance of about that between modes.
    if (
        given["task"].get("toy") == "8gaussians"
        and next_smaller.mean > 0.3 / given["task"]["n"] ** 0.5
    ):
        return f"{what}: a particle in a wrong mode"
    if seeds[0] <= ours.mean < seeds[-1]:
        return f"{what}: some seeds arrive ({number(seeds[0])}), others are stuck ({number(seeds[-1])})"
    return f"{what}: too slow for {given['steps']:,} steps"
