"""Distances whose p-th powers leave the floating-point range, though they themselves do not: computed again, scaled.

Costs on slices are p-th powers: in float32 with p = 2, samples 1e20 apart cost infinitely much, and samples 1e-24 apart
nothing. Scaling every call beforehand would take a pass over all samples, and change the last bits of every value. So
`check_value`, which looks at the value of each call on a CPU anyway, raises `OutOfRange` where that value is not finite,
zero, or so small that terms of its sum may have been lost; the call is then made once more in float64, and, where the
distance is homogeneous, on samples in units of the distance itself. On a CUDA device nobody looks at values: that would
wait for the device in every step of a training. There, as in compiled code and over ranks, infinity comes out as such.

Equal samples at an ordinary size are at distance zero, and nothing is computed again. A call that is made again draws its
slices again: generators have advanced further than after an ordinary call, for all of its batch, and slicers that learn have
learned more than once.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from slicewise.distance.objective import Objective
from slicewise.distance.request import AGAIN, is_out_of_range
from slicewise.parts import Drawn, Energy
from slicewise.variants import VARIANTS, Recipe

Found = TypeVar("Found")


@functools.cache
def _scalable_kinds() -> frozenset[tuple[type, type, type]]:
    """The kinds of slicer, weighting and lift of variants that are homogeneous, apart from the temperature of energies."""
    by_energy = (Energy, Drawn)
    return frozenset(
        _kinds(own())
        for own in VARIANTS.values()
        if "homogeneous" in own.properties or isinstance(own().weighting, by_energy)
    )


def _kinds(recipe: Recipe) -> tuple[type, type, type]:
    return type(recipe.slicer), type(recipe.weighting), type(recipe.lift)


def _in_unit(part: Any, powers: float) -> Any:
    """A recipe or part for costs that are divided by `powers`: energies of costs divide their temperature as well."""
    if isinstance(part, Energy):
        temperature = part.temperature / powers if powers else math.inf
        # Costs in this unit are near 1 to the power p: divided by less than this bound they would overflow, and by
        # that bound the largest takes all of the weight already.
        return dataclasses.replace(part, temperature=min(max(temperature, 1e-100), 1e290))
    if isinstance(part, tuple):
        return tuple(_in_unit(one, powers) for one in part)
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    held = {f.name: getattr(part, f.name) for f in dataclasses.fields(part) if f.init}
    other = {name: _in_unit(value, powers) for name, value in held.items()}
    changed = {name: value for name, value in other.items() if value is not held[name]}
    return dataclasses.replace(part, **changed) if changed else part


def in_range(
    call: Callable[..., Found],
    nearness: Callable[..., Tensor],
    recipe: Recipe,
    p: float,
    objective: Objective,
    given: dict[str, Any],
    value_of: Callable[[Found], Tensor],
    back: Callable[[Found, Tensor, Tensor], Found],
) -> Found:
    """Make a call again whose value left the range: in float64, and if that is not enough, in another unit.

    Args:
        call: computes what was asked for, from a recipe, the unit of the samples and the arguments in `given`.
        nearness: computes the distance with p = 1, of which no power is taken, from the arguments in `given`.
        recipe: the parts of the distance.
        p: the order.
        objective: what was asked for.
        given: x, y, and all tensors that have to have their precision.
        value_of: the value in what the call returns.
        back: what the caller returns, in the precision of x: from what was found for samples divided by a unit, the
            unit, and the factor of the value that belongs to it.

    Raises:
        ValueError: if the value is too large for the precision of x, or cannot be computed in its range.
    """
    unit = torch.ones((), dtype=torch.float64)
    token = AGAIN.set(True)
    try:
        wide = {name: _double(held) for name, held in given.items()}
        found = call(recipe, unit, **wide)
        lost = _is_lost(value_of(found), p, objective)
        if lost and isinstance(given["y"], Tensor):
            known = _unit(nearness, wide)
            if known is None:  # all gaps along slices are zero
                return back(found, unit, unit)
            unit = known
            if _kinds(recipe) not in _scalable_kinds() or recipe.convention != "mean":
                raise ValueError(
                    f"over- or underflow: p-th powers of distances near {float(unit):.1g}, with p = {p:g}, leave the range of "
                    f"float64, and {recipe!r} is not proportional to the samples; bring the samples to a size near 1"
                )
            scaled = {**wide, "x": wide["x"] / unit, "y": wide["y"] / unit}
            found = call(_in_unit(recipe, float(unit**p)), unit, **scaled)
    finally:
        AGAIN.reset(token)
    result = back(found, unit, unit**p if objective == "power" else unit)
    if not bool(torch.isfinite(value_of(result)).all()):
        dtype = str(given["x"].dtype).removeprefix("torch.")
        what = f"SW_{p:g}^{p:g}" if objective == "power" else f"SW_{p:g}"
        hint = ", or ask for objective='root'" if objective == "power" else ""
        raise ValueError(
            f"overflow: {what} of these samples is too large for {dtype}; scale the samples down, give them in "
            f"float64{hint}"
        )
    return result


def _is_lost(value: Tensor, p: float, objective: Objective) -> bool:
    token = AGAIN.set(False)
    try:
        return is_out_of_range(value.detach(), p, objective)
    finally:
        AGAIN.reset(token)


def _double(held: Any) -> Any:
    return held.double() if isinstance(held, Tensor) and held.is_floating_point() else held


def _unit(nearness: Callable[..., Tensor], wide: dict[str, Any]) -> Tensor | None:
    """The distance of order 1, to a power of two: gaps along slices are of its size. None if there are no gaps."""
    with torch.no_grad():
        still = {k: v.detach() if isinstance(v, Tensor) else v for k, v in wide.items()}
        largest = torch.stack([still[name].abs().max() for name in ("x", "y")]).max()
        # In half of this unit neither the difference of two samples nor a projection overflows.
        unit = _power_of_two(largest)
        near = nearness(**{**still, "x": still["x"] / unit, "y": still["y"] / unit}).detach()
        near = near[
            near > torch.finfo(torch.float64).eps
        ].double()  # in units of the largest entry; less is rounding
        return _power_of_two(near.max() * unit) if near.numel() else None


def _power_of_two(number: Tensor) -> Tensor:
    """A power of two near a positive number: dividing samples by it does not round them."""
    exponent = torch.frexp(number.double()).exponent.clamp(-1020, 1020)
    return torch.ldexp(torch.ones((), dtype=torch.float64), exponent)
