"""Why a number of ours is not the paper's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slicewise.lab.experiments import noise_of, published_objective
from slicewise.lab.report.best import Best, by_rate, number
from slicewise.lab.report.flow_runs import Flows

ALIKE = 2.0  # numbers within this factor of each other agree


@dataclass(frozen=True)
class Sizes:
    """What the paper's runs were made with, and how its numbers are printed."""

    n: int
    steps: int
    rates: int
    rounded: float  # half the last digit
    stuck: float  # a squared loss that is left with more has not converged, at any rate


SIZES = {
    "gradient-flow": Sizes(300, 10_000, 36, 5e-5, 1e-3),
    "color": Sizes(3000, 50_000, 25, 5e-3, 0.5),
}


def reason(flows: Flows, group: str, variant: str) -> str:
    """Of what is left at the best rate of what the paper seems to descend: for colors, "sw" squared, else the root."""
    column = published_objective(variant) if flows.experiment == "color" else "root"
    paper, ours = flows.published(variant, group), flows.best(group, variant, column)
    if paper is None:
        return "the paper prints none"
    if ours is None:
        return ""
    given, sizes = ours.runs[0]["given"], SIZES[flows.experiment]
    if other_sizes(flows.experiment, given):
        return "made in small: see below"
    also = "; other photographs" if flows.experiment == "color" else ""
    theirs = max(paper.mean, sizes.rounded)
    if (paper.mean - sizes.rounded) / ALIKE <= ours.mean <= (paper.mean + sizes.rounded) * ALIKE:
        return f"agrees, within a factor of {ALIKE:g}{also}"
    noise = given.get("noise") or noise_of(given["task"])
    if noise is not None and max(ours.mean, theirs) <= noise:
        return f"both below what single precision can tell, {number(noise)}{also}"
    squared = flows.best(group, variant, "power")
    if ours.mean > theirs and squared is not None and squared.mean > sizes.stuck:
        return (
            f"stuck whatever the rate: the squared loss, which does not rattle, is left with {number(squared.mean)} at its "
            f"best{also}"
        )
    if column == "power":
        return (
            f"ours is a squared loss at the rate {ours.rate:g}, evaluated in double precision{also}"
        )
    if ours.mean > theirs:
        found = by_rate(flows.some(group, variant, column))
        return f"{_rattles(ours)}; {_smaller(found, ours, given)}{also}"
    known = "" if paper.lr is not None else "; at which rate the paper's was found is not printed"
    return f"{_rattles(ours)}{known}{also}"


def other_sizes(experiment: str, given: dict[str, Any]) -> str:
    """Words, for runs that are not as large as the paper's."""
    theirs = SIZES.get(experiment)
    ours = (given["task"]["n"], given["steps"])
    if theirs is None or ours == (theirs.n, theirs.steps):
        return ""
    return (
        f"Ours is made in small, n = {ours[0]} and {ours[1]:,} steps; the paper's n = {theirs.n}, {theirs.steps:,} steps, "
        f"{theirs.rates} rates. The preset `paper` is as large."
    )


def _rattles(ours: Best) -> str:
    return f"the root rattles in proportion to its rate, ours is {ours.rate:g}"


def _smaller(found: list[Best], ours: Best, given: dict[str, Any]) -> str:
    """What keeps the next smaller rate from being better."""
    rates = [one.rate for one in found]
    below = rates.index(ours.rate) - 1
    if below < 0:
        return "no smaller rate was tried"
    next_smaller = found[below]
    seeds = sorted(float("inf") if row["w2"] is None else row["w2"] for row in next_smaller.runs)
    what = (
        f"the next smaller of the grid, {next_smaller.rate:g}, leaves {number(next_smaller.mean)}"
    )
    # A particle of n in a wrong mode of eight gaussians is some modes' distance away, by itself.
    if (
        given["task"].get("toy") == "8gaussians"
        and next_smaller.mean > 0.3 / given["task"]["n"] ** 0.5
    ):
        return f"{what}: a particle in a wrong mode"
    if seeds[0] <= ours.mean < seeds[-1]:
        return f"{what}: some seeds arrive ({number(seeds[0])}), others are stuck ({number(seeds[-1])})"
    return f"{what}: too slow for {given['steps']:,} steps"
