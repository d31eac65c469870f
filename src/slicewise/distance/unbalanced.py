"""Unbalanced sliced transport: mass may be created and destroyed, at a price.

Both problems relax the marginals by Kullback–Leibler divergences and are solved in their duals by Frank–Wolfe steps,
each of which needs the potentials of balanced transport on lines: a merge of sorted lines. Samples are sorted once.

References:
    T. Séjourné, F.-X. Vialard, G. Peyré, Faster unbalanced optimal transport: translation invariant Sinkhorn and 1-D
    Frank–Wolfe, 2022; C. Bonet et al., Slicing unbalanced optimal transport, 2025.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slicewise.distance.request import matcher_for, prepare, problem_for, recipe_for
from slicewise.laws import refuse_laws
from slicewise.sampling import Generators
from slicewise.support import (
    Result,
    broadcast,
    check_choice,
    check_count,
    check_finite,
    check_weights,
    full_precision,
    takes_arrays,
    values_readable,
)
from slicewise.transport import order_of, potentials_on_lines, project, slice_costs
from slicewise.variants import Recipe, Variant

Marginals = Literal["per_slice", "shared"]


@dataclass(frozen=True, eq=False)
class Unbalanced(Result):
    """An unbalanced sliced distance with its details.

    Attributes:
        value: the mean over slices of transport and penalties, (*batch,); differentiable in samples and weights.
        transport: what transport between the new marginals costs, without the penalties, (*batch,).
        costs: transport and penalties of each slice, (*batch, L); with shared marginals, transport alone.
        x_marginal: what is transported of each sample of x, (*batch, L, n), or (*batch, n) if marginals are shared.
        y_marginal: the same for y.
        mass: how much mass is transported, (*batch, L), or (*batch,) if marginals are shared.
        gap: the duality gap, (*batch,): the value exceeds the minimum by at most this.
        slices: the slices, (*batch, L, d).
    """

    value: Tensor
    transport: Tensor
    costs: Tensor
    x_marginal: Tensor
    y_marginal: Tensor
    mass: Tensor
    gap: Tensor
    slices: Tensor

    def __repr__(self) -> str:
        many = f"{self.slices.shape[-2]} slices"
        if self.value.dim():
            return f"Unbalanced({many}, batch {tuple(self.value.shape)})"
        return (
            f"Unbalanced(value {float(self.value.detach()):.4g}, gap {float(self.gap):.2g}, {many})"
        )


class Relaxed(NamedTuple):
    """The end of Frank–Wolfe steps. Leading dimensions are (*batch, L), without L for what slices share."""

    f: Tensor  # (..., n), dual potentials, in the order of samples
    g: Tensor  # (..., m)
    x_marginal: Tensor  # (..., n)
    y_marginal: Tensor  # (..., m)
    x_share: Tensor  # x_marginal in another scale, in which it does not vanish
    y_share: Tensor
    mass: Tensor  # (...)
    costs: Tensor  # (*batch, L), transport between the marginals, of mass one
    penalty: Tensor  # (...), the divergences of the marginals, times their factors
    dual: Tensor  # (...), a lower bound of the minimum


@takes_arrays("x", "y", "x_weights", "y_weights", "slices")
def unbalanced(
    x: Tensor,
    y: Tensor,
    penalty: float | Sequence[float] = 1.0,
    *,
    marginals: Marginals = "per_slice",
    variant: str | Variant | Recipe = "sw",
    p: float = 2,
    max_steps: int = 50,
    n_slices: int | None = None,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    slices: Tensor | None = None,
    generator: Generators = None,
    **options: Any,
) -> Unbalanced:
    """Compute an unbalanced sliced-Wasserstein distance: outliers may stay where they are, at a price.

    Use it for sets of different mass, or with outliers, that should not be matched at all costs. The marginals π₁, π₂
    that are transported may differ from the weights a, b of the samples. The value is

        min W_p^p(π₁, π₂) + penalty₁ KL(π₁ | a) + penalty₂ KL(π₂ | b)

    on each slice, averaged ("per_slice"); or SW_p^p of one pair of marginals for all slices, plus the penalties
    ("shared"), whose marginals say which samples are outliers.

    Args:
        x: samples (*batch, n, d).
        y: samples (*batch, m, d).
        penalty: the factor of the divergences, positive, one or a pair. Infinity keeps a marginal as it is.
        marginals: "per_slice" or "shared".
        variant: where slices come from: a name of `VARIANTS` whose slices are lines, or a `Recipe`. Only its slicer is
            used.
        p: the order.
        max_steps: the number of Frank–Wolfe steps. `gap` of the result says how far from the minimum they ended.
        n_slices: the number of slices; that of the variant by default.
        x_weights: weights (n,) or (*batch, n), at least 0; their sum is the mass of x. None is equal weights of sum one.
        y_weights: the same for y.
        slices: slices (L, d) or (*batch, L, d) in place of drawn ones.
        generator: the source of random draws.
        options: further options of the variant.

    Returns:
        The `Unbalanced` distance. Its value is a power, not a root.

    Raises:
        ValueError: for arguments that do not fit together, and for sets of different mass if both penalties are
            infinite.

    >>> x = torch.tensor([[0.0], [0.1], [50.0]])  # the last one is an outlier
    >>> y = torch.tensor([[0.0], [0.1]])
    >>> unbalanced(x, y, 1.0, marginals="shared").x_marginal.round(decimals=2)
    tensor([0.4100, 0.4100, 0.0000])

    References:
        C. Bonet et al., Slicing unbalanced optimal transport, 2025.
    """
    refuse_laws("unbalanced", x, y)
    check_choice("marginals", marginals, ("per_slice", "shared"))
    check_count("max_steps", max_steps)
    penalties = penalty_pair(penalty)
    recipe = recipe_for(variant, n_slices, options)
    recipe.check_linear("an unbalanced distance")
    problem = problem_for(x, y, p, None, None, "mean", 0.0, "auto")
    for name, weights, samples in (("x_weights", x_weights, x), ("y_weights", y_weights, y)):
        check_weights(name, weights, samples, share=True)
    a, b = (equal_masses(t) if w is None else w for t, w in ((problem.x, x_weights), (problem.y, y_weights)))  # fmt: skip
    check_finite(x=problem.x, y=problem.y)
    if values_readable(a, b):
        _check_masses(a.detach(), b.detach(), penalties)
    ready = prepare(recipe, problem.detached(), generator, slices, n_slices=n_slices)
    with full_precision(x.device.type):
        u, v = (project(t, ready.slices) for t in (problem.x, problem.y))
        batch = broadcast(problem.batch, a.shape[:-1], b.shape[:-1])
        u, v = (t.expand(*batch, *t.shape[-2:]) for t in (u, v))
        a, b = (w.expand(*batch, w.shape[-1]) for w in (a, b))
        with torch.no_grad():
            still = (u.detach(), v.detach(), a.detach(), b.detach())
            shared = marginals == "shared"
            found = _relaxed(*still, penalties, p, max_steps, shared=shared)
        return _with_details(found, u, v, a, b, penalties, p, ready.slices)


def _check_masses(a: Tensor, b: Tensor, penalties: tuple[float, float]) -> None:
    """Both sides have some mass, and one mass if it must stay as it is; in every element of a batch."""
    x_mass, y_mass = torch.broadcast_tensors(a.sum(dim=-1), b.sum(dim=-1))
    for name, mass in (("x_weights", x_mass), ("y_weights", y_mass)):
        if not bool((mass > 0).all()):
            raise ValueError(f"{name} sum to 0: give at least one sample a positive weight")
    if penalties != (math.inf, math.inf):
        return
    off = ((x_mass - y_mass).abs() / torch.maximum(x_mass, y_mass)).flatten()
    worst = int(off.argmax())
    if float(off[worst]) > 1e-4:
        raise ValueError(
            f"penalty = inf keeps both marginals, but x_weights sum to {float(x_mass.flatten()[worst]):g} and "
            f"y_weights to {float(y_mass.flatten()[worst]):g}: give weights of one sum, or a finite penalty"
        )


def penalty_pair(penalty: float | Sequence[float]) -> tuple[float, float]:
    """One factor for each marginal, from one number or a pair."""
    found = penalty.tolist() if isinstance(penalty, (Tensor, np.ndarray, np.generic)) else penalty
    pair = [found] if isinstance(found, (int, float)) else list(found)
    numbers = all(isinstance(one, (int, float)) and one > 0 for one in pair)
    if len(pair) not in (1, 2) or not numbers:
        raise ValueError(
            f"penalty = {penalty!r}: give one number, or one for each marginal, above 0 each (infinity keeps one)"
        )
    return float(pair[0]), float(pair[-1])


def equal_masses(samples: Tensor) -> Tensor:
    """Equal weights (n,) of sum one."""
    n = samples.shape[-2]
    return torch.full((n,), 1 / n, dtype=samples.dtype, device=samples.device)


def _relaxed(
    u: Tensor,
    v: Tensor,
    a: Tensor,
    b: Tensor,
    penalties: tuple[float, float],
    p: float,
    max_steps: int,
    *,
    shared: bool,
) -> Relaxed:
    """Relax the marginals of lines u (..., L, n), v (..., L, m) by Frank–Wolfe steps; weights are (..., n) and (..., m).

    Each line has marginals of its own, or all share one pair.
    """
    if not shared:
        a, b = (w.unsqueeze(-2).expand(*t.shape[:-1], -1) for w, t in ((a, u), (b, v)))
    orders = (order_of(u), order_of(v))
    lines = (u.gather(-1, orders[0]), v.gather(-1, orders[1]))
    f, g = torch.zeros_like(a), torch.zeros_like(b)

    def balanced(x_marginal: Tensor, y_marginal: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Potentials of transport between the marginals, averaged if slices share them; and its cost on each line."""
        if shared:
            x_marginal, y_marginal = x_marginal.unsqueeze(-2), y_marginal.unsqueeze(-2)
        up, down, cost = potentials_on_lines(*lines, orders, x_marginal, y_marginal, p=p)
        return (up.mean(dim=-2), down.mean(dim=-2), cost) if shared else (up, down, cost)

    for i in range(max_steps):
        f, g, x_share, y_share, _, _ = _translated(f, g, a, b, penalties)
        up, down, _ = balanced(x_share, y_share)
        t = 2 / (2 + i)
        f, g = torch.lerp(f, up, t), torch.lerp(g, down, t)
    f, g, x_share, y_share, x_marginal, y_marginal = _translated(f, g, a, b, penalties)
    _, _, costs = balanced(x_share, y_share)
    penalty, dual = torch.zeros_like(f[..., 0]), torch.zeros_like(f[..., 0])
    for potential, marginal, weights, rho in ((f, x_marginal, a, penalties[0]), (g, y_marginal, b, penalties[1])):  # fmt: skip
        if rho == math.inf:
            dual = dual + (weights * potential).sum(dim=-1)
            continue
        # KL of marginal = weights · exp(−potential / ρ).
        off = weights.sum(dim=-1) - marginal.sum(dim=-1)
        penalty = penalty + rho * off - (marginal * potential).sum(dim=-1)
        dual = dual + rho * off
    mass = x_marginal.sum(dim=-1)
    return Relaxed(f, g, x_marginal, y_marginal, x_share, y_share, mass, costs, penalty, dual)


