"""The kinds of parts that a sliced distance is composed of, and every capability a part may declare.

A part is a callable of one of four kinds:

    Slicer     (problem, rng)             -> slices   (*batch, L, d)   where slices come from
    Move       (slices, problem, rng)     -> slices                    how slices travel
    Weighting  (costs, slices, problem)   -> weights  (*batch, L)      how much each slice counts
    Lift       (problem, rng)             -> problem                   what is sliced in place of the samples

A plain function is a valid part. The library then knows nothing about it and is careful: its steps are not captured as a
CUDA graph, samples are gathered when they are spread over processes, data are not rotated, no standard error is stated.
A class derived from `SlicerPart`, `MovePart`, `WeightingPart` or `LiftPart` declares what it can do by overriding the
attributes and methods below; their defaults are the careful ones. `declared(part, kind)` is the one way to ask, and
`walk(recipe)` the one way to visit all parts of a recipe.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from torch import Tensor

from slicewise.sampling import Randomness

if TYPE_CHECKING:
    import torch

    from slicewise.problem.problem import Problem

State = dict[str, Tensor]


class Slicer(Protocol):
    """Proposes directions, unit rows (*batch, L, d)."""

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor: ...


class Move(Protocol):
    """Carries slices (*batch, L, d) to new slices."""

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor: ...


class Weighting(Protocol):
    """Says how much each slice counts: weights (*batch, L), the φ-weights of the paper divided by L."""

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor: ...


class Lift(Protocol):
    """Maps a problem to the one that is sliced in its place; differentiable in the samples.

    Slices are then of `problem.d` dimensions of the new problem. They are not linear in the samples, so no step can be
    computed from them.
    """

    def __call__(self, problem: Problem, rng: Randomness) -> Problem: ...


class Part:
    """What every part may declare, with the defaults of a part that nothing is known about.

    A dataclass derived from it prints as the call that makes it, defaults left out.
    """

    # May its work be captured as a CUDA graph? Not if it reads a number on the host.
    graph_safe: bool = False
    # With samples spread over processes, must one process hold all of them? Not if it asks `problem.population` only.
    needs_all_samples: bool = True
    # Does it look at samples of y? It then cannot work where y is a law, of which there are none.
    needs_target_samples: bool = True
    # Does turning both sample sets turn the law of its slices with them? Flows then may work in rotated coordinates.
    rotation_invariant: bool = False
    # Given all samples on both sides, does it depend on these alone, so that relabeling them changes nothing? A part that
    # compares the sides (an ascent, a draw by costs, a control variate) does not say so; permutation tests refuse it.
    label_free: bool = False
    # Is it one of this library's own, whose results need no check?
    built_in: bool = False
    # Names of fields that may be schedules: functions of how much of a run is over.
    scheduled: tuple[str, ...] = ()

    def __init_subclass__(cls, **more: Any) -> None:
        """A class that overrides what a part does inherits nothing that it declared: it declares its own."""
        super().__init_subclass__(**more)
        kinds = cls.__module__ == __name__  # the classes of this file, which state the defaults
        if kinds or BuiltIn in cls.__bases__ or not {"__call__", "draw"} & vars(cls).keys():
            return
        for kind in (Part, SlicerPart, MovePart, WeightingPart, LiftPart):
            if issubclass(cls, kind):
                for name in kind.capabilities():
                    if name not in vars(cls):
                        setattr(cls, name, vars(kind)[name])

    @classmethod
    def capabilities(cls) -> list[str]:
        """The names of what this kind of part may declare."""
        return [name for name in vars(cls) if not name.startswith("_") and name != "capabilities"]

    def unfit_for(self, d: int) -> str | None:
        """Why it cannot work in d dimensions; None if it can."""
        return None

    def __repr__(self) -> str:
        fields: tuple[Any, ...] = dataclasses.fields(self) if dataclasses.is_dataclass(self) else ()
        words: list[str] = []
        for field in fields:
            value = getattr(self, field.name)
            default = field.metadata.get("stands_for", field.default)
            if isinstance(value, Tensor):
                words.append(f"{field.name}=<tensor {tuple(value.shape)}>")
            elif default is dataclasses.MISSING:
                words.append(repr(value))
            elif value is not default and value != default:
                words.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(words)})"


class SlicerPart(Part):
    """A slicer that declares what it can do."""

    # Does it look at the samples? If not, `draw` gives its slices without them, many steps at a time.
    looks_at_samples: bool = True
    # Are its slices independent and uniform on the sphere? `flow` then may take evenly spread ones in their place.
    is_uniform: bool = False
    # Are its slices the same at every call? A flow along them never moves what they do not see.
    is_fixed: bool = False

    def n_slices(self, d: int) -> int | None:
        """How many slices it gives in d dimensions; None if that is not known beforehand."""
        return None

    def group_size(self, d: int) -> int | None:
        """After how many slices the next ones are independent of them; None if that is not known.

        Without it an evaluation states no standard error.
        """
        return None

    def draw(self, batch: tuple[int, ...], d: int, rng: Randomness, dtype: torch.dtype) -> Tensor:
        """Its slices (*batch, L, d), for a slicer that does not look at samples."""
        raise TypeError(f"{self!r} looks at samples: its slices cannot be drawn without them")

    def dimension_factor(self, d: int, p: float) -> float:
        """What W_p^p along its slices is multiplied by to be independent of the dimension of the space around the data.

        C_d = E‖g‖^p of a standard normal g in R^d, for slices that are uniform on the sphere.
        """
        from slicewise.problem.subspace import gaussian_constant

        return gaussian_constant(d, p=p)


class MovePart(Part):
    """A move that declares what it can do."""

    # Into how many slices it turns each.
    copies: int = 1
    # Does each slice that comes out depend on all that went in? There are then no independent groups.
    mixes: bool = False


# A slice that decides a fit alone has no error of its own to learn from.
MOST_LEVERAGE = 0.99


class Uncertainty(NamedTuple):
    """An estimate, and how far its slices let it be off.

    Attributes:
        center: The estimate (*batch,) that an interval is about.
        terms: Each slice's share (*batch, L) of its error. What was fitted to the slices follows them, so that errors
            look too small; here each is as large as if the fit had been made without it.
        freedom: How many independent slices are left beside what was fitted, (*batch,).
    """

    center: Tensor
    terms: Tensor
    freedom: Tensor


class WeightingPart(Part):
    """A weighting that declares what it can do."""

    # Are all weights 1/L?
    is_mean: bool = False
    # Is the sum of the weights one whatever the costs are, so that they follow the costs?
    self_normalized: bool = False
    # Have the weights the sum one? Importance weights have it on average only, and say False here.
    sums_to_one: bool = True
    # Are the weights functions of the samples beside the costs, through which gradients flow?
    follows_samples: bool = False

    def constant(self, slices: Tensor, problem: Problem) -> Tensor | None:
        """The weights (*batch, L) if they do not depend on the costs; else None.

        Gradients are then accumulated while slices are priced.
        """
        return None

    def total_and_slope(self, costs: Tensor) -> tuple[Tensor, Tensor] | None:
        """Σ weights · costs (*batch,) and its derivative in each cost (*batch, L), if there is a formula for it."""
        return None

    def errors(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor | None:
        """Each slice's share (*batch, L) of the error of Σ weights · costs, to first order.

        None is weight · cost minus its mean.
        """
        return None

    def uncertainty(self, costs: Tensor, slices: Tensor, problem: Problem) -> Uncertainty | None:
        """What an interval from few slices rests on, for weights that were fitted to these slices.

        None is Σ weights · costs itself, with weight · cost minus its mean as errors, and all groups but one.
        """
        return None


class LiftPart(Part):
    """A lift that declares what it can do."""

    # Are slices of what it makes linear, so that costs depend on the dimension in a known way?
    linear_slices: bool = True

    def retract(self, before: Tensor, after: Tensor) -> Tensor:
        """Samples (..., n, d) after a step from `before`, taken back to where samples live; a sphere, say."""
        return after


class Learner(Part):
    """A slicer or lift that improves with use. Its state is a dict of tensors, kept by whoever calls it."""

    def cold(self, problem: Problem, rng: Randomness) -> State:
        """The state before anything is learned, one for each element of the batch."""
        raise NotImplementedError

    def learn(self, problem: Problem, rng: Randomness, state: State) -> tuple[Any, State]:
        """What the part gives (slices, or the lifted problem) after some learning, and the state to continue from."""
        raise NotImplementedError


class BuiltIn(Part):
    """The promises that the parts of this library keep, unless one declares otherwise; tests hold them to it."""

    built_in = True
    graph_safe = True
    needs_all_samples = False
    needs_target_samples = False
    rotation_invariant = True


def check_fit(part: Part, d: int) -> None:
    """Raise a ValueError where a part cannot work in d dimensions."""
    reason = part.unfit_for(d)
    if reason is not None:
        raise ValueError(reason)


Kind = TypeVar("Kind", bound=Part)
_ATOMS = (numbers.Number, np.generic, str, Tensor)


def declared(part: object, kind: type[Kind]) -> Kind:
    """A part as its kind, to ask it for its capabilities; a plain function declares nothing and has the defaults."""
    return part if isinstance(part, kind) else kind()


def walk(part: object) -> Iterator[object]:
    """A part and all parts inside it; schedules are left out."""
    if part is None or isinstance(part, _ATOMS):
        return
    if isinstance(part, (tuple, list)):
        for one in part:
            yield from walk(one)
        return
    yield part
    if isinstance(part, Part):
        inner: Any = part
        for field in dataclasses.fields(inner) if dataclasses.is_dataclass(inner) else ():
            if field.name not in part.scheduled:
                yield from walk(getattr(part, field.name))


def graph_safe(part: object) -> bool:
    """May all of it be captured as a CUDA graph?"""
    return all(declared(one, Part).graph_safe for one in walk(part))


def needs_all_samples(part: object) -> bool:
    """Does any of it have to see all samples in one process?"""
    return any(declared(one, Part).needs_all_samples for one in walk(part))


def needs_target_samples(part: object) -> object | None:
    """The first of it that looks at samples of y; None if none does."""
    parts = (one for one in walk(part) if declared(one, Part).needs_target_samples)
    return next(parts, None)


def rotation_invariant(part: object) -> bool:
    """Is all of it independent of the axes that samples are given in?"""
    return all(declared(one, Part).rotation_invariant for one in walk(part))


def label_free(part: object) -> bool:
    """Is all of it independent of which side a sample is on, if both sides are given all samples?"""
    return all(declared(one, Part).label_free for one in walk(part))


def unfit_for(part: object, d: int) -> str | None:
    """Why some part of it cannot work in d dimensions; None if all can."""
    reasons = (declared(one, Part).unfit_for(d) for one in walk(part))
    return next((reason for reason in reasons if reason is not None), None)


def follows_progress(part: object) -> bool:
    """Might any of it depend on how much of a run is over? A part of unknown kind might."""
    for one in walk(part):
        if not isinstance(one, Part):
            return True
        if any(callable(getattr(one, name)) for name in one.scheduled):
            return True
    return False
