"""Fuzzed values against a reference in long double: what slicewise says of random samples, sizes, orders and weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

import slicewise as sw
from benchmarks.torture.tally import Tally

Array = np.ndarray[Any, Any]
_LONG = np.longdouble
# Variants with straight slices, whose costs and weights are stated with the value.
_VARIANTS = (
    "sw", "orthosw", "maxsw", "maxksw", "ksw", "ebsw", "rpsw", "ebrpsw", "omsw", "rmsw", "imsw", "vimsw", "qsw", "rqsw",
    "phisw", "vdsw",
)  # fmt: skip
_COUNTED = ("sw", "orthosw", "ebsw", "rpsw", "ebrpsw", "qsw", "rqsw", "phisw")
_ORDERS = (1, 1.5, 2, 2, 2, 3, 7, 50)
_BATCH = 16


def values(seed: int, folder: str) -> Tally:
    """Return the tally of one batch: 16 problems in each of several calls."""
    rng = np.random.default_rng(seed)
    tally = Tally()
    for _ in range(25):
        _one_call(rng, tally, seed)
    return tally


def _one_call(rng: np.random.Generator, tally: Tally, seed: int) -> None:
    single = bool(rng.integers(2))
    dtype = torch.float32 if single else torch.float64
    reach = 33 if single else 280
    size = 10.0 ** rng.uniform(-reach, reach) if rng.random() < 0.5 else 10.0 ** rng.uniform(-3, 3)
    n, d = int(rng.integers(1, 12)), int(rng.integers(1, 5))
    m = n if rng.random() < 0.6 else int(rng.integers(1, 12))
    p = float(rng.choice(_ORDERS))
    variant = str(rng.choice(_VARIANTS))
    d = max(d, 2) if variant in ("ksw", "maxksw", "omsw") else d  # whose slices are orthogonal
    offset = rng.normal(size=(1, 1, d)) * (rng.random() < 0.3) * 10
    x = (rng.normal(size=(_BATCH, n, d)) + offset) * size
    y = (rng.normal(size=(_BATCH, m, d)) * rng.uniform(0, 3) + offset + rng.uniform(0, 2)) * size
    if rng.random() < 0.2:
        x, y = np.round(x / size * 2) / 2 * size, np.round(y / size * 2) / 2 * size  # ties
    tx, ty = (torch.from_numpy(t).to(dtype) for t in (x, y))
    if not (bool(tx.isfinite().all()) and bool(ty.isfinite().all())):
        return
    given: dict[str, Any] = {}
    if rng.random() < 0.4:
        for name, count in (("x_weights", n), ("y_weights", m)):
            w = rng.random(count) * (rng.random(count) > 0.2) + (np.arange(count) == 0)
            given[name] = torch.from_numpy(w / w.sum()).to(dtype)
    if variant in _COUNTED:
        given["n_slices"] = int(rng.integers(1, 12))
    backend = str(rng.choice(["auto", "numba", "numpy", "torch"]))
    how = f"seed {seed}: {variant}, p={p:g}, n={n}, m={m}, d={d}, size {size:.3g}, {dtype}, {backend}, weighted {'x_weights' in given}"
    try:
        found = sw.evaluate(
            tx, ty, variant, p=p, generator=int(seed % 2**31), backend=backend, **given
        )
    except ValueError as error:
        # The only error that fits such samples: the distance itself, or a non-proportional power of it, is too large.
        true = "overflow" in str(error) or "underflow" in str(error)
        near = size > 1e30 if single else size > 1e270
        for _ in range(_BATCH):
            tally.case(None if true and near else f"{how}: {error}")
        return
    except Exception as error:
        for _ in range(_BATCH):
            tally.case(f"{how}: {type(error).__name__}: {error}")
        return
    eps = float(torch.finfo(dtype).eps)
    slices, weights = found.slices.double().numpy(), found.weights.double().numpy()
    for i in range(_BATCH):
        own = slices[i] if slices.ndim == 3 else slices
        u, v = (t[i].double().numpy().astype(_LONG) @ own.T.astype(_LONG) for t in (tx, ty))
        a, b = (_shares(given.get(k), c) for k, c in (("x_weights", n), ("y_weights", m)))
        distances = np.array([_on_a_line(u[:, j], v[:, j], a, b, p) for j in range(own.shape[0])])
        w = (weights[i] if weights.ndim == 2 else weights).astype(_LONG)
        largest = distances.max()
        expected = _LONG(0)
        if largest > 0:
            expected = largest * (w * (distances / largest) ** _LONG(p)).sum() ** (1 / _LONG(p))
        value = float(found.value[i])
        # A projection rounds by the size of the coordinates; what is nearer than that cannot be told apart. By Hölder's
        # inequality the value is off by that times (Σ w)^(1/p), which is more than one for weights 1/cos² of slices.
        coarse = float(max(abs(u).max(), abs(v).max())) * max(1.0, float(w.sum())) ** (1 / p)
        room = 40 * eps * (float(expected) + coarse * math.sqrt(d)) * max(1, n)
        good = abs(value - float(expected)) <= room + float(torch.finfo(dtype).tiny)
        tally.case(None if good else f"{how}: {value:.9g} for {float(expected):.9g}")


def _shares(weights: torch.Tensor | None, count: int) -> Array:
    if weights is None:
        return np.full(count, _LONG(1) / count)
    wide = weights.double().numpy().astype(_LONG)
    return np.asarray(wide / wide.sum())


def _on_a_line(u: Array, v: Array, a: Array, b: Array, p: float) -> Any:
    """W_p on the line by its definition: the integral of the distance between quantile functions."""
    u_order, v_order = np.argsort(u, kind="stable"), np.argsort(v, kind="stable")
    u, v, a, b = u[u_order], v[v_order], a[u_order], b[v_order]
    ends_a, ends_b = np.cumsum(a), np.cumsum(b)
    ends = np.sort(np.concatenate([ends_a, ends_b]))
    ends = np.minimum(ends, 1)
    widths = np.diff(ends, prepend=_LONG(0))
    middle = ends - widths / 2
    gaps = abs(
        u[np.searchsorted(ends_a, middle).clip(max=len(u) - 1)]
        - v[np.searchsorted(ends_b, middle).clip(max=len(v) - 1)]
    )
    # Knots that rounding put apart are no mass.
    gaps = np.where(widths > 1e-15, gaps, 0)
    largest = gaps.max()
    if largest == 0:
        return _LONG(0)
    return largest * (widths * (gaps / largest) ** _LONG(p)).sum() ** (1 / _LONG(p))
