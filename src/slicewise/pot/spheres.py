"""Distances on spheres and circles as POT calls them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.distance import evaluate, sliced_wasserstein, spherical_uniformity
from slicewise.parts import turns
from slicewise.pot.arrays import Array, ArrayKind, Seed, kind_of, sample_tensors
from slicewise.pot.distances import check_dimensions
from slicewise.pot.projections import (
    circle_projections,
    circle_slices,
    random_projections,
    random_rotations,
)
from slicewise.support import check_weights
from slicewise.transport import circle_costs, linear_circle_costs, root, uniform_circle_costs

# How far the square of a sample's length may be from one.
_OFF_SPHERE = 1e-4


def sliced_wasserstein_sphere(
    X_s: Array,
    X_t: Array,
    a: Array = None,
    b: Array = None,
    n_projections: int = 50,
    p: float = 2,
    projections: Array = None,
    seed: Seed = None,
    log: bool = False,
) -> Any:
    """Compute the spherical sliced-Wasserstein distance, with POT's arguments; the variant "ssw".

    Args:
        X_s: samples (n, d) of length one.
        X_t: samples (m, d) of length one.
        a, b: weights (n,) and (m,), of sum one.
        n_projections: the number of great circles.
        p: the order, at least 1.
        projections: orthonormal pairs (L, d, 2), in place of drawn ones. L is free (POT: 50).
        seed: an int, a NumPy RandomState or Generator, or a torch.Generator.
        log: also return projections and the cost of each.

    Returns:
        The distance, and with `log` a dict with "projections" and "projected_emds".

    Raises:
        ValueError: for samples that are not on the sphere, or of different dimensions.
    """
    return _on_circles("ssw", X_s, X_t, a, b, n_projections, p, projections, seed, log)


def linear_sliced_wasserstein_sphere(
    X_s: Array,
    X_t: Array = None,
    a: Array = None,
    b: Array = None,
    n_projections: int = 50,
    projections: Array = None,
    seed: Seed = None,
    log: bool = False,
) -> Any:
    """Compute the linear spherical sliced-Wasserstein distance, with POT's arguments; the variant "linearssw".

    Without X_t it is the distance to the uniform law (POT raises an error there). The integral over the circle is exact
    (POT: 100 points). Arguments, returns and errors are those of `sliced_wasserstein_sphere`.
    """
    if X_t is None:  # the embedding is that by the plan from the uniform law: its length is W_2
        return sliced_wasserstein_sphere_unif(X_s, a, n_projections, projections, seed, log)
    return _on_circles("linearssw", X_s, X_t, a, b, n_projections, 2, projections, seed, log)


def sliced_wasserstein_sphere_unif(
    X_s: Array,
    a: Array = None,
    n_projections: int = 50,
    projections: Array = None,
    seed: Seed = None,
    log: bool = False,
) -> Any:
    """Compute the spherical sliced-Wasserstein distance to the uniform law, for p = 2, with POT's arguments.

    Arguments, returns and errors are those of `sliced_wasserstein_sphere`; see also `slicewise.spherical_uniformity`.
    """
    kind = kind_of(X_s, a, projections)
    x = kind.tensor(X_s)
    _check_on_sphere("X_s", x)
    pairs = _pairs(kind, x, n_projections, projections, seed)
    weights = kind.tensor(a, x)
    check_weights("a", weights, x)
    slices = circle_slices(pairs)
    if not log:
        return kind.back(spherical_uniformity(x, slices=slices, x_weights=weights))
    costs = uniform_circle_costs(turns(x, slices), weights)
    value = root(costs.mean(), 2)
    return kind.back(value), {"projections": kind.back(pairs), "projected_emds": kind.back(costs)}


def stereographic_sliced_wasserstein_sphere(
    X_s: Array,
    X_t: Array,
    a: Array = None,
    b: Array = None,
    n_projections: int = 50,
    p: float = 2,
    projections: Array = None,
    seed: Seed = None,
    log: bool = False,
    n_rotations: int | None = None,
    rotations: Array = None,
) -> Any:
    """Compute the stereographic spherical sliced-Wasserstein distance, as POT's development version does; "s3w".

    Args:
        X_s, X_t, a, b, n_projections, p, seed, log: as in `sliced_wasserstein_sphere`.
        projections: directions of R^(d−1) as columns (d − 1, L), in place of drawn ones.
        n_rotations: average over so many random rotations, the rotationally invariant form.
        rotations: rotations (R, d, d) in place of drawn ones.

    Returns:
        The distance, and with `log` a dict with "projections", "rotations" and "projected_emds", (R, L) with rotations.

    Raises:
        ValueError: for samples that are not on the sphere, or of different dimensions.
    """
    kind = kind_of(X_s, X_t, a, b, projections, rotations)
    x, y = sample_tensors(kind, X_s, X_t)
    check_dimensions(x, y)
    _check_on_sphere("X_s", x)
    _check_on_sphere("X_t", y)
    d = x.shape[1]
    columns = kind.tensor(projections, x)
    if isinstance(seed, (int, np.integer)):  # one stream: rotations are no copies of the directions
        seed = (
            np.random.RandomState(seed)
            if kind.name == "numpy"
            else torch.Generator(x.device).manual_seed(int(seed))
        )
    if projections is None:
        columns = random_projections(d - 1, n_projections, seed, kind, x)
    turned = kind.tensor(rotations, x)
    if rotations is None and n_rotations is not None:
        turned = random_rotations(d, n_rotations, seed, kind, x)
    if turned is not None:
        x, y = x @ turned.mT, y @ turned.mT  # (R, n, d)
    given: dict[str, Any] = {"x_weights": kind.tensor(a, x), "y_weights": kind.tensor(b, x)}
    costs = evaluate(x, y, "s3w", slices=columns.T, p=p, **given).costs
    value = kind.back(root(costs.mean(), p))
    if not log:
        return value
    found = {"projections": kind.back(columns), "projected_emds": kind.back(costs)}
    return value, found | {"rotations": None if turned is None else kind.back(turned)}


def wasserstein_circle(
    u_values: Array,
    v_values: Array,
    u_weights: Array = None,
    v_weights: Array = None,
    p: float = 1,
    Lm: float = 10,
    Lp: float = 10,
    tm: float = -1,
    tp: float = 1,
    eps: float = 1e-6,
    require_sort: bool = True,
) -> Array:
    """Compute W_p^p on circles, for positions in turns (n, ...) as columns; exact, also for p = 1.

    The arguments after p, which steer POT's search, are taken for compatibility.
    """
    kind = kind_of(u_values, v_values, u_weights, v_weights)
    lines = (_lines(kind.tensor(t)) for t in (u_values, v_values))
    a, b = (_lines(kind.tensor(w)) for w in (u_weights, v_weights))
    return kind.back(circle_costs(*lines, p=p, u_weights=a, v_weights=b))


def semidiscrete_wasserstein2_unif_circle(u_values: Array, u_weights: Array = None) -> Array:
    """Compute W_2^2 between positions in turns (n, ...), as columns, and the uniform law on the circle."""
    kind = kind_of(u_values, u_weights)
    return kind.back(
        uniform_circle_costs(_lines(kind.tensor(u_values)), _lines(kind.tensor(u_weights)))
    )


def linear_circular_ot(
    u_values: Array, v_values: Array = None, u_weights: Array = None, v_weights: Array = None
) -> Array:
    """Compute squared linear circular transport distances, for positions in turns (n, ...) as columns.

    POT's sum over 100 points takes the quantile after the right one; this is the integral itself.
    """
    if v_values is None:
        return semidiscrete_wasserstein2_unif_circle(u_values, u_weights)
    kind = kind_of(u_values, v_values, u_weights, v_weights)
    u, v, a, b = (_lines(kind.tensor(t)) for t in (u_values, v_values, u_weights, v_weights))
    return kind.back(linear_circle_costs(u, v, u_weights=a, v_weights=b))


def _lines(columns: Tensor | None) -> Any:
    """(n, ...) as lines (..., n); a single column as one of a batch, as POT returns it."""
    if columns is None:
        return None
    return columns.unsqueeze(0) if columns.dim() == 1 else columns.movedim(0, -1)


def _on_circles(
    variant: str,
    X_s: Array,
    X_t: Array,
    a: Array,
    b: Array,
    n_projections: int,
    p: float,
    projections: Array,
    seed: Seed,
    log: bool,
) -> Any:
    kind = kind_of(X_s, X_t, a, b, projections)
    x, y = sample_tensors(kind, X_s, X_t)
    check_dimensions(x, y)
    _check_on_sphere("X_s", x)
    _check_on_sphere("X_t", y)
    pairs = _pairs(kind, x, n_projections, projections, seed)
    weights: dict[str, Any] = {"x_weights": kind.tensor(a, x), "y_weights": kind.tensor(b, x)}
    given: dict[str, Any] = {"slices": circle_slices(pairs), "p": p, **weights}
    if not log:
        return kind.back(sliced_wasserstein(x, y, variant, **given))
    found = evaluate(x, y, variant, **given)
    return kind.back(found.value), {
        "projections": kind.back(pairs),
        "projected_emds": kind.back(found.costs),
    }


def _pairs(
    kind: ArrayKind, x: Tensor, n_projections: int, projections: Array, seed: Seed
) -> Tensor:
    if projections is None:
        return circle_projections(x.shape[1], n_projections, seed, kind, x)
    pairs: Tensor = kind.tensor(projections, x)
    if pairs.dim() != 3 or pairs.shape[1:] != (x.shape[1], 2):
        raise ValueError(
            f"projections have shape {tuple(pairs.shape)}: give (L, {x.shape[1]}, 2), two orthonormal columns for each"
        )
    return pairs.to(x.dtype)


def _check_on_sphere(name: str, samples: Tensor) -> None:
    off = (samples.detach().square().sum(dim=-1) - 1).abs()
    if not bool((off <= _OFF_SPHERE).all()):
        raise ValueError(
            f"{name} is not on the sphere: the squared length of a sample is off one by {float(off.max()):.2g}; divide "
            f"samples by their lengths"
        )