def _translated(
    f: Tensor, g: Tensor, a: Tensor, b: Tensor, penalties: tuple[float, float]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Potentials f + λ, g − λ with the best λ, at which both marginals have one mass; and these marginals.

    Before the marginals themselves, which vanish under small penalties, come multiples of them that do not.
    """
    rho, sigma = penalties
    x_scale, x_share = _weighed(f, a, rho)
    y_scale, y_share = _weighed(g, b, sigma)
    if rho == sigma == math.inf:
        return f, g, x_share, y_share, x_share, y_share
    tau = 1 / (1 / rho + 1 / sigma)  # 1 / inf is 0
    # Masses as logarithms, which do not overflow.
    x_mass, y_mass = (m.sum(dim=-1, keepdim=True) for m in (x_share, y_share))
    shift = tau * ((x_scale + x_mass.log()) - (y_scale + y_mass.log()))
    x_marginal = x_share if rho == math.inf else x_share * (x_scale - shift / rho).exp()
    y_marginal = y_share if sigma == math.inf else y_share * (y_scale + shift / sigma).exp()
    return f + shift, g - shift, x_share, y_share, x_marginal, y_marginal


def _weighed(potential: Tensor, weights: Tensor, rho: float) -> tuple[Tensor, Tensor]:
    """weights · exp(−potential / ρ), as a factor's logarithm (..., 1) and the rest."""
    if rho == math.inf:
        return torch.zeros_like(potential[..., :1]), weights
    power = potential / -rho
    # The largest of what has weight: a sample without any may have any potential.
    scale = torch.where(weights > 0, power, -math.inf).amax(dim=-1, keepdim=True)
    return scale, weights * torch.where(weights > 0, power - scale, 0).exp()


def _with_details(
    found: Relaxed,
    u: Tensor,
    v: Tensor,
    a: Tensor,
    b: Tensor,
    penalties: tuple[float, float],
    p: float,
    slices: Tensor,
) -> Unbalanced:
    """The value with its gradients: marginals are held, since the minimum does not change with them to first order."""
    shared = found.mass.dim() < u.dim() - 1
    costs = found.costs
    if torch.is_grad_enabled() and (u.requires_grad or v.requires_grad):
        x_share, y_share = (
            (m / m.sum(dim=-1, keepdim=True)).to(u.dtype) for m in (found.x_share, found.y_share)
        )
        if shared:
            x_share, y_share = x_share.unsqueeze(-2), y_share.unsqueeze(-2)
        along, matcher = slices.new_ones(1, 1), matcher_for("auto", u, v)
        on_lines = (u.unsqueeze(-1), v.unsqueeze(-1), along, x_share.expand(u.shape), y_share.expand(v.shape))  # fmt: skip
        costs = slice_costs(*on_lines, p=p, matcher=matcher).squeeze(-1)
    if shared:
        carried = found.mass.unsqueeze(-1) * costs
        transport = carried.mean(dim=-1)
        value, gap = transport + found.penalty, transport.detach() + found.penalty - found.dual
    else:
        moved = found.mass * costs
        transport, carried = moved.mean(dim=-1), moved + found.penalty
        value, gap = carried.mean(dim=-1), (carried.detach() - found.dual).mean(dim=-1)
    for potential, weights, rho in ((found.f, a, penalties[0]), (found.g, b, penalties[1])):
        if weights.requires_grad and torch.is_grad_enabled():
            rate = potential if rho == math.inf else rho * -torch.expm1(potential / -rho)
            rate = rate if shared else rate.mean(dim=-2)
            pulled = (weights * rate).sum(dim=-1)
            value = value + (pulled - pulled.detach())
    return Unbalanced(
        value,
        transport,
        carried,
        found.x_marginal,
        found.y_marginal,
        found.mass,
        gap.clamp(min=0),
        slices,
    )
