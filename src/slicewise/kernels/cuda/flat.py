"""Lines too long for one block."""

from __future__ import annotations

from torch import Tensor

from slicewise.line import Match, Wanted
from slicewise.transport import match_slices


def match_long(
    x: Tensor, y: Tensor, slices: Tensor, *, p: float, wanted: Wanted, y_sorted: Tensor | None
) -> Match:
    """`match_slices` of equal numbers of equally weighted samples."""
    return match_slices(x, y, slices, p=p, wanted=wanted, y_sorted=y_sorted)
