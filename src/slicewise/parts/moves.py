"""Moves: parts that map slices to new slices.

A move is called with slices (*batch, L, d), a problem and random numbers, and returns slices. Combine moves with
`InTurn` and `Repeat`. Apply them to the slices of a slicer with `Then` or `Trace`.
"""

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
    """Move each slice by one gradient step towards a larger cost.

    Use it, repeated, to find slices that separate the samples well, as in max-sliced Wasserstein. A slice whose
    gradient is zero stays where it is.

    Args:
        rate: The step size. None (default) adds the *unit* gradient and returns to the sphere. This does not depend on
            the scale of the data, so that data in meters and in millimeters take the same path, and it is as fast near
            a solution as far from it. A number above 0 is the fixed rate of the published scripts: a gradient step on
            the p-th root of the cost, where the cost is summed over points.
        coupled: If True, ascend one root of the mean over all slices, as in published scripts. The share of a slice in
            the step then falls with the number of slices. Only with a fixed `rate` (default False).
        frame: If True, keep the slices of a batch element orthonormal (default False).
        through: A move, such as `Spread`. Ascend the cost of the slices that this move makes from a slice, in place of
            the cost of the slice itself (default None).

    Returns:
        When called with slices (*batch, L, d), a problem and random numbers: slices (*batch, L, d) of unit length.

    Raises:
        ValueError: If `rate` is not above 0.

    Example:
        >>> import torch
        >>> from slicewise.parts import Ascend, Repeat
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slices = torch.tensor([[0.6, 0.8]])
        >>> Repeat(Ascend(), 20)(slices, problem, Randomness(0, torch.device("cpu"))).round(decimals=3)
        tensor([[1., 0.]])
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
        """Return the slices (*batch, L, d) after the step, before they are normalized to the sphere."""
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
    """A concentration kappa, or a schedule of it, that is checked to be above 0 at every point of a run.

    `Spread` uses it; use it in a move of your own that has a concentration.

    Args:
        kappa: A number, or a function of the progress in [0, 1] that returns a number.

    Returns:
        When called with the progress of the run, a number in [0, 1]: kappa at that point.

    Raises:
        ValueError: When called, if kappa is not above 0 at that point.

    Example:
        >>> from slicewise.parts import Concentration
        >>> Concentration(lambda progress: 10 + 90 * progress)(0.5)
        55.0
    """

    kappa: float | Schedule

    def __call__(self, progress: float) -> float:
        kappa = self.kappa(progress) if callable(self.kappa) else self.kappa
        check_number("kappa", kappa, above=0)
        return kappa


@dataclass(frozen=True, repr=False)
class Spread(BuiltIn, MovePart):
    """Draw `copies` random slices around each slice, the closer to it the larger kappa is.

    Use it to explore around good slices, as after `Ascend` or `RandomPath`.

    Args:
        kappa: The concentration: a number above 0, or a schedule, which is a function of the progress in [0, 1].
        law: The distribution on the sphere, "vmf" (von Mises–Fisher, default) or "power_spherical".
        copies: The number of draws around each slice (default 1).
        legacy: Whether to draw from the approximate von Mises–Fisher sampler of published code (default False).

    Returns:
        When called with slices (*batch, L, d), a problem and random numbers: slices (*batch, L · copies, d) of unit
        length. The copies of a slice are next to each other.

    Raises:
        ValueError: When called, if kappa is not above 0.

    Example:
        >>> import torch
        >>> from slicewise.parts import Spread
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> Spread(50.0, copies=4)(torch.eye(3), problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([12, 3])
    """

    kappa: float | Schedule
    law: Literal["vmf", "power_spherical"] = "vmf"
    copies: int = 1
    legacy: bool = False
    scheduled = ("kappa",)
    label_free = True

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
    """Replace each slice by a uniform draw among the directions orthogonal to it.

    Use it in `Trace` for chains whose successive slices are orthogonal. It needs d ≥ 2.

    Returns:
        When called with slices (*batch, L, d), a problem and random numbers: slices (*batch, L, d) of unit length.

    Raises:
        ValueError: When called, if d = 1, where no direction is orthogonal to another.

    Example:
        >>> import torch
        >>> from slicewise.parts import Orthogonal
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> moved = Orthogonal()(torch.eye(3), problem, Randomness(0, torch.device("cpu")))
        >>> bool((moved.diagonal().abs() < 1e-5).all())
        True
    """

    label_free = True

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        check_fit(self, problem.d)
        return sphere.orthogonal_to(slices, rng)

    def unfit_for(self, d: int) -> str | None:
        one = "no direction is orthogonal to another in dimension d = 1: use variant 'sw'"
        return one if d < 2 else None


@dataclass(frozen=True, repr=False)
class Best(BuiltIn, MovePart):
    """Keep the n slices with the largest costs.

    Use it to select among several candidates, for example after ascents from several starts.

    Args:
        n: The number of slices to keep (default 1). All are kept if there are no more than n.

    Returns:
        When called with slices (*batch, L, d), a problem and random numbers: slices (*batch, min(n, L), d), with the
        largest cost first.

    Example:
        >>> import torch
        >>> from slicewise.parts import Best
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> Best()(torch.eye(2), problem, Randomness(0, torch.device("cpu")))
        tensor([[1., 0.]])
    """

    n: int = 1

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        with torch.no_grad():
            costs = problem.detached().costs(problem.agreed(slices))
            best = costs.topk(min(self.n, costs.shape[-1]), dim=-1).indices
        return torch.take_along_dim(slices, best.unsqueeze(-1), dim=-2)


@dataclass(frozen=True, repr=False)
class Afresh(BuiltIn, MovePart):
    """Replace each slice by a new uniform draw, independent of it.

    Use it as the proposal of `Metropolis`.

    Returns:
        When called with slices (*batch, L, d), a problem and random numbers: slices (*batch, L, d) of unit length.

    Example:
        >>> import torch
        >>> from slicewise.parts import Afresh
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> Afresh()(torch.eye(3), problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([3, 3])
    """

    label_free = True

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        return sphere.uniform(tuple(slices.shape), rng, slices.dtype)


@dataclass(frozen=True, repr=False)
class Repeat(BuiltIn, MovePart):
    """Apply the same move several times.

    Use it for several gradient steps, as in `Repeat(Ascend(), 50)`.

    Args:
        move: The move.
        times: How often to apply it.

    Returns:
        When called with slices (*batch, L, d), a problem and random numbers: the slices after the last move. There are
        L · copies^times of them if the move makes several copies of each slice.

    Example:
        >>> import torch
        >>> from slicewise.parts import Repeat, Spread
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> Repeat(Spread(50.0, copies=2), 3)(torch.eye(3), problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([24, 3])
    """

    move: Move
    times: int
    label_free = True

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
    """Apply one move, then another.

    Use it to combine moves, for example an ascent and a random spread around where it ends.

    Args:
        first: The move that is applied to the given slices.
        second: The move that is applied to the result of the first.

    Returns:
        When called with slices (*batch, L, d), a problem and random numbers: the slices after the second move.

    Example:
        >>> import torch
        >>> from slicewise.parts import Ascend, Best, InTurn
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> InTurn(Ascend(), Best())(torch.eye(2), problem, Randomness(0, torch.device("cpu")))
        tensor([[1., 0.]])
    """

    first: Move
    second: Move
    label_free = True

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
    """Take steps towards a larger cost, keep only those that reach one, and halve the step after each that does not.

    Use it after `Ascend` to reach a maximum precisely. A full step overshoots a maximum that is a ridge. Most maxima of
    W_p^p are ridges, because W_p^p is the minimum of many quadratics (for p = 2, one for each matching of the samples).
    The step length starts at 1 and is separate for each slice. The cost of a slice never decreases.

    Args:
        n_steps: The number of steps that are tried.

    Returns:
        When called with slices (*batch, L, d), a problem and random numbers: slices (*batch, L, d) of unit length.

    Example:
        >>> import torch
        >>> from slicewise.parts import Refine
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slices = torch.tensor([[0.6, 0.8]])
        >>> refined = Refine(20)(slices, problem, Randomness(0, torch.device("cpu")))
        >>> bool((problem.costs(refined) > problem.costs(slices)).all())
        True
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
    """Draw as many slices as there are from the given ones, with replacement, with probabilities from their energies.

    Use it with the weighting `Drawn` and the same energy: sampling importance resampling for energy-based sliced
    Wasserstein. Each slice that comes out depends on all that went in, so no independent groups remain.

    Args:
        energy: The `Energy` whose weights are the probabilities.

    Returns:
        When called with slices (*batch, L, d), a problem and random numbers: slices (*batch, L, d), some of them
        repeated.

    Example:
        >>> import torch
        >>> from slicewise.parts import Energy, Resample
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> energy = Energy("identity")  # all weight on the first axis: the second costs 0
        >>> Resample(energy)(torch.eye(2), problem, Randomness(0, torch.device("cpu")))
        tensor([[1., 0.],
                [1., 0.]])
    """

    energy: Energy
    mixes = True  # what comes out depends on all that went in

    def __call__(self, slices: Tensor, problem: Problem, rng: Randomness) -> Tensor:
        slices = problem.agreed(slices)
        weights = self.energy(problem.costs(slices), slices, problem)
        return rows_at(rng.uniform(*problem.batch, slices.shape[-2]), slices, weights)


@dataclass(frozen=True, repr=False)
class Metropolis(BuiltIn, MovePart):
    """Take one Metropolis step: replace each slice by a proposal if that is accepted.

    Use it in `Trace`, with the weighting `Drawn` and the same energy, to sample slices with density proportional to
    their energy. A proposal with larger energy is always accepted. Any other is accepted with the ratio of the two
    energies as probability.

    Args:
        propose: The move that makes proposals. It must be symmetric: a proposal must be as likely from the slice as the
            slice is from the proposal. `Afresh` (uniform) and `Spread` (around the slice) are.
        energy: The `Energy`.

    Returns:
        When called with slices (*batch, L, d), a problem and random numbers: slices (*batch, L, d) of unit length.

    Example:
        >>> import torch
        >>> from slicewise.parts import Afresh, Energy, Metropolis
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> Metropolis(Afresh(), Energy())(torch.eye(2), problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([2, 2])
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
