"""`sliced_wasserstein_distance` and `max_sliced_wasserstein_distance` as POT calls them."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from slicewise.distance import evaluate, sliced_wasserstein
from slicewise.pot.arrays import Array, ArrayKind, Seed, kind_of, sample_tensors
from slicewise.pot.projections import sampled_projections
from slicewise.pot.scaling import apply_scaler
from slicewise.transport import root


def sliced_wasserstein_distance(
    X_s: Array,
    X_t: Array,
    a: Array = None,
    b: Array = None,
    n_projections: int = 50,
    p: float = 2,
    projections: Array = None,
    seed: Seed = None,
    log: bool = False,
    scaler: Any = None,
    sampling_slices: str = "uniform",
) -> Any:
    """Compute the sliced-Wasserstein distance, with POT's arguments.

    Args:
        X_s: samples (n, d).
        X_t: samples (m, d).
        a: weights (n,), of sum one.
        b: weights (m,), of sum one.
        n_projections: the number of directions.
        p: the order, at least 1.
        projections: directions as columns (d, L), in place of drawn ones.
        seed: an int, a NumPy RandomState or Generator, or a torch.Generator.
        log: also return projections and the cost of each.
        scaler: a fitted `DataScaler`, another object with a `transform` method, or a function, applied to both sets.
        sampling_slices: "uniform", "qsw" or "rqsw" (a spiral, d = 3), or "uniortho" (orthogonal blocks).

    Returns:
        The distance (the root), and with `log` a dict with "projections" and "projected_emds".

    Raises:
        ValueError: for arguments that do not fit together.
    """
    kind, x, y, x_weights, y_weights, columns = _inputs(
        X_s, X_t, a, b, n_projections, projections, seed, scaler, sampling_slices
    )
    given: dict[str, Any] = {"p": p, "x_weights": x_weights, "y_weights": y_weights}
    if not log:
        return kind.back(sliced_wasserstein(x, y, slices=columns.T, **given))
    found = evaluate(x, y, slices=columns.T, **given)
    costs = found.costs
    return kind.back(found.value), {
        "projections": kind.back(columns),
        "projected_emds": kind.back(costs),
    }


def max_sliced_wasserstein_distance(
    X_s: Array,
    X_t: Array,
    a: Array = None,
    b: Array = None,
    n_projections: int = 50,
    p: float = 2,
    projections: Array = None,
    seed: Seed = None,
    log: bool = False,
    scaler: Any = None,
    sampling_slices: str = "uniform",
) -> Any:
    """Compute the largest W_p over some directions, with POT's arguments.

    As in POT, nothing is searched for: the value is that of the best of the directions. `slicewise`'s variant "maxsw"
    ascends. Arguments, returns and errors are those of `sliced_wasserstein_distance`.
    """
    kind, x, y, x_weights, y_weights, columns = _inputs(
        X_s, X_t, a, b, n_projections, projections, seed, scaler, sampling_slices
    )
    costs = evaluate(x, y, slices=columns.T, p=p, x_weights=x_weights, y_weights=y_weights).costs
    value = kind.back(root(costs.max(), p))
    if not log:
        return value
    return value, {"projections": kind.back(columns), "projected_emds": kind.back(costs)}


def check_dimensions(x: Tensor, y: Tensor) -> None:
    """Raise a ValueError for samples of different dimensions, or that are no (n, d)."""
    for name, samples in (("X_s", x), ("X_t", y)):
        if samples.dim() != 2:
            raise ValueError(f"{name} has shape {tuple(samples.shape)}: give samples as (n, d)")
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"X_s and X_t must have the same number of dimensions, {x.shape[1]} and {y.shape[1]} were given"
        )


def _inputs(
    X_s: Array,
    X_t: Array,
    a: Array,
    b: Array,
    n_projections: int,
    projections: Array,
    seed: Seed,
    scaler: Any,
    sampling: str,
) -> tuple[ArrayKind, Tensor, Tensor, Tensor | None, Tensor | None, Tensor]:
    kind = kind_of(X_s, X_t, a, b, projections)
    # A scaler would take a list for several sets.
    X_s, X_t = (np.asarray(t) if isinstance(t, (list, tuple)) else t for t in (X_s, X_t))
    X_s, X_t = apply_scaler(X_s, X_t, scaler)
    x, y = sample_tensors(kind, X_s, X_t)
    check_dimensions(x, y)
    x_weights, y_weights = (kind.tensor(w, x) for w in (a, b))
    if projections is None:
        columns = sampled_projections(x.shape[1], n_projections, sampling, seed, kind, x)
    else:
        columns = kind.tensor(projections, x)
    return kind, x, y, x_weights, y_weights, columns
