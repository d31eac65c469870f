"""Many sets at once: their distances, a kernel between them, and vectors whose distances these are."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from slicewise.distance import Objective, check_objective, draw, randomness_of, recipe_for, weigh
from slicewise.distance import problem_for as checked_problem
from slicewise.parts import constant_weights, slice_weights
from slicewise.problem import Problem, WeightingPart, declared, label_free
from slicewise.sampling import Generators
from slicewise.support import (
    as_tensor,
    check_choice,
    check_count,
    check_finite,
    check_generator,
    check_number,
    check_order,
    check_set,
    check_slices,
    full_precision,
    multiply,
    one_thread,
    takes_arrays,
)
from slicewise.transport import project, root, sorted_lines, uniform_cells
from slicewise.variants import Recipe, Variant

Kernel = Literal["gaussian", "laplacian"]
Sets = Tensor | Sequence[Tensor]
# Numbers that are worked on at once.
_AT_ONCE = 2**22
_IN_CACHE = 2**18
# Squared distances below this share of the squared norms are computed again, from differences: products cancel there.
_CANCELS = 1e-8


def pairwise(
    sets: Sets,
    others: Sets | None = None,
    *,
    variant: str | Variant | Recipe = "sw",
    p: float = 2,
    n_slices: int | None = None,
    weights: Sequence[Tensor] | None = None,
    objective: Objective = "root",
    kernel: Kernel | None = None,
    gamma: float | None = None,
    slices: Tensor | None = None,
    generator: Generators = None,
    **options: Any,
) -> Tensor:
    """Compute the sliced distances between all pairs of several sets, on slices that all pairs share.

    Every set is projected and sorted once. With shared slices SW_2 is a Euclidean distance (that of `embed`), so that
    the matrix is a metric without noise between its entries, and kernels of it are positive definite.

    Args:
        sets: K sets, a tensor (K, n, d) or a list of (n_k, d): tensors, or NumPy arrays.
        others: J further sets; distances are then between sets and others.
        variant: a name in `VARIANTS` or a `Recipe` whose slices do not depend on the samples, e.g. "sw" or "ebsw".
        p: the order, at least 1.
        n_slices: how many slices; None is the variant's own default.
        weights: sample weights of each set, a list of (n_k,), each summing to one; only without `others`.
        objective: "root", "power" or "mean_root".
        kernel: None returns distances. "gaussian" returns exp(−γ SW_2²), "laplacian" exp(−γ SW_p) with p = 1 or 2.
        gamma: γ of a kernel; None is one over the median of the squared distances, or distances, that are not zero.
        slices: directions (L, d) to use instead of drawing some.
        generator: an int, a `torch.Generator`, or None for torch's global generator.
        options: those of the variant.

    Returns:
        The distances, or the kernel: (K, K), symmetric, or (K, J) with `others`. A NumPy array if arrays were given.

    Raises:
        ValueError: for arguments that do not fit together, and for a kernel that would not be positive definite.

    >>> sets = torch.randn(3, 50, 2) + torch.tensor([0.0, 0.0, 5.0]).reshape(3, 1, 1)
    >>> found = pairwise(sets, generator=0)
    >>> found.shape, bool(found[0, 1] < found[0, 2])
    (torch.Size([3, 3]), True)

    S. Kolouri, Y. Zou, G. Rohde, Sliced Wasserstein kernels for probability distributions, 2016.
    """
    rows, as_array = _as_sets("sets", sets)
    columns = rows if others is None else _as_sets("others", others)[0]
    recipe = recipe_for(variant, n_slices, options)
    check_objective(objective, recipe)
    check_order(p)
    _check_kernel(recipe, p, kernel, gamma, objective)
    if not label_free((recipe.slicer, recipe.weighting, recipe.lift)):
        raise ValueError(
            f"{recipe!r} has slices of its own for every pair: use a variant whose slices all pairs can share, e.g. 'sw', "
            f"'orthosw', 'qsw' or 'ebsw'"
        )
    if weights is not None and others is not None:
        raise ValueError(
            "weights beside others: give all sets as one list, and take a part of the result"
        )
    device = rows[0].device
    with torch.no_grad(), full_precision(device.type), one_thread(device):
        shared = _Shared.of(
            recipe, [*rows, *([] if others is None else columns)], p, slices, generator
        )
        if weights is not None:
            found = _weighted(shared, rows, weights, objective)
        else:
            found = _values(shared, len(rows), others is None, objective)
        if kernel is not None:
            found = _kernel_of(found, kernel, gamma)
    found = found.to(rows[0].dtype)
    return found.cpu().numpy() if as_array else found  # type: ignore[return-value]


@takes_arrays("x", "slices")
def embed(
    x: Tensor,
    *,
    p: float = 2,
    n_slices: int = 50,
    n_quantiles: int | None = None,
    slices: Tensor | None = None,
    generator: Generators = 0,
) -> Tensor:
    """Map each set of samples to a vector, so that distances between vectors are sliced distances between sets.

    The vector holds the sorted projections on shared slices, scaled by (L n)^(−1/p): the p-norm of the difference of
    two vectors is SW_p of the two sets on these slices, for p = 2 the Euclidean distance. Use it to give sets to
    methods for vectors: scikit-learn estimators, nearest-neighbor search, PCA. Differentiable in x.

    Args:
        x: sets of samples, (*batch, n, d).
        p: the order of the distance.
        n_slices: how many slices.
        n_quantiles: None keeps all n sorted projections, so that sets must be of one size. A number Q takes the mean of
            each of Q equal parts of the quantile function instead: sets may differ in size, and distances come out
            smaller by what differs inside the parts.
        slices: directions (L, d) to use instead of drawing some.
        generator: as in `sliced_wasserstein`, but 0 by default: vectors of different calls are comparable only if they
            share their slices.

    Returns:
        Vectors (*batch, L · n) or (*batch, L · Q).

    Raises:
        ValueError: for arguments that do not fit together.

    >>> x, y = torch.randn(2, 30, 4)
    >>> from slicewise import sliced_wasserstein
    >>> by_vectors = (embed(x) - embed(y)).norm()
    >>> by_vectors.isclose(sliced_wasserstein(x, y, n_slices=50, generator=0)).item()
    True
    """
    check_set("x", x)
    check_order(p)
    check_count("n_slices", n_slices)
    check_count("n_quantiles", n_quantiles)
    check_generator(generator)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if slices is None:
        one = (
            wide.flatten(0, -3)[0] if wide.dim() > 2 else wide
        )  # one set of slices, whatever the batch
        alone = Problem(one, one, p)
        recipe = recipe_for("sw", n_slices, {})
        slices = draw(recipe, alone, randomness_of(generator, alone), None)[1]
    check_slices(slices, wide, (), wide.shape[-1])
    with full_precision(x.device.type):
        lines = project(wide, slices.to(wide.dtype))
        lines = lines.sort(dim=-1).values if lines.requires_grad else sorted_lines(lines)
    if n_quantiles is not None:
        lines = _quantile_means(lines, n_quantiles)
    return lines.flatten(-2) / (lines.shape[-2] * lines.shape[-1]) ** (1 / p)


def _quantile_means(lines: Tensor, n_quantiles: int) -> Tensor:
    """Means of the quantile functions of sorted lines (..., n) over equal parts, (..., Q)."""
    n = lines.shape[-1]
    cells = uniform_cells(n, n_quantiles, lines.device)
    parts = lines.new_zeros(n, n_quantiles)
    parts.index_put_(
        (cells.u_rank, cells.v_rank), (cells.width * n_quantiles).to(lines.dtype), accumulate=True
    )
    return lines @ parts


@dataclass(frozen=True, eq=False)
class _Shared:
    """All sets along the slices they share, each sorted."""

    recipe: Recipe
    problem: Problem  # all samples on both sides, lifted if the recipe does
    slices: Tensor  # (L, d)
    lines: list[Tensor]  # (L, n_k)

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        sets: list[Tensor],
        p: float,
        given: Tensor | None,
        generator: Generators,
    ) -> _Shared:
        check_generator(generator)
        sizes = [len(s) for s in sets]
        pool = torch.cat(sets)
        pool = pool.to(torch.promote_types(pool.dtype, torch.float32))
        both = Problem(pool, pool, float(p), convention=recipe.convention)
        problem, slices, _ = draw(recipe, both, randomness_of(generator, both), None)
        if given is not None:
            check_slices(given, problem.x, (), problem.d)
            slices = given.to(problem.x)
        found = problem.positions("x", slices)  # (L, N)
        if len(set(sizes)) == 1:
            each = found.unflatten(-1, (len(sets), sizes[0])).transpose(0, 1)
            lines = list(sorted_lines(each.contiguous()))
        else:
            lines = [sorted_lines(part.contiguous()) for part in found.split(sizes, dim=-1)]
        return cls(recipe, problem, slices, lines)


def _values(shared: _Shared, n_rows: int, symmetric: bool, objective: Objective) -> Tensor:
    """The distances between the first `n_rows` sets and the others, or among them."""
    lines, p = shared.lines, shared.problem.p
    rows = lines[:n_rows]
    columns = rows if symmetric else lines[n_rows:]
    weighting = declared(shared.recipe.weighting, WeightingPart)
    sizes = {line.shape[-1] for line in lines}
    plain = weighting.is_mean and shared.recipe.convention == "mean" and objective != "mean_root"
    if plain and p == 2 and len(sizes) == 1:
        power = _squared_distances(torch.stack(rows), None if symmetric else torch.stack(columns))
        return power if objective == "power" else power.sqrt()
    weights = constant_weights(shared.recipe.weighting, shared.slices, shared.problem)
    found = lines[0].new_zeros(len(rows), len(columns), dtype=torch.float64)
    by_size: dict[int, list[int]] = {}
    for j, line in enumerate(columns):
        by_size.setdefault(line.shape[-1], []).append(j)
    for i, row in enumerate(rows):
        for places in by_size.values():
            after = [j for j in places if j > i] if symmetric else places
            each = row.shape[0] * (row.shape[1] + columns[places[0]].shape[1])
            for start in range(0, len(after), max(1, _AT_ONCE // each)):
                some = after[start : start + max(1, _AT_ONCE // each)]
                costs = _line_costs(row, torch.stack([columns[j] for j in some]), p)
                found[i, some] = _value_of(shared, costs, weights, objective)
    return found + found.mT if symmetric else found


def _value_of(
    shared: _Shared, costs: Tensor, weights: Tensor | None, objective: Objective
) -> Tensor:
    """The values (k,) of costs (k, L)."""
    problem = shared.problem
    if shared.recipe.convention == "reference":
        raise ValueError("pairwise is stated in convention='mean' alone: leave convention out")
    if weights is None:
        many = dataclasses.replace(problem, x=problem.x.expand(len(costs), -1, -1))
        weights = slice_weights(
            shared.recipe.weighting, costs.to(shared.slices.dtype), shared.slices, many
        )
    terms = root(costs, problem.p) if objective == "mean_root" else costs
    total = (weights.double() * terms).sum(dim=-1)
    return root(total, problem.p) if objective == "root" else total


def _line_costs(u: Tensor, v: Tensor, p: float) -> Tensor:
    """W_p^p between sorted lines (L, n) and (k, L, m), (k, L), float64."""
    n, m = u.shape[-1], v.shape[-1]
    if n == m:
        gap, width = (u - v).double(), torch.full((), 1 / n, dtype=torch.float64, device=u.device)
    else:
        cells = uniform_cells(n, m, u.device)
        gap, width = (u[..., cells.u_rank] - v[..., cells.v_rank]).double(), cells.width
    return (width * (gap.square() if p == 2 else gap.abs() ** p)).sum(dim=-1)


def _squared_distances(rows: Tensor, columns: Tensor | None) -> Tensor:
    """Mean squared differences between sets (K, L, n) and (J, L, n), by products of vectors."""
    k, n_slices, n = rows.shape
    everything = rows if columns is None else torch.cat([rows, columns])
    products = everything.new_zeros(len(everything), len(everything), dtype=torch.float64)
    # A few slices at a time, which stay in the cache.
    for some in everything.split(max(1, _IN_CACHE // (len(everything) * n)), dim=1):
        flat = some.flatten(1).double()
        flat -= flat.mean(dim=0)  # about their mean products cancel as little as they can
        products += multiply(flat, flat.mT)
    norms = products.diagonal()
    first, second = slice(0, k), slice(0, k) if columns is None else slice(k, None)
    whole = norms[first].unsqueeze(-1) + norms[second]
    found = whole - 2 * products[first, second]
    columns = rows if columns is None else columns
    for i, j in (found < _CANCELS * whole).nonzero().tolist():
        found[i, j] = (rows[i].double() - columns[j].double()).square().sum()
    return found.clamp(min=0) / (n_slices * n)


def _weighted(
    shared: _Shared, sets: list[Tensor], weights: Sequence[Tensor], objective: Objective
) -> Tensor:
    """The same with sample weights, pair by pair."""
    if len(weights) != len(sets):
        raise ValueError(
            f"weights are {len(weights)}, but there are {len(sets)} sets: give one tensor for each"
        )
    given: Sequence[Any] = weights
    masses = [as_tensor(w) if isinstance(w, (np.ndarray, list)) else w for w in given]
    found = torch.zeros(len(sets), len(sets), dtype=torch.float64, device=sets[0].device)
    p, convention = shared.problem.p, shared.recipe.convention
    if shared.recipe.lift is not None:
        raise ValueError(
            f"weights with {shared.recipe.lift!r}: leave weights out, or use straight slices"
        )
    for i in range(len(sets)):
        for j in range(i + 1, len(sets)):
            problem = checked_problem(
                sets[i], sets[j], p, masses[i], masses[j], convention, 0.0, "auto"
            )
            found[i, j] = weigh(shared.recipe, problem, shared.slices, objective)[0]
    return found + found.mT


def _kernel_of(distances: Tensor, kernel: Kernel, gamma: float | None) -> Tensor:
    apart = distances.square() if kernel == "gaussian" else distances
    if gamma is None:
        some = apart[apart > 0]
        gamma = float(1 / some.median()) if some.numel() else 1.0
    return torch.exp(-gamma * apart)


def _check_kernel(
    recipe: Recipe, p: float, kernel: Kernel | None, gamma: float | None, objective: Objective
) -> None:
    if kernel is None:
        if gamma is not None:
            raise ValueError("gamma is for kernels: give kernel='gaussian' or 'laplacian', too")
        return
    check_choice("kernel", kernel, ("gaussian", "laplacian"))
    if gamma is not None:
        check_number("gamma", gamma, above=0)
    fits = p == 2 if kernel == "gaussian" else p in (1, 2)
    equal = declared(recipe.weighting, WeightingPart).is_mean and objective == "root"
    if not (fits and equal):
        raise ValueError(
            f"kernel={kernel!r} with p = {p:g}, objective={objective!r} and {recipe.weighting!r} is not known to be positive "
            f"definite: use equal slice weights, objective='root' and p = 2 (or p = 1 for 'laplacian')"
        )


def _as_sets(name: str, sets: Sets) -> tuple[list[Tensor], bool]:
    """Sets as a list of tensors (n, d), and whether they were arrays."""
    given: Any = sets
    if isinstance(given, (Tensor, np.ndarray)) and given.ndim != 3:
        raise ValueError(
            f"{name} has shape {tuple(given.shape)}: give (K, n, d), or a list of sets (n, d)"
        )
    many = list(given)
    as_array = bool(many) and not isinstance(many[0], Tensor)
    found = [as_tensor(s) if isinstance(s, (np.ndarray, list)) else s for s in many]
    if not found:
        raise ValueError(f"{name} is empty: give at least one set (n, d)")
    for k, one in enumerate(found):
        check_set(f"{name}[{k}]", one)
        if one.dim() != 2 or one.shape[1] != found[0].shape[1]:
            raise ValueError(
                f"{name}[{k}] has shape {tuple(one.shape)}: give sets (n, {found[0].shape[-1]}) of one dimension"
            )
    check_finite(**{f"{name}[{k}]": one for k, one in enumerate(found)})
    return found, as_array
