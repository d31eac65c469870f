"""Sliced plans as POT calls them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from slicewise.plans import SlicePlans, slice_plans
from slicewise.pot.arrays import Array, ArrayKind, Seed, kind_of, sample_tensors
from slicewise.pot.projections import random_projections
from slicewise.problem import Problem
from slicewise.support import check_weights
from slicewise.transport import pair_costs

METRICS = ("sqeuclidean", "minkowski", "cityblock", "euclidean")


class PlanTuple(NamedTuple):
    """The plan of one slice: its masses, and the samples of X_s and X_t they go between."""

    data: Array
    rows: Array
    cols: Array


class _Sliced(NamedTuple):
    kind: ArrayKind
    plans: SlicePlans  # (L, K)
    costs: Tensor  # (L,)
    columns: Tensor  # (d, L)
    x: Tensor
    y: Tensor


def sliced_plans(
    X_s: Array,
    X_t: Array,
    a: Array = None,
    b: Array = None,
    metric: str = "sqeuclidean",
    p: float = 1,
    projections: Array = None,
    n_projections: int | None = None,
    seed: Seed = None,
    batch_size: int | None = None,
    log: bool = False,
) -> Any:
    """Compute the plans of slices and their costs, with POT's arguments.

    Args:
        X_s: samples (n, d).
        X_t: samples (m, d).
        a, b: weights (n,) and (m,), of sum one.
        metric: "sqeuclidean", "euclidean", "cityblock" or "minkowski", the distance that costs are computed with.
        p: the order of "minkowski".
        projections: directions as columns (d, L), in place of drawn ones.
        n_projections: the number of directions; needed if none are given.
        seed: an int, a NumPy RandomState or Generator, or a torch.Generator.
        batch_size: taken for compatibility; memory is bounded without it.
        log: also return the projected samples.

    Returns:
        A list of `PlanTuple`, the costs (L,), and with `log` a dict with "X_projection", "Y_projection", "projections".

    Raises:
        AssertionError: for shapes or metrics that do not fit, as in POT.
    """
    found = _sliced(X_s, X_t, a, b, metric, p, projections, n_projections, seed)
    plans, costs = _as_tuples(found), found.kind.back(found.costs)
    return (plans, costs, _projected(found)) if log else (plans, costs)


def min_sliced_transport_plan(
    X_s: Array,
    X_t: Array,
    a: Array = None,
    b: Array = None,
    projections: Array = None,
    metric: str = "sqeuclidean",
    p: float = 2,
    n_projections: int | None = None,
    seed: Seed = None,
    batch_size: int | None = None,
    dense: bool = True,
    log: bool = False,
) -> Any:
    """Compute the cheapest of the plans of slices, with POT's arguments; see `slicewise.sliced_plan`.

    Args:
        X_s, X_t, a, b, projections, metric, p, n_projections, seed, batch_size: as in `sliced_plans`.
        dense: True returns an array (n, m), False a SciPy `coo_array` or a sparse tensor.
        log: also return a dict with "projections", "costs", "min_projection", "X_min_projection", "Y_min_projection".

    Returns:
        The plan, its cost, and with `log` the dict.

    Raises:
        AssertionError: for shapes or metrics that do not fit, as in POT.
    """
    found = _sliced(X_s, X_t, a, b, metric, p, projections, n_projections, seed)
    kind, costs = found.kind, found.costs
    best = int(costs.detach().argmin())
    plan = _matrix(found, SlicePlans(*(t[best] for t in found.plans)), dense)
    cost = kind.back(costs[best])
    if not log:
        return plan, cost
    direction = found.columns[:, best]
    return plan, cost, {
        "projections": kind.back(found.columns),
        "costs": kind.back(costs),
        "min_projection": kind.back(direction),
        "X_min_projection": kind.back(found.x @ direction),
        "Y_min_projection": kind.back(found.y @ direction),
    }  # fmt: skip


def expected_sliced_plan(
    X_s: Array,
    X_t: Array,
    a: Array = None,
    b: Array = None,
    projections: Array = None,
    metric: str = "sqeuclidean",
    p: float = 2,
    n_projections: int | None = None,
    beta: float = 0.0,
    seed: Seed = None,
    dense: bool = True,
    batch_size: int | None = None,
    log: bool = False,
) -> Any:
    """Compute the mean of the plans of slices, with POT's arguments; see `slicewise.sliced_plan`.

    Args:
        X_s, X_t, a, b, projections, metric, p, n_projections, seed, batch_size: as in `sliced_plans`.
        beta: the inverse temperature: slices count in proportion to exp(−beta · cost).
        dense: True returns an array (n, m), False a SciPy `coo_array` or a sparse tensor.
        log: also return a dict with "projections", "costs", "G" (the plans of slices) and "weights".

    Returns:
        The plan, its cost, and with `log` the dict.

    Raises:
        AssertionError: for shapes or metrics that do not fit, as in POT.
    """
    found = _sliced(X_s, X_t, a, b, metric, p, projections, n_projections, seed)
    kind, costs = found.kind, found.costs
    weights = torch.softmax(-beta * costs, dim=0)
    masses = (found.plans.mass * weights.unsqueeze(-1)).flatten()
    every = SlicePlans(found.plans.rows.flatten(), found.plans.cols.flatten(), masses)
    plan, cost = _matrix(found, every, dense), kind.back((weights * costs).sum())
    if not log:
        return plan, cost
    return plan, cost, {
        "projections": kind.back(found.columns),
        "costs": kind.back(costs),
        "G": _as_tuples(found),
        "weights": kind.back(weights),
    }  # fmt: skip


def _sliced(
    X_s: Array,
    X_t: Array,
    a: Array,
    b: Array,
    metric: str,
    p: float,
    projections: Array,
    n_projections: int | None,
    seed: Seed,
) -> _Sliced:
    kind = kind_of(X_s, X_t, a, b, projections)
    x, y = sample_tensors(kind, X_s, X_t)
    for name, samples in (("X_s", x), ("X_t", y)):
        assert samples.dim() == 2, f"{name} must be a 2d array, got {samples.dim()}d instead"
    assert metric in METRICS, f"metric = {metric!r}: choose from {', '.join(METRICS)}"
    assert x.shape[1] == y.shape[1], (
        f"X_s ({tuple(x.shape)}) and X_t ({tuple(y.shape)}) must have the same number of columns"
    )
    if projections is None:
        assert n_projections is not None, "n_projections must be given if projections are not"
        columns = random_projections(x.shape[1], n_projections, seed, kind, x)
    else:
        columns = kind.tensor(projections, x).to(x.dtype)
    x_weights, y_weights = (_uneven(kind.tensor(w, x), t) for w, t in ((a, x), (b, y)))
    problem = Problem(x, y, 2.0, x_weights, y_weights)
    plans = slice_plans(problem, columns.T.contiguous())
    power, norm = (2.0, 2.0) if metric == "sqeuclidean" else (1.0, float(p))
    norm = {"euclidean": 2.0, "cityblock": 1.0}.get(metric, norm)
    costs = pair_costs(x, y, *plans, p=power, norm=norm)
    return _Sliced(kind, plans, costs, columns, x, y)


def _uneven(weights: Tensor | None, samples: Tensor) -> Tensor | None:
    """Weights, or None if all are equal: sets of one size are then permuted."""
    if weights is None:
        return None
    check_weights("weights", weights, samples)
    return None if bool((weights == weights[0]).all()) else weights.to(samples.dtype)


def _as_tuples(found: _Sliced) -> list[PlanTuple]:
    data, rows, cols = (
        found.kind.back(t) for t in (found.plans.mass, found.plans.rows, found.plans.cols)
    )
    return [PlanTuple(data[k], rows[k], cols[k]) for k in range(len(found.costs))]


def _projected(found: _Sliced) -> dict[str, Array]:
    kind, columns = found.kind, found.columns
    return {
        "X_projection": kind.back(found.x @ columns),
        "Y_projection": kind.back(found.y @ columns),
        "projections": kind.back(columns),
    }


def _matrix(found: _Sliced, plan: SlicePlans, dense: bool) -> Any:
    n, m = len(found.x), len(found.y)
    if dense or found.kind.name == "jax":
        place = plan.rows * m + plan.cols
        if plan.mass.requires_grad:
            flat = plan.mass.new_zeros(n * m).index_add(0, place, plan.mass)
        else:
            flat = torch.bincount(place, weights=plan.mass, minlength=n * m).to(plan.mass.dtype)
        return found.kind.back(flat.view(n, m))
    if found.kind.name == "torch":
        index = torch.stack([plan.rows, plan.cols])
        return torch.sparse_coo_tensor(index, plan.mass, (n, m), check_invariants=False)
    from scipy.sparse import coo_array

    data, rows, cols = (t.detach().numpy() for t in (plan.mass, plan.rows, plan.cols))
    return coo_array((data, (rows, cols)), shape=(n, m))
