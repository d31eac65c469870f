"""Where slices come from."""

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
    """Independent directions, uniform on the sphere."""

    n: int
    looks_at_samples = False
    is_uniform = True

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
    """Random orthonormal frames, stacked when n exceeds the dimension."""

    n: int
    looks_at_samples = False

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
    """One random orthonormal frame of n directions; n cannot exceed the dimension."""

    n: int

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
    """Independent normal vectors of covariance I / d: of length one in the mean square, and no shorter ones kept out.

    E W_p^p along them is (2/d)^(p/2) Γ((d+p)/2) / Γ(d/2) times that along uniform ones: the same for p = 2.
    """

    n: int

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
        check_choice("points", self.points, point_sets.KINDS)
        check_fit(self, problem.d)
        fixed = point_sets.directions(self.points, self.n, problem.d, problem.x.device)
        if self.turned:
            fixed = fixed @ sphere.rotation(problem.batch, problem.d, rng, fixed.dtype)
        return sphere.normalize(fixed.to(problem.x.dtype)).expand(*problem.batch, -1, -1)

    @property
    def rotation_invariant(self) -> bool:  # type: ignore[override]
        """Only under a random rotation: fixed directions favor some axes over others."""
        return self.turned

    def unfit_for(self, d: int) -> str | None:
        return point_sets.unfit_for(self.points, d)

    def n_slices(self, d: int) -> int:
        return self.n

    def group_size(self, d: int) -> int:
        return self.n


@dataclass(frozen=True, repr=False)
class Together(BuiltIn, SlicerPart):
    """The slices of two slicers, one after the other."""

    first: Slicer
    second: Slicer

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        both = self.first(problem, rng), self.second(problem, rng)
        return torch.cat([part.expand(*problem.batch, -1, -1) for part in both], dim=-2)


@dataclass(frozen=True, repr=False)
class LowDiscrepancy(BuiltIn, SlicerPart):
    """Evenly spread directions under one random rotation a call: less noise than independent ones."""

    n: int

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        return sphere.low_discrepancy((*problem.batch, self.n, problem.d), rng, problem.x.dtype)

    def n_slices(self, d: int) -> int:
        return self.n

    def group_size(self, d: int) -> int:
        return self.n


@dataclass(frozen=True, repr=False)
class RandomPath(BuiltIn, SlicerPart):
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

    def n_slices(self, d: int) -> int:
        return self.n

    def group_size(self, d: int) -> int:
        return 1


@dataclass(frozen=True, repr=False)
class Then(BuiltIn, SlicerPart):
    """Slices from `start`, carried by `move`: the end of a walk."""

    start: Slicer
    move: Move

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
    """From mean to mean; along the first `n` principal directions of all samples; and where variances differ most.

    Of normal laws the largest slice is a compromise of the first and the last.
    """

    n: int = 4
    graph_safe = False  # finding the span looks at its rank

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
    """Slices (..., chains, d) of successive steps as one set (..., chains · steps, d), chain by chain."""
    return torch.stack(visited, dim=-2).flatten(-3, -2)
