"""What a call that is made again and again need not decide again.

A training loop asks for the same distance of samples of the same shapes in every step. What follows from shapes, dtypes
and settings is decided in the first such call and kept as a `Plan`. Later calls draw slices, compute value and gradient
together, and give the value an autograd node whose backward pass is one multiplication.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from slicewise.distance.displacement import displaced_gradient
from slicewise.distance.objective import weigh
from slicewise.distance.pricing import priced
from slicewise.distance.replay import LARGEST, Graph, circumstances, graph_for
from slicewise.distance.request import (
    Ask,
    ask_for,
    check_law,
    check_value,
    draw,
    formed,
    problem_for,
    randomness_of,
    recipe_for,
    with_whole_frame,
)
from slicewise.laws import Law, on_slices
from slicewise.problem import Problem, SlicerPart, State, Target, absent_to_origin, declared
from slicewise.sampling import (
    ByTicket,
    Generators,
    Randomness,
    Ticket,
    can_take_tickets,
    on_device,
    take_ticket,
)
from slicewise.support import (
    are_weights,
    check_generator,
    check_weights,
    full_precision,
    kernels_for,
)
from slicewise.transport import LawMatcher
from slicewise.variants import Recipe

_KEPT = 256  # plans of a thread
_USUAL_SLICES = 64  # of a slicer that does not say how many it gives
_PLAIN = (Tensor, torch.nn.Parameter)
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_is_legacy = torch._C._functorch.is_legacy_batchedtensor
_transform = torch._C._functorch.peek_interpreter_stack


class Samples(NamedTuple):
    """What changes from call to call."""

    x: Tensor
    y: Tensor  # of a law, its frame
    x_weights: Tensor | None
    y_weights: Tensor | None

    def detached(self) -> Samples:
        """The same without gradients."""
        weights = (None if w is None else w.detach() for w in self[2:])
        return Samples(self.x.detach(), self.y.detach(), *weights)


class Found(NamedTuple):
    """What a plan computed."""

    value: Tensor  # (*batch,)
    gradient: Tensor  # of its sum, in x
    drawn: Tensor | Ticket  # the slices (*batch, L, d), or what to draw them by again
    state: State | None = None  # of a slicer that learns, after this call


class Plan:
    """How an `Ask` is computed for samples of one kind. Made in a first call, whose arguments are checked in full."""

    def __init__(self, ask: Ask, given: Samples, law: Law | None = None) -> None:
        self.ask, self.law = ask, law
        x, y, x_weights, y_weights = given
        against, weights = y if law is None else law, (x_weights, y_weights)
        problem = problem_for(x, against, ask.p, *weights, ask.recipe.convention, 0.0, ask.backend)
        check_law(ask.recipe, problem)
        self.batch, self._matcher = problem.batch, problem.matcher
        self._elements = math.prod(self.batch)
        self._device = problem.x.device
        self._weighted = any(w is not None for w in given[2:])
        # A gradient that was summed over the batch cannot be multiplied element by element any more.
        self.one_each = given.x.shape[:-2] == self.batch
        self._lines = _lines(ask.recipe, problem)
        self.knows_law = self._knows_law(problem)
        self._as_graph = self._suits_graph(problem)
        self._by_ticket = self._as_graph and can_take_tickets(self._device)

    def _suits_graph(self, problem: Problem) -> bool:
        x, y = problem.x.detach(), problem.y.detach()
        small = max(self._lines, x.numel(), y.numel()) <= LARGEST
        known = self.ask.recipe.graph_safe and kernels_for(x, y) is not None
        return small and known and self.knows_law

    def _knows_law(self, problem: Problem) -> bool:
        """Is nothing read on the host for a law, if there is one?"""
        if not isinstance(self._matcher, LawMatcher):
            return True
        # A slicer that looks at a law asks for its axes, which are made on the host.
        looks = declared(self.ask.recipe.slicer, SlicerPart).looks_at_samples
        plain = not looks and not self.ask.displaced
        return plain and self._matcher.graph_safe(self.ask.p, problem.x_weights)

    def __call__(
        self,
        given: Samples,
        generator: Generators,
        state: State | None = None,
        *,
        may_repeat: bool = True,
    ) -> Found:
        """The value and its gradient; nothing is recorded for autograd.

        A slicer that learns goes on from its state; None lets it begin anew. A value that left the floating-point range
        raises OutOfRange if the caller can repeat the call.
        """
        if self._as_graph and generator is None:
            found = self._replayed(given, state)
            if found is not None:
                return found
        if self._weighted:
            check_weights("x_weights", given.x_weights, given.x)
            check_weights("y_weights", given.y_weights, given.y)
        with torch.no_grad(), full_precision(self._device.type):
            problem = self._problem(given.detached())
            rng = randomness_of(generator, problem)
            found = self._evaluated(problem, rng, state)
        repeated = may_repeat and not self.ask.displaced
        check_value(found.value, problem, self.ask.objective if repeated else None)
        return found

    def _problem(self, given: Sequence[Tensor | None]) -> Problem:
        x, y, x_weights, y_weights = given
        assert x is not None
        assert y is not None
        if self._weighted:
            x, y = absent_to_origin(x, x_weights), absent_to_origin(y, y_weights)
        ask = self.ask
        how = (ask.recipe.convention, 0.0, self._matcher)
        problem = formed(x, y, ask.p, x_weights, y_weights, *how)
        if self.law is None:
            return problem
        return dataclasses.replace(problem, law=self.law, precision=x.dtype)

    def _evaluated(self, problem: Problem, rng: Randomness, state: State | None) -> Found:
        slices, state = self._drawn(problem, rng, state)
        return Found(*self._priced(problem, slices), slices, state)

    def _drawn(
        self, problem: Problem, rng: Randomness, state: State | None
    ) -> tuple[Tensor, State | None]:
        recipe = self.ask.recipe
        if recipe.built_in and recipe.learner is None:  # its slices need no check
            seen = with_whole_frame(recipe, problem)
            return recipe.slicer(seen, rng).to(problem.x.dtype), None
        return draw(recipe, problem, rng, state)[1:]

    def _priced(self, problem: Problem, slices: Tensor) -> tuple[Tensor, Tensor]:
        if self.ask.displaced:
            return displaced_gradient(self.ask.recipe, problem, slices)
        value, gradient = priced(self.ask.recipe, problem, slices, self.ask.objective)
        same = gradient.shape == problem.x.shape
        return value, gradient if same else gradient.sum_to_size(problem.x.shape)

    def _replayed(self, given: Samples, state: State | None) -> Found | None:
        """The same by a graph; None where there is none, or not yet, or where another capture is under way."""
        if torch._C._cuda_isCurrentStreamCapturing():
            return None
        if self._device.index != torch._C._cuda_getDevice():
            with torch.cuda.device(self._device):
                return self._replayed(given, state)
        key = (self, state is None, *circumstances(self._device))
        graph = graph_for(key, self._graph, given, state)
        if graph is None:
            return None
        ticket = take_ticket(self._device, self._elements) if self._by_ticket else None
        if state is not None:
            value, gradient, slices, *learned = graph([*given, *state.values()], ticket)
            return Found(value, gradient, slices, dict(zip(state, learned, strict=True)))
        value, gradient, *drawn = graph(given, ticket)
        return Found(value, gradient, drawn[0] if ticket is None else ticket)

    def _graph(self, given: Samples, state: State | None) -> Graph:
        names = () if state is None else tuple(state)
        by_ticket = self._by_ticket

        def evaluate(static: Sequence[Tensor | None], rng: Randomness) -> Sequence[Tensor]:
            known = dict(zip(names, cast("Sequence[Tensor]", static[4:]), strict=True)) or None
            with full_precision(self._device.type):
                found = self._evaluated(self._problem(static[:4]), rng, known)
            value, gradient = found.value, found.gradient
            for weights in static[2:4]:
                if weights is not None:  # no error can be raised here: NaN says it
                    right = are_weights(weights)
                    value = torch.where(right, value, torch.nan)
                    each = beside(right) if self.one_each else right.all()
                    gradient = torch.where(each, gradient, torch.nan)
            if known is not None and found.state is not None:
                return [value, gradient, cast(Tensor, found.drawn), *found.state.values()]
            return [value, gradient] if by_ticket else [value, gradient, cast(Tensor, found.drawn)]

        inputs = given if state is None else [*given, *state.values()]
        return Graph(evaluate, inputs, self.batch, lines=self._lines, by_ticket=by_ticket)

    def on(self, given: Samples, slices: Tensor) -> tuple[Tensor, Tensor]:
        """The value and its gradient along slices that are known; nothing is checked."""
        return self._priced(self._problem(given), slices)

    def gradient_again(self, given: Samples, drawn: Tensor | Ticket) -> Tensor:
        """The gradient of a call that was made before."""
        with torch.no_grad(), full_precision(self._device.type):
            problem = self._problem(given.detached())
            return self._priced(problem, self._slices(problem, drawn))[1]

    def recorded_gradient(self, given: Samples, drawn: Tensor | Ticket, upstream: Tensor) -> Tensor:
        """The gradient times what comes from above, as a function that can be differentiated further."""
        with full_precision(self._device.type):
            problem = self._problem(given)
            slices = self._slices(problem.detached(), drawn)
            value = weigh(self.ask.recipe, problem, slices, self.ask.objective)[0]
            return torch.autograd.grad(value, given.x, upstream, create_graph=True)[0]

    def _slices(self, problem: Problem, drawn: Tensor | Ticket) -> Tensor:
        if isinstance(drawn, Tensor):
            return drawn
        rng = ByTicket(*on_device(drawn, self._device), self.batch)
        return self._drawn(problem, rng, None)[0]


def _lines(recipe: Recipe, problem: Problem) -> int:
    """How many numbers lie on the lines, about."""
    n_slices = declared(recipe.slicer, SlicerPart).n_slices(problem.d) or _USUAL_SLICES
    each = problem.x.shape[-2] + problem.y.shape[-2]
    return math.prod(problem.batch) * n_slices * each


class _Kept(threading.local):
    """The plans of a thread, the least recently used going first."""

    def __init__(self) -> None:
        self.plans: OrderedDict[Any, Plan] = OrderedDict()


_kept = _Kept()


class _LawHere(NamedTuple):
    """A law as samples of one kind meet it."""

    version: tuple[int, ...] | None  # of its parameters when it was looked at
    frame: Tensor
    kind: tuple[Any, ...]  # what it is beside its frame


_laws_here: WeakKeyDictionary[Law, dict[Any, _LawHere]] = WeakKeyDictionary()


def _law_here(law: Law, x: Tensor) -> _LawHere:
    """The frame of a law beside x, copied to its device once."""
    key = (x.shape[-1], x.device, x.dtype, torch.is_inference_mode_enabled())
    kept, version = _laws_here.setdefault(law, {}), law.version
    found = kept.get(key)
    if found is None or version is None or found.version != version:
        frame, known = on_slices(law, x.shape[-1], whole=False)
        frame = frame.to(x.device, x.dtype if x.dtype == torch.float64 else torch.float32)
        rows = [(one.mean, repr(one.axes), one.width, one.signed) for one in known.rows]
        found = _LawHere(version, frame, (known.lines, known.weights, *rows))
        if version is not None:
            kept[key] = found
    return found


def samples_of(
    x: Tensor, y: Tensor | Target | Law, x_weights: Tensor | None, y_weights: Tensor | None
) -> tuple[Samples, Law | None, tuple[Any, ...]] | None:
    """What a plan is given, the law that y is the frame of, and its kind; None where the general way must be gone."""
    if type(x) not in _PLAIN:
        return None
    if type(y) in _PLAIN:
        return Samples(x, cast(Tensor, y), x_weights, y_weights), None, ()
    if not isinstance(y, Law) or y_weights is not None or not y.is_constant or x.dim() < 2:
        return None
    here = _law_here(y, x)
    return Samples(x, here.frame, x_weights, None), y, here.kind


def plan_for(
    ask: Ask, given: Samples, law: Law | None = None, kind: tuple[Any, ...] = ()
) -> Plan | None:
    """The plan of a call with plain tensors; None where a compiler or a transform looks on.

    Against a law, y is its frame. Laws of one kind share a plan, unless slices look at the law.
    """
    x, y, x_weights, y_weights = given
    if torch.compiler.is_compiling() or _transform() is not None:
        return None
    # Two dtypes go together under autocast only.
    mixed = x.dtype is not y.dtype and x.device == y.device and _autocast_at(x.device.type)
    key: tuple[Any, ...] = (ask, x.shape, y.shape, x.dtype, y.dtype, x.device, y.device, mixed)
    # A plan was checked once, for tensors that hold their numbers in memory; sparse ones look alike.
    if x.layout is not torch.strided or y.layout is not torch.strided:
        return None
    for weights in (x_weights, y_weights):
        if weights is not None:
            if type(weights) not in _PLAIN or weights.layout is not torch.strided:
                return None
            key = (*key, weights is x_weights, weights.shape, weights.dtype, weights.device)
    if law is not None:
        looks = declared(ask.recipe.slicer, SlicerPart).looks_at_samples
        key = (*key, kind, law.number if looks or ask.displaced else None)
    plans = _kept.plans
    plan = plans.get(key)
    if plan is None:
        plans[key] = plan = Plan(ask, given, law)
        if len(plans) > _KEPT:
            plans.popitem(last=False)
    else:
        plans.move_to_end(key)
    return plan


def _autocast_at(device: str) -> bool:
    """Is autocast on at a kind of device? Some kinds do not know it."""
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


class LawPricer:
    """Sliced W_2^2 between samples of one kind and a law, with its gradient; what has to be found out is known.

    Attributes:
        graph_safe: May calls be captured as a CUDA graph?
    """

    def __init__(self, plan: Plan, law: Law, frame: Tensor) -> None:
        self._plan, self._frame = plan, frame
        # A graph keeps the frame: it must be known when that changes.
        self.graph_safe = plan.knows_law and law.version is not None

    def __call__(self, x: Tensor, slices: Tensor) -> tuple[Tensor, Tensor]:
        """The value (*batch,) and its gradient in x (*batch, n, d), without a graph, along slices (L, d)."""
        return self._plan.on(Samples(x, self._frame, None, None), slices)


def law_pricer(x: Tensor, law: Law) -> LawPricer | None:
    """What prices samples like x against a law; None where the general way has to be gone."""
    known = samples_of(x, law, None, None)
    ask = ask_for(recipe_for("sw", None, {}), "power", 2, "auto")
    if known is None or ask is None:
        return None
    given, _, kind = known
    plan = plan_for(ask, given, law, kind)
    return None if plan is None or not plan.one_each else LawPricer(plan, law, given.y)


def planned_value(
    ask: Ask | None,
    x: Tensor,
    y: Tensor | Target | Law,
    x_weights: Tensor | None,
    y_weights: Tensor | None,
    generator: Generators,
    state: State | None = None,
) -> tuple[Tensor, State | None] | None:
    """The value (*batch,), differentiable in x, and what a slicer has learned; None where the general way must be gone."""
    if ask is None or not ask.knows_gradient:
        return None
    known = samples_of(x, y, x_weights, y_weights)
    if known is None:
        return None
    given, law, kind = known
    tracked = torch.is_grad_enabled()
    if tracked:
        if given.y.requires_grad or any(
            isinstance(w, Tensor) and w.requires_grad for w in given[2:]
        ):
            return None
        tracked = x.requires_grad
    if generator is not None:
        check_generator(generator)
    plan = plan_for(ask, given, law, kind)
    if plan is None or (tracked and not plan.one_each):
        return None
    found = plan(given, generator, state)
    value = _Known.apply(*given, found, plan) if tracked else found.value
    return value, found.state


def planned_gradient(
    ask: Ask | None,
    x: Tensor,
    y: Tensor | Target | Law,
    x_weights: Tensor | None,
    y_weights: Tensor | None,
    generator: Generators,
) -> Found | None:
    """The value (*batch,) and its gradient in x; None where the general way has to be gone."""
    if ask is None or not ask.can_be_planned:
        return None
    known = samples_of(x, y, x_weights, y_weights)
    if known is None:
        return None
    given, law, kind = known
    if generator is not None:
        check_generator(generator)
    plan = plan_for(ask, given, law, kind)
    return None if plan is None else plan(given, generator)


class _Known(torch.autograd.Function):
    """A value whose gradient is known already."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *given, found, ctx.plan = inputs
        ctx.save_for_backward(*given)
        # Not `found` itself: it holds the value, whose node this is.
        ctx.gradient, ctx.drawn = found.gradient, found.drawn
        return found.value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (upstream,) = grads
        plan: Plan = ctx.plan
        gradient = ctx.gradient
        if torch.is_grad_enabled() and not plan.ask.displaced:
            gradient = plan.recorded_gradient(Samples(*ctx.saved_tensors), ctx.drawn, upstream)
            return gradient, *(None,) * 5
        if gradient is None:  # a second pass
            gradient = plan.gradient_again(Samples(*ctx.saved_tensors), ctx.drawn)
        if torch.is_grad_enabled() or _is_batched(upstream):  # the latter: several passes at once
            return gradient * beside(upstream), *(None,) * 5
        # Handed over as it is: a copy would take as long as all the rest.
        ctx.gradient = None
        if gradient.is_cuda or upstream.dim() or upstream.item() != 1:
            gradient.mul_(beside(upstream))
        return gradient, *(None,) * 5


def _is_batched(upstream: Tensor) -> bool:
    return bool(_is_wrapped(upstream) or _is_legacy(upstream))


def beside(upstream: Tensor) -> Tensor:
    """One number for each element of the batch, to be multiplied with (*batch, n, d)."""
    return upstream if upstream.dim() == 0 else upstream[..., None, None]
