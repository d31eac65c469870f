"""Why a number of ours is not the paper's."""

from __future__ import annotations

from typing import Any

from slicewise.lab.experiments.theory.evaluation import noise_of
from slicewise.lab.report.best import Best, by_rate, number
from slicewise.lab.report.rows import Flows

# What the paper's flows to toys were made with.
PUBLISHED_SIZE, PUBLISHED_STEPS, PUBLISHED_RATES = 300, 10_000, 36
ALIKE = 2.0  # numbers within this factor of each other agree
_STUCK = 1e-3  # a squared loss that is left with more has not converged, at any rate
_ROUNDED = 5e-5  # the paper prints four digits: its numbers are so far from what was found, at most


def reason(flows: Flows, place: str, variant: str) -> str:
    """Of what is left at the best rate of the root, which is what the paper's table holds."""
    paper, ours = flows.published(variant, place), flows.best(place, variant, "root")
    if paper is None:
        return "the paper prints none"
    if ours is None:
        return ""
    given = ours.runs[0]["given"]
    if other_sizes(given):
        return "made in small: see below"
    found = by_rate(flows.some(place, variant, "root"))
    theirs = max(paper.mean, _ROUNDED)
    if (paper.mean - _ROUNDED) / ALIKE <= ours.mean <= (paper.mean + _ROUNDED) * ALIKE:
        return f"agrees, within a factor of {ALIKE:g}"
    noise = noise_of(given["task"])
    if noise is not None and max(ours.mean, theirs) <= noise:
        return f"both below what single precision can tell, {number(noise)}"
    squared = flows.best(place, variant, "power")
    if ours.mean > theirs and squared is not None and squared.mean > _STUCK:
        return (
            f"no rate of the squared loss comes closer either ({number(squared.mean)}): the slices this variant finds are to "
            f"blame, not the rate"
        )
    if ours.mean > theirs:
        return f"{_rattles(ours)}; {_smaller(found, ours, given)}"
    return f"{_rattles(ours)}; at which rate the paper's was found is not printed"


def other_sizes(given: dict[str, Any]) -> str:
    """Words, for runs that are not as large as the paper's."""
    sizes = (given["task"]["n"], given["steps"])
    if sizes == (PUBLISHED_SIZE, PUBLISHED_STEPS):
        return ""
    return (
        f"Ours is made in small, n = {sizes[0]} and {sizes[1]:,} steps; the paper's n = {PUBLISHED_SIZE}, "
        f"{PUBLISHED_STEPS:,} steps, {PUBLISHED_RATES} rates. The preset `paper` is as large."
    )


def _rattles(ours: Best) -> str:
    return f"the root rattles about as wide as its rate, ours is {ours.rate:g}"


def _smaller(found: list[Best], ours: Best, given: dict[str, Any]) -> str:
    """What keeps the next smaller rate from being better."""
    rates = [one.rate for one in found]
    below = rates.index(ours.rate) - 1
    if below < 0:
        return "no smaller rate was tried"
    left = found[below]
    what = f"the next smaller of the grid, {left.rate:g}, leaves {number(left.mean)}"
    # A particle of n in a wrong mode of eight gaussians is some modes' distance away, by itself.
    if given["task"].get("toy") == "8gaussians" and left.mean > 0.3 / given["task"]["n"] ** 0.5:
        return f"{what}: a particle in a wrong mode"
    return f"{what}: too slow for {given['steps']:,} steps"
