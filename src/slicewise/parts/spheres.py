"""Lifts for samples on a sphere: great circles in place of lines, and stereographic maps to flat space.

Only the direction of a sample from the origin counts, so that samples need not have unit length. A slice is a pair of
orthonormal vectors e₁, e₂ of R^d. It is stored as one row of 2 d numbers, of length one, whose halves are
orthonormalized where they are used: a uniform row gives a uniform pair. All slicers, moves and weightings therefore work
on these slices as on lines.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.parts.lifts import Curved, curved
from slicewise.problem import BuiltIn, LiftPart, Problem, check_fit, fields_of
from slicewise.sampling import Randomness
from slicewise.transport import circle_costs, linear_circle_costs


@dataclass(frozen=True, eq=False)
class Circular(Curved):
    """A problem whose slices are circles: positions are in turns, and mass may go either way around.

    Args:
        embedded: compare by linear circular transport, in place of the optimal one (default False).

    All other fields are those of `Curved`.
    """

    embedded: bool = False

    def _means(self, slices: Tensor) -> Tensor:
        u, v = (self.positions(side, slices) for side in ("x", "y"))  # (*batch, L, n)
        a, b = (None if w is None else w.unsqueeze(-2) for w in (self.x_weights, self.y_weights))
        if self.embedded:
            costs = linear_circle_costs(u, v, u_weights=a, v_weights=b)
        else:
            costs = circle_costs(u, v, p=self.p, u_weights=a, v_weights=b)
        return costs.expand(*self.batch, slices.shape[-2])


class _OnSphere(LiftPart):
    """What lifts of samples on a sphere have in common."""

    graph_safe = False  # gradients are autograd's
    linear_slices = False
    needs_target_samples = True  # both sides are mapped
    needs_all_samples = True  # circles are matched by one process, which has all samples

    def unfit_for(self, d: int) -> str | None:
        if d >= 2:
            return None
        return (
            f"d = {d}: samples on a sphere have at least 2 coordinates; angles t are (cos t, sin t)"
        )

    def retract(self, before: Tensor, after: Tensor) -> Tensor:
        """Each sample after a step at the distance from the origin that it had before."""
        norm, moved = (torch.linalg.vector_norm(t, dim=-1, keepdim=True) for t in (before, after))
        return after * torch.where(moved > 0, norm / torch.where(moved > 0, moved, 1), 1)


@dataclass(frozen=True, repr=False)
class GreatCircles(_OnSphere, BuiltIn):
    """Slice samples on a sphere by their angles on random great circles.

    Use it for the spherical sliced-Wasserstein distance. A slice e₁, e₂ takes a sample to the angle of
    (e₁·x, e₂·x), in turns. Costs are W_p^p on a circle of circumference one: the largest possible distance is 1/2.

    Args:
        embedded: Compare by linear circular transport, which needs no search for a cut (p = 2 only). It is the distance
            between embeddings by the plan from the uniform law.

    Returns:
        When called with a problem and random numbers: a `Circular` problem with slices (*batch, L, 2 d).

    Raises:
        ValueError: If samples have one coordinate, or if p is not 2 where `embedded` is set.

    Example:
        >>> import torch
        >>> from slicewise.parts import GreatCircles
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]), p=1)
        >>> lifted = GreatCircles()(problem, Randomness(0, torch.device("cpu")))
        >>> lifted.costs(torch.tensor([[1.0, 0.0, 0.0, 1.0]]))  # a quarter of a turn
        tensor([0.2500])

    References:
        C. Bonet et al., Spherical sliced-Wasserstein, 2023; X. Liu et al., Linear spherical sliced optimal
        transport, 2025.
    """

    embedded: bool = False

    def __call__(self, problem: Problem, rng: Randomness) -> Problem:
        check_fit(self, problem.x.shape[-1])
        if self.embedded and problem.p != 2:
            raise ValueError(
                f"p = {problem.p:g}: linear circular transport is defined for p = 2; use 'ssw' for other orders"
            )
        dimension = 2 * problem.x.shape[-1]
        return Circular(
            **fields_of(problem), curve=turns, dimension=dimension, embedded=self.embedded
        )


@dataclass(frozen=True, repr=False)
class Stereographic(_OnSphere, BuiltIn):
    """Map samples on a sphere to flat space, and slice them there.

    Use it for the stereographic spherical sliced-Wasserstein distance. The stereographic projection from a pole,
    followed by the map that makes distances from the opposite pole those on the sphere, takes a sample at the angle β
    from the opposite pole to a point at the distance β from the origin, in its own direction.

    Args:
        turned: False projects from the last axis: slices are straight lines of R^(d−1), and values depend on the axes.
            True takes another pole for each slice, e₁ of a random pair, and slices along e₂: the rotationally invariant
            form, with one rotation a slice.

    Returns:
        When called with a problem and random numbers: a problem with samples in R^(d−1), or a `Curved` problem with
        slices (*batch, L, 2 d).

    Raises:
        ValueError: If samples have one coordinate.

    Example:
        >>> import torch
        >>> from slicewise.parts import Stereographic
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[0.0, 0.0, -1.0]]))
        >>> Stereographic()(problem, Randomness(0, torch.device("cpu"))).x  # a quarter of a circle from (0, 0, −1)
        tensor([[1.5708, 0.0000]])

    Reference:
        H. Tran et al., Stereographic spherical sliced Wasserstein distances, 2024.
    """

    turned: bool = False

    def __call__(self, problem: Problem, rng: Randomness) -> Problem:
        check_fit(self, problem.x.shape[-1])
        if self.turned:
            return curved(problem, _along_meridians, 2 * problem.x.shape[-1])
        x, y = (flattened(samples) for samples in (problem.x, problem.y))
        return dataclasses.replace(problem, x=x, y=y)

    @property
    def rotation_invariant(self) -> bool:  # type: ignore[override]
        """Whether the pole is drawn for each slice."""
        return self.turned

    @property
    def needs_all_samples(self) -> bool:  # type: ignore[override]
        """Whether one process must hold all samples; straight lines are matched by several."""
        return self.turned


def frame_of(slices: Tensor) -> tuple[Tensor, Tensor]:
    """The two orthonormal vectors (*batch, L, d) that slices (*batch, L, 2 d) stand for, by Gram–Schmidt."""
    first, second = slices.chunk(2, dim=-1)
    first = torch.nn.functional.normalize(first, dim=-1)
    second = second - (second * first).sum(dim=-1, keepdim=True) * first
    return first, torch.nn.functional.normalize(second, dim=-1)


def turns(samples: Tensor, slices: Tensor) -> Tensor:
    """The angles (*batch, L, n) of samples (*batch, n, d) on the circles of slices (*batch, L, 2 d), in turns in [0, 1)."""
    first, second = frame_of(slices)
    across, along = first @ samples.mT, second @ samples.mT
    nowhere = (across == 0) & (along == 0)  # no angle, and no gradient
    angle = torch.atan2(along, torch.where(nowhere, 1, across)) / (2 * math.pi)
    return angle - angle.detach().floor()


def flattened(samples: Tensor) -> Tensor:
    """Samples (..., d) on a sphere as points (..., d − 1): their direction from the last axis, as long as their angle.

    The angle is that from the negative last axis, from 0 to π.
    """
    flat, height = samples[..., :-1], samples[..., -1:]
    return flat * _angle_over_length(flat.square().sum(dim=-1, keepdim=True), height)


def _along_meridians(samples: Tensor, slices: Tensor) -> Tensor:
    pole, along = frame_of(slices)
    square = samples.square().sum(dim=-1).unsqueeze(-2)  # (*batch, 1, n)
    height = pole @ samples.mT  # (*batch, L, n)
    return (along @ samples.mT) * _angle_over_length(
        (square - height.square()).clamp(min=0), height
    )


def _angle_over_length(square: Tensor, height: Tensor) -> Tensor:
    """β / r, r = √square the distance from an axis, β the angle from its negative end; 1 / |height| at that end.

    At the other end, which the map leaves out, it is finite: a sample there is taken to the origin.
    """
    tiny = torch.finfo(square.dtype).eps ** 2
    away = square > tiny * (square + height.square())
    length = torch.where(away, square, 1).sqrt()
    near = 1 / torch.where(height == 0, 1, height).abs()
    return torch.where(away, torch.atan2(length, -height) / length, near.detach())
