"""Transport made differentiable: autograd nodes whose backward passes are matrix products, and the p-th root."""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from slicewise.support import full_precision, is_transformed
from slicewise.transport.one_dim import Match
from slicewise.transport.sliced import (
    Gradients,
    JointMatcher,
    Matcher,
    Needs,
    match_slices,
    plain_of,
    pull,
    pull_back,
    slices_in_a_piece,
    sum_of,
)


def slice_costs(
    x: Tensor,
    y: Tensor,
    slices: Tensor,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    *,
    p: float,
    matcher: Matcher = match_slices,
    y_sorted: Tensor | None = None,
) -> Tensor:
    """W_p^p (*batch, L) between x (*batch, n, d) and y (*batch, m, d) on each of slices (*batch, L, d).

    Leading dimensions broadcast. Differentiable in samples, slices and sample weights; twice, too,
    where for 1 < p < 2 the infinite second derivative at coincident projections counts as 0.
    """
    inputs = (x, y, slices, x_weights, y_weights)
    if is_transformed(*inputs):
        needs = Needs(*(t is not None for t in inputs))
        return _Matched.apply(*inputs, p, needs, plain_of(matcher), None)[0]
    needs = needs_of(*inputs)
    if slices_in_a_piece(*inputs, matcher, needs) >= slices.shape[-2]:
        return _Matched.apply(*inputs, p, needs, matcher, y_sorted)[0]
    return _Pulled.apply(*inputs, None, p, needs, matcher, y_sorted)[0]


