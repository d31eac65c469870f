"""The mean of several sets of samples: the set that is nearest to all of them along slices."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.distance import draw, randomness_of, recipe_for
from slicewise.problem import Problem, pad
from slicewise.sampling import Generators
from slicewise.steps import Pull, moved, pull_of
from slicewise.support import (
    Result,
    as_tensor,
    check_count,
    check_finite,
    check_generator,
    check_number,
    check_set,
    full_precision,
    given_back,
    one_thread,
    own_device,
)
from slicewise.transport import exact_extra

# Slices of a step, at least; more in high dimensions, where a frame is d of them.
_SLICES = 32
# Steps are whole at first, and then shrink as 1/t, which averages the noise of slices away.
_WHOLE_STEPS = 20
# The objective is compared with that of so many steps before.
_WINDOW = 20


@dataclass(frozen=True, eq=False, repr=False)
class Barycenter(Result):
    """The mean of several sets: what `barycenter` returns.

    Attributes:
        samples: the samples of the mean, (n, d).
        objective: Σ λ_k SW_2²(samples, set k), over the slices of the last steps.
        history: the objective of each step, over the slices of that step, (steps,).
        status: "arrived" if the objective fell no further, "out of steps" if `max_steps` came first.
    """

    samples: Tensor
    objective: float
    history: Tensor
    status: str

    @property
    def n_steps(self) -> int:
        """How many steps were made."""
        return len(self.history)

    def __repr__(self) -> str:
        return (
            f"Barycenter({self.status} after {self.n_steps} steps, objective {self.objective:.6g}, "
            f"samples {tuple(self.samples.shape)})"
        )


@own_device
def barycenter(
    sets: Tensor | Sequence[Tensor],
    weights: Sequence[float] | Tensor | None = None,
    *,
    n: int | None = None,
    sample_weights: Sequence[Tensor] | None = None,
    n_slices: int | None = None,
    max_steps: int = 500,
    tolerance: float = 1e-3,
    refine: int = 0,
    start: Tensor | None = None,
    generator: Generators = None,
) -> Barycenter:
    """Compute the sliced-Wasserstein barycenter of several sets, without a learning rate.

    It minimizes Σ λ_k SW_2²(x, set k) over the samples x. In every step the pulls of all sets along common slices are
    added, and the sum is followed by one computed length; once the objective stalls, steps shrink as 1/t. In one
    dimension the first step is the quantile average, which is exact; sets that are translates of each other have an
    exact barycenter from the start.

    Args:
        sets: K sets, a tensor (K, m, d) or a list of (m_k, d): tensors, or NumPy arrays.
        weights: λ, K numbers that are not negative, divided by their sum; None is equal ones.
        n: how many samples the barycenter has; None is as many as the set with the largest weight.
        sample_weights: sample weights of each set, a list of (m_k,), each summing to one.
        n_slices: slices of a step, in orthonormal frames; None is the least multiple of d that is at least 32.
        max_steps: the largest number of steps.
        tolerance: steps end once the mean objective of 20 of them is less than this share below that of the 20 before.
        refine: so many steps of exact transport at the end (extra `exact`), which cost n³ each: one is mostly enough to
            come within 1 % of the barycenter under W_2 itself, which is not that along slices.
        start: samples (n, d) to start from; None is the set with the largest weight, moved to the mean of all.
        generator: an int, a `torch.Generator`, or None for torch's global generator.

    Returns:
        A `Barycenter`.

    Raises:
        ValueError: for arguments that do not fit together.

    >>> shape = torch.randn(50, 2)
    >>> found = barycenter([shape, shape + 4], weights=[3, 1], generator=0)
    >>> torch.allclose(found.samples, shape + 1, atol=1e-5)
    True

    N. Bonneel et al., Sliced and Radon Wasserstein barycenters of measures, 2015.
    """
    many: list[Any] = list(sets)
    as_array = bool(many) and not isinstance(many[0], Tensor)
    given = [as_tensor(s) if isinstance(s, (np.ndarray, list)) else s for s in many]
    for k, one in enumerate(given):
        check_set(f"sets[{k}]", one)
        if one.dim() != 2 or one.shape[1] != given[0].shape[1]:
            raise ValueError(
                f"sets[{k}] has shape {tuple(one.shape)}: give sets (m, {given[0].shape[-1]}) of one dimension"
            )
        check_finite(**{f"sets[{k}]": one})
    check_count("n", n)
    check_count("n_slices", n_slices)
    check_count("max_steps", max_steps)
    check_count("refine", refine, at_least=0)
    check_number("tolerance", tolerance, above=0, or_equal=True)
    check_generator(generator)
    shares = _shares(weights, len(given))
    device = given[0].device
    with torch.no_grad(), full_precision(device.type), one_thread(device):
        y, masses = _stacked(given, sample_weights)
        x = _start(given, y, masses, shares, n, start, generator)
        found = _descend(x, y, masses, shares.to(y), n_slices, max_steps, tolerance, generator)
        if refine:
            found = dataclasses.replace(
                found, samples=_refined(found.samples, y, masses, shares, refine)
            )
    return given_back(found, as_list=False) if as_array else found


def _descend(
    x: Tensor,
    y: Tensor,
    masses: Tensor | None,
    shares: Tensor,
    n_slices: int | None,
    max_steps: int,
    tolerance: float,
    generator: Generators,
) -> Barycenter:
    d = x.shape[-1]
    many = n_slices or d * max(1, -(-_SLICES // d))
    recipe = recipe_for("orthosw", many, {})
    rng = randomness_of(generator, Problem(x, x))
    history: list[float] = []
    status, shrinking = "out of steps", 0
    for _ in range(max_steps):
        problem = Problem(x, y, 2.0, y_weights=masses)
        slices = draw(recipe, Problem(x, x), rng, None)[1]
        each = slices.new_full((len(y), len(slices)), 1 / len(slices))
        pulls = pull_of(problem, slices.expand(len(y), -1, -1), each)
        # One sum of unscaled pulls, then one length: scaling each first would move the fixed point.
        direction = (shares[:, None, None] * pulls.direction).sum(dim=0)
        costs = (shares[:, None] * pulls.costs).sum(dim=0)
        move = moved(Pull(Problem(x, x), slices, each[0], costs, direction))
        history.append(float(costs.mean()))
        x = x + move / (1 + shrinking)
        if shrinking:
            shrinking += 1
        far = move.square().sum(dim=-1).mean()
        if float(far) <= (1e-7 if x.dtype == torch.float32 else 1e-14) * float(history[-1]):
            status = "arrived"
            break
        if len(history) % _WINDOW == 0 and len(history) >= 2 * _WINDOW:
            before, now = (
                sum(h) / _WINDOW for h in (history[-2 * _WINDOW : -_WINDOW], history[-_WINDOW:])
            )
            if now > (1 - tolerance) * before:
                if shrinking > 2 * _WHOLE_STEPS:
                    status = "arrived"
                    break
                shrinking = max(shrinking, 1)
    last = history[-_WINDOW:]
    return Barycenter(x, sum(last) / len(last), torch.tensor(history), status)


def _shares(weights: Sequence[float] | Tensor | None, k: int) -> Tensor:
    if k == 0:
        raise ValueError("sets is empty: give at least one set (m, d)")
    if weights is None:
        return torch.full((k,), 1 / k, dtype=torch.float64)
    found = torch.as_tensor(weights, dtype=torch.float64).flatten()
    if len(found) != k:
        raise ValueError(f"weights are {len(found)}, but there are {k} sets: give one for each")
    if not bool(torch.isfinite(found).all()) or bool((found < 0).any()) or float(found.sum()) == 0:
        raise ValueError(
            f"weights = {found.tolist()}: give finite numbers of at least 0, not all of them 0"
        )
    return found / found.sum()


def _stacked(
    sets: list[Tensor], sample_weights: Sequence[Tensor] | None
) -> tuple[Tensor, Tensor | None]:
    """All sets as one batch (K, m, d), and sample weights (K, m) where sizes or weights differ."""
    wide = [s.to(torch.promote_types(s.dtype, torch.float32)) for s in sets]
    if sample_weights is None and len({len(s) for s in sets}) == 1:
        return torch.stack(wide), None
    y, masses = pad(wide)
    if sample_weights is not None:
        if len(sample_weights) != len(sets):
            raise ValueError(
                f"sample_weights are {len(sample_weights)}, but there are {len(sets)} sets: give one tensor for each"
            )
        for k, (own, one) in enumerate(zip(sample_weights, wide, strict=True)):
            mass = torch.as_tensor(own).to(masses)
            if (
                mass.shape != (len(one),)
                or bool((mass < 0).any())
                or abs(float(mass.sum()) - 1) > 1e-3
            ):
                raise ValueError(
                    f"sample_weights[{k}] has shape {tuple(mass.shape)} and sum {float(mass.sum()):g}: give "
                    f"({len(one)},) that is not negative and sums to 1"
                )
            masses[k, : len(one)] = mass
    return y, masses


def _start(
    sets: list[Tensor],
    y: Tensor,
    masses: Tensor | None,
    shares: Tensor,
    n: int | None,
    start: Tensor | None,
    generator: Generators,
) -> Tensor:
    if start is not None:
        check_set("start", start)
        if start.dim() != 2 or start.shape[1] != y.shape[-1] or (n is not None and len(start) != n):
            raise ValueError(
                f"start has shape {tuple(start.shape)}: give ({n or 'n'}, {y.shape[-1]})"
            )
        return start.to(y)
    k = int(shares.argmax())
    first = sets[k].to(y)
    mass = (
        torch.full((len(first),), 1 / len(first)).to(y)
        if masses is None
        else masses[k, : len(first)]
    )
    means = y.mean(dim=1) if masses is None else (masses.unsqueeze(-1) * y).sum(dim=1)
    uneven = bool((mass - mass[0]).abs().max() > 1e-6 * mass[0])
    if uneven or (n is not None and n != len(first)):
        # Evenly spaced levels of the cumulative weights; between few samples a little noise tells copies apart.
        n = n or len(first)
        levels = (torch.arange(n, device=y.device, dtype=torch.float64) + 0.5) / n
        chosen = torch.searchsorted(mass.double().cumsum(dim=0), levels).clamp(max=len(first) - 1)
        first = first[chosen]
        if n > len(chosen.unique()):
            problem = Problem(first, first)
            spread = first.std(dim=0, correction=0) / len(sets[k]) ** (1 / first.shape[1])
            noise = randomness_of(generator, problem).normal(*first.shape).to(first)
            first = first + 0.1 * spread * noise
    target = (shares.to(y).unsqueeze(-1) * means).sum(dim=0)
    return first + (target - means[k])


def _refined(x: Tensor, y: Tensor, masses: Tensor | None, shares: Tensor, n_steps: int) -> Tensor:
    """Move each sample to the mean of its partners under exact transport, some times."""
    with exact_extra():
        import ot
    for _ in range(n_steps):
        target = torch.zeros_like(x)
        for k, share in enumerate(shares.tolist()):
            present = slice(None) if masses is None else masses[k] > 0
            to = y[k][present]
            b = (
                np.full(len(to), 1 / len(to))
                if masses is None
                else masses[k][present].double().cpu().numpy()
            )
            costs = torch.cdist(x.double(), to.double()).square().cpu().numpy()
            plan = ot.emd(np.full(len(x), 1 / len(x)), b / b.sum(), costs, numItermax=10_000_000)
            target += share * len(x) * torch.from_numpy(plan).to(x) @ to
        x = target
    return x
