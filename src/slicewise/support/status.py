"""How a run ended, in one of five words, and the warning that it did not arrive."""

from __future__ import annotations

import sys
from enum import StrEnum


class Status(StrEnum):
    """How a flow or a training ended. Members are strings: `Status.ARRIVED == "arrived"`.

    Example:
        >>> print(Status.OUT_OF_STEPS)
        out of steps
    """

    ARRIVED = "arrived"  # a stopping criterion was met
    OUT_OF_STEPS = "out of steps"  # all allowed steps were made
    MINIMUM_REACHED = "minimum reached"  # the loss no longer decreases, and its minimum is not zero
    STALLED = "stalled"  # the loss no longer decreases, though it could be zero
    DIVERGED = "diverged"  # values became infinite, NaN or far larger than the data


class NotArrivedWarning(UserWarning):
    """A flow ended before it met what was asked of it, or may never meet it."""


def level_of_caller() -> int:
    """The `stacklevel` of a warning that shall name the line outside this package that led to it."""
    package = __name__.split(".")[0]
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level
