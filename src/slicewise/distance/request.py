"""From a caller's arguments to a recipe, a checked problem, and the slices it is priced along."""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import math
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from slicewise.distance.objective import Objective, check_objective
from slicewise.laws import Law, on_slices
from slicewise.problem import (
    Convention,
    Learner,
    Problem,
    SlicerPart,
    State,
    Target,
    absent_to_origin,
    declared,
)
from slicewise.sampling import Generators, Randomness, by_next_ticket, can_take_tickets
from slicewise.support import (
    RENAMED,
    check_broadcast,
    check_choice,
    check_count,
    check_finite,
    check_generator,
    check_order,
    check_samples,
    check_set,
    check_slices,
    check_weights,
    is_transformed,
    registered,
    values_readable,
)
from slicewise.transport import LawMatcher, Matcher, match_slices
from slicewise.variants import VARIANTS, Recipe, Variant

# Whether a call is being made again: its value is taken as it is.
AGAIN = contextvars.ContextVar("again", default=False)
# Below this, a p-th power has lost digits: a term of its sum may be subnormal, and the others not.
_LEAST = {t: torch.finfo(t).tiny / torch.finfo(t).eps for t in (torch.float32, torch.float64)}
BACKENDS = ("auto", "numba", "numpy", "torch", "nvrtc", "torch-nvrtc", "triton")


def _no_variant(given: object) -> str:
    hint = "how many slices there are is n_slices=, sample weights are x_weights= and y_weights="
    if callable(given):
        hint = (
            "a weighting of your own is part of one: sw.Recipe(sw.parts.Uniform(50), your_function)"
        )
    return f"variant is a {type(given).__name__}: give a name, e.g. 'sw', or a Recipe; {hint}"


def recipe_for(
    variant: str | Variant | Recipe, n_slices: int | None, options: dict[str, Any]
) -> Recipe:
    """The recipe a caller means, by name or as it is."""
    if isinstance(variant, str):
        check_choice("variant", variant, VARIANTS)
        variant = VARIANTS[variant]
    if not isinstance(variant, Variant | Recipe):
        raise ValueError(_no_variant(variant))
    if isinstance(variant, Recipe):
        for option in options.keys() & RENAMED.keys():
            raise ValueError(f"{option!r} is called otherwise here: {RENAMED[option]}")
        if n_slices is not None or options:
            given = ", ".join(["n_slices"] * (n_slices is not None) + list(options))
            raise ValueError(
                f"{given} cannot change a recipe that is given whole: change {variant!r} itself"
            )
        return variant
    check_count("n_slices", n_slices)
    n_slices = None if n_slices is None else int(n_slices)
    # Compiled code builds its recipe once anyway, and would warn of the cache.
    if options or torch.compiler.is_compiling():
        return variant(**(options if n_slices is None else {"n_slices": n_slices, **options}))
    return _plain(variant, n_slices)


@functools.lru_cache(maxsize=256)
def _plain(variant: Variant, n_slices: int | None) -> Recipe:
    return variant() if n_slices is None else variant(n_slices=n_slices)


@dataclass(frozen=True, eq=False)
class Ask:
    """What is computed of samples, whatever they are. There is one for equal settings, compared by identity."""

    recipe: Recipe
    objective: Objective
    p: float
    backend: str
    displaced: bool  # gradients are moves of computed length, not derivatives

    @functools.cached_property
    def can_be_planned(self) -> bool:
        """Are value and gradient computed together, and in every call alike?"""
        return self.recipe.lift is None if self.displaced else self.recipe.closed_form_gradient

    @functools.cached_property
    def knows_gradient(self) -> bool:
        """Is that gradient what autograd would find? Parts of a caller's own may have parameters, or look at samples."""
        return self.can_be_planned and self.recipe.built_in


