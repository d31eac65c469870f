"""How flows end: after how many steps, and how much of the initial distance is left."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from slicewise.lab.experiments import ELEVEN
from slicewise.lab.report.best import Best
from slicewise.lab.report.flow_runs import Flows

# A flow has reached its target if at most this share of the initial distance is left.
REACHED = 1e-6


@dataclass(frozen=True, eq=False)
class Ending:
    """The end of the flows of one variant in one group, over its seeds.

    Attributes:
        flows: the experiment.
        group: the group.
        variant: the variant.
        objective: of the searched rate; None if steps were computed.
        best: the runs.
    """

    flows: Flows
    group: str
    variant: str
    objective: str | None
    best: Best

    @property
    def left(self) -> float:
        """The distance left, as a share of the initial one; the distance itself if that is not known."""
        return self.best.mean / self.flows.starts.get(self.group, 1.0)

    @property
    def reached(self) -> bool:
        """Whether every seed has reached its target."""
        start = self.flows.starts.get(self.group, 1.0)
        return all(row["w2"] is not None and row["w2"] <= REACHED * start for row in self.best.runs)

    @property
    def steps(self) -> int | None:
        """The number of steps that runs made, the median over seeds."""
        made = [row["measures"]["steps"] for row in self.best.runs if "steps" in row["measures"]]
        return round(statistics.median(made)) if made else None

    @property
    def words(self) -> str:
        """How it ended, in a few words."""
        if self.best.mean == math.inf:
            return "diverged"
        steps = "" if self.steps is None else f" after {self.steps:,} steps"
        return f"{'at the target' if self.reached else f'{self.told_left} left'}{steps}"

    @property
    def told_left(self) -> str:
        """What is left, as text."""
        if self.group not in self.flows.starts:
            return f"W₂ {distance(self.best.mean)}"
        return percent(self.left)


def percent(share: float) -> str:
    """Return a share as text: percents if they are plain numbers, else a power of ten."""
    if share == math.inf:
        return "∞"
    if share <= REACHED:
        return "≤ 0.0001 %"
    if share < 1e-3:
        return f"{100 * share:.4f}".rstrip("0") + " %"
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:,.0f} %"


def distance(value: float) -> str:
    """Return a distance as text, in two digits."""
    return f"{float(f'{value:.2g}'):g}"


def computed(every: Iterable[Flows]) -> list[Ending]:
    """Return how flows with computed steps end, for each experiment, group and variant that has runs."""
    return [
        Ending(flows, group, variant, None, best)
        for flows in every
        for group in flows.groups
        for variant in ELEVEN
        if (best := flows.best(group, variant, None)) is not None
    ]


def searched(flows: Flows, group: str, variant: str) -> Ending | None:
    """Return how the best of all searched rates ends, whatever its objective; None if none was searched."""
    found = [
        Ending(flows, group, variant, objective, best)
        for objective in flows.objectives(group)
        if (best := flows.best(group, variant, objective)) is not None
    ]
    return min(found, key=lambda one: one.best.mean, default=None)


def n_searched(flows: Flows, group: str, variant: str) -> int:
    """Return how many rates were searched, on all objectives."""
    return len({
        (row["objective"], row["lr"])
        for objective in flows.objectives(group)
        for row in flows.some(group, variant, objective)
    })  # fmt: skip


def times(ratio: float) -> str:
    """Return a ratio as text."""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def span(numbers: Iterable[int]) -> str:
    """Return the least and largest of some numbers as text, one number if they are equal."""
    some = sorted(numbers)
    return f"{some[0]:,}" if some[0] == some[-1] else f"{some[0]:,} to {some[-1]:,}"
