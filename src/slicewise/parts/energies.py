"""Slices drawn from the energy law of EBSW, density ∝ f(cost) on the sphere, in place of weighted ones.

K. Nguyen, N. Ho, Energy-based sliced Wasserstein distance, 2023: sampling importance resampling, and
Metropolis–Hastings with proposals that are independent or walk.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.parts.weightings import Energy
from slicewise.problem import Move, Part, Problem, rows_at
from slicewise.sampling import Randomness


@dataclass(frozen=True, repr=False)
class Resample(Part):
    """As many slices again, drawn from those at hand by their energies, with replacement."""

    energy: Energy
    mixes = True  # what comes out depends on all that went in

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        slices = problem.pool.agreed(slices)
        weights = self.energy(problem.costs(slices), slices, problem)
        return rows_at(rng.uniform(*problem.batch, slices.shape[-2]), slices, weights)


@dataclass(frozen=True, repr=False)
class Metropolis(Part):
    """A proposal in place of each slice, if its energy is larger, else with the ratio of the two as probability.

    Proposals must be as likely there as back: a uniform draw, or a spread around the slice.
    """

    propose: Move
    energy: Energy

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        proposed = self.propose(slices, problem, rng)
        both = problem.costs(problem.pool.agreed(torch.cat([slices, proposed], dim=-2)))
        here, there = self.energy.log_energy(both).chunk(2, dim=-1)
        level = rng.uniform(*there.shape)
        accepted = torch.log(level).to(there.dtype) < there - here
        return torch.where(accepted.unsqueeze(-1), proposed, slices)


@dataclass(frozen=True, repr=False)
class Drawn(Part):
    """Equal weights for slices that were drawn by their energy, whose derivative is that of the energy law.

    With slices of density σ ∝ f(w), ∇ E_σ w = E_σ[∇w + (w − E_σ w) ∇ log f(w)]: weights that are 1/L and
    whose gradient is that of a softmax of log f. Where published code estimates the integral of f from further
    uniform slices, its derivative here is the mean over the slices at hand, which are draws of σ.
    `detach` leaves the second term out.
    """

    energy: Energy
    self_normalised = True

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        if self.energy.detach:
            return torch.full_like(costs, 1 / costs.shape[-1])
        log_energy = self.energy.log_energy(costs)
        return torch.softmax(log_energy - log_energy.detach(), dim=-1)