def ask_for(
    recipe: Recipe,
    objective: Objective,
    p: float,
    backend: str,
    progress: float = 0.0,
    *,
    displaced: bool = False,
) -> Ask | None:
    """The one `Ask` of these settings; None if they depend on how much of a run is over."""
    if progress != 0 and (recipe.follows_progress or not 0 <= progress <= 1):
        return None
    try:
        return _kept_ask(recipe, objective, p, backend, displaced)
    except TypeError:  # a part of a caller's own that cannot be hashed
        return Ask(recipe, objective, float(p), backend, displaced)


@functools.lru_cache(maxsize=256)
def _kept_ask(recipe: Recipe, objective: Objective, p: float, backend: str, displaced: bool) -> Ask:
    return Ask(recipe, objective, float(p), backend, displaced)


def ask_by_name(
    variant: str | Variant | Recipe,
    n_slices: int | None,
    options: dict[str, Any],
    objective: Objective,
    p: float,
    backend: str,
    progress: float,
) -> tuple[Recipe, Ask | None]:
    """The recipe and the `Ask` of a call, whose settings are checked."""
    compiling = torch.compiler.is_compiling()  # compilers cannot look things up
    if not compiling:
        check_progress(progress)
    if not options and progress == 0 and isinstance(variant, str) and not compiling:
        try:
            return _named(variant, n_slices, objective, p, backend)
        except TypeError:  # something that cannot be hashed: what it should be is said below
            pass
    recipe = recipe_for(variant, n_slices, options)
    check_objective(objective, recipe)
    check_order(p)
    return recipe, None if compiling else ask_for(recipe, objective, p, backend, progress)


@functools.lru_cache(maxsize=256, typed=True)
def _named(
    variant: str, n_slices: int | None, objective: Objective, p: float, backend: str
) -> tuple[Recipe, Ask | None]:
    recipe = recipe_for(variant, n_slices, {})
    check_objective(objective, recipe)
    check_order(p)
    return recipe, ask_for(recipe, objective, p, backend)


def may_be_planned(x: object, slices: Tensor | None) -> bool:
    """Is a distance worth a plan: slices are drawn, and the gradient is wanted, or comes in the same launch?"""
    if slices is not None or not isinstance(x, Tensor):
        return False
    return x.is_cuda or (x.requires_grad and torch.is_grad_enabled())


def check_progress(progress: object) -> None:
    """How much of a run is over: a number, whose range is checked where it is used."""
    if isinstance(progress, bool) or not isinstance(progress, int | float):
        raise ValueError(
            f"progress is a {type(progress).__name__}: give a number from 0 to 1, how much of a run is over"
        )


def problem_for(
    x: Tensor,
    y: Tensor | Target | Law,
    p: float,
    x_weights: Tensor | None,
    y_weights: Tensor | None,
    convention: Convention,
    progress: float,
    backend: str,
    *,
    share: bool = False,
    keep_absent: bool = False,
    whole_frame: bool = False,
) -> Problem:
    """A checked problem in at least single precision, with the backend that will price it.

    A `share` of the samples may be empty, and its weights need not sum to one. Samples of weight zero that
    lie at NaN are taken to the origin, unless they are to be kept where they are. Of a law the whole frame is needed
    where slices ask for a gradient, or lengths of slices are not known to those who match.
    """
    y_sorted = None
    if isinstance(y, Target):
        if y_weights is not None:
            raise ValueError("y_weights beside a Target: give them to the Target instead")
        y_sorted, y_weights, y = y.sorted, y.y_weights, y.y
    check_choice("backend", backend, BACKENDS)
    check_order(p)
    law = y if isinstance(y, Law) else None
    known = None
    if isinstance(y, Law):
        if y_weights is not None:
            raise ValueError(
                f"y_weights beside {y!r}: a law has no samples to weigh; leave them out"
            )
        check_set("x", x, may_be_empty=share)
        y.check_order(float(p), x.shape[-1])
        y, known = on_slices(y, x.shape[-1], whole=whole_frame)
        y = y.to(x.device, x.dtype if x.dtype == torch.float64 else torch.float32)
        narrow, x = x.dtype, x.to(y.dtype)
    check_samples(x, y, may_be_empty=share)
    if x_weights is not None or y_weights is not None:
        check_weights("x_weights", x_weights, x, share=share)
        check_weights("y_weights", y_weights, y, share=share)
        given = {"x_weights": x_weights, "y_weights": y_weights}
        shapes = {name: w.shape[:-1] for name, w in given.items() if w is not None}
        check_broadcast(x=x.shape[:-2], y=y.shape[:-2], **shapes)
    check_progress(progress)
    if not 0 <= progress <= 1:
        raise ValueError(f"progress = {progress}: give the share of the run that is over, 0 to 1")
    matcher = matcher_for(backend, x, y, x_weights, y_weights)
    if known is not None:
        matcher = LawMatcher(known, matcher)
    if not keep_absent and (x_weights is not None or y_weights is not None):
        x, y = absent_to_origin(x, x_weights), absent_to_origin(y, y_weights)
    problem = formed(x, y, p, x_weights, y_weights, convention, progress, matcher, y_sorted)
    return problem if law is None else dataclasses.replace(problem, law=law, precision=narrow)


