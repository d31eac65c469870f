"""Numbers that change in the course of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from slicewise.problem.part import Part

Schedule = Callable[[float], float]


class Moment(Protocol):
    """The protocol of a point in a run, at which schedules are evaluated.

    A flow states its progress by one (`Problem.moment`). On a device a scheduled number is a tensor, which a replayed
    CUDA graph reads anew.
    """

    @property
    def total(self) -> int:
        """Return the number of steps of the whole run."""
        ...

    def of(self, schedule: Schedule) -> float | Tensor:
        """Return the present value of a schedule.

        Args:
            schedule: a function of the share of the run that is over, in [0, 1].

        Returns:
            Its value, a number or a tensor on the device.
        """
        ...


@dataclass(frozen=True)
class Instant:
    """A point in a run, given by plain numbers.

    Use it where steps are run eagerly, without a CUDA graph.

    Args:
        step: the number of steps that are over.
        total: the number of steps of the whole run.

    >>> Instant(30, 100).of(lambda progress: 10 * progress)
    3.0
    """

    step: int
    total: int

    def of(self, schedule: Schedule) -> float:
        """Return the value of a schedule at step / total.

        Args:
            schedule: a function of the share of the run that is over, in [0, 1].

        Returns:
            Its value.
        """
        return schedule(self.step / self.total)


@dataclass(frozen=True, repr=False)
class Anneal(Part):
    """A schedule that decreases from `start` to `stop`, mostly early in the run: the one published with RPSW.

    Use it for an option that may change during a run, such as `kappa`: `sliced_wasserstein(x, y, "rpsw",
    kappa=Anneal(100), progress=0.3)`. A flow and `train` set the progress themselves. Any function of the progress,
    from 0 to 1, can be used in its place.

    The value is start · s + stop · (1 − s) with s = (1 − progress)^power.

    Args:
        start: the value at progress 0.
        stop: the value at progress 1.
        power: how early the value changes; 1 is linear, and a larger power changes it earlier.

    >>> Anneal(100)(0.0), Anneal(100)(1.0), Anneal(100)
    (100.0, 1.0, Anneal(100))
    """

    start: float
    stop: float = 1.0
    power: float = 10.0

    def __call__(self, progress: float) -> float:
        share = (1 - progress) ** self.power
        return self.start * share + self.stop * (1 - share)
