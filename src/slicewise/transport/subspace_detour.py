"""Subspace detours: transport that is optimal on a subspace, extended to the whole space.

B. Muzellec, M. Cuturi, Subspace detours: building transport plans that are optimal on subspace projections,
2019. On the subspace the plan is the optimal one; what is left of two matched points, orthogonal to it, is
coupled independently (Monge–Independent) or optimally (Monge–Knothe).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from slicewise.support import (
    Result,
    check_basis,
    check_choice,
    check_finite,
    check_samples,
    check_weights,
    takes_arrays,
)
from slicewise.transport.autograd import root
from slicewise.transport.exact import exact_extra, masses_of, pairs_of

Kind = Literal["knothe", "independent"]
Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Detour(Result):
    """A plan by way of a subspace, and the distance it moves samples by: at least W_2."""

    value: Tensor  # (*batch,), √ E_π ‖x − y‖², float64; differentiable in x and y
    plan: Tensor  # (*batch, n, m)


@dataclass(frozen=True, eq=False)
class GaussianDetour(Result):
    """The same between two normal laws. `map` is the matrix of the Monge–Knothe map; the other plan is no map."""

    value: Tensor  # (*batch,)
    cross: Tensor  # (*batch, d, d), Cov(x, y) under the plan
    map: Tensor | None  # (*batch, d, d): y − mean_y = map (x − mean_x)


@takes_arrays("x", "y", "basis", "x_weights", "y_weights")
def subspace_detour(
    x: Tensor,
    y: Tensor,
    basis: Tensor,
    *,
    kind: Kind = "knothe",
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
) -> Detour:
    """Compute the transport plan that is optimal on a subspace and extended from there, and its distance.

    On the span of `basis` the plan is the optimal one; what is left of two matched points, orthogonal to it, is coupled
    optimally ("knothe") or independently ("independent"). The two differ only where samples share a projection. Needs the
    extra `exact`.

    Args:
        x: samples (*batch, n, d).
        y: samples (*batch, m, d).
        basis: (d, k), orthonormal columns.
        kind: "knothe", the limit of optimal plans for a cost that counts the orthogonal part less and less where matched
            projections are of equal mass; or "independent".
        x_weights, y_weights: sample weights (n,) or (*batch, n) that sum to one.

    Returns:
        A `Detour`: `value` (*batch,), at least W_2, and `plan` (*batch, n, m).

    Raises:
        ValueError: for arguments that do not fit together.

    B. Muzellec, M. Cuturi, Subspace detours, 2019.

    >>> x, y = torch.tensor([[0.0, 0], [1, 1]]), torch.tensor([[0.0, 1], [1, 0]])
    >>> subspace_detour(x, y, torch.tensor([[1.0], [0]])).value  # by the first axis; W_2 is the same here
    tensor(1., dtype=torch.float64)
    """
    check_samples(x, y)
    check_choice("kind", kind, get_args(Kind))
    check_finite(x=x, y=y, basis=basis)
    check_weights("x_weights", x_weights, x)
    check_weights("y_weights", y_weights, y)
    _check_subspace(basis, x.shape[-1])
    there = (w if w is None else w.cpu() for w in (x_weights, y_weights))
    batch, pairs = pairs_of(x.cpu(), y.cpu(), *there)
    frame = _frame(basis.detach().double().cpu()).numpy()
    plans = [
        _plan(
            one.numpy() @ frame,
            other.numpy() @ frame,
            basis.shape[-1],
            kind,
            *masses_of(one, other, a, b),
        )
        for one, other, a, b in pairs
    ]
    plan = torch.as_tensor(np.stack(plans)).reshape(*batch, x.shape[-2], y.shape[-2]).to(x.device)
    # In double precision the expansion costs seven digits of a small distance; differences would cost n m d.
    moved = _moved(x.double(), y.double(), plan)
    return Detour(root(moved, 2), plan)


@takes_arrays("x_mean", "x_covariance", "y_mean", "y_covariance", "basis")
def gaussian_detour(
    x_mean: Tensor,
    x_covariance: Tensor,
    y_mean: Tensor,
    y_covariance: Tensor,
    basis: Tensor,
    *,
    kind: Kind = "knothe",
) -> GaussianDetour:
    """Compute the subspace detour between two normal laws, in closed form.

    Args:
        x_mean, y_mean: means (*batch, d).
        x_covariance, y_covariance: covariances (*batch, d, d), of full rank.
        basis: (d, k), orthonormal columns.
        kind: "knothe" or "independent", as in `subspace_detour`.

    Returns:
        A `GaussianDetour`: `value` (*batch,), `cross` (*batch, d, d), and `map` for "knothe".

    Raises:
        ValueError: for arguments that do not fit together.

    >>> mean, one = torch.zeros(2).double(), torch.eye(2).double()
    >>> gaussian_detour(mean, one, mean + 3, 4 * one, one[:, :1]).value ** 2  # 3² + 3² and (2 − 1)² twice
    tensor(20.0000, dtype=torch.float64)
    """
    check_choice("kind", kind, get_args(Kind))
    d = x_mean.shape[-1]
    _check_subspace(basis, d)
    _check_covariance("x_covariance", x_covariance, d)
    _check_covariance("y_covariance", y_covariance, d)
    frame = _frame(basis.double()).to(x_mean.device)
    k = basis.shape[-1]
    a, b = (frame.mT @ c.double() @ frame for c in (x_covariance, y_covariance))
    inside = _monge(a[..., :k, :k], b[..., :k, :k])
    into = torch.linalg.solve(b[..., :k, :k], b[..., :k, :])  # from what is inside to all of y
    cross = a[..., :, :k] @ inside @ into  # what the matched parts say of the rest
    matrix = None
    if kind == "knothe" and k < d:
        lower = torch.linalg.solve(
            a[..., :k, :k], a[..., :k, k:]
        ).mT  # of x, regressed on its inside
        rest_a = a[..., k:, k:] - lower @ a[..., :k, k:]
        rest_b = b[..., k:, k:] - into[..., k:].mT @ b[..., :k, k:]
        outside = _monge(rest_a, rest_b)
        corner = into[..., k:].mT @ inside - outside @ lower
        above = torch.cat([inside, torch.zeros_like(corner.mT)], dim=-1)
        matrix = torch.cat([above, torch.cat([corner, outside], dim=-1)], dim=-2)
        cross = a @ matrix.mT
    elif kind == "knothe":
        matrix = inside
    gap = (x_mean.double() - y_mean.double()).square().sum(dim=-1)
    spread = (a + b - 2 * cross).diagonal(dim1=-2, dim2=-1).sum(dim=-1)
    value = root((gap + spread).clamp(min=0), 2)
    turned = None if matrix is None else frame @ matrix @ frame.mT
    return GaussianDetour(value, frame @ cross @ frame.mT, turned)


def _check_subspace(basis: Tensor, d: int) -> None:
    check_basis(basis)
    if basis.dim() != 2 or basis.shape[0] != d:
        raise ValueError(
            f"basis has shape {tuple(basis.shape)}, but samples have d = {d}: give ({d}, k), a column for each "
            f"direction of the subspace, e.g. effective_subspace(x, y).basis[:, :2]"
        )


def _check_covariance(name: str, covariance: Tensor, d: int) -> None:
    if covariance.dim() < 2 or covariance.shape[-2:] != (d, d):
        raise ValueError(f"{name} has shape {tuple(covariance.shape)}: give (*batch, {d}, {d})")
    check_finite(**{name: covariance})
    wide = covariance.detach().double()
    values = torch.linalg.eigvalsh(wide)
    size = values.abs().amax()
    skew = (wide - wide.mT).abs().max()
    if skew > 1e-6 * size or values.min() <= 1e-12 * size:
        raise ValueError(
            f"{name} is no covariance of full rank (eigenvalues from {values.min():g} to {values.max():g}, asymmetry {skew:g}): "
            f"give a symmetric positive definite matrix, e.g. with a small multiple of the identity added"
        )


def _frame(basis: Tensor) -> Tensor:
    """The basis, completed to one of the whole space."""
    rest = torch.linalg.qr(basis, mode="complete").Q[:, basis.shape[-1] :]
    return torch.cat([basis, rest], dim=-1)


def _plan(x: Array, y: Array, k: int, kind: Kind, a: Array, b: Array) -> Array:
    with exact_extra():
        import ot
    # Rounding must not part samples that share a projection.
    grain = 1e-12 * max(np.abs(x).max(), np.abs(y).max(), np.finfo(float).tiny)
    (left, of_x), (right, of_y) = (_groups(t[:, :k], grain) for t in (x, y))
    a_left, b_right = np.bincount(of_x, a), np.bincount(of_y, b)
    matched = ot.emd(a_left, b_right, _squares(left, right), numItermax=10_000_000)
    plan = np.zeros((len(x), len(y)))
    for g, h in zip(*np.nonzero(matched), strict=True):
        rows, columns = np.flatnonzero(of_x == g), np.flatnonzero(of_y == h)
        shares = a[rows] / a_left[g], b[columns] / b_right[h]
        if kind == "independent" or len(rows) == 1 or len(columns) == 1:
            within = np.outer(*shares)
        else:
            within = ot.emd(*shares, _squares(x[rows, k:], y[columns, k:]), numItermax=10_000_000)
        plan[np.ix_(rows, columns)] += matched[g, h] * within
    return plan


def _groups(points: Array, grain: float) -> tuple[Array, Array]:
    """The different points, and which of them each is."""
    _, first, which = np.unique(
        np.round(points / grain), axis=0, return_index=True, return_inverse=True
    )
    return points[first], which.reshape(-1)


def _squares(x: Array, y: Array) -> Array:
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def _moved(x: Tensor, y: Tensor, plan: Tensor) -> Tensor:
    middle = x.detach().mean(dim=-2, keepdim=True)  # around the origin less is lost
    x, y = x - middle, y - middle
    own = (plan.sum(dim=-1) * x.square().sum(dim=-1)).sum(dim=-1)
    other = (plan.sum(dim=-2) * y.square().sum(dim=-1)).sum(dim=-1)
    return (own + other - 2 * (plan * (x @ y.mT)).sum(dim=(-2, -1))).clamp(min=0)


def _monge(a: Tensor, b: Tensor) -> Tensor:
    """The matrix of the optimal map between centred normal laws: A^(−½) (A^½ B A^½)^½ A^(−½)."""
    half = _power(a, 0.5)
    back = _power(a, -0.5)
    return back @ _power(half @ b @ half, 0.5) @ back


def _power(matrix: Tensor, exponent: float) -> Tensor:
    values, vectors = torch.linalg.eigh(matrix)
    return (
        vectors * values.clamp(min=torch.finfo(values.dtype).tiny).pow(exponent).unsqueeze(-2)
    ) @ vectors.mT
