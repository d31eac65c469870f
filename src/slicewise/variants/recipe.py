"""What a variant is made of: a slicer, a weighting, a convention, perhaps a lift."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, cast

from slicewise.parts import Ascend, Equal
from slicewise.problem import (
    Convention,
    Learner,
    Lift,
    Part,
    Slicer,
    SlicerPart,
    Weighting,
    WeightingPart,
    declared,
    follows_progress,
    graph_safe,
    needs_all_samples,
    needs_target_samples,
    rotation_invariant,
    unfit_for,
    walk,
)

EQUAL = Equal()


@dataclass(frozen=True, repr=False)
class Recipe(Part):
    """A sliced distance as the parts it is composed of; given wherever a variant's name may be.

    Use one to try a distance that has no name: any slicer with any weighting. Parts are in `slicewise.parts`; a plain
    function with the right signature is one, too.

    Args:
        slicer: where slices come from. Called with (problem, rng): the `Problem`, and a source of draws; returns unit
            vectors, (L, d) or (*batch, L, d).
        weighting: how much each slice counts; equal weights by default. Called with (costs, slices, problem): the costs
            (*batch, L), the slices (*batch, L, d) and the `Problem`; returns weights (*batch, L) with the sum 1.
        convention: "mean" (costs are means over samples), or "reference", that of the published scripts: costs are
            *sums* over the samples of x, which sharpens energies, and the value, meant to be read as a root, is
            multiplied by their number.
        lift: what is sliced in place of the samples, called with (problem, rng).

    Raises:
        ValueError: if a part is not callable, or if slicer and lift both learn.

    >>> import torch
    >>> import slicewise as sw
    >>> from slicewise.parts import Energy, Orthonormal, Uniform
    >>> Recipe(Orthonormal(20), Energy("poly"))
    Recipe(Orthonormal(20), weighting=Energy(kind='poly'))

    A weighting of one's own: only the more expensive half of the slices counts.

    >>> def upper_half(costs, slices, problem):
    ...     upper = (costs >= costs.median(-1, keepdim=True).values).to(costs.dtype)
    ...     return upper / upper.sum(-1, keepdim=True)
    >>> x, y = torch.randn(2, 100, 3)
    >>> half = sw.sliced_wasserstein(x, y, Recipe(Uniform(50), upper_half), generator=0)
    >>> bool(half > sw.sliced_wasserstein(x, y, n_slices=50, generator=0))
    True
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
            if isinstance(part, type) or not (callable(part) or isinstance(part, Learner)):
                raise ValueError(
                    f"{role} = {part!r}: a recipe is made of parts, e.g. Recipe(Uniform(50)); variants by their name are "
                    f"given where the distance is computed"
                )
        if isinstance(self.slicer, Learner) and isinstance(self.lift, Learner):
            raise ValueError(
                f"{self.slicer!r} and {self.lift!r} both learn: a recipe has room for the state of one"
            )

    @property
    def learner(self) -> Learner | None:
        """The part that learns from call to call, if there is one."""
        parts: tuple[object, ...] = (self.slicer, self.lift)
        return next((part for part in parts if isinstance(part, Learner)), None)

    @property
    def closed_form_gradient(self) -> bool:
        """Are gradients in x those of the costs, taken back along the slices? Else autograd must find them."""
        return self.lift is None and not declared(self.weighting, WeightingPart).follows_samples

    @functools.cached_property
    def built_in(self) -> bool:  # type: ignore[override]
        """Are all of its parts this library's own?"""
        return all(declared(part, Part).built_in for part in walk(self._parts))

    @functools.cached_property
    def graph_safe(self) -> bool:  # type: ignore[override]
        """May evaluations be captured as CUDA graphs?"""
        return graph_safe(self._parts)

    @functools.cached_property
    def needs_all_samples(self) -> bool:  # type: ignore[override]
        """With samples spread over processes, must they be gathered?"""
        return needs_all_samples(self._parts)

    @functools.cached_property
    def part_for_samples_of_y(self) -> object | None:
        """The part that looks at samples of y, so that y cannot be a law; None if there is none."""
        return needs_target_samples(self._parts)

    @functools.cached_property
    def needs_target_samples(self) -> bool:  # type: ignore[override]
        """Does any part look at samples of y?"""
        return self.part_for_samples_of_y is not None

    @functools.cached_property
    def rotation_invariant(self) -> bool:  # type: ignore[override]
        """Is it independent of the axes that samples are given in? Flows then may reduce and rotate them."""
        return rotation_invariant(self._parts)

    @property
    def has_fixed_slices(self) -> bool:
        """Are its slices the same at every call?"""
        return declared(self.slicer, SlicerPart).is_fixed

    @functools.cached_property
    def seeks_slices(self) -> bool:
        """Are slices sought that make the cost large, by ascents or by learning, rather than drawn?"""
        return any(isinstance(part, (Ascend, Learner)) for part in walk((self.slicer,)))

    @functools.cached_property
    def follows_progress(self) -> bool:
        """Might it depend on how much of a run is over?"""
        return follows_progress(self._parts)

    def unfit_for(self, d: int) -> str | None:
        """Why it cannot work in d dimensions; None if it can."""
        return unfit_for(self._parts, d)

    @property
    def _parts(self) -> tuple[Part | Any, ...]:
        return (self.slicer, self.weighting, self.lift)

    def check_linear(self, what: str) -> None:
        """Refuse what only slices that are linear in the samples have: a displacement, a computed step."""
        if self.lift is not None:
            raise ValueError(
                f"{what} with {self.lift!r}: its slices are not linear in the samples, so that with plans held the "
                f"loss is no quadratic in them and no step is known to make it fall; descend by a rate "
                f"(flow(..., lr=0.1), an optimizer) or use a variant with linear slices, e.g. 'sw'"
            )