def formed(
    x: Tensor,
    y: Tensor,
    p: float,
    x_weights: Tensor | None,
    y_weights: Tensor | None,
    convention: Convention,
    progress: float,
    matcher: Matcher,
    y_sorted: Tensor | None = None,
) -> Problem:
    """A problem of samples that were checked, in at least single precision."""
    came = x.dtype
    if y.dtype != came or came not in (torch.float32, torch.float64):
        came = torch.promote_types(came, y.dtype)
        wide = torch.promote_types(came, torch.float32)
        x, y = x.to(wide), y.to(wide)
    return Problem(
        x,
        y,
        float(p),
        x_weights,
        y_weights,
        convention,
        float(progress),
        precision=came,
        matcher=matcher,
        y_sorted=y_sorted,
    )


def is_tracked(slices: Tensor | None) -> bool:
    """Do slices that a caller gives ask for a gradient?"""
    return isinstance(slices, Tensor) and slices.requires_grad and torch.is_grad_enabled()


def matcher_for(backend: str, x: Tensor, *others: Tensor | None) -> Matcher:
    """What matches these samples on lines: the version of a backend."""
    # Compilers and transforms can follow the plain version only.
    if backend == "torch" or is_transformed(x, *others):
        return match_slices
    return _registered_matcher(backend, x.device)


@functools.cache
def _registered_matcher(backend: str, device: torch.device) -> Matcher:
    chosen = registered()
    return match_slices if chosen is None else chosen.matcher(backend, device)


class OutOfRange(Exception):
    """A value of finite samples that is not finite, or that may be zero by underflow."""


def is_out_of_range(value: Tensor, p: float, objective: Objective) -> bool:
    """Return whether a value (*batch,) that is on the CPU may have left the range in between."""
    if AGAIN.get() or not value.numel():
        return False
    limit = _LEAST.get(value.dtype, 0.0)
    low = limit if objective == "power" else limit ** (1 / p)
    if value.dim() == 0:
        number = abs(value.item())  # an estimate with a control variate may be below zero
        return not low <= number < math.inf
    least, most = torch.aminmax(value.detach().abs())
    return not (low <= least.item() and most.item() < math.inf)


def check_value(value: Tensor, problem: Problem, objective: Objective | None = None) -> None:
    """Samples that are not finite show in the value: look there first, which costs one number.

    A finite value needs no second look; the samples of one that is not are searched, and named. On a device
    nobody looks: that would wait for it, in every step of a training. NaN goes in, NaN comes out.

    Args:
        value: (*batch,), or all costs.
        problem: what it was computed of.
        objective: what the value is, where the call can be made again; None where it cannot.

    Raises:
        ValueError: if samples are not finite.
        OutOfRange: if they are, and p-th powers of their distances overflow or underflow.
    """
    if value.is_cuda or not values_readable(value):
        return
    if not math.isfinite((value.sum() if value.dim() else value).item()):
        # Every rank has the same value and comes here; those with good samples hear of the others'.
        bad = any(not bool(torch.isfinite(t).all()) for t in (problem.x, problem.y))
        somewhere = float(problem.population.total(torch.tensor(float(bad)))) > 0
        check_finite(x=problem.x, y=problem.y)
        if somewhere:
            raise ValueError(
                "samples on another rank have NaN or infinite entries: give finite values; the error there "
                "says how many"
            )
    if objective is None or not is_out_of_range(value, problem.p, objective):
        return
    # Samples of other ranks, and those of a Target, which are sorted along its slices, stay as they are.
    fixed = problem.others is not None or problem.y_sorted is not None
    if not fixed and _may_be_lost(value, problem):
        raise OutOfRange


