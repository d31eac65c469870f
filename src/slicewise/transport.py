"""Transport along slices: project, match on each line, and one autograd node around both.

`match_slices` is the primitive that carries the speed: every faster backend has its signature and is
tested against it, values and all gradients. `slice_costs` makes any of them differentiable, with a
backward pass of matrix products alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from slicewise.line import Match, Wanted, match


def match_slices(
    x: Tensor,
    y: Tensor,
    slices: Tensor,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    *,
    p: float,
    wanted: Wanted = Wanted(),
) -> Match:
    """`match` on each of slices (..., L, d) of x (..., n, d) and y (..., m, d): costs (..., L)."""
    return match(
        project(x, slices),
        project(y, slices),
        p=p,
        u_weights=None if x_weights is None else x_weights.unsqueeze(-2),  # one row for all slices
        v_weights=None if y_weights is None else y_weights.unsqueeze(-2),
        wanted=wanted,
    )


Matcher = Callable[..., Match]


def slice_costs(
    x: Tensor,
    y: Tensor,
    slices: Tensor,
    *,
    p: float,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    matcher: Matcher | None = None,
) -> Tensor:
    """W_p^p (*batch, L) between x (*batch, n, d) and y (*batch, m, d) on each of slices (*batch, L, d).

    Leading dimensions broadcast. Differentiable in samples, slices and sample weights; twice, too,
    except that for 1 < p < 2 the second derivative is infinite where matched projections coincide.
    `matcher` is the `match_slices` that does the work.
    """
    wrapped = is_transformed(x, y, slices)
    tracking = wrapped or torch.is_grad_enabled()
    needs = [
        t is not None and tracking and (wrapped or t.requires_grad)
        for t in (x, y, slices, x_weights, y_weights)
    ]
    wanted = Wanted(needs[0] or needs[2], needs[1] or needs[2], needs[3], needs[4])
    matcher = match_slices if matcher is None else matcher
    return _SliceCosts.apply(x, y, slices, x_weights, y_weights, p, wanted, matcher)[0]


def project(samples: Tensor, slices: Tensor) -> Tensor:
    """Coordinates (..., L, n) of samples (..., n, d) along slices (..., L, d)."""
    return slices @ samples.mT


def is_transformed(*tensors: Tensor) -> bool:
    """Does a compiler or a transform of torch.func stand between us and these tensors' values?"""
    # torch offers no public test for its function transforms, and cannot compile the private one.
    return torch.compiler.is_compiling() or any(
        torch._C._functorch.is_functorch_wrapped_tensor(t) for t in tensors
    )


class _SliceCosts(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: Tensor,
        y: Tensor,
        slices: Tensor,
        x_weights: Tensor | None,
        y_weights: Tensor | None,
        p: float,
        wanted: Wanted,
        matcher: Matcher,
    ) -> tuple[Tensor | None, ...]:
        return tuple(matcher(x, y, slices, x_weights, y_weights, p=p, wanted=wanted))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(*inputs[:5], *output[1:])
        ctx.p, ctx.wanted, _ = inputs[5:]
        ctx.mark_non_differentiable(*(t for t in output[1:] if t is not None))
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        grad = grads[0]
        if grad is None:
            return (None,) * 8
        x, y, slices, x_weights, y_weights, *saved = ctx.saved_tensors
        with torch.autocast(x.device.type, enabled=False):
            if torch.is_grad_enabled():
                # A second derivative is coming: the saved gradients are constants to autograd, so
                # state them again as functions of the inputs.
                again = match_slices(x, y, slices, x_weights, y_weights, p=ctx.p, wanted=ctx.wanted)
                saved = again[1:]
            u_grad, v_grad, u_weights_grad, v_weights_grad = saved
            need = ctx.needs_input_grad
            pull = grad.unsqueeze(-1) * slices  # (..., L, d)
            x_grad = _fold(u_grad.mT @ pull, x) if need[0] else None
            y_grad = _fold(v_grad.mT @ pull, y) if need[1] else None
            slices_grad = None
            if need[2]:
                turn = u_grad @ x + v_grad @ y  # (..., L, d)
                slices_grad = _fold(grad.unsqueeze(-1) * turn, slices)
            x_weights_grad = _mix(grad, u_weights_grad, x_weights) if need[3] else None
            y_weights_grad = _mix(grad, v_weights_grad, y_weights) if need[4] else None
        return x_grad, y_grad, slices_grad, x_weights_grad, y_weights_grad, None, None, None


def _mix(grad: Tensor, potentials: Tensor, weights: Tensor) -> Tensor:
    return _fold((grad.unsqueeze(-1) * potentials).sum(dim=-2).to(weights.dtype), weights)


def _fold(gradient: Tensor, like: Tensor) -> Tensor:
    """Sum a gradient over the dimensions along which its tensor was broadcast."""
    return gradient.sum_to_size(like.shape)
