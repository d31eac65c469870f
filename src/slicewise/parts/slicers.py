"""Slicers: parts that propose directions, called slices.

A slicer is called with a problem and random numbers and returns slices (*batch, L, d).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.problem import (
    BuiltIn,
    Move,
    MovePart,
    Problem,
    Slicer,
    SlicerPart,
    check_fit,
    covariance_of,
    declared,
    mean_of,
    span_of,
)
from slicewise.sampling import Randomness, point_sets, sphere
from slicewise.support import check_choice, needs_gradient


@dataclass(frozen=True, repr=False)
class Uniform(BuiltIn, SlicerPart):
    """Independent directions, uniform on the sphere.

    Use it as the default: the mean cost over these slices is an unbiased estimate of SW_p^p.

    Args:
        n: The number of slices.

    Returns:
        When called with a problem and random numbers: slices (*batch, n, d) of unit length.

    Example:
        >>> import torch
        >>> from slicewise.parts import Uniform
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> Uniform(5)(problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([5, 3])
    """

    n: int
    looks_at_samples = False
    is_uniform = True
    label_free = True

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        return sphere.uniform((*problem.batch, self.n, problem.d), rng, problem.x.dtype)

    def draw(self, batch: tuple[int, ...], d: int, rng: Randomness, dtype: torch.dtype) -> Tensor:
        return sphere.uniform((*batch, self.n, d), rng, dtype)

    def n_slices(self, d: int) -> int:
        return self.n

    def group_size(self, d: int) -> int:
        return 1


@dataclass(frozen=True, repr=False)
class Orthonormal(BuiltIn, SlicerPart):
    """Random orthonormal frames, stacked if n exceeds the dimension.

    Use it in place of `Uniform` for slices that cover the directions more evenly. Each slice alone is uniform on the
    sphere. The last frame is cut if d does not divide n.

    Args:
        n: The number of slices.

    Returns:
        When called with a problem and random numbers: slices (*batch, n, d) of unit length.

    Example:
        >>> import torch
        >>> from slicewise.parts import Orthonormal
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> Orthonormal(5)(problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([5, 3])
    """

    n: int
    looks_at_samples = False
    label_free = True

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        return sphere.orthonormal((*problem.batch, self.n, problem.d), rng, problem.x.dtype)

    def draw(self, batch: tuple[int, ...], d: int, rng: Randomness, dtype: torch.dtype) -> Tensor:
        return sphere.orthonormal((*batch, self.n, d), rng, dtype)

    def n_slices(self, d: int) -> int:
        return self.n

    def group_size(self, d: int) -> int:
        return min(self.n, d)


@dataclass(frozen=True, repr=False)
class Frame(BuiltIn, SlicerPart):
    """One random orthonormal frame of n directions, where n cannot exceed the dimension.

    Use it where all slices must be orthogonal to each other; `Orthonormal` stacks frames and has no such limit.

    Args:
        n: The number of slices, at most d.

    Returns:
        When called with a problem and random numbers: slices (*batch, n, d) of unit length.

    Raises:
        ValueError: When called, if n exceeds d.

    Example:
        >>> import torch
        >>> from slicewise.parts import Frame
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> slices = Frame(2)(problem, Randomness(0, torch.device("cpu")))
        >>> torch.allclose(slices @ slices.mT, torch.eye(2), atol=1e-5)
        True
    """

    n: int
    label_free = True

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        check_fit(self, problem.d)
        return Orthonormal(self.n)(problem, rng)

    def unfit_for(self, d: int) -> str | None:
        if self.n <= d:
            return None
        return (
            f"n_slices = {self.n} orthonormal slices do not exist in dimension d = {d}: use n_slices <= {d}, or "
            f"'orthosw', which stacks frames"
        )

    def n_slices(self, d: int) -> int:
        return self.n

    def group_size(self, d: int) -> int:
        return self.n


@dataclass(frozen=True, repr=False)
class Gaussian(BuiltIn, SlicerPart):
    """Independent normal vectors with covariance I / d, which are not normalized.

    Use it for the definition of sliced Wasserstein with Gaussian projections. The mean squared length is one, and
    vectors of every length are kept. E W_p^p along them is (2/d)^(p/2) Γ((d+p)/2) / Γ(d/2) times that along uniform
    slices; for p = 2 they are the same.

    Args:
        n: The number of slices.

    Returns:
        When called with a problem and random numbers: slices (*batch, n, d), of different lengths.

    Example:
        >>> import torch
        >>> from slicewise.parts import Gaussian
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> Gaussian(5)(problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([5, 3])
    """

    n: int
    label_free = True

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        drawn = rng.normal(*problem.batch, self.n, problem.d).to(problem.x.dtype)
        return drawn / problem.d**0.5

    def dimension_factor(self, d: int, p: float) -> float:
        return d ** (p / 2)  # they are as long as they are: E‖θ‖^p is in the value already

    def n_slices(self, d: int) -> int:
        return self.n

    def group_size(self, d: int) -> int:
        return 1


@dataclass(frozen=True, repr=False)
class Quasi(BuiltIn, SlicerPart):
    """Points that cover the sphere evenly, always the same for the same n and d.

    Use it for quasi-Monte Carlo slices. Without `turned` the distance is deterministic. With it, the mean cost is
    random and unbiased.

    Args:
        n: The number of slices.
        points: The point set: "sobol" (default; Sobol points through the normal quantile function, any d), or on the
            sphere of R^3 "spiral", "equal_area" or "coulomb".
        turned: Whether to turn all points by one random rotation in each call (default False). Each slice alone is then
            uniform on the sphere, and averages over the slices are unbiased.

    Returns:
        When called with a problem and random numbers: slices (*batch, n, d) of unit length.

    Raises:
        ValueError: When called, if `points` is unknown or does not exist in dimension d.

    Example:
        >>> import torch
        >>> from slicewise.parts import Quasi
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> Quasi(5, "spiral")(problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([5, 3])

    Reference:
        K. Nguyen, N. Bariletto, N. Ho, Quasi-Monte Carlo for 3D sliced Wasserstein, 2024.
    """

    n: int
    points: point_sets.Points = "sobol"
    turned: bool = False
    label_free = True

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        check_choice("points", self.points, point_sets.KINDS)
        check_fit(self, problem.d)
        fixed = point_sets.directions(self.points, self.n, problem.d, problem.x.device)
        if self.turned:
            fixed = fixed @ sphere.rotation(problem.batch, problem.d, rng, fixed.dtype)
        return sphere.normalize(fixed.to(problem.x.dtype)).expand(*problem.batch, -1, -1)

    @property
    def rotation_invariant(self) -> bool:  # type: ignore[override]
        """Whether directions are randomly rotated; fixed directions favor some axes over others."""
        return self.turned

    @property
    def is_fixed(self) -> bool:  # type: ignore[override]
        """Whether every call gives the same slices."""
        return not self.turned

    def unfit_for(self, d: int) -> str | None:
        return point_sets.unfit_for(self.points, d)

    def n_slices(self, d: int) -> int:
        return self.n

    def group_size(self, d: int) -> int:
        return self.n


@dataclass(frozen=True, repr=False)
class Together(BuiltIn, SlicerPart):
    """The slices of two slicers, those of the first before those of the second.

    Use it to combine, for example, random directions with those that `Principal` finds.

    Args:
        first: A slicer.
        second: Another slicer.

    Returns:
        When called with a problem and random numbers: slices (*batch, L_1 + L_2, d).

    Example:
        >>> import torch
        >>> from slicewise.parts import Together, Uniform
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> Together(Uniform(3), Uniform(2))(problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([5, 3])
    """

    first: Slicer
    second: Slicer
    label_free = True

    @property
    def is_fixed(self) -> bool:  # type: ignore[override]
        """Whether both give the same slices at every call."""
        return all(declared(one, SlicerPart).is_fixed for one in (self.first, self.second))

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        both = self.first(problem, rng), self.second(problem, rng)
        return torch.cat([part.expand(*problem.batch, -1, -1) for part in both], dim=-2)


@dataclass(frozen=True, repr=False)
class LowDiscrepancy(BuiltIn, SlicerPart):
    """Evenly spread directions, turned by one random rotation in each call.

    Use it in place of `Uniform` for less noise with the same number of slices. Each slice alone is uniform on the
    sphere, so the mean over the slices is unbiased.

    Args:
        n: The number of slices.

    Returns:
        When called with a problem and random numbers: slices (*batch, n, d) of unit length.

    Example:
        >>> import torch
        >>> from slicewise.parts import LowDiscrepancy
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> LowDiscrepancy(5)(problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([5, 3])
    """

    n: int
    label_free = True

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        return sphere.low_discrepancy((*problem.batch, self.n, problem.d), rng, problem.x.dtype)

    def n_slices(self, d: int) -> int:
        return self.n

    def group_size(self, d: int) -> int:
        return self.n


@dataclass(frozen=True, repr=False)
class RandomPath(BuiltIn, SlicerPart):
    """Directions between a random sample of x and a random sample of y, drawn by their weights.

    Use it for slices along which the samples have to be moved. Pairs are independent, drawn with replacement. If the
    two samples of a pair coincide there is no direction between them, and a uniform one is taken instead.

    Args:
        n: The number of slices.

    Returns:
        When called with a problem and random numbers: slices (*batch, n, d) of unit length.

    Example:
        >>> import torch
        >>> from slicewise.parts import RandomPath
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> RandomPath(5)(problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([5, 3])
    """

    n: int
    label_free = True
    needs_target_samples = True

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        shape = (*problem.batch, self.n)
        equal = problem.x_weights is None and problem.y_weights is None
        if rng.fused is not None and equal and not needs_gradient(problem.x, problem.y):
            return rng.fused.paths(problem.x, problem.y, (*shape, problem.d))
        start = problem.at("x", rng.uniform(*shape))
        end = problem.at("y", rng.uniform(*shape))
        path = start - end  # (*batch, n, d)
        # Always drawn, so that what a seed yields does not depend on where samples coincide.
        spare = sphere.uniform((*shape, problem.d), rng, path.dtype)
        size = torch.maximum(start.abs(), end.abs()).amax(dim=-1, keepdim=True)
        same = path.abs().amax(dim=-1, keepdim=True) <= torch.finfo(path.dtype).eps * size
        return torch.where(same, spare, sphere.normalize(path))

    def n_slices(self, d: int) -> int:
        return self.n

    def group_size(self, d: int) -> int:
        return 1


@dataclass(frozen=True, repr=False)
class Then(BuiltIn, SlicerPart):
    """Slices from a slicer, changed by a move.

    Use it to keep only the end of a walk; `Trace` keeps every slice that a walk visits.

    Args:
        start: The slicer.
        move: The move that is applied to its slices.

    Returns:
        When called with a problem and random numbers: the slices after the move, (*batch, L, d).

    Example:
        >>> import torch
        >>> from slicewise.parts import Ascend, Then, Uniform
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> Then(Uniform(5), Ascend())(problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([5, 3])
    """

    start: Slicer
    move: Move
    label_free = True

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        return self.move(self.start(problem, rng), problem, rng)

    def group_size(self, d: int) -> int | None:
        size, move = declared(self.start, SlicerPart).group_size(d), declared(self.move, MovePart)
        return None if size is None or move.mixes else size * move.copies

    def n_slices(self, d: int) -> int | None:
        n = declared(self.start, SlicerPart).n_slices(d)
        return None if n is None else n * declared(self.move, MovePart).copies


@dataclass(frozen=True, repr=False)
class Trace(BuiltIn, SlicerPart):
    """Every slice that a walk visits: chains of `n_steps` slices, each moved to the next.

    Use it for Markov chains of slices; `Then` keeps only the end of a walk.

    Args:
        start: The slicer that gives the first slice of each chain.
        move: The move from a slice to the next of its chain.
        n_steps: The number of slices in a chain, the first included.
        burn_in: How many slices to leave out at the beginning of a chain (default 0).
        thin: Keep only each `thin`-th of the others (default 1: all).

    Returns:
        When called with a problem and random numbers: slices (*batch, chains · kept, d), chain by chain, where kept is
        the number of slices kept of a chain.

    Example:
        >>> import torch
        >>> from slicewise.parts import Orthogonal, Trace, Uniform
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> slicer = Trace(Uniform(2), Orthogonal(), n_steps=10, burn_in=4, thin=2)
        >>> slicer(problem, Randomness(0, torch.device("cpu"))).shape  # 2 chains, 3 slices kept of each
        torch.Size([6, 3])
    """

    start: Slicer
    move: Move
    n_steps: int
    burn_in: int = 0
    thin: int = 1
    label_free = True

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        visited = [self.start(problem, rng)]
        for _ in range(self.n_steps - 1):
            visited.append(self.move(visited[-1], problem, rng))
        return interleave(visited[self.burn_in :: self.thin])

    def group_size(self, d: int) -> int | None:
        size = declared(self.start, SlicerPart).group_size(d)
        return None if size is None else size * self._kept

    def n_slices(self, d: int) -> int | None:
        n = declared(self.start, SlicerPart).n_slices(d)
        return None if n is None else n * self._kept

    @property
    def _kept(self) -> int:
        return len(range(self.burn_in, self.n_steps, self.thin))


@dataclass(frozen=True, repr=False)
class Principal(BuiltIn, SlicerPart):
    """Directions that often separate two sample sets, computed from their means and covariances.

    Use it as starting points in a search for the slice with the largest cost. They are, in this order: the direction
    between the two means; the first `n` principal directions of all samples; and the `n` directions in which the
    variances of x and y differ most. For normal distributions the slice with the largest cost is a compromise between
    the first and the last.

    Args:
        n: The number of principal directions, and of directions of different variance (default 4). There are fewer if
            the samples span fewer dimensions.

    Returns:
        When called with a problem and random numbers: slices (*batch, L, d) of unit length, L at most 2n + 1.

    Example:
        >>> import torch
        >>> from slicewise.parts import Principal
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> Principal(1)(problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([3, 2])
    """

    n: int = 4
    graph_safe = False  # finding the span looks at its rank
    needs_target_samples = True

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        span = span_of(problem)
        basis = span.basis  # (*batch, d, k), of principal directions, largest first
        gap = mean_of(*problem.side("x")) - mean_of(*problem.side("y"))
        x, y = (
            covariance_of((samples - span.mean.unsqueeze(-2)) @ basis, weights, population, side)
            for samples, weights, population, side in (problem.side("x"), problem.side("y"))
        )
        values, vectors = torch.linalg.eigh(x - y)
        most = values.abs().topk(min(self.n, values.shape[-1]), dim=-1).indices
        differ = torch.take_along_dim(vectors, most.unsqueeze(-2), dim=-1)  # (*batch, k, n)
        rows = [gap, basis[..., : self.n].mT, (basis @ differ).mT]
        found = torch.cat([row.expand(*problem.batch, -1, -1) for row in rows], dim=-2)
        return sphere.normalize(found)


def interleave(visited: list[Tensor]) -> Tensor:
    """Arrange the slices of successive steps as one set, chain by chain.

    Use it in a slicer of your own that runs chains, so that the slices of a chain are next to each other.

    Args:
        visited: One tensor (..., chains, d) for each step.

    Returns:
        Slices (..., chains · steps, d): all steps of the first chain, then all steps of the second, and so on.

    Example:
        >>> import torch
        >>> from slicewise.parts import interleave
        >>> interleave([torch.tensor([[1.0], [2.0]]), torch.tensor([[10.0], [20.0]])]).flatten()
        tensor([ 1., 10.,  2., 20.])
    """
    return torch.stack(visited, dim=-2).flatten(-3, -2)
