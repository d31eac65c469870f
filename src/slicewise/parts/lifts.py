"""Lifts: the defining functions of generalized sliced Wasserstein.

In place of the projection θ·x, generalized sliced Wasserstein uses a defining function g(x, θ). It must be odd in
degree or otherwise such that two different distributions never have all of their slices in common.

Reference:
    S. Kolouri et al., Generalized sliced Wasserstein distances, 2019.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicewise.problem import BuiltIn, LiftPart, Problem, SideName, fields_of
from slicewise.sampling import Randomness
from slicewise.support import check_number
from slicewise.transport import slice_costs

# More features than this for each sample are a mistake, not a wish: C(d + 2, 3) passes it at d = 181.
_MOST_FEATURES = 1_000_000

# Samples (*batch, n, d) along slices (*batch, L, D): where they lie on each line, (*batch, L, n).
Curve = Callable[[Tensor, Tensor], Tensor]
_SIDES: tuple[SideName, SideName] = ("x", "y")


def _straight(samples: Tensor, slices: Tensor) -> Tensor:
    return slices @ samples.mT


@dataclass(frozen=True, eq=False)
class Curved(Problem):
    """A problem whose slices are curves, with `dimension` parameters each, in place of straight lines.

    Use `curved` to make one from a problem, in a lift of your own. Slices are tensors (*batch, L, dimension). Gradients
    are computed by autograd.

    Args:
        curve: A function of samples (*batch, n, d) and slices (*batch, L, dimension) that returns the position of each
            sample along each slice, (*batch, L, n) (default: the projections θ·x).
        dimension: The number of parameters of a slice (default 0; set it).

    All other fields are those of `Problem`.
    """

    curve: Curve = _straight
    dimension: int = 0
    linear_slices = False

    @property
    def d(self) -> int:
        """The number of parameters of a slice."""
        return self.dimension

    def costs(self, slices: Tensor) -> Tensor:
        means = self._means(slices)
        return self.in_convention(means)

    def weighted_cost(self, slices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        costs = self.costs(slices)
        return (weights * costs).sum(dim=-1), costs

    def costs_and_ascent(self, slices: Tensor) -> tuple[Tensor, Tensor]:
        still = self.detached()
        assert isinstance(still, Curved)
        slices = self.agreed(slices)
        with torch.inference_mode(False), torch.enable_grad():
            live = slices.clone().detach().requires_grad_()
            costs = still._means(live)
            (ascent,) = torch.autograd.grad(costs.sum(), live)
        return costs.detach(), ascent

    def positions(self, side: SideName, slices: Tensor) -> Tensor:
        return self.curve(self.x if side == "x" else self.y, slices)

    def _means(self, slices: Tensor) -> Tensor:
        # Each curve carries the samples to a line of its own: L problems of one dimension.
        u, v = (self.positions(s, slices).unsqueeze(-1) for s in _SIDES)  # (*batch, L, n, 1)
        a, b = (None if w is None else w.unsqueeze(-2) for w in (self.x_weights, self.y_weights))
        along = slices.new_ones(1, 1)
        costs = slice_costs(u, v, along, a, b, p=self.p, matcher=self.matcher).squeeze(-1)
        return costs.expand(*self.batch, slices.shape[-2])


def curved(problem: Problem, curve: Curve, dimension: int) -> Curved:
    """Return a problem with the same samples, sliced along curves.

    Use it in a lift of your own, with your own defining function as the curve.

    Args:
        problem: The problem with the samples.
        curve: A function of samples (*batch, n, d) and slices (*batch, L, dimension) that returns the position of each
            sample along each slice, (*batch, L, n).
        dimension: The number of parameters of a slice.

    Returns:
        The `Curved` problem, whose slices are (*batch, L, dimension).

    Example:
        >>> import torch
        >>> from slicewise.parts import curved
        >>> from slicewise.problem import Problem
        >>> problem = Problem(torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [2.0]]))
        >>> cubes = curved(problem, lambda samples, slices: slices @ (samples**3).mT, dimension=1)
        >>> cubes.costs(torch.ones(1, 1))  # (0 + (8 − 1)²) / 2
        tensor([24.5000])
    """
    return Curved(**fields_of(problem), curve=curve, dimension=dimension)


@dataclass(frozen=True, repr=False)
class Monomials(BuiltIn, LiftPart):
    """Replace each sample by all products of `degree` of its coordinates.

    Use it for the polynomial defining functions of generalized sliced Wasserstein, in low dimension. Slices of these
    products are homogeneous polynomials of that odd degree:

        g(x, θ) = Σ_{|α| = degree} θ_α x^α

    with θ on the sphere of R^D, D = C(d + degree − 1, degree). Degree 1 leaves the samples as they are.

    Args:
        degree: The degree, an odd number. Even polynomials cannot tell x from −x.

    Returns:
        When called with a problem and random numbers: the problem with x (*batch, n, D) and y (*batch, m, D).

    Raises:
        ValueError: If the degree is even or below 1, or if there are more than 1,000,000 monomials.

    Example:
        >>> import torch
        >>> from slicewise.parts import Monomials
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 1.0]]))
        >>> Monomials(3)(problem, Randomness(0, torch.device("cpu"))).x  # aaa, aab, abb, bbb of a = 1, b = 2
        tensor([[1., 2., 4., 8.]])

    Reference:
        S. Kolouri et al., Generalized sliced Wasserstein distances, 2019.
    """

    degree: int
    graph_safe = False  # gradients are autograd's
    needs_target_samples = True
    rotation_invariant = False  # the products of turned coordinates are others
    label_free = True

    def __post_init__(self) -> None:
        if self.degree % 2 == 0 or self.degree < 1:
            raise ValueError(
                f"degree = {self.degree}: give an odd one (1, 3, 5, ...); even polynomials cannot tell x from −x"
            )

    def __call__(self, problem: Problem, rng: Randomness) -> Problem:
        if self.degree == 1:
            return problem
        d = problem.x.shape[-1]
        size = math.comb(d + self.degree - 1, self.degree)
        if size > _MOST_FEATURES:
            raise ValueError(
                f"degree = {self.degree} in d = {d} dimensions has {size:,} monomials, more than "
                f"{_MOST_FEATURES:,}: lower the degree or the dimension, or use function='circular'"
            )
        make = _factors if torch.compiler.is_compiling() else _kept_factors
        factors = make(d, self.degree, problem.x.device)  # (D, degree)
        x, y = (_products(t, factors) for t in (problem.x, problem.y))
        return dataclasses.replace(problem, x=x, y=y)


@dataclass(frozen=True, repr=False)
class Circles(BuiltIn, LiftPart):
    """Slice by distances to a point at `radius` in the direction of the slice: g(x, θ) = ‖x − radius θ‖.

    Use it for the circular defining function of generalized sliced Wasserstein, in any dimension. One process must hold
    all samples.

    Args:
        radius: The distance of the point from the origin, above 0.

    Returns:
        When called with a problem and random numbers: a `Curved` problem with slices (*batch, L, d).

    Raises:
        ValueError: If the radius is not above 0.

    Example:
        >>> import torch
        >>> from slicewise.parts import Circles
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.tensor([[0.0, 0.0]]), torch.tensor([[2.0, 0.0]]))
        >>> lifted = Circles(radius=2.0)(problem, Randomness(0, torch.device("cpu")))
        >>> lifted.costs(torch.tensor([[1.0, 0.0]]))  # distances 2 and 0 to the point (2, 0)
        tensor([4.])

    Reference:
        S. Kolouri et al., Generalized sliced Wasserstein distances, 2019.
    """

    radius: float
    graph_safe = False
    needs_target_samples = True
    linear_slices = False
    needs_all_samples = True  # curves are matched by one process, which has them all
    label_free = True

    def __post_init__(self) -> None:
        check_number("radius", self.radius, above=0)

    def __call__(self, problem: Problem, rng: Randomness) -> Problem:
        return curved(problem, functools.partial(_distances, self.radius), problem.d)


@dataclass(frozen=True, repr=False)
class Networks(BuiltIn, LiftPart):
    """Slice by neural networks with one hidden layer of leaky ReLUs; a slice holds all weights of its network.

    Use it for the neural defining function of generalized sliced Wasserstein. Let θ be a slice of
    D = width · (d + 2) numbers, and z = θ √D, whose entries are of size one. Then

        g(x, θ) = a · σ(B x + c)

    where B (width, d) is the first part of z over √d, c (width,) the next part over √d, and a (width,) the last part
    over √width. Two different distributions may agree on all such slices: this gives a pseudo-metric. One process must
    hold all samples.

    Args:
        width: The number of hidden units.

    Returns:
        When called with a problem and random numbers: a `Curved` problem with slices (*batch, L, width · (d + 2)).

    Example:
        >>> import torch
        >>> from slicewise.parts import Networks
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> Networks(width=8)(problem, Randomness(0, torch.device("cpu"))).d
        40

    Reference:
        S. Kolouri et al., Generalized sliced Wasserstein distances, 2019.
    """

    width: int
    graph_safe = False
    needs_target_samples = True
    linear_slices = False
    needs_all_samples = True
    label_free = True

    def __call__(self, problem: Problem, rng: Randomness) -> Problem:
        size = self.width * (problem.d + 2)
        return curved(problem, functools.partial(_outputs, self.width), size)


def _factors(d: int, degree: int, device: torch.device) -> Tensor:
    """Which coordinates each monomial multiplies, (D, degree)."""
    chosen = [[i] for i in range(d)]
    for _ in range(degree - 1):  # in loops, which a compiler can follow
        chosen = [[*some, i] for some in chosen for i in range(some[-1], d)]
    return torch.tensor(chosen, device=device)


@functools.lru_cache(maxsize=8)
@torch.inference_mode(False)  # they outlive the mode they are made in
def _kept_factors(d: int, degree: int, device: torch.device) -> Tensor:
    return _factors(d, degree, device)


def _products(samples: Tensor, factors: Tensor) -> Tensor:
    product = samples[..., factors[:, 0]]
    for column in factors.T[1:]:
        product = product * samples[..., column]
    return product


def _distances(radius: float, samples: Tensor, slices: Tensor) -> Tensor:
    distances: Tensor = _Distances.apply(radius * slices, samples)
    return distances


class _Distances(torch.autograd.Function):
    """Distances (..., L, n) of samples (..., n, d) to centers (..., L, d), as `torch.cdist`, and twice differentiable.

    They are computed from differences, which are never all in memory at once. The gradient of a sample exactly at a
    center is zero, not NaN.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(centres: Tensor, samples: Tensor) -> Tensor:
        return torch.cdist(centres, samples, compute_mode="donot_use_mm_for_euclid_dist")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        centres, samples = ctx.saved_tensors
        distances = _Distances.apply(centres, samples)
        away = distances > 0
        pull = torch.where(away, grads[0] / torch.where(away, distances, 1), 0)  # (..., L, n)
        to_centres = pull.sum(dim=-1, keepdim=True) * centres - pull @ samples
        to_samples = pull.sum(dim=-2).unsqueeze(-1) * samples - pull.mT @ centres
        return to_centres.sum_to_size(centres.shape), to_samples.sum_to_size(samples.shape)


def _outputs(width: int, samples: Tensor, slices: Tensor) -> Tensor:
    d = samples.shape[-1]
    weights = slices * slices.shape[-1] ** 0.5
    inner, shift, outer = weights.split([width * d, width, width], dim=-1)
    inner = inner.unflatten(-1, (width, d)) / d**0.5  # (*batch, L, width, d)
    hidden = inner @ samples.mT.unsqueeze(-3) + shift.unsqueeze(-1) / d**0.5
    active = torch.nn.functional.leaky_relu(hidden, 0.01)  # (*batch, L, width, n)
    return (outer.unsqueeze(-2) @ active).squeeze(-2) / width**0.5
