"""Looking for the largest difference: where to begin, and how to end."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.problem import Part, Problem, covariance_of, mean_of, span_of
from slicewise.sampling import Randomness, sphere


@dataclass(frozen=True, repr=False)
class Principal(Part):
    """From mean to mean; along the first `n` principal directions of all samples; and where variances differ most.

    Of normal laws the largest slice is a compromise of the first and the last.
    """

    n: int = 4
    replayable = False  # finding the span looks at its rank

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        span = span_of(problem)
        basis = span.basis  # (*batch, d, k), of principal directions, largest first
        gap = mean_of(*problem.side("x")) - mean_of(*problem.side("y"))
        x, y = (
            covariance_of((samples - span.mean.unsqueeze(-2)) @ basis, weights, pool, side)
            for samples, weights, pool, side in (problem.side("x"), problem.side("y"))
        )
        values, vectors = torch.linalg.eigh(x - y)
        most = values.abs().topk(min(self.n, values.shape[-1]), dim=-1).indices
        differ = torch.take_along_dim(vectors, most.unsqueeze(-2), dim=-1)  # (*batch, k, n)
        rows = [gap, basis[..., : self.n].mT, (basis @ differ).mT]
        found = torch.cat([row.expand(*problem.batch, -1, -1) for row in rows], dim=-2)
        return sphere.normalize(found)


@dataclass(frozen=True, repr=False)
class Refine(Part):
    """Steps towards a larger cost of which only those that reach one are made, each half as long after one that fails.

    A full step overshoots a maximum that is a ridge, as those of W_p^p mostly are: it is the least of many
    quadratics.
    """

    n_steps: int

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        problem = problem.detached()
        costs, ascent = problem.costs_and_ascent(slices)
        length = torch.ones_like(costs)
        for _ in range(self.n_steps):
            along = ascent - (ascent * slices).sum(dim=-1, keepdim=True) * slices
            there = sphere.normalize(slices + length.unsqueeze(-1) * sphere.normalize(along))
            reached, onward = problem.costs_and_ascent(there)
            better = reached > costs
            costs = torch.where(better, reached, costs)
            slices = torch.where(better.unsqueeze(-1), there, slices)
            ascent = torch.where(better.unsqueeze(-1), onward, ascent)
            length = torch.where(better, length, length / 2)
        return slices
