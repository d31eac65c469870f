"""Where slices come from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.problem import Move, Part, Problem, Slicer
from slicewise.sampling import Randomness, point_sets, sphere
from slicewise.support import needs_gradient


@dataclass(frozen=True, repr=False)
class Uniform(Part):
    """Independent directions, uniform on the sphere."""

    n: int

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        return sphere.uniform((*problem.batch, self.n, problem.d), rng, problem.x.dtype)

    def group_size(self, d: int) -> int:
        return 1


@dataclass(frozen=True, repr=False)
class Orthonormal(Part):
    """Random orthonormal frames, stacked when n exceeds the dimension."""

    n: int

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        return sphere.orthonormal((*problem.batch, self.n, problem.d), rng, problem.x.dtype)

    def group_size(self, d: int) -> int:
        return min(self.n, d)


@dataclass(frozen=True, repr=False)
class Frame(Part):
    """One random orthonormal frame of n directions; n cannot exceed the dimension."""

    n: int

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        if self.n > problem.d:
            raise ValueError(
                f"n_slices = {self.n} orthonormal slices do not exist in dimension d = {problem.d}: "
                f"use n_slices <= {problem.d}, or 'orthosw', which stacks frames"
            )
        return Orthonormal(self.n)(problem, rng)

    def group_size(self, d: int) -> int:
        return self.n


@dataclass(frozen=True, repr=False)
class Gaussian(Part):
    """Independent normal vectors of covariance I / d: of length one in the mean square, and no shorter ones kept out.

    E W_p^p along them is (2/d)^(p/2) Γ((d+p)/2) / Γ(d/2) times that along uniform ones: the same for p = 2.
    """

    n: int

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        drawn = rng.normal(*problem.batch, self.n, problem.d).to(problem.x.dtype)
        return drawn / problem.d**0.5

    def group_size(self, d: int) -> int:
        return 1


@dataclass(frozen=True, repr=False)
class Quasi(Part):
    """Points chosen to cover the sphere evenly, always the same for the same n and d.

    `points` is "sobol" (through the normal quantile function, any d), or on the sphere of R^3 "spiral",
    "equal_area" or "coulomb". `turned` turns them all by one random rotation a call: each row is then
    uniform, and averages over rows are unbiased.

    K. Nguyen, N. Bariletto, N. Ho, Quasi-Monte Carlo for 3D sliced Wasserstein, 2024.
    """

    n: int
    points: point_sets.Points = "sobol"
    turned: bool = False

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        fixed = point_sets.directions(self.points, self.n, problem.d, problem.x.device)
        if self.turned:
            fixed = fixed @ sphere.rotation(problem.batch, problem.d, rng, fixed.dtype)
        return sphere.normalize(fixed.to(problem.x.dtype)).expand(*problem.batch, -1, -1)

    def group_size(self, d: int) -> int:
        return self.n


@dataclass(frozen=True, repr=False)
class Together(Part):
    """The slices of two slicers, one after the other."""

    first: Slicer
    second: Slicer

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        both = self.first(problem, rng), self.second(problem, rng)
        return torch.cat([part.expand(*problem.batch, -1, -1) for part in both], dim=-2)


@dataclass(frozen=True, repr=False)
class LowDiscrepancy(Part):
    """Evenly spread directions under one random rotation a call: less noise than independent ones."""

    n: int

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        return sphere.low_discrepancy((*problem.batch, self.n, problem.d), rng, problem.x.dtype)

    def group_size(self, d: int) -> int:
        return self.n


@dataclass(frozen=True, repr=False)
class RandomPath(Part):
    """Directions from a random sample of x to a random sample of y, drawn by their weights.

    Pairs are independent, with replacement. Where the two samples coincide there is no direction,
    and a uniform one takes its place.
    """

    n: int

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

    def group_size(self, d: int) -> int:
        return 1


@dataclass(frozen=True, repr=False)
class Then(Part):
    """Slices from `start`, carried by `move`: the end of a walk."""

    start: Slicer
    move: Move

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        return self.move(self.start(problem, rng), problem, rng)

    def group_size(self, d: int) -> int | None:
        size = group_size(self.start, d)
        if getattr(self.move, "mixes", False):
            return None
        return None if size is None else size * getattr(self.move, "copies", 1)


@dataclass(frozen=True, repr=False)
class Trace(Part):
    """Every slice a walk visits: chains of `n_steps` slices from `start`, each `move`d to the next.

    The first `burn_in` slices of a chain are left out, and of the rest only each `thin`-th is kept.
    """

    start: Slicer
    move: Move
    n_steps: int
    burn_in: int = 0
    thin: int = 1

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        visited = [self.start(problem, rng)]
        for _ in range(self.n_steps - 1):
            visited.append(self.move(visited[-1], problem, rng))
        return interleave(visited[self.burn_in :: self.thin])

    def group_size(self, d: int) -> int | None:
        size = group_size(self.start, d)
        return None if size is None else size * len(range(self.burn_in, self.n_steps, self.thin))


def interleave(visited: list[Tensor]) -> Tensor:
    """Slices (..., chains, d) of successive steps as one set (..., chains · steps, d), chain by chain."""
    return torch.stack(visited, dim=-2).flatten(-3, -2)


def group_size(slicer: Slicer, d: int) -> int | None:
    """How many successive slices depend on each other; None where the slicer does not say."""
    says = getattr(slicer, "group_size", None)
    return None if says is None else says(d)