def _may_be_lost(value: Tensor, problem: Problem) -> bool:
    """Return whether a value out of range comes from p-th powers, not from samples that are equal up to rounding.

    Gaps below eps times the largest entry are rounding. If the p-th powers of such gaps are normal numbers, none that
    counts has underflowed.
    """
    if not math.isfinite(value.sum().item()):
        return True
    largest = max(
        t.detach().abs().max().item() if t.numel() else 0.0 for t in (problem.x, problem.y)
    )
    limits = torch.finfo(value.dtype)
    return 0 < largest < limits.tiny ** (1 / problem.p) / limits.eps


class Prepared(NamedTuple):
    """All that pricing needs."""

    problem: Problem  # what is sliced: the samples, or what a lift makes of them
    slices: Tensor  # (*batch, L, d), constants for the gradient
    group_size: int | None  # how many successive slices depend on each other, if that is known
    state: State | None  # of a part that learns, after this call


def fixed_slices(y: Tensor | Target | Law, slices: Tensor | None) -> Tensor | None:
    """The slices a caller fixes, by hand or with a `Target`."""
    if isinstance(y, Target):
        if slices is not None:
            raise ValueError(f"slices beside {y!r}, which has its own: leave them out")
        return y.slices
    return slices


def prepare(
    recipe: Recipe,
    problem: Problem,
    generator: Generators,
    given: Tensor | None,
    *,
    n_slices: int | None = None,
    state: State | None = None,
) -> Prepared:
    """Samples lifted, if the recipe does; slices, given or drawn."""
    check_generator(generator)
    rng = randomness_of(generator, problem)
    if given is None:
        problem, slices, state = draw(recipe, problem, rng, state)
        # One learned lift made all that is sliced: no two slices of it are independent.
        slicer = declared(recipe.slicer, SlicerPart)
        size = None if isinstance(recipe.lift, Learner) else slicer.group_size(problem.d)
        return Prepared(problem, slices, size, state)
    problem, state = lifted(recipe, problem, rng, state)
    check_slices(given, problem.x, problem.batch, problem.d)
    given = problem.agreed(given.to(problem.x.dtype))
    check_finite(slices=given)
    if n_slices is not None and n_slices != given.shape[-2]:
        raise ValueError(
            f"n_slices = {n_slices}, but slices holds {given.shape[-2]}: leave one of them out"
        )
    return Prepared(problem, given, 1, state)


def randomness_of(generator: Generators, problem: Problem) -> Randomness:
    """Random numbers for one call: of generators that are given, else of torch's global one."""
    source = (problem.x.device, problem.batch)
    if generator is None and problem.x.is_cuda and can_take_tickets(problem.x.device):
        return by_next_ticket(*source)
    return Randomness(generator, *source)


def draw(
    recipe: Recipe, problem: Problem, rng: Randomness, state: State | None
) -> tuple[Problem, Tensor, State | None]:
    """What is sliced; fresh slices (*batch, L, d), constants for the gradient; a learner's state, in and out."""
    problem, state = lifted(recipe, problem, rng, state)
    with torch.no_grad() if torch.is_grad_enabled() else nullcontext():
        if isinstance(recipe.slicer, Learner):
            seen = with_whole_frame(recipe, problem)
            state = recipe.slicer.cold(seen, rng) if state is None else state
            slices, state = recipe.slicer.learn(seen, rng, state)
            _check_drawn(recipe, slices, problem)
        elif problem.others is None or recipe.built_in:
            slices = recipe.slicer(with_whole_frame(recipe, problem).detached(), rng)
            _check_drawn(recipe, slices, problem)
        else:
            slices = problem.others.together(
                repr(recipe.slicer), partial(_drawn_by, recipe, problem, rng)
            )
        return problem, problem.agreed(slices.to(problem.x.dtype)), state


