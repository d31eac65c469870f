"""The judge: exact optimal transport, in double precision, that no diverged run can fool."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from slicewise.support import broadcast, check_order, check_samples, check_weights, takes_arrays

# Not from ‖x‖² + ‖y‖² − 2 x·y, whose rounding puts equal samples apart.
_DIFFERENCES = "donot_use_mm_for_euclid_dist"
# Beyond, in few dimensions, POT's network simplex is up to seven times faster than SciPy's assignment (3,000 far
# samples: 2 s for 16); in many the assignment is, once what whole rows and columns cost is taken off.
_SMALL, _FEW = 500, 32
# Mean costs below the first may have lost digits to underflow; the second is larger than any mean cost of a plan whose
# farthest pair costs 1.
_NOTHING, _DEAR = 1e-200, 1e9


@takes_arrays("x", "y", "x_weights", "y_weights")
def wasserstein(
    x: Tensor,
    y: Tensor,
    *,
    p: float = 2,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
) -> Tensor:
    """Compute the exact Wasserstein distance W_p between two sets of samples, in double precision.

    Use it to judge a result; it has no gradients. Costs are computed from coordinate differences, so that equal samples
    are at distance zero to 1e-12. Samples that are not finite are infinitely far from everything. Time grows as n³ and
    memory as n²: some 3,000 samples a side take seconds. Needs the extra `exact`.

    Args:
        x: samples (*batch, n, d).
        y: samples (*batch, m, d).
        p: the order, at least 1.
        x_weights, y_weights: sample weights (n,) or (*batch, n) that sum to one.

    Returns:
        W_p, (*batch,), float64.

    Raises:
        ValueError: for arguments that do not fit together.
        ImportError: if SciPy or POT is needed and not installed.

    >>> wasserstein(torch.zeros(3, 2), torch.ones(3, 2), p=1)
    tensor(1.4142, dtype=torch.float64)
    """
    check_order(p)
    check_samples(x, y)
    check_weights("x_weights", x_weights, x)
    check_weights("y_weights", y_weights, y)
    if x.is_meta:
        raise ValueError(
            "x and y are on meta, where tensors have no values: give samples that have"
        )
    batch, pairs = pairs_of(x, y, x_weights, y_weights)

    def value(pair: Pair) -> float:
        one, other, a, b = pair
        return _distance(one, other, p, a, b)

    workers = min(len(pairs), torch.get_num_threads())
    if workers > 1 and x.shape[-2] > _SMALL:
        with ThreadPoolExecutor(workers) as pool:  # solvers let other threads go on
            values = list(pool.map(value, pairs))
    else:
        values = [value(pair) for pair in pairs]
    return torch.tensor(values, dtype=torch.float64).reshape(batch)


Pair = tuple[Tensor, Tensor, Tensor | None, Tensor | None]


def pairs_of(
    x: Tensor, y: Tensor, x_weights: Tensor | None, y_weights: Tensor | None
) -> tuple[tuple[int, ...], list[Pair]]:
    """The shape of a batch, and its elements one by one: samples and weights in float64, where they are."""
    x, y = x.detach().double(), y.detach().double()
    weights = [w if w is None else w.detach().double() for w in (x_weights, y_weights)]
    batch = broadcast(x.shape[:-2], y.shape[:-2], *(w.shape[:-1] for w in weights if w is not None))
    xs = x.expand(*batch, -1, -1).reshape(-1, *x.shape[-2:])
    ys = y.expand(*batch, -1, -1).reshape(-1, *y.shape[-2:])
    a, b = (None if w is None else w.expand(*batch, -1).reshape(-1, w.shape[-1]) for w in weights)
    elements = range(math.prod(batch))
    each = [
        (xs[i], ys[i], None if a is None else a[i], None if b is None else b[i]) for i in elements
    ]
    return tuple(batch), each


def masses_of(
    x: Tensor, y: Tensor, a: Tensor | None, b: Tensor | None
) -> tuple[np.ndarray, np.ndarray]:
    """The weights of samples x (n, d) and y (m, d) as a solver wants them: all there, of sum one."""
    equal = [torch.full((len(s),), 1 / len(s), dtype=torch.float64) for s in (x, y)]
    first, second = (
        (u if w is None else w / w.sum()).numpy() for w, u in zip((a, b), equal, strict=True)
    )
    return first, second


def within(x: Tensor, y: Tensor, distance: float) -> bool:
    """Is the exact W_2 between x (n, d) and y (n, d), equally weighted, at most this?

    The distance to nearest neighbours is a lower bound, and mostly answers without an assignment.
    """
    x, y = x.detach().double().cpu(), y.detach().double().cpu()
    if x.shape[-1] <= 8:
        with exact_extra():
            from scipy.spatial import cKDTree
        nearest = torch.from_numpy(cKDTree(y.numpy()).query(x.numpy())[0])
    else:
        nearest = torch.cdist(x, y, compute_mode=_DIFFERENCES).amin(dim=1)
    if not float(nearest.square().mean()) <= distance**2:
        return False
    return float(wasserstein(x, y)) <= distance


def _distance(x: Tensor, y: Tensor, p: float, a: Tensor | None, b: Tensor | None) -> float:
    x, a = _without_absent(x, a)
    y, b = _without_absent(y, b)
    # Squares of differences are not to leave the range; samples of a usual size are taken as they are.
    size = max(float(x.abs().max()), float(y.abs().max()))
    unit = (
        2.0 ** min(math.frexp(size)[1], 1023)
        if 0 < size < math.inf and not 1e-140 < size < 1e140
        else 1.0
    )
    distances = torch.cdist(x / unit, y / unit, compute_mode=_DIFFERENCES).cpu()
    a, b = (w if w is None else w.cpu() for w in (a, b))
    # A solver handed NaN or infinity may well answer 0, which would win every comparison.
    if not bool(torch.isfinite(distances).all()):
        return math.inf
    # Scaled, so that powers stay in range and the solver's tolerances mean the same in any unit.
    scale = distances.max().item()
    if scale == 0:
        return 0.0
    while True:
        # Pairs that cost more than all of the plan that is known are in no better one.
        powers = (distances / scale).pow(p).clamp(max=_DEAR)
        mean, largest = _cheapest(x, y, powers, distances, a, b)
        # Of a large p, the pairs of the plan may cost nothing in the unit of the farthest pair: then in that of theirs.
        if mean > _NOTHING or largest in (0.0, scale):
            return unit * (scale * float(mean ** (1 / p))) if largest else 0.0
        scale = largest


def _cheapest(
    x: Tensor, y: Tensor, powers: Tensor, distances: Tensor, a: Tensor | None, b: Tensor | None
) -> tuple[float, float]:
    """The mean cost of the best plan, and the largest distance that it moves anything."""
    matrix = powers.numpy()
    if a is None and b is None and len(x) == len(y):
        least, nearest = powers.min(dim=1)
        if len(nearest.unique()) == len(y):
            # Everyone has their nearest, which no plan can better: near convergence, all it takes.
            farthest = distances.gather(1, nearest.unsqueeze(1)).max()
            return float(least.mean()), float(farthest)
        elif len(x) > _SMALL and x.shape[-1] < _FEW and importlib.util.find_spec("ot") is not None:
            import ot

            plan = ot.emd([], [], matrix, numItermax=10_000_000)
        else:
            with exact_extra():
                from scipy.optimize import linear_sum_assignment
            # The same plan is best, and found up to ten times faster: nearly equal samples hide it.
            reduced = powers - powers.amin(dim=0)
            reduced -= reduced.amin(dim=1, keepdim=True)
            rows, columns = linear_sum_assignment(reduced.numpy())
            farthest = distances.numpy()[rows, columns].max()
            return float(matrix[rows, columns].mean()), float(farthest)
    else:
        with exact_extra():
            import ot
        plan = ot.emd(*masses_of(x, y, a, b), matrix, numItermax=10_000_000)
    return float((plan * matrix).sum()), float(distances.numpy()[plan > 0].max())


def _without_absent(samples: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Samples without those of weight zero, wherever they may lie."""
    if weights is None:
        return samples, None
    return samples[weights > 0], weights[weights > 0]


@contextmanager
def exact_extra() -> Iterator[None]:
    """Imports that only the extra `exact` brings: without it, a line that says so."""
    try:
        yield
    except ImportError as missing:
        raise ImportError(
            f"exact distances need {missing.name}: pip install 'slicewise[exact]'"
        ) from None
