"""How far a map follows the target beyond the linear one, by what it would do to the image at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from slicewise.color.artifacts import Artifacts, SourceRegions
from slicewise.color.field import look_up
from slicewise.color.guided import guide
from slicewise.color.images import SmallCopy

# Smoothnesses that are tried, from close to the linear map to close to the target.
LADDER = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
# How many times that of the linear map, or of the source itself, a measure of artifacts may be. Over many images the
# means are then about those of the linear map: most measures stay far below their limits (docs/log.md).
_OF_LINEAR, _OF_SOURCE = 1.2, 1.4
_JUDGED = ("seams", "hue_jumps", "grain", "halos")
_BISECTIONS = 3


class Judge:
    """Tells whether a map is as free of artifacts as the linear map on some small copies of the source.

    Every measure of `Artifacts` but clipping may be 1.2 times that of the unbounded linear map applied to each pixel,
    or 1.4 times that of the source, whichever is more.
    """

    def __init__(self, copies: Sequence[SmallCopy], linear: Tensor) -> None:
        """Prepare the copies, given the field (S, S, S, 3) of the linear map."""
        self._copies = [copy.colors for copy in copies]
        self._regions = [SourceRegions(*copy) for copy in copies]
        self._limits = []
        for copy, regions in zip(self._copies, self._regions, strict=True):
            before = regions.compare(copy)
            after = regions.compare((copy + look_up(linear, copy)).clamp(0, 1))
            self._limits.append({name: _limit(name, before, after) for name in _JUDGED})

    def accepts(self, field: Tensor) -> bool:
        """Whether no measure of any copy, moved by a field (S, S, S, 3), is above its limit."""
        for copy, regions, limits in zip(self._copies, self._regions, self._limits, strict=True):
            found = regions.compare(guide(copy, lambda c: look_up(field, c)).clamp(0, 1))
            if any(getattr(found, name) > limit for name, limit in limits.items()):
                return False
        return True


def _limit(name: str, before: Artifacts, after: Artifacts) -> float:
    return max(_OF_LINEAR * getattr(after, name), _OF_SOURCE * getattr(before, name))


def follow_target(base: Tensor, fit: Callable[[float, Tensor], Tensor], judge: Judge) -> Tensor:
    """Return the field nearest to the target that the judge accepts.

    Args:
        base: The field (S, S, S, 3) of the bounded linear map: what is left if nothing beyond it is accepted.
        fit: Returns the field of a smoothness, given one to start from.
        judge: Of artifacts.
    """
    accepted = tried = base
    for smoothness in LADDER:
        tried = fit(smoothness, tried)
        if not judge.accepts(tried):
            break
        accepted = tried
    else:
        return accepted
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        between = accepted + middle * (tried - accepted)
        low, high = (middle, high) if judge.accepts(between) else (low, middle)
    return accepted + low * (tried - accepted)
