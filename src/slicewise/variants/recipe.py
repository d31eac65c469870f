"""What a variant is: a slicer, a weighting, a convention; and how named variants are kept."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from slicewise.parts import Aligned, Equal, Frame, Orthogonal, Quasi
from slicewise.problem import Convention, Lift, Part, Slicer, Weighting
from slicewise.support import check_choice, check_count, check_option
from slicewise.variants.presets import PRESETS, REFERENCE_ASCENT

EQUAL = Equal()

# What can be asked of every distance; a variant names those that do not hold for it, draw by draw.
LAWS = frozenset(
    {
        "symmetric",  # value(x, y) = value(y, x) with the same seed
        "permutation_invariant",  # the order of samples does not matter, with the same seed
        "homogeneous",  # value(c x, c y) = c value(x, y)
        "metric",  # the exact distance is one: no two laws at 0, and the triangle inequality
        "translation_invariant",  # moving both sets alike changes nothing
        "bounded",  # at most W_p
        "exact_on_a_line",  # W_p itself for samples of one dimension
        "unit_slices",  # every slice has length one
        "fresh",  # another call draws other slices
        "every_order",  # defined for every p, not for p = 2 alone
        "linear",  # slices are linear in the samples: moves and steps can be computed
    }
)


@dataclass(frozen=True, repr=False)
class Recipe(Part):
    """One way to slice: where slices come from and how much each counts.

    `convention="reference"` is that of the published scripts: costs are *sums* over the points of x
    (which sharpens energies), and the value, meant to be read as a root, is multiplied by their number.
    With a `lift`, what it makes of the samples is sliced in their place.

    Where a variant is asked for by name, a recipe may be given. Parts are in `slicewise.parts.slicers`, `moves`, `weighting`
    and `lifts`, and a function of your own is one, too (`slicewise.problem.problem` has what it is called with).

    >>> from slicewise.parts import Energy, Orthonormal
    >>> Recipe(Orthonormal(20), Energy("poly"))
    Recipe(Orthonormal(20), weighting=Energy(kind='poly'))
    """

    slicer: Slicer
    # None stands for EQUAL: code that makes a recipe could not be compiled with an object as its default.
    weighting: Weighting = field(default=cast(Weighting, None), metadata={"stands_for": EQUAL})
    convention: Convention = "mean"
    lift: Lift | None = None

    def __post_init__(self) -> None:
        if cast(Any, self.weighting) is None:
            object.__setattr__(self, "weighting", EQUAL)
        parts = {"slicer": self.slicer, "weighting": self.weighting, "lift": self.lift or EQUAL}
        for role, part in parts.items():
            if isinstance(part, type) or not (callable(part) or hasattr(part, "learn")):
                raise ValueError(
                    f"{role} = {part!r}: a recipe is made of parts, e.g. Recipe(Uniform(50)); variants by their name are "
                    f"given where the distance is computed"
                )
        if hasattr(self.slicer, "learn") and hasattr(self.lift, "learn"):
            raise ValueError(
                f"{self.slicer!r} and {self.lift!r} both learn: a recipe has room for the state of one"
            )

    @property
    def learner(self) -> Slicer | Lift | None:
        """The part that learns from call to call, if there is one."""
        return next((part for part in (self.slicer, self.lift) if hasattr(part, "learn")), None)

    @property
    def by_hand(self) -> bool:
        """Are gradients in x those of the costs, pulled back along the slices? Else autograd must find them."""
        return self.lift is None and not getattr(self.weighting, "follows_samples", False)

    # These two are a first version: they are to ask each part for what it declares.

    @property
    def rotation_invariant(self) -> bool:
        """Whether rotating the samples leaves the distribution of the value unchanged."""
        fixed = any(isinstance(part, Quasi) and not part.turned for part in self._parts())
        based = any(isinstance(part, Aligned) and part.basis is not None for part in self._parts())
        return self.lift is None and not fixed and not based

    def unfit_for(self, d: int) -> str | None:
        """Why the recipe cannot be used in d dimensions; None if it can."""
        for part in self._parts():
            if isinstance(part, Frame) and part.n > d:
                return f"{part!r} needs at least {part.n} dimensions"
            if isinstance(part, Orthogonal) and d < 2:
                return f"{part!r} needs at least 2 dimensions"
            if isinstance(part, Aligned) and part.basis is not None and part.basis.shape[-2] != d:
                return f"{part!r} is for {part.basis.shape[-2]} dimensions"
            if isinstance(part, Quasi) and part.points != "sobol" and d != 3:
                return f"{part!r} is for 3 dimensions"
        return None

    def _parts(self) -> Iterator[Any]:
        """All parts, those inside others too."""
        todo: list[Any] = [self.slicer, self.weighting, self.lift]
        while todo:
            part = todo.pop()
            if isinstance(part, list | tuple):
                todo += part
            elif dataclasses.is_dataclass(part) and not isinstance(part, type):
                yield part
                todo += [getattr(part, field.name) for field in dataclasses.fields(part)]

    def check_linear(self, what: str) -> None:
        """Refuse what only slices that are linear in the samples have: a move, a computed step."""
        if self.lift is not None:
            raise ValueError(
                f"{what} with {self.lift!r}: its slices are not linear in the samples, so that with plans held the "
                f"loss is no quadratic in them and no step is known to make it fall; descend by a rate "
                f"(flow(..., lr=0.1), an optimiser) or use a variant with linear slices, e.g. 'sw'"
            )


@dataclass(frozen=True, repr=False)
class Variant:
    """A named recipe with options: call it to get the recipe.

    `defaults` is a preset of published options ("paper", "flow_script", "color_script", "dg"), which
    options given by name override. `cost` is what an evaluation takes, up to a constant: L = n_slices,
    T = n_steps, R = restarts, n samples on a side in d dimensions, sliced in D. `climbs` says that the value
    is a lower bound of a maximum over slices.
    """

    name: str
    build: Callable[..., Recipe]
    laws: frozenset[str]
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
        return dataclasses.replace(self.build(**options), convention=convention)

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
        return (inspect.getdoc(self.build) or "").splitlines()[0]


def _by_name(name: str) -> Variant:
    from slicewise.variants.catalogue import VARIANTS

    return VARIANTS[name]
