"""Subspace-robust Wasserstein: transport judged in the k dimensions in which it is worst.

F.-P. Paty, M. Cuturi, Subspace robust Wasserstein distances, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slicewise.support import (
    Result,
    check_count,
    check_finite,
    check_samples,
    check_weights,
    renamed_arguments,
    takes_arrays,
)
from slicewise.transport.autograd import root
from slicewise.transport.exact import exact_extra, masses_of, pairs_of

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class SubspaceRobust(Result):
    """S_k and what proves it: `lower` ≤ S_k ≤ `upper`.

    With an entropy, bounds and value are of max over Ω of min over π of ⟨Ω, V_π⟩ + entropy · KL(π, a ⊗ b).
    """

    renamed = {"steps": "n_steps"}  # noqa: RUF012

    value: Tensor  # (*batch,), the root of the larger of what was found; differentiable in x and y
    lower: Tensor  # (*batch,)
    upper: Tensor
    metric: Tensor  # (*batch, d, d), Ω: eigenvalues in [0, 1] that sum to k
    plan: Tensor  # (*batch, n, m), π
    n_steps: Tensor  # (*batch,), how many transports were solved


@renamed_arguments(steps="max_steps")
@takes_arrays("x", "y", "x_weights", "y_weights")
def subspace_robust_wasserstein(
    x: Tensor,
    y: Tensor,
    k: int,
    *,
    entropy: float | None = None,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    tolerance: float = 1e-3,
    max_steps: int = 500,
) -> SubspaceRobust:
    """Compute the subspace-robust Wasserstein distance S_k: transport judged in the k dimensions in which it is worst.

    S_k² = min_π of the sum of the k largest eigenvalues of V_π = E_π (x − y)(x − y)ᵀ; a metric for exact transport. S_d
    is W_2, and S_1 is at least max-sliced W_2. The dual, max over 0 ≤ Ω ≤ 1 with tr Ω = k of the transport cost under
    ⟨Ω, (x − y)(x − y)ᵀ⟩, is concave in Ω; it is climbed by projected steps of the length that would close the gap to the
    least upper bound so far. Transport is solved by POT (the extra `exact`).

    Args:
        x: samples (*batch, n, d).
        y: samples (*batch, m, d).
        k: the dimension of the subspace, 1 to d.
        entropy: of the transport, in units of squared distance; None is exact.
        x_weights, y_weights: sample weights (n,) or (*batch, n) that sum to one.
        tolerance: stop once upper² − lower² is at most this share of upper².
        max_steps: transports that may be solved.

    Returns:
        A `SubspaceRobust`: `value`, `lower`, `upper`, `metric`, `plan`, `n_steps`.

    Raises:
        ValueError: for arguments that do not fit together.

    F.-P. Paty, M. Cuturi, Subspace robust Wasserstein distances, 2019.

    >>> x, y = torch.zeros(3, 2), torch.tensor([3.0, 4.0]).expand(3, 2)
    >>> subspace_robust_wasserstein(x, y, k=1).value
    tensor(5., dtype=torch.float64)
    """
    check_samples(x, y)
    check_count("k", k)
    check_count("max_steps", max_steps)
    check_finite(x=x, y=y)
    check_weights("x_weights", x_weights, x)
    check_weights("y_weights", y_weights, y)
    d = x.shape[-1]
    if k > d:
        raise ValueError(f"k = {k} dimensions of samples of d = {d}: give k <= {d}")
    if entropy is not None and not entropy > 0:
        raise ValueError(
            f"entropy = {entropy}: give a positive number, or None for exact transport"
        )
    there = (w if w is None else w.cpu() for w in (x_weights, y_weights))
    batch, pairs = pairs_of(x.cpu(), y.cpu(), *there)
    found = [
        _solved(
            one.numpy(),
            other.numpy(),
            *masses_of(one, other, a, b),
            k,
            entropy,
            tolerance,
            max_steps,
        )
        for one, other, a, b in pairs
    ]

    def stacked(name: str) -> Tensor:
        rows = [torch.as_tensor(getattr(one, name), dtype=torch.float64) for one in found]
        return torch.stack(rows).reshape((*batch, *rows[0].shape))

    lower, upper, metric, plan = (stacked(name) for name in ("lower", "upper", "metric", "plan"))
    # With Ω and π as they are, the value follows the samples: the derivative of a saddle point.
    cost = _cost(x, y, metric, plan)
    value = root(cost + (lower.square().to(cost.device) - cost.detach()), 2)
    return SubspaceRobust(value, lower, upper, metric, plan, stacked("n_steps"))


@dataclass(frozen=True)
class _Found:
    lower: float
    upper: float
    metric: Array
    plan: Array
    n_steps: int


def _solved(
    x: Array,
    y: Array,
    a: Array,
    b: Array,
    k: int,
    entropy: float | None,
    goal: float,
    max_steps: int,
) -> _Found:
    # Samples of weight zero take no part; their rows of the plan stay empty.
    whole, rows, columns = np.zeros((len(x), len(y))), np.flatnonzero(a), np.flatnonzero(b)
    x, y, a, b = x[rows], y[columns], a[rows], b[columns]
    # Around the origin and of size one: squares are then exact enough wherever the samples lie.
    middle = x.mean(0)
    x, y = x - middle, y - middle
    unit = max(np.abs(x).max(), np.abs(y).max()) or 1.0
    x, y, entropy = x / unit, y / unit, None if entropy is None else entropy / unit**2
    d = x.shape[1]
    omega = np.eye(d) * k / d
    best, upper = _Found(-np.inf, 0.0, omega, np.outer(a, b), 0), np.inf
    total, mass = np.zeros((d, d)), 0.0  # the moments of all plans so far, and their weights
    transport = _Transport(x, y, a, b, entropy)
    for solved in range(1, max_steps + 1):  # noqa: B007
        plan, value, beside = transport(omega)
        moment = _moment(x, y, plan)
        if value > best.lower:
            best = _Found(value, 0.0, omega, plan, 0)
        upper = min(upper, _first(moment, k) + beside)
        # Polyak's step, which reaches the bound if the dual is linear on the way there.
        slope = moment - np.trace(moment) / d * np.eye(d)
        size = float((slope**2).sum())
        step = (upper - value) / size if size > 0 else 0.0
        if entropy is None and step > 0:
            total, mass = total + step * moment, mass + step
            upper = min(upper, _first(total / mass, k))  # a mixture of plans is a plan
        omega = _projected(omega + step * moment, k)
        if upper - best.lower <= goal * upper:
            break
    lower = max(best.lower, 0.0)
    whole[np.ix_(rows, columns)] = best.plan
    return _Found(unit * lower**0.5, unit * max(upper, lower) ** 0.5, best.metric, whole, solved)


class _Transport:
    """Solves for the plan that is best under the cost of a metric; an entropic one begins where the last ended."""

    def __init__(self, x: Array, y: Array, a: Array, b: Array, entropy: float | None) -> None:
        self._x, self._y, self._a, self._b, self._entropy = x, y, a, b, entropy
        self._warm: tuple[Array, Array] | None = None

    def __call__(self, omega: Array) -> tuple[Array, float, float]:
        """A plan, a lower bound of the least cost (equal to it without entropy), and what its entropy adds."""
        with exact_extra():
            import ot
        values, vectors = np.linalg.eigh(omega)
        half = vectors * np.sqrt(np.clip(values, 0, None))
        costs = ot.dist(self._x @ half, self._y @ half)
        a, b, entropy = self._a, self._b, self._entropy
        if entropy is None:
            plan = ot.emd(a, b, costs, numItermax=10_000_000)
            return plan, float((plan * costs).sum()), 0.0
        # Logarithms cost ten times as much, and are needed where exp(−cost / entropy) is no number any more.
        in_logs = costs.max() > 500 * entropy
        # Whether it has converged is judged here, by bounds that hold for any potentials and any plan.
        plan, log = ot.sinkhorn(
            a,
            b,
            costs,
            entropy,
            method="sinkhorn_log" if in_logs else "sinkhorn",
            numItermax=1000,
            stopThr=1e-6,
            log=True,
            warn=False,
            warmstart=self._warm,
        )
        u, v = (log["log_u"], log["log_v"]) if in_logs else (np.log(log["u"]), np.log(log["v"]))
        self._warm = (u, v)
        dual = a @ (u - np.log(a)) + b @ (v - np.log(b)) + 1 - plan.sum()
        plan = _feasible(plan, a, b)
        some = plan > 0
        divergence = float((plan[some] * np.log(plan[some] / np.outer(a, b)[some])).sum())
        return plan, entropy * float(dual), entropy * divergence


def _feasible(plan: Array, a: Array, b: Array) -> Array:
    """A plan whose marginals are near a and b, made one whose marginals are (Altschuler et al., 2017)."""
    plan = plan * np.minimum(a / plan.sum(1), 1)[:, None]
    plan = plan * np.minimum(b / plan.sum(0), 1)
    left, right = a - plan.sum(1), b - plan.sum(0)
    missing = left.sum()
    return plan + np.outer(left, right) / missing if missing > 0 else plan


def _moment(x: Array, y: Array, plan: Array) -> Array:
    """V_π = E_π (x − y)(x − y)ᵀ."""
    cross = x.T @ plan @ y
    return (x.T * plan.sum(1)) @ x + (y.T * plan.sum(0)) @ y - cross - cross.T


def _first(moment: Array, k: int) -> float:
    """The sum of the k largest eigenvalues."""
    return float(np.linalg.eigvalsh(moment)[-k:].sum())


def _projected(omega: Array, k: int) -> Array:
    """The nearest matrix with eigenvalues in [0, 1] that sum to k: they are shifted alike, then cut."""
    values, vectors = np.linalg.eigh(omega)
    low, high = values.min() - 1, values.max()
    for _ in range(100):
        shift = (low + high) / 2
        if np.clip(values - shift, 0, 1).sum() > k:
            low = shift
        else:
            high = shift
    return (vectors * np.clip(values - high, 0, 1)) @ vectors.T


def _cost(x: Tensor, y: Tensor, metric: Tensor, plan: Tensor) -> Tensor:
    """⟨Ω, V_π⟩, (*batch,), differentiable in the samples."""
    middle = x.detach().double().mean(dim=-2, keepdim=True)
    x, y = x.double() - middle, y.double() - middle
    metric, plan = metric.to(x.device), plan.to(x.device)
    own = (plan.sum(dim=-1) * ((x @ metric) * x).sum(dim=-1)).sum(dim=-1)
    other = (plan.sum(dim=-2) * ((y @ metric) * y).sum(dim=-1)).sum(dim=-1)
    return own + other - 2 * (plan * (x @ metric @ y.mT)).sum(dim=(-2, -1))
