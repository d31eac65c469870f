"""How far a map follows the target beyond the linear one, by what it would do to the image at hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from slicewise.color.artifacts import Artifacts, SourceRegions, black_part
from slicewise.color.field import look_up
from slicewise.color.guided import guide
from slicewise.color.images import SmallCopy
from slicewise.distance import sliced_wasserstein

# Smoothnesses that are tried, from close to the linear map to close to the target.
LADDER = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
# Levels of 255 that colors must come nearer to the target's for each ΔE per pixel that smooth regions become steeper.
# In the mean over many images one price is the best choice for the steepness it leads to (docs/color.md has the front).
_PRICE = 9.0
# How many times that of the linear map, or of the source itself, the other measures may be, whichever is more.
_MOST = {"seams": (2.0, 3.0), "hue_jumps": (3.0, 3.0), "grain": (2.0, 3.0), "halos": (1.2, 1.5)}
# What these may be, in ΔE, and how many times those of the linear map, whichever is more: chosen by eye.
_MOST_BY_EYE = {"blotches": (4.0, 1.25), "unevenness": (10.0, 1.75), "crushed": (0.7, 1.5)}
_BLACK_TARGET = (
    0.5  # part of a target that is nearly black, above which detail may be crushed to black
)
_REVERSALS = 2.0  # in ΔE, of fields that ask again for what was held back
_HALVINGS = 3  # of the way from a field to one that is refused
# Pixels and even slices by which the distance to the target is computed.
_PIXELS, _SLICES = 4096, 32
_STEPS_BACK = (
    2  # smoothnesses that may cost more than the best before them, until the rest are not tried
)


class Shown(NamedTuple):
    """Some pixels of the copies, as they are and as a map shows them."""

    before: Tensor  # (n, 3), float64
    after: Tensor  # (n, 3)


class Costs(Protocol):
    """Whatever prices a map."""

    def cost(self, field: Tensor) -> float:
        """Return what is disliked about a field (S, S, S, 3); infinity if it may not be used."""
        ...


class Judge:
    """Prices a map by small copies of the source: how far their colors are from the target, and artifacts.

    The price is √3 times SW_2 to the target's colors, in levels of 255 (an isotropic difference then costs its W_2), and
    9 levels for each ΔE per pixel by which smooth regions are steep. Seams and grain may be twice those of the unbounded
    linear map applied to each pixel, hue jumps three times, or all three of them three times those of the source,
    whichever is more; halos 1.2 times those of the linear map or 1.5 times those of the source; blotches of skin 1.25
    times those of the linear map, or 4 ΔE; the unevenness of calm regions 1.75 times that of the linear map, or 10 ΔE;
    detail crushed to black 1.5 times that of the linear map, or 0.7 ΔE, unless more than half of the target is nearly
    black.
    """

    def __init__(
        self,
        copies: Sequence[SmallCopy],
        linear: Tensor,
        target: Tensor,
        *,
        gradual: bool = True,
    ) -> None:
        """Prepare the copies.

        Args:
            copies: Of the source.
            linear: The field (S, S, S, 3) of the linear map.
            target: Colors (m, 3) of the target.
            gradual: That of `LocalMaps`.
        """
        self._gradual = gradual
        self._copies = [copy.colors for copy in copies]
        self._seen = [copy.seen for copy in copies]
        self._regions = [SourceRegions(*copy) for copy in copies]
        self._limits = []
        for copy, regions in zip(self._copies, self._regions, strict=True):
            before = regions.compare(copy)
            after = regions.compare((copy + look_up(linear, copy)).clamp(0, 1))
            limits = {name: _limit(name, before, after) for name in _MOST}
            for name, (least, of_linear) in _MOST_BY_EYE.items():
                limits[name] = max(least, of_linear * getattr(after, name))
            if black_part(target) > _BLACK_TARGET:
                del limits["crushed"]  # that is what was asked for
            self._limits.append(limits)
        self._target = _some(255 * target.double(), _PIXELS)

    def cost(self, field: Tensor) -> float:
        """Return the price of a field (S, S, S, 3); infinity if an artifact of a copy is above its limit."""
        moved = [self._moved(copy, field) for copy in self._copies]
        steepness = 0.0
        for copy, regions, limits in zip(moved, self._regions, self._limits, strict=True):
            found = regions.compare(copy)
            if any(getattr(found, name) > limit for name, limit in limits.items()):
                return math.inf
            steepness += found.steepness / len(moved)
        colors = _some(255 * torch.cat(self._visible(moved)).double(), _PIXELS)
        # Slices are the same for all fields.
        apart = float(sliced_wasserstein(colors, self._target, "qsw", n_slices=_SLICES))
        return math.sqrt(3) * apart + _PRICE * steepness

    def keep_order(self, field: Tensor) -> None:
        """Refuse from now on what reverses the order of lightness more than this field (S, S, S, 3) does, or by 2 ΔE.

        A field that asks again for what local maps hold back in calm areas asks too much of the pixels beside them: rims
        around stars, whose centers turn dark.
        """
        for copy, regions, limits in zip(self._copies, self._regions, self._limits, strict=True):
            found = regions.compare(self._moved(copy, field))
            limits["reversals"] = max(_REVERSALS, found.reversals)

    def shown(self, field: Tensor, places: Tensor) -> Shown:
        """Return the pixels of the copies at places (n,) in [0, 1), and what a field makes of them."""
        before = torch.cat(self._visible(self._copies))
        after = torch.cat(self._visible([self._moved(copy, field) for copy in self._copies]))
        index = (places * len(before)).long().clamp(max=len(before) - 1)
        return Shown(before[index].double(), after[index].double())

    def _moved(self, copy: Tensor, field: Tensor) -> Tensor:
        moved = guide(copy, lambda colors: look_up(field, colors), gradual=self._gradual)
        return moved.clamp(0, 1)

    def _visible(self, copies: Sequence[Tensor]) -> list[Tensor]:
        """The pixels (n, 3) of each copy that are seen, or all where none is."""
        return [
            copy[seen] if bool(seen.any()) else copy.reshape(-1, 3)
            for copy, seen in zip(copies, self._seen, strict=True)
        ]


def _limit(name: str, before: Artifacts, after: Artifacts) -> float:
    of_linear, of_source = _MOST[name]
    return max(of_linear * getattr(after, name), of_source * getattr(before, name))


def _some(colors: Tensor, n: int) -> Tensor:
    """n of the colors (m, 3), evenly spaced; some twice if there are fewer."""
    return colors[(torch.arange(n) * len(colors)).div(n, rounding_mode="floor")]


class Chosen(NamedTuple):
    """A field, how smooth it is, and its price."""

    field: Tensor  # (S, S, S, 3)
    smoothness: float
    cost: float


def better(best: Chosen, field: Tensor, smoothness: float, judge: Costs) -> Chosen:
    """Return the best of a field, of the parts of it that the judge does not refuse, and of what was best before."""
    cost = judge.cost(field)
    if cost == math.inf:
        return _part_of(best, field, smoothness, judge)
    return Chosen(field, smoothness, cost) if cost < best.cost else best


def _part_of(best: Chosen, refused: Tensor, smoothness: float, judge: Costs) -> Chosen:
    """Go from the best field towards one that is refused, by bisection, as far as that is allowed and costs less."""
    found, low, high = best, 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        blend = torch.lerp(best.field, refused, middle)
        cost = judge.cost(blend)
        if cost < found.cost:
            between = best.smoothness ** (1 - middle) * smoothness**middle
            found = Chosen(blend, between, cost)
        low, high = (middle, high) if cost < math.inf else (low, middle)
    return found


def follow_target(base: Tensor, fit: Callable[[float, Tensor], Tensor], judge: Costs) -> Chosen:
    """Return the field that costs least.

    Args:
        base: The field (S, S, S, 3) of the bounded linear map: what is left if all beyond it cost more.
        fit: Returns the field of a smoothness, given one to start from.
        judge: Of artifacts, and of the distance to the target.
    """
    best = Chosen(base, LADDER[0], judge.cost(base))
    tried, worse, refused = base, 0, None
    for smoothness in LADDER:
        tried = fit(smoothness, tried)
        cost = judge.cost(tried)
        if cost < best.cost:
            best, worse, refused = Chosen(tried, smoothness, cost), 0, None
        else:
            if cost == math.inf and refused is None:
                refused = tried, smoothness
            worse += 1
            if worse > _STEPS_BACK:
                break
    return best if refused is None else _part_of(best, *refused, judge)