def weighted_cost(
    x: Tensor,
    y: Tensor,
    slices: Tensor,
    x_weights: Tensor | None,
    y_weights: Tensor | None,
    weights: Tensor,
    *,
    p: float,
    matcher: Matcher = match_slices,
    y_sorted: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Σ weights · costs (*batch,) for slice weights held constant, and the costs (*batch, L).

    Knowing the weights beforehand, the gradients are accumulated in the forward pass, and nothing of
    size L · n is ever kept.
    """
    inputs = (x, y, slices, x_weights, y_weights)
    if is_transformed(*inputs):
        costs = slice_costs(*inputs, p=p, matcher=matcher)
        return (weights * costs).sum(dim=-1), costs
    needs = needs_of(*inputs)
    costs, total = _Pulled.apply(*inputs, weights.detach(), p, needs, matcher, y_sorted)
    return total, costs


def needs_of(*inputs: Tensor | None) -> Needs:
    """Which of x, y, slices and the sample weights autograd is following."""
    tracking = torch.is_grad_enabled()
    return Needs(*(tracking and t is not None and t.requires_grad for t in inputs))


class _Matched(torch.autograd.Function):
    """Costs, keeping what `match` found: the fewest operations, and a rule for vmap."""

    generate_vmap_rule = True

    @staticmethod
    def forward(  # spelled out: some compilers take the first of *inputs for a context
        x: Tensor,
        y: Tensor,
        slices: Tensor,
        x_weights: Tensor | None,
        y_weights: Tensor | None,
        p: float,
        needs: Needs,
        matcher: Matcher,
        y_sorted: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        inputs = (x, y, slices, x_weights, y_weights)
        return tuple(matcher(*inputs, p=p, wanted=needs.wanted, y_sorted=y_sorted))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(*inputs[:5], *output[1:])
        ctx.p, ctx.needs, ctx.matcher = inputs[5:8]
        ctx.mark_non_differentiable(*(t for t in output[1:] if t is not None))
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        grad = grads[0]
        if grad is None:
            return (None,) * 9
        inputs, found = ctx.saved_tensors[:5], Match(grad, *ctx.saved_tensors[5:])
        with full_precision(grad.device.type):
            if torch.is_grad_enabled():
                _check_recordable(ctx.matcher)
                again = plain_of(ctx.matcher)
                found = again(*inputs, p=ctx.p, wanted=ctx.needs.wanted)
            x, y, slices = inputs[:3]
            needs = Needs(*ctx.needs_input_grad[:5])
            gradients = pull_back(found, x, y, slices, grad, needs)
            return *_fold(gradients, inputs), *(None,) * 4


class _Pulled(torch.autograd.Function):
    """Costs and, for weights known beforehand, their weighted sum; keeping only final gradients."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor | None]:
        x, y, slices, x_weights, y_weights, weights, p, needs, matcher, y_sorted = inputs
        tensors = (x, y, slices, x_weights, y_weights, weights)
        costs, gradients = pull(*tensors, p=p, needs=needs, matcher=matcher, y_sorted=y_sorted)
        ctx.save_for_backward(*tensors, *gradients)
        ctx.p, ctx.needs, ctx.matcher = p, needs, matcher
        ctx.set_materialize_grads(False)
        return costs, None if weights is None else (weights * costs).sum(dim=-1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, y, slices, x_weights, y_weights, weights = ctx.saved_tensors[:6]
        inputs = (x, y, slices, x_weights, y_weights)
        gradients = Gradients(*ctx.saved_tensors[6:])
        by_cost, by_total = grads
        any_grad = by_cost if by_cost is not None else by_total
        if any_grad is None:
            return (None,) * 10
        with full_precision(any_grad.device.type):
            if torch.is_grad_enabled():
                _check_recordable(ctx.matcher)
                # All slices at once: autograd will want every one of them again.
                factor = torch.zeros_like(weights) if by_cost is None else by_cost
                if by_total is not None:
                    factor = factor + by_total.unsqueeze(-1) * weights
                plain = plain_of(ctx.matcher)
                found = plain(*inputs, p=ctx.p, wanted=ctx.needs.wanted)
                total = pull_back(found, x, y, slices, factor, ctx.needs)
            else:
                total = Gradients()
                if by_total is not None:
                    total = _scale(gradients, by_total)
                if by_cost is not None:
                    again = pull(*inputs, by_cost, p=ctx.p, needs=ctx.needs, matcher=ctx.matcher)
                    total = sum_of(total, again[1])
            return *_fold(total, inputs), *(None,) * 5


def _check_recordable(matcher: Matcher) -> None:
    if isinstance(matcher, JointMatcher):
        raise RuntimeError(
            "second derivatives (create_graph=True) of a loss whose samples are shared out among processes: "
            "give exchange='samples', which gathers them, or take second derivatives without group="
        )


def _scale(gradients: Gradients, factor: Tensor) -> Gradients:
    """Gradients of one value for each element of the batch, times its upstream gradient."""

    def times(gradient: Tensor | None, inner: int) -> Tensor | None:
        return None if gradient is None else gradient * factor.reshape(factor.shape + (1,) * inner)

    x, y, slices, a, b = gradients
    return Gradients(times(x, 2), times(y, 2), times(slices, 2), times(a, 1), times(b, 1))


def _fold(gradients: Gradients, inputs: Any) -> tuple[Tensor | None, ...]:
    """Sum each gradient over the dimensions along which its input was broadcast."""
    return tuple(
        None if g is None else g.sum_to_size(t.shape).to(t.dtype)
        for g, t in zip(gradients, inputs, strict=True)
    )


def root(power: Tensor, p: float) -> Tensor:
    """power^(1/p), with gradient 0 instead of NaN where the power is 0; NaN stays NaN.

    An estimate may fall below 0 (control variates): its root counts as 0.

    >>> cost = torch.zeros(1, requires_grad=True)
    >>> root(cost, 2).backward(); cost.grad
    tensor([0.])
    """
    if p == 1:
        return power
    zero = power <= 0
    known = torch.where(zero, 1, power)
    found = known ** (1 / p)
    if power.dtype == torch.float64 and not torch.compiler.is_compiling() and (off := _rounded(p)):
        # A power near 1e300 would multiply the rounding of 1/p by its logarithm, some 700.
        found = found * (1 + off * known.log())
    return torch.where(zero, 0, found)


@functools.cache
def _rounded(p: float) -> float:
    """What the floating-point number nearest to 1/p lacks."""
    return float(1 / Fraction(p) - Fraction(1 / p))


def root_slope(power: Tensor, p: float) -> Tensor:
    """Its slope, power^(1/p − 1) / p; flat where the power is 0 or below."""
    zero = power <= 0
    return torch.where(zero, 0, torch.where(zero, 1, power) ** (1 / p - 1) / p)
