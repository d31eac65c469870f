"""How slices travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from slicewise.parts import legacy
from slicewise.parts.weightings import Energy
from slicewise.problem import (
    BuiltIn,
    Move,
    MovePart,
    Problem,
    Schedule,
    at_progress,
    check_fit,
    declared,
    rows_at,
)
from slicewise.sampling import Randomness, sphere
from slicewise.support import check_number, kernels_for


@dataclass(frozen=True, repr=False)
class Ascend(BuiltIn, MovePart):
    """One step of each slice towards a larger cost.

    `rate=None` adds the *unit* gradient and returns to the sphere: scale-free, so that data in metres
    and in millimetres take the same path, and as fast near a solution as far from it. A number is the
    fixed rate of the published scripts: a gradient step on the p-th root of the cost, summed over points.
    `coupled` (published scripts) ascends one root of the mean over all slices, whose share of
    the step then falls with their number. `frame` keeps the slices orthonormal. `through` ascends the
    cost of the slices that move makes instead of the cost of the slices themselves.
    A slice whose gradient is zero stays.
    """

    rate: float | None = None
    coupled: bool = False
    frame: bool = False
    through: Move | None = None

    def __post_init__(self) -> None:
        if self.rate is not None:
            check_number("ascent_step", self.rate, above=0)

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        if self.frame:
            return sphere.orthonormalize(self.raised(slices, problem, rng))
        return self._climb(slices, problem, rng, back_to_sphere=True)

    def raised(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        """The slices after the step and before they return to the sphere."""
        return self._climb(slices, problem, rng, back_to_sphere=False)

    def _climb(
        self, slices: Tensor, problem: Problem, rng: Randomness, *, back_to_sphere: bool
    ) -> Tensor:
        problem = problem.detached()
        if self.through is None:
            costs, gradient = problem.costs_and_ascent(slices)
        else:
            costs, gradient = self._costs_through(slices, problem, rng)
        kernels, n = kernels_for(gradient, slices), problem.n_points()
        if kernels is None or not isinstance(n, int) or slices.shape != gradient.shape:
            raised = self._step(slices, problem, costs, gradient)
            return sphere.normalize(raised) if back_to_sphere else raised
        return kernels.ascend(
            slices,
            gradient,
            costs,
            rate=self.rate,
            p=problem.p,
            points=n,
            coupled=self.coupled,
            back_to_sphere=back_to_sphere,
        )

    def _step(self, slices: Tensor, problem: Problem, costs: Tensor, gradient: Tensor) -> Tensor:
        if self.rate is None:
            still = (gradient == 0).all(dim=-1, keepdim=True)
            return slices + torch.where(still, 0, sphere.normalize(gradient))
        n = problem.n_points()
        costs, gradient = costs * n, gradient * (n if isinstance(n, int) else n.unsqueeze(-1))
        if self.coupled:
            costs, gradient = costs.mean(dim=-1, keepdim=True), gradient / slices.shape[-2]
        # d cost^(1/p) = cost^(1/p − 1) / p · d cost; where the cost is 0 so is its gradient.
        outer = torch.where(costs > 0, costs, 1) ** (1 / problem.p - 1) / problem.p
        return slices + self.rate * outer.unsqueeze(-1) * gradient

    def _costs_through(
        self, slices: Tensor, problem: Problem, rng: Randomness
    ) -> tuple[Tensor, Tensor]:
        assert self.through is not None
        with torch.inference_mode(False), torch.enable_grad():
            live = slices.clone().detach().requires_grad_()
            spread = self.through(live, problem, rng)
            reached, pull = problem.costs_and_ascent(spread.detach())
            copies = spread.shape[-2] // slices.shape[-2]
            costs = reached.unflatten(-1, (-1, copies)).mean(dim=-1)
            (gradient,) = torch.autograd.grad(spread, live, pull / copies)
        # Draws stay on the sphere, so only the part along it is theirs.
        gradient = gradient - (gradient * slices).sum(dim=-1, keepdim=True) * slices
        if self.rate is None:
            # The cost of a slice grows with its length to the p. A unit step needs that part too:
            # without it, it would turn by 45 degrees for ever.
            gradient = gradient + problem.p * costs.unsqueeze(-1) * slices
        return costs, gradient


@dataclass(frozen=True)
class Concentration:
    """A kappa, or a schedule of it, that is one at every point of a run."""

    kappa: float | Schedule

    def __call__(self, progress: float) -> float:
        kappa = self.kappa(progress) if callable(self.kappa) else self.kappa
        check_number("kappa", kappa, above=0)
        return kappa


@dataclass(frozen=True, repr=False)
class Spread(BuiltIn, MovePart):
    """A fresh draw around each slice, `copies` of it, the closer the larger kappa.

    `law` is "vmf" (von Mises–Fisher) or "power_spherical"; kappa is a number or a schedule.
    """

    kappa: float | Schedule
    law: Literal["vmf", "power_spherical"] = "vmf"
    copies: int = 1
    legacy: bool = False
    scheduled = ("kappa",)

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        kappa: sphere.Number
        if callable(self.kappa):
            kappa = at_progress(Concentration(self.kappa), problem)
        else:
            kappa = Concentration(self.kappa)(0.0)
        if self.law == "power_spherical":
            draw = sphere.power_spherical
        else:
            draw = legacy.von_mises_fisher if self.legacy else sphere.von_mises_fisher
        return draw(slices.repeat_interleave(self.copies, dim=-2), kappa, rng)


@dataclass(frozen=True, repr=False)
class Orthogonal(BuiltIn, MovePart):
    """A uniform draw among the directions orthogonal to each slice."""

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        check_fit(self, problem.d)
        return sphere.orthogonal_to(slices, rng)

    def unfit_for(self, d: int) -> str | None:
        one = "no direction is orthogonal to another in dimension d = 1: use variant 'sw'"
        return one if d < 2 else None


@dataclass(frozen=True, repr=False)
class Best(BuiltIn, MovePart):
    """Of all slices, the n that cost most."""

    n: int = 1

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        with torch.no_grad():
            costs = problem.detached().costs(problem.agreed(slices))
            best = costs.topk(min(self.n, costs.shape[-1]), dim=-1).indices
        return torch.take_along_dim(slices, best.unsqueeze(-1), dim=-2)


@dataclass(frozen=True, repr=False)
class Afresh(BuiltIn, MovePart):
    """A uniform draw in place of each slice."""

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        return sphere.uniform(tuple(slices.shape), rng, slices.dtype)


@dataclass(frozen=True, repr=False)
class Repeat(BuiltIn, MovePart):
    """The same move several times over."""

    move: Move
    times: int

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        for _ in range(self.times):
            slices = self.move(slices, problem, rng)
        return slices

    @property
    def copies(self) -> int:  # type: ignore[override]
        return int(declared(self.move, MovePart).copies ** self.times)

    @property
    def mixes(self) -> bool:  # type: ignore[override]
        return declared(self.move, MovePart).mixes


@dataclass(frozen=True, repr=False)
class InTurn(BuiltIn, MovePart):
    """One move, then another."""

    first: Move
    second: Move

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        return self.second(self.first(slices, problem, rng), problem, rng)

    @property
    def copies(self) -> int:  # type: ignore[override]
        return declared(self.first, MovePart).copies * declared(self.second, MovePart).copies

    @property
    def mixes(self) -> bool:  # type: ignore[override]
        return declared(self.first, MovePart).mixes or declared(self.second, MovePart).mixes


@dataclass(frozen=True, repr=False)
class Refine(BuiltIn, MovePart):
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


@dataclass(frozen=True, repr=False)
class Resample(BuiltIn, MovePart):
    """As many slices again, drawn from those at hand by their energies, with replacement."""

    energy: Energy
    mixes = True  # what comes out depends on all that went in

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        slices = problem.agreed(slices)
        weights = self.energy(problem.costs(slices), slices, problem)
        return rows_at(rng.uniform(*problem.batch, slices.shape[-2]), slices, weights)


@dataclass(frozen=True, repr=False)
class Metropolis(BuiltIn, MovePart):
    """A proposal in place of each slice, if its energy is larger, else with the ratio of the two as probability.

    Proposals must be as likely there as back: a uniform draw, or a spread around the slice.
    """

    propose: Move
    energy: Energy

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        proposed = self.propose(slices, problem, rng)
        both = problem.costs(problem.agreed(torch.cat([slices, proposed], dim=-2)))
        here, there = self.energy.log_energy(both).chunk(2, dim=-1)
        level = rng.uniform(*there.shape)
        accepted = torch.log(level).to(there.dtype) < there - here
        return torch.where(accepted.unsqueeze(-1), proposed, slices)