def _drawn_by(recipe: Recipe, problem: Problem, rng: Randomness) -> Tensor:
    """The slices of a part of a caller's own, checked."""
    slices = recipe.slicer(with_whole_frame(recipe, problem).detached(), rng)
    _check_drawn(recipe, slices, problem)
    return slices


def with_whole_frame(recipe: Recipe, problem: Problem) -> Problem:
    """The problem for a slicer that may climb: of a law, costs then are functions of all of a slice, its length too."""
    if problem.law is None or problem.others is not None:
        return problem
    matcher = problem.matcher
    if not declared(recipe.slicer, SlicerPart).looks_at_samples:
        return problem
    if isinstance(matcher, LawMatcher) and matcher.law.is_whole:
        return problem
    frame, known = on_slices(problem.law, problem.d, whole=True)
    inner = matcher.inner if isinstance(matcher, LawMatcher) else match_slices
    return dataclasses.replace(problem, y=frame.to(problem.y), matcher=LawMatcher(known, inner))


def _check_drawn(recipe: Recipe, slices: object, problem: Problem) -> None:
    """Directions of the right dimension; from a part of a caller's own also finite, and none of them zero."""
    wanted = f"a slicer gives (*batch, L, {problem.d}), at least one"
    if not isinstance(slices, Tensor) or slices.is_complex():
        kind = slices.dtype if isinstance(slices, Tensor) else type(slices).__name__
        raise ValueError(f"{recipe.slicer!r} gave {kind}: {wanted}")
    if slices.dim() < 2 or slices.shape[-2] == 0 or slices.shape[-1] != problem.d:
        raise ValueError(f"{recipe.slicer!r} gave slices of shape {tuple(slices.shape)}: {wanted}")
    # Values cannot be read in compiled code, which could not follow a cached property either.
    if values_readable(slices) and not recipe.built_in:
        lengths = torch.linalg.vector_norm(slices.detach().double(), dim=-1)
        bad = int((~(lengths.isfinite() & (lengths > 0))).sum())
        if bad:
            raise ValueError(
                f"{recipe.slicer!r} gave {bad} of {lengths.numel()} slices that are zero, NaN or infinite: {wanted}, each a "
                f"finite direction of length above 0"
            )


def check_law(recipe: Recipe, problem: Problem) -> None:
    """Refuse a law where a part of the recipe needs samples of y."""
    if problem.law is not None and recipe.needs_target_samples:
        problem.check_has_samples(repr(recipe.part_for_samples_of_y))


def lifted(
    recipe: Recipe, problem: Problem, rng: Randomness, state: State | None
) -> tuple[Problem, State | None]:
    """What is sliced: the problem itself where the recipe has no lift."""
    lift = recipe.lift
    check_law(recipe, problem)
    if lift is None:
        return problem, state
    if problem.y_sorted is not None:
        raise ValueError(
            f"a Target with {lift!r}: its samples are projected as they are, before any lift; give y itself"
        )
    if isinstance(lift, Learner):
        state = lift.cold(problem, rng) if state is None else state
        return lift.learn(problem, rng, state)
    if problem.others is None or recipe.built_in:
        found = lift(problem, rng)
    else:
        found = problem.others.together(repr(lift), lambda: lift(problem, rng))
    if not isinstance(found, Problem):
        raise ValueError(
            f"{lift!r} gave {type(found).__name__}: a lift gives a Problem, e.g. dataclasses.replace(problem, x=..., y=...)"
        )
    return found, state
