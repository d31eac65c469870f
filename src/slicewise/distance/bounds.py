"""How large the largest slice can be: a number that no direction exceeds, beside the one an ascent found."""

from __future__ import annotations

import torch
from torch import Tensor

from slicewise.problem import Problem, span_of
from slicewise.transport import plan_on_lines, root

_SPLIT = (5**0.5 - 1) / 2


def is_frame(slices: Tensor) -> bool:
    """Are these slices (*batch, K, d) orthonormal, each set of them?"""
    slices = slices.detach().double()
    one = torch.eye(slices.shape[-2], dtype=slices.dtype, device=slices.device)
    return bool(((slices @ slices.mT - one).abs() < 1e-4).all())


def most_of_slices(problem: Problem, slices: Tensor, *, n_steps: int = 30) -> Tensor:
    """An upper bound (*batch,) of the mean W_p^p of any K orthonormal slices, from K of them (*batch, K, d).

    Every coupling π of the two sets prices every slice from above, W_p^p along θ ≤ E_π |θ·(x − y)|^p. For p = 2
    that is θᵀVθ with V = E_π (x − y)(x − y)ᵀ, so no K orthonormal slices have a mean above that of V's K largest
    eigenvalues (for K = 1: λ_max). For p < 2 it is at most (θᵀVθ)^(p/2), by Jensen; for p > 2 at most
    θᵀV′θ with V′ = E_π ‖x − y‖^(p−2) (x − y)(x − y)ᵀ.

    π begins as the mean of the monotone couplings along the given slices. If these are a maximum they are
    eigenvectors of V, and if they are its first ones, value and bound are one and the same: a proof. Else π is
    mixed, `n_steps` times, with the coupling along V's first eigenvectors, in the proportion that is best: a
    mixture of couplings is one, so the bound falls and stays true. What remains is in part the gap between slices
    and couplings (min over π of λ_max is `subspace_robust_wasserstein` with k = 1), in part the ascent's.
    """
    with torch.no_grad():
        problem = problem.detached()
        k = slices.shape[-2]
        span = span_of(problem)  # the rest of R^d adds nothing to V, and may be large
        x, y = (span.reduce(t).double() for t in (problem.x, problem.y))
        start = (slices.double() @ span.basis.double()).expand(*problem.batch, k, span.k)
        moment = _moment(problem, x, y, start)
        for _ in range(n_steps):
            first = torch.linalg.eigh(moment).eigenvectors[..., -min(k, span.k) :]
            moment = _mixed(moment, _moment(problem, x, y, first.mT), k)
        top = _top(moment, k)
        power = top if problem.p >= 2 else root(top, 2 / problem.p)
        return power.to(problem.x.dtype)


def _moment(problem: Problem, x: Tensor, y: Tensor, slices: Tensor) -> Tensor:
    """V (*batch, d, d) of the mean of the monotone couplings along slices (*batch, K, d)."""
    batch = problem.batch
    x, y = (t.expand(*batch, *t.shape[-2:]).unsqueeze(-3) for t in (x, y))  # (*batch, 1, n, d)
    a, b = (None if w is None else w.unsqueeze(-2) for w in (problem.x_weights, problem.y_weights))
    u, v = ((slices.unsqueeze(-2) @ t.mT).squeeze(-2) for t in (x, y))  # (*batch, K, n)
    i, j, mass = plan_on_lines(u, v, u_weights=a, v_weights=b)
    gap = torch.take_along_dim(x, i.unsqueeze(-1), dim=-2) - torch.take_along_dim(
        y, j.unsqueeze(-1), dim=-2
    )
    mass = mass.double().expand(gap.shape[:-1])
    gap = torch.where(mass.unsqueeze(-1) > 0, gap, 0)  # absent samples may lie anywhere
    if problem.p > 2:
        mass = mass * gap.square().sum(dim=-1) ** (problem.p / 2 - 1)
    return (gap.mT @ (mass.unsqueeze(-1) * gap)).mean(dim=-3)


def _mixed(one: Tensor, other: Tensor, k: int) -> Tensor:
    """The mixture of two second moments whose first eigenvalues are least, by golden section: it is convex."""
    low = torch.zeros(one.shape[:-2], dtype=one.dtype, device=one.device)
    high = torch.ones_like(low)

    def at(share: Tensor) -> Tensor:
        return torch.lerp(one, other, share[..., None, None])

    for _ in range(20):
        left, right = high - _SPLIT * (high - low), low + _SPLIT * (high - low)
        falls = _top(at(left), k) > _top(at(right), k)
        low, high = torch.where(falls, left, low), torch.where(falls, high, right)
    best = at((low + high) / 2)
    worse = _top(best, k) > _top(one, k)
    return torch.where(worse[..., None, None], one, best)


def _top(moment: Tensor, k: int) -> Tensor:
    """The sum of the k largest eigenvalues over k; a moment of less than k dimensions has zeros besides."""
    return torch.linalg.eigvalsh(moment)[..., -k:].sum(dim=-1) / k
