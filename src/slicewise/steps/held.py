"""The loss with its plans held: a quadratic in the samples, through which a step of a network's weights is measured."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd import forward_ad

from slicewise.problem import Problem
from slicewise.transport import project


@dataclass(frozen=True, eq=False)
class HeldLoss:
    """A sliced loss near the samples x, with slices, slice weights and one-dimensional plans held constant.

    For p = 2 this is exact for the plans at hand: along a line x + tδ the loss is the parabola

        value + t ⟨gradient, δ⟩ + t² Σ_l |w_l| Σ_i q_i (θ_l·δ_i)².

    True plans can only be cheaper, so the parabola lies above the sampled loss and touches it at x. For other p the
    curvature of the plans takes the place of 1, as in the step rule `Cauchy`. Calling it is plain PyTorch: it can be
    differentiated in either mode.

    Attributes:
        x: Samples around which the loss is expanded, (*batch, n, d).
        value: The loss there, (*batch,).
        gradient: Its gradient there, (*batch, n, d), slice weights differentiated if the loss does so.
        slices: Directions, (*batch, L, d).
        curvatures: Second derivatives along the slices, (*batch, L, n) or broadcastable to it.
        sought: Whether slices were sought that make the loss large, not drawn.
    """

    x: Tensor
    value: Tensor
    gradient: Tensor
    slices: Tensor
    curvatures: Tensor
    sought: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """Compute the held loss at samples x (*batch, n, d); return (*batch,)."""
        change = x.to(self.x.dtype) - self.x
        along = (self.gradient * change).sum(dim=(-2, -1))
        return self.value + along + 0.5 * self.curvature(change)

    def ahead(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Compute the held loss where a network's step ends, and how the step curves it.

        Args:
            x: Samples after the step, (*batch, n, d), with their tangent along the direction of the step if they are
                dual.

        Returns:
            The value (*batch,), dual if x is; the curvature along the tangent, or along the whole change if there is
            none, (*batch,); and, with a tangent, the curvature that slices drawn afresh would show, (*batch,).
        """
        end, tangent = forward_ad.unpack_dual(x)
        change = end.to(self.x.dtype) - self.x
        if tangent is None:
            return self(end), self.curvature(change), None
        tangent = tangent.to(self.x.dtype)
        # The tangent of the value by hand: torch would go through it operation by operation.
        seen, ahead = project(change, self.slices), project(tangent, self.slices)
        value = self.value + (self.gradient * change).sum(dim=(-2, -1))
        value = value + 0.5 * (self.curvatures * seen.square()).sum(dim=(-2, -1))
        slope = (self.gradient * tangent).sum(dim=(-2, -1))
        slope = slope + (self.curvatures * seen * ahead).sum(dim=(-2, -1))
        curvature = (self.curvatures * ahead.square()).sum(dim=(-2, -1))
        expected = curvature if self.sought else self.expected(tangent)
        return forward_ad.make_dual(value, slope), curvature, expected

    def expected(self, change: Tensor) -> Tensor:
        """Compute the second derivative along a change that slices found afresh would show on average; return (*batch,).

        A change that was made to suit these slices is steeper along them than along others. Uniform slices see |δ|²/d
        of any change on average. A loss whose slices are sought is the largest over all slices: it lies above the one
        with slices held and touches it here, so that it curves at least as much.
        """
        if self.sought:
            return self.curvature(change)
        each = (change * change).sum(dim=-1).unsqueeze(-2)  # (*batch, 1, n)
        return (self.curvatures * each).sum(dim=(-2, -1)) / change.shape[-1]

    def curvature(self, change: Tensor) -> Tensor:
        """Compute the second derivative along a change of the samples (*batch, n, d); return (*batch,).

        If the change is that of a network's outputs along a direction of its weights, it is the curvature that Gauss
        and Newton take for the loss along this direction: never negative.
        """
        seen = project(change.to(self.x.dtype), self.slices)
        return (self.curvatures * seen * seen).sum(dim=(-2, -1))


def held_loss(
    problem: Problem,
    slices: Tensor,
    weights: Tensor,
    value: Tensor,
    gradient: Tensor,
    *,
    sought: bool = False,
) -> HeldLoss:
    """Expand a loss around the samples of a problem.

    Args:
        problem: The samples that are compared.
        slices: Directions, (*batch, L, d).
        weights: Derivative of the loss in the cost of each slice, slice weights held, (*batch, L).
        value: The loss, (*batch,).
        gradient: Its gradient in x, (*batch, n, d).
        sought: Whether slices were sought that make the loss large.

    Returns:
        The loss with plans held.

    >>> problem = Problem(torch.zeros(2, 1), torch.ones(2, 1))
    >>> held = held_loss(problem, torch.eye(1), torch.ones(1), torch.tensor(1.0), -torch.ones(2, 1))
    >>> held(torch.full((2, 1), 0.5)), held(torch.ones(2, 1))  # half of the way, and all of it
    (tensor(0.2500), tensor(0.))
    """
    masses = problem.shares(slices.dtype)
    if isinstance(masses, Tensor):
        masses = masses.unsqueeze(-2)
    curvatures = problem.p * weights.abs().unsqueeze(-1) * masses
    if problem.p != 2:
        curvatures = curvatures * curvature_on_lines(problem, slices)
    return HeldLoss(problem.x, value, gradient, slices, curvatures, sought)


def curvature_on_lines(problem: Problem, slices: Tensor) -> Tensor:
    """Compute how the plans of p ≠ 2 curve the loss along each slice, in units of the curvature of p = 2.

    With r the offset of a sample from its partner, it is the mean of (p − 1) |r|^(p−2) over the plan for p > 2. For
    p < 2 it is the mean of max(|r|, eps)^(p−2), with eps the root mean square of r: the quadratic then majorizes the
    loss smoothed at that length.

    Args:
        problem: The samples that are compared, with p ≠ 2.
        slices: Directions, (*batch, L, d).

    Returns:
        One number for each slice and sample of x, (*batch, L, n).
    """
    p = problem.p
    if p > 2:
        return (p - 1) * problem.plan_mean(slices, lambda r: r.abs() ** (p - 2))
    squares = problem.plan_mean(slices, torch.square)
    masses = problem.shares(squares.dtype)
    masses = masses.unsqueeze(-2) if isinstance(masses, Tensor) else masses
    mean = (masses * squares).sum(dim=-1).mean(dim=-1)
    floor = mean.sqrt()[..., None, None].clamp(min=torch.finfo(squares.dtype).tiny)
    return problem.plan_mean(slices, lambda r: r.abs().maximum(floor.to(r.dtype)) ** (p - 2))
