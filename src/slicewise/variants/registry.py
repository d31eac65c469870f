"""The variants by name: what is known of each, and how a recipe gets among them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from slicewise.problem import Convention
from slicewise.support import check_choice, check_count, check_option, renamed_arguments
from slicewise.variants.presets import PRESETS, REFERENCE_ASCENT
from slicewise.variants.recipe import Recipe

# What can be asked of every distance; a variant lists those that it lacks.
PROPERTIES = frozenset(
    {
        "symmetric",  # value(x, y) = value(y, x) with the same seed
        "permutation_invariant",  # the order of samples does not matter, with the same seed
        "homogeneous",  # value(c x, c y) = c value(x, y)
        "metric",  # the exact distance is one: zero for equal laws only, and the triangle inequality
        "translation_invariant",  # moving both sets alike changes nothing
        "rotation_invariant",  # turning both sets alike changes nothing, in law
        "bounded",  # at most W_p
        "exact_on_a_line",  # W_p itself for samples of one dimension
        "unit_slices",  # every slice has length one
        "fresh",  # another call draws other slices
        "every_order",  # defined for every p, not for p = 2 alone
        "linear",  # slices are linear in the samples: displacements and steps can be computed
    }
)


@dataclass(frozen=True, repr=False)
class Variant:
    """A named recipe with options: call it to get the recipe.

    Args:
        defaults: a preset of published options ("paper", "flow_script", "color_script", "dg"), which options given by
            name override.
        convention: "mean" or "reference", see `Recipe`.
        options: those of the variant; `variant.options` lists them with their defaults.

    Attributes:
        properties: those of `PROPERTIES` that hold for it.
        cost: what an evaluation takes, up to a constant: L = n_slices, T = n_steps, R = restarts, n samples on a side
            in d dimensions, sliced in D.
        climbs: is its value a lower bound of a maximum over slices?

    >>> import slicewise as sw
    >>> sw.VARIANTS["ebsw"]
    Variant('ebsw', n_slices=50, energy='exp', temperature=1.0, hold_weights=None)
    >>> sw.VARIANTS["ebsw"](n_slices=20)
    Recipe(Uniform(20), weighting=Energy())
    """

    name: str
    build: Callable[..., Recipe]
    properties: frozenset[str]
    cost: str
    climbs: bool = False

    def __call__(
        self, *, defaults: str | None = None, convention: Convention = "mean", **options: Any
    ) -> Recipe:
        check_choice("convention", convention, ("mean", "reference"))
        for option in options:
            check_option(self.name, option, self.options)
        check_count("n_slices", options.get("n_slices"))
        if defaults is not None:
            check_choice("defaults", defaults, PRESETS)
            options = {**PRESETS[defaults].get(self.name, {}), **options}
        published = convention == "reference" or options.get("legacy", False)
        if published and "ascent_step" in self.options:
            options = {"ascent_step": REFERENCE_ASCENT, **options}
        recipe = self.build(**options)
        if not isinstance(recipe, Recipe):
            raise ValueError(
                f"variant {self.name!r} returned {type(recipe).__name__}: its function has to return a Recipe"
            )
        return dataclasses.replace(recipe, convention=convention)

    def __getattr__(self, name: str) -> Any:
        hint = ": it is called 'properties' now" if name == "laws" else ""
        raise AttributeError(f"'Variant' object has no attribute {name!r}{hint}")

    def __repr__(self) -> str:
        """Its name and options; called, it prints as its recipe."""
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Variant({self.name!r}{options})"

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
        return (inspect.getdoc(self.build) or self.name).splitlines()[0]


VARIANTS: dict[str, Variant] = {}


@renamed_arguments(breaks="lacks")
def variant(
    *, lacks: Collection[str] = (), cost: str = "L n (log n + d)", climbs: bool = False
) -> Callable[[Callable[..., Recipe]], Variant]:
    """Enter a function that returns a recipe into `VARIANTS`, under the function's name.

    The function's parameters are the variant's options, its docstring is what `slicewise variants` prints.

    Args:
        lacks: those of `PROPERTIES` that do not hold for it.
        cost: what an evaluation takes, up to a constant, for `slicewise variants`.
        climbs: is its value a lower bound of a maximum over slices, to be shown beside an upper one?

    Raises:
        ValueError: for a property that does not exist, or a name that is taken.

    >>> from slicewise.parts import Energy, Orthonormal
    >>> @variant(lacks={"homogeneous", "metric"})
    ... def doctestsw(n_slices: int = 50) -> Recipe:
    ...     \"\"\"Energy weights over orthonormal frames.\"\"\"
    ...     return Recipe(Orthonormal(n_slices), Energy())
    >>> VARIANTS.pop("doctestsw")()
    Recipe(Orthonormal(50), weighting=Energy())
    """
    unknown = set(lacks) - PROPERTIES
    if unknown:
        raise ValueError(
            f"lacks = {sorted(unknown)}: no such property; choose from {sorted(PROPERTIES)}"
        )

    def enter(build: Callable[..., Recipe]) -> Variant:
        name = build.__name__
        if name in VARIANTS:
            raise ValueError(
                f"a variant {name!r} exists already ({VARIANTS[name].summary}): give yours another name"
            )
        VARIANTS[name] = Variant(name, build, PROPERTIES.difference(lacks), cost, climbs)
        return VARIANTS[name]

    return enter


def _by_name(name: str) -> Variant:
    return VARIANTS[name]
