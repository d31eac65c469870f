"""Numbers that change in the course of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from slicewise.problem.part import Part

Schedule = Callable[[float], float]


class Moment(Protocol):
    """A point of a run. On a device a scheduled number is a tensor, which a CUDA graph can read anew."""

    @property
    def total(self) -> int:
        """Steps of the whole run."""
        ...

    def of(self, schedule: Schedule) -> float | Tensor:
        """What a schedule, a function of the share of the run that is over, says now."""
        ...


@dataclass(frozen=True)
class Instant:
    """A moment as plain numbers."""

    step: int
    total: int

    def of(self, schedule: Schedule) -> float:
        return schedule(self.step / self.total)


@dataclass(frozen=True, repr=False)
class Anneal(Part):
    """A schedule from `start` down to `stop`, most of it early: the one published with RPSW.

    Give it as an option, `sliced_wasserstein(x, y, "rpsw", kappa=Anneal(100), progress=0.3)`; a flow and `train` say the
    progress themselves. Any function of the progress, 0 to 1, is as good.

    >>> Anneal(100)(0.0), Anneal(100)(1.0), Anneal(100)
    (100.0, 1.0, Anneal(100))
    """

    start: float
    stop: float = 1.0
    power: float = 10.0

    def __call__(self, progress: float) -> float:
        share = (1 - progress) ** self.power
        return self.start * share + self.stop * (1 - share)
