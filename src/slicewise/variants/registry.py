"""The variants by name, and how a recipe gets among them."""

from __future__ import annotations

from collections.abc import Callable, Collection

from slicewise.variants.recipe import LAWS, Recipe, Variant

VARIANTS: dict[str, Variant] = {}

Entering = Callable[[Callable[..., Recipe]], Variant]


def variant(
    *, breaks: Collection[str] = (), cost: str = "L n (log n + d)", climbs: bool = False
) -> Entering:
    """Enter a recipe into `VARIANTS` under its function's name, with the laws it breaks and what it costs.

    `climbs` says that its value is a lower bound of a maximum over slices, to be shown beside an upper one.
    """
    unknown = set(breaks) - LAWS
    if unknown:
        raise ValueError(f"breaks = {sorted(unknown)}: no such law; choose from {sorted(LAWS)}")

    def enter(build: Callable[..., Recipe]) -> Variant:
        entry = Variant(build.__name__, build, LAWS.difference(breaks), cost, climbs)
        VARIANTS[entry.name] = entry
        return entry

    return enter
