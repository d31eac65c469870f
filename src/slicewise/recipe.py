"""What a variant is: a slicer, a weighting, a convention; and how named variants are kept."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slicewise.checks import check_choice, check_count
from slicewise.presets import PRESETS, REFERENCE_ASCENT
from slicewise.printing import Part
from slicewise.problem import Convention, Slicer, Weighting
from slicewise.weighting import Equal

EQUAL = Equal()

# What can be asked of every distance; a variant names those that do not hold for it, draw by draw.
LAWS = frozenset(
    {
        "symmetric",  # value(x, y) = value(y, x) with the same seed
        "permutation_invariant",  # the order of samples does not matter, with the same seed
        "homogeneous",  # value(c x, c y) = c value(x, y)
        "metric",  # the exact distance obeys the triangle inequality
    }
)


@dataclass(frozen=True, repr=False)
class Recipe(Part):
    """One way to slice: where slices come from and how much each counts.

    `convention="reference"` is that of the published scripts: costs are *sums* over the points of x
    (which sharpens energies), and the value, meant to be read as a root, is multiplied by their number.
    """

    slicer: Slicer
    weighting: Weighting = EQUAL
    convention: Convention = "mean"


@dataclass(frozen=True)
class Variant:
    """A named recipe with options: call it to get the recipe.

    `defaults` is a preset of published options ("paper", "flow_script", "color_script", "dg"), which
    options given by name override. `cost` is what an evaluation takes, up to a constant: L = n_slices,
    T = n_steps, R = restarts, n samples on a side in d dimensions.
    """

    name: str
    build: Callable[..., Recipe]
    laws: frozenset[str]
    cost: str

    def __call__(
        self, *, defaults: str | None = None, convention: Convention = "mean", **options: Any
    ) -> Recipe:
        check_choice("convention", convention, ("mean", "reference"))
        for option in options:
            check_choice(f"option of variant {self.name!r}", option, self.options)
        check_count("n_slices", options.get("n_slices"))
        if defaults is not None:
            check_choice("defaults", defaults, PRESETS)
            options = {**PRESETS[defaults].get(self.name, {}), **options}
        published = convention == "reference" or options.get("legacy", False)
        if published and "ascent_step" in self.options:
            options = {"ascent_step": REFERENCE_ASCENT, **options}
        return dataclasses.replace(self.build(**options), convention=convention)

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_name, (self.name,)

    @functools.cached_property
    def options(self) -> Mapping[str, Any]:
        """The variant's own options and their defaults."""
        parameters = inspect.signature(self.build).parameters.values()
        return {parameter.name: parameter.default for parameter in parameters}

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(self.build) or "").splitlines()[0]


def _by_name(name: str) -> Variant:
    from slicewise.variants import VARIANTS

    return VARIANTS[name]
