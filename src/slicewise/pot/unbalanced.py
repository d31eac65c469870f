"""Unbalanced sliced transport as POT calls it."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from slicewise.distance import Unbalanced, equal_masses, penalty_pair, unbalanced
from slicewise.pot.arrays import Array, ArrayKind, Seed, kind_of
from slicewise.pot.distances import check_dimensions
from slicewise.pot.projections import random_projections
from slicewise.support import check_choice


def sliced_unbalanced_ot(
    X_s: Array,
    X_t: Array,
    reg_m: Any,
    a: Array = None,
    b: Array = None,
    n_projections: int = 50,
    p: float = 2,
    projections: Array = None,
    seed: Seed = None,
    numItermax: int = 10,
    log: bool = False,
) -> Any:
    """Compute sliced unbalanced transport, with POT's arguments; see `slicewise.unbalanced`.

    Args:
        X_s: samples (n, d), tensors or JAX arrays as in POT; `slicewise.unbalanced` takes NumPy arrays, too.
        X_t: samples (m, d).
        reg_m: the factor of the divergences: one number, or one for each marginal. Infinity keeps a marginal.
        a, b: weights (n,) and (m,), at least 0.
        n_projections: the number of directions.
        p: the order, at least 1.
        projections: directions as columns (d, L), in place of drawn ones.
        seed: an int, a NumPy RandomState or Generator, or a torch.Generator.
        numItermax: the number of Frank–Wolfe steps.
        log: also return a dict with "projections", "projected_uots", "a_reweighted" and "b_reweighted".

    Returns:
        The value (a power), and with `log` the dict; reweighted marginals are (n, L) and (m, L).

    Raises:
        AssertionError: for NumPy arrays, as in POT.
        ValueError: for samples of different dimensions.
    """
    kind, found, columns = _solved(
        "per_slice", X_s, X_t, reg_m, a, b, n_projections, p, projections, seed, numItermax
    )
    value = kind.back(found.value)
    if not log:
        return value
    return value, {
        "projections": kind.back(columns),
        "projected_uots": kind.back(found.costs),
        "a_reweighted": kind.back(found.x_marginal.mT),
        "b_reweighted": kind.back(found.y_marginal.mT),
    }


def unbalanced_sliced_ot(
    X_s: Array,
    X_t: Array,
    reg_m: Any,
    a: Array = None,
    b: Array = None,
    n_projections: int = 50,
    p: float = 2,
    projections: Array = None,
    seed: Seed = None,
    numItermax: int = 10,
    log: bool = False,
) -> Any:
    """Compute unbalanced sliced transport, with POT's arguments; see `slicewise.unbalanced`.

    Arguments and errors are those of `sliced_unbalanced_ot`.

    Returns:
        The reweighted marginals (n,) and (m,), the value (a power), and with `log` a dict with "projections",
        "sot_loss", "1d_losses" and "full_mass".
    """
    kind, found, columns = _solved(
        "shared", X_s, X_t, reg_m, a, b, n_projections, p, projections, seed, numItermax
    )
    a_new, b_new, value = (kind.back(t) for t in (found.x_marginal, found.y_marginal, found.value))
    if not log:
        return a_new, b_new, value
    mass = found.mass.expand(found.costs.shape)
    losses = found.costs / torch.where(mass > 0, mass, 1)
    return a_new, b_new, value, {
        "projections": kind.back(columns),
        "sot_loss": kind.back((losses * mass).mean()),
        "1d_losses": kind.back(losses),
        "full_mass": kind.back(mass),
    }  # fmt: skip


def uot_1d(
    u_values: Array,
    v_values: Array,
    reg_m: Any,
    u_weights: Array = None,
    v_weights: Array = None,
    p: float = 2,
    require_sort: bool = True,
    numItermax: int = 10,
    returnCost: str = "linear",
    log: bool = False,
) -> Any:
    """Compute unbalanced transport between columns (n,) or (n, k) of positions, with POT's arguments.

    Returns:
        The reweighted marginals, of the shapes of the positions, and the cost of each column: of transport alone
        ("linear"), or with the divergences ("total"). `require_sort` is taken for compatibility.
        With `log` also a dict with "total_cost" and "linear_cost" (POT adds its potentials).

    Raises:
        ValueError: for another `returnCost`.
    """
    check_choice("returnCost", returnCost, ("linear", "total"))
    kind = kind_of(u_values, v_values, u_weights, v_weights)
    _check_kind(kind)
    u, v = kind.tensor(u_values), kind.tensor(v_values)
    a, b = (
        None if w is None else (t.movedim(0, -1) if t.dim() > 1 else t)
        for w in (u_weights, v_weights)
        for t in [kind.tensor(w, u)]
    )
    lines = (t.movedim(0, -1).unsqueeze(-1) for t in (u, v))  # (k, n, 1): sets of one dimension
    found = unbalanced(
        *lines,
        penalty_pair(_numbers(reg_m)),
        p=p,
        max_steps=numItermax,
        x_weights=a,
        y_weights=b,
        slices=u.new_ones(1, 1),
    )
    value = found.transport if returnCost == "linear" else found.value
    new = (t.squeeze(-2).movedim(-1, 0) for t in (found.x_marginal, found.y_marginal))
    result = (*(kind.back(t) for t in new), kind.back(value))
    if not log:
        return result
    return *result, {
        "total_cost": kind.back(found.value),
        "linear_cost": kind.back(found.transport),
    }


def _solved(
    marginals: Literal["per_slice", "shared"],
    X_s: Array,
    X_t: Array,
    reg_m: Any,
    a: Array,
    b: Array,
    n_projections: int,
    p: float,
    projections: Array,
    seed: Seed,
    steps: int,
) -> tuple[ArrayKind, Unbalanced, Tensor]:
    kind = kind_of(X_s, X_t, a, b, projections)
    _check_kind(kind)
    x, y = kind.tensor(X_s), kind.tensor(X_t)
    check_dimensions(x, y)
    columns = kind.tensor(projections, x)
    if projections is None:
        columns = random_projections(x.shape[1], n_projections, seed, kind, x)
    penalties = penalty_pair(_numbers(reg_m))
    x_weights, y_weights = kind.tensor(a, x), kind.tensor(b, x)
    if penalties == (math.inf, math.inf) and not (a is None and b is None):
        # POT then takes the mass of X_s for both.
        x_weights, y_weights = (
            equal_masses(t) if w is None else w for t, w in ((x, x_weights), (y, y_weights))
        )
        y_weights = y_weights * (x_weights.sum() / y_weights.sum())
    found = unbalanced(
        x,
        y,
        penalties,
        marginals=marginals,
        p=p,
        max_steps=steps,
        x_weights=x_weights,
        y_weights=y_weights,
        slices=columns.T,
    )
    return kind, found, columns


def _numbers(reg_m: Any) -> Any:
    """One number, or a list of some."""
    if isinstance(reg_m, (list, tuple)):
        return [float(one) for one in reg_m]
    return reg_m


def _check_kind(kind: ArrayKind) -> None:
    assert kind.name in ("torch", "jax"), (
        "unbalanced functions of POT take tensors or JAX arrays; slicewise.unbalanced takes NumPy arrays"
    )
