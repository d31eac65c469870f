"""The loss in code that torch compiles: one operation of our own, which a compiler takes as it is.

A compiler cannot see through kernels and captured graphs; without this it would sort with torch. The operation computes
value and gradient by the plan of its samples, as the loss does elsewhere; its derivative is one multiplication.
"""

from __future__ import annotations

import itertools
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor, library

from slicewise.distance.plan import Samples, beside, plan_for, samples_of
from slicewise.distance.request import Ask
from slicewise.laws import Law, law_of_number
from slicewise.support import broadcast

_NAME = "slicewise::value_and_gradient"
_LAW_NAME = "slicewise::law_value_and_gradient"
# Settings by number: an operation takes tensors and numbers only. Whoever has a number keeps its settings alive.
_asks: WeakValueDictionary[int, Ask] = WeakValueDictionary()
_numbers = itertools.count()


def number_of(ask: Ask | None) -> int | None:
    """The number under which the operation knows these settings; None for those it cannot compute."""
    if ask is None or not ask.knows_gradient:
        return None
    known = next((number for number, one in _asks.items() if one is ask), None)
    if known is None:
        known = next(_numbers)
        _asks[known] = ask
    return known


def compiled_value(
    number: int, x: Tensor, y: Tensor, x_weights: Tensor | None, y_weights: Tensor | None
) -> Tensor | None:
    """The value (*batch,), differentiable in x; None where a compiler has to go the general way."""
    weights = [w for w in (x_weights, y_weights) if w is not None]
    if not all(isinstance(t, Tensor) and not t.requires_grad for t in (y, *weights)):
        return None
    if x.dim() < 2 or x.shape[:-2] != _batch(x, y, x_weights, y_weights):
        return None
    if x.dtype != y.dtype:
        if not torch.is_autocast_enabled(x.device.type):
            return None  # where it is refused
        # Compiled code runs without autocast: it has been applied by then.
        wide = _wide(x, y)
        x, y = x.to(wide), y.to(wide)
    value: Tensor = torch.ops.slicewise.value_and_gradient(x, y, x_weights, y_weights, number)[0]
    return value


def compiled_law_value(number: int, x: Tensor, law: Law, x_weights: Tensor | None) -> Tensor | None:
    """The same for a law in the place of samples."""
    if x.dim() < 2 or not law.is_constant:
        return None
    if x_weights is not None and (x_weights.requires_grad or x_weights.dim() > 1):
        return None
    given = (x, x_weights, number, law.number)
    value: Tensor = torch.ops.slicewise.law_value_and_gradient(*given)[0]
    return value


def computed_for_law(
    x: Tensor, x_weights: Tensor | None, ask: int, law: int
) -> tuple[Tensor, Tensor]:
    """What that operation computes."""
    known = samples_of(x, law_of_number(law), x_weights, None)
    assert known is not None  # a constant law
    given, against, kind = known
    plan = plan_for(_asks[ask], given, against, kind)
    assert plan is not None  # as in `computed`
    found = plan(given, None, may_repeat=False)
    return found.value, found.gradient


def _law_shapes(x: Tensor, x_weights: Tensor | None, ask: int, law: int) -> tuple[Tensor, Tensor]:
    wide = torch.promote_types(x.dtype, torch.float32)
    return x.new_empty(x.shape[:-2], dtype=wide), x.new_empty(x.shape, dtype=wide)


def _wide(x: Tensor, y: Tensor) -> torch.dtype:
    return torch.promote_types(torch.promote_types(x.dtype, y.dtype), torch.float32)


def _batch(x: Tensor, y: Tensor, *weights: Tensor | None) -> tuple[int, ...]:
    shapes = [w.shape[:-1] for w in weights if w is not None]
    return broadcast(x.shape[:-2], y.shape[:-2], *shapes)


def computed(
    x: Tensor, y: Tensor, x_weights: Tensor | None, y_weights: Tensor | None, ask: int
) -> tuple[Tensor, Tensor]:
    """What the operation computes: the value (*batch,) and its gradient in x."""
    given = Samples(x, y, x_weights, y_weights)
    plan = plan_for(_asks[ask], given)
    assert plan is not None  # these are plain tensors: nothing compiles or transforms here any more
    found = plan(given, None, may_repeat=False)
    return found.value, found.gradient


def _shapes(
    x: Tensor, y: Tensor, x_weights: Tensor | None, y_weights: Tensor | None, ask: int
) -> tuple[Tensor, Tensor]:
    wide = _wide(x, y)
    batch = _batch(x, y, x_weights, y_weights)
    return x.new_empty(batch, dtype=wide), x.new_empty(x.shape, dtype=wide)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])
    ctx.dtype = inputs[0].dtype


def _multiplied(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    (gradient,) = ctx.saved_tensors
    return (gradient * beside(grads[0])).to(ctx.dtype), *(None,) * 4


def _multiplied_for_law(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    return _multiplied(ctx, *grads)[:4]


def _define() -> None:
    """Tell torch of the operation: once in a process, however often this package is imported."""
    if hasattr(torch.ops.slicewise, "value_and_gradient"):
        return
    tags = (torch.Tag.nondeterministic_seeded, torch.Tag.pt2_compliant_tag)

    def compute(*given: Any) -> tuple[Tensor, Tensor]:
        from slicewise.distance.compiled import (
            computed as by_now,  # of a package imported anew, perhaps
        )

        return by_now(*given)

    library.define(
        _NAME,
        "(Tensor x, Tensor y, Tensor? x_weights, Tensor? y_weights, int ask) -> (Tensor, Tensor)",
        tags=tags,
    )
    library.impl(_NAME, "default", compute)
    library.register_fake(_NAME, _shapes)
    library.register_autograd(_NAME, _multiplied, setup_context=_keep)

    def compute_for_law(*given: Any) -> tuple[Tensor, Tensor]:
        from slicewise.distance.compiled import computed_for_law as by_now

        return by_now(*given)

    schema = "(Tensor x, Tensor? x_weights, int ask, int law) -> (Tensor, Tensor)"
    library.define(_LAW_NAME, schema, tags=tags)
    library.impl(_LAW_NAME, "default", compute_for_law)
    library.register_fake(_LAW_NAME, _law_shapes)
    library.register_autograd(_LAW_NAME, _multiplied_for_law, setup_context=_keep)


_define()
