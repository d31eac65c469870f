"""Do two sets of samples differ? A permutation test along slices, and what carries the difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor

from slicewise.distance import draw, problem_for, randomness_of, recipe_for
from slicewise.laws import refuse_laws
from slicewise.parts import constant_weights, slice_weights
from slicewise.problem import Problem, label_free
from slicewise.sampling import Generators, as_generators
from slicewise.stats.relabeling import Relabelings
from slicewise.support import (
    Result,
    check_choice,
    check_count,
    check_finite,
    check_generator,
    check_slices,
    full_precision,
    one_thread,
    takes_arrays,
)
from slicewise.transport import LineCost, plan_mean, relabeled_costs
from slicewise.variants import Recipe, Variant

Statistic = Literal["mean", "max", "standardized", "energy"]
STATISTICS: tuple[Statistic, ...] = ("mean", "max", "standardized", "energy")
# Relabelings priced at a time: enough to keep threads busy, few enough that stopping early saves work.
_BATCH = 250


@dataclass(frozen=True, eq=False, repr=False)
class TwoSampleTest(Result):
    """Whether two sets of samples differ, how sure that is and where: what `two_sample_test` returns.

    Attributes:
        p_value: how often relabeled samples differ at least as much, the observed labels counted.
        statistic: what was observed: SW_p^p for "mean", the largest cost for "max".
        null: the statistic of each relabeling, (B,).
        effect_size: the distance beyond what relabeling gives, in units of the spread of all samples of both sides along
            slices: a shift by one such spread in every coordinate gives 1. For "energy" the squared distance is.
        exact: whether every relabeling was priced, not a random choice of them.
        stopped: whether `early_stop` ended it before all permutations were drawn.
        slices: the directions, (L, d).
        slice_costs: W_p^p along each slice, (L,).
        slice_p_values: a p-value for each slice, corrected for having looked at all of them, (L,).
        coordinate_costs: W_p^p along each coordinate, (d,); None if `coordinates=False`.
        coordinate_p_values: a p-value for each coordinate, corrected for having looked at all d, (d,).
        x_influence, y_influence: what each sample contributes to the distance, (n,) and (m,); their weighted mean is
            the mean cost over slices.
    """

    p_value: float
    statistic: float
    null: Tensor
    effect_size: float
    exact: bool
    stopped: bool
    slices: Tensor
    slice_costs: Tensor
    slice_p_values: Tensor
    coordinate_costs: Tensor | None
    coordinate_p_values: Tensor | None
    x_influence: Tensor
    y_influence: Tensor

    def quantiles(self, levels: Sequence[float] | Tensor = (0.5, 0.9, 0.95, 0.99)) -> Tensor:
        """Return quantiles of the statistic under relabeling, one for each level."""
        wanted = torch.as_tensor(levels, dtype=self.null.dtype, device=self.null.device)
        if not bool(((wanted >= 0) & (wanted <= 1)).all()):
            raise ValueError(f"levels = {levels!r}: give numbers from 0 to 1, e.g. 0.95")
        return torch.quantile(self.null, wanted)

    def __repr__(self) -> str:
        n = len(self.null)
        kind = f"all {n}" if self.exact else f"{n} random"
        stop = ", stopped early" if self.stopped else ""
        return (
            f"TwoSampleTest(p = {self.p_value:.4g}, statistic {self.statistic:.6g} against "
            f"{float(self.null.median()):.6g} in the median of {kind} relabelings{stop}, "
            f"effect size {self.effect_size:.3g})"
        )


@takes_arrays("x", "y", "x_weights", "y_weights", "slices")
def two_sample_test(
    x: Tensor,
    y: Tensor,
    variant: str | Variant | Recipe = "sw",
    *,
    p: float = 2,
    n_slices: int | None = None,
    permutations: int = 999,
    statistic: Statistic = "mean",
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    paired: bool = False,
    blocks: tuple[Any, Any] | None = None,
    early_stop: int | None = None,
    coordinates: bool = True,
    slices: Tensor | None = None,
    generator: Generators = None,
    **options: Any,
) -> TwoSampleTest:
    """Test whether two sets of samples come from one distribution, by permutations along slices.

    Under the null hypothesis labels can be exchanged, so the observed statistic is compared with that of relabeled
    samples. All samples are projected and sorted once; a relabeling then costs one pass over each slice. Slices do not
    depend on the labels, which makes the test exact for any sizes, ties and tails: P(p_value ≤ α) ≤ α.

    If there are at most `permutations` + 1 relabelings, all of them are priced.

    Args:
        x: samples (n, d): tensors, NumPy arrays or lists.
        y: samples (m, d).
        variant: a name in `VARIANTS` or a `Recipe` whose slices do not compare the two sides: "sw", "orthosw", "ebsw",
            "qsw", "rpsw" (between any two samples), "gsw", … Variants that climb are refused; use `statistic="max"`.
        p: the order, at least 1.
        n_slices: how many slices; None is the variant's own default.
        permutations: how many random relabelings to draw at most.
        statistic: "mean" is the weighted sum of costs of the variant, SW_p^p. "max" is the largest cost of a slice, for
            differences along few directions. "standardized" is the largest cost in units of its own spread under
            relabeling, over slices and coordinates, for a difference in few coordinates. "energy" is the sliced energy
            distance.
        x_weights, y_weights: sample weights (n,) and (m,) that sum to one; a weight stays with its sample. Samples of
            weight zero keep their side.
        paired: whether x[i] and y[i] are a pair, within which labels are exchanged.
        blocks: the blocks of the samples of x and of y, (n,) and (m,) whole numbers or words; labels are exchanged
            within a block only. For samples of several days, donors or batches.
        early_stop: end as soon as so many relabelings reached the statistic, e.g. 20: quick where there is no
            difference. The p-value is then this number over the relabelings drawn, and valid (Besag, Clifford, 1991);
            those of slices and coordinates rest on few relabelings then, and are coarse.
        coordinates: whether to test every coordinate, too, under the same relabelings.
        slices: directions (L, d) to use instead of drawing some. They must not have been chosen by looking at labels.
        generator: an int, a `torch.Generator`, or None for torch's global generator.
        options: those of the variant.

    Returns:
        A `TwoSampleTest`.

    Raises:
        ValueError: for arguments that do not fit together, and variants whose slices depend on the labels.

    >>> x, y = torch.randn(2, 100, 5, generator=torch.Generator().manual_seed(0))
    >>> y[:, 2] += 2  # the third coordinate has moved
    >>> found = two_sample_test(x, y, generator=0)
    >>> found.p_value, found.coordinate_costs.argmax()
    (0.001, tensor(2))

    J. Besag, P. Clifford, Sequential Monte Carlo p-values, 1991. P. Westfall, S. Young, Resampling-based multiple
    testing, 1993.
    """
    refuse_laws(
        "two_sample_test", x, y, instead="test samples against it by goodness_of_fit(x, law)"
    )
    recipe = recipe_for(variant, n_slices, options)
    _check(x, y, recipe, permutations, statistic, early_stop)
    check_generator(generator)
    generator = as_generators(generator)
    problem = problem_for(x, y, p, x_weights, y_weights, recipe.convention, 0.0, "auto")
    check_finite(x=x, y=y)
    first = torch.arange(len(x) + len(y)) < len(x)
    groups = _without_absent(problem, _blocks_of(len(x), len(y), paired, blocks))
    relabelings = Relabelings(first, groups)
    with torch.no_grad(), full_precision(x.device.type), one_thread(x.device):
        lines = _Lines.of(problem.detached(), recipe, slices, generator, coordinates, statistic)
        observed = lines.costs(first.unsqueeze(0))  # (1, L + axes)
        if relabelings.count <= permutations + 1:
            costs = lines.costs(relabelings.all())
            drawn: Draws = Draws(costs, exact=True, stopped=False)
        else:
            # A number from the generator seeds the labels: NumPy shuffles rows ten times as fast as torch sorts keys.
            seed = int(torch.randint(2**62, (), generator=cast(Any, generator)))
            sizes = _batches(permutations, early_stop)
            drawn = _drawn(lines, observed, relabelings.drawn(sizes, seed), statistic, early_stop)
        return _judged(lines, observed, drawn, statistic, early_stop)


def _batches(permutations: int, early_stop: int | None) -> list[int]:
    """How many relabelings to price at a time: few at first where few may be enough."""
    sizes, left = list[int](), permutations
    while left:
        most = _BATCH if early_stop is None else min(_BATCH, 2 * early_stop * 2 ** len(sizes))
        sizes.append(min(left, most))
        left -= sizes[-1]
    return sizes


@dataclass(frozen=True, eq=False)
class Draws:
    """The costs of relabelings, (B, lines)."""

    costs: Tensor
    exact: bool
    stopped: bool


def _drawn(
    lines: _Lines,
    observed: Tensor,
    labels: Iterator[Tensor],
    statistic: Statistic,
    early_stop: int | None,
) -> Draws:
    rows: list[Tensor] = []
    reached = 0
    for some in labels:
        costs = lines.costs(some)
        rows.append(costs)
        if early_stop is None:
            continue
        least = lines.statistic(observed, statistic)
        above = (lines.statistic(costs, statistic) >= _at_least(least)).cumsum(dim=0) + reached
        reached = int(above[-1])
        if reached >= early_stop:
            # The relabeling that reached it ends the test.
            last = int((above < early_stop).sum()) + 1
            rows[-1] = costs[:last]
            return Draws(torch.cat(rows), exact=False, stopped=True)
    return Draws(torch.cat(rows), exact=False, stopped=False)


@dataclass(frozen=True, eq=False)
class _Lines:
    """The pool along slices, and along coordinates after them, each line sorted."""

    problem: Problem  # of the observed sides, before any lift
    recipe: Recipe
    pooled: Problem  # all samples on both sides, lifted if the recipe does
    slices: Tensor  # (L, d)
    values: Tensor  # (L + axes, N), sorted
    order: Tensor
    weights: Tensor | None  # (N,), of the samples
    slice_weights: Tensor | None  # (L,), where they do not depend on the costs
    kind: LineCost

    @classmethod
    def of(
        cls,
        problem: Problem,
        recipe: Recipe,
        given: Tensor | None,
        generator: Any,
        coordinates: bool,
        statistic: Statistic,
    ) -> _Lines:
        pool = torch.cat([problem.x, problem.y])
        both = Problem(pool, pool, problem.p, convention=recipe.convention)
        rng = randomness_of(generator, both)
        lifted, slices, _ = draw(recipe, both, rng, None)
        if given is not None:
            check_slices(given, lifted.x, (), lifted.d)
            slices = given.to(lifted.x)
        u = lifted.positions("x", slices)  # (L, N)
        if coordinates:
            u = torch.cat([u, pool.mT])
        values, order = u.sort(dim=-1, stable=True)
        weights = None
        if problem.x_weights is not None or problem.y_weights is not None:
            sides = (problem.x, problem.x_weights), (problem.y, problem.y_weights)
            # Sides are normalized on their own after relabeling: in units of an equal weight both are comparable.
            weights = torch.cat(
                [
                    torch.ones(len(s)).to(s) if w is None else (w * (w > 0).sum()).to(s)
                    for s, w in sides
                ]
            )
        kind: LineCost = "energy" if statistic == "energy" else "transport"
        known = constant_weights(recipe.weighting, slices, lifted)
        return cls(problem, recipe, lifted, slices, values, order, weights, known, kind)

    def costs(self, labels: Tensor) -> Tensor:
        """W_p^p along each slice and coordinate for labelings (B, N), (B, L + axes)."""
        labels = labels.to(self.values.device)
        found = relabeled_costs(
            self.values, self.order, labels, self.weights, p=self.problem.p, kind=self.kind
        )
        return found if self.recipe.convention == "mean" else found * self.problem.n

    def statistic(self, costs: Tensor, statistic: Statistic) -> Tensor:
        """One number (B,) of costs (B, lines)."""
        costs = costs[:, : len(self.slices)]
        if statistic == "max":
            return costs.amax(dim=-1)
        if statistic == "energy":
            return costs.mean(dim=-1)
        weights = self.slice_weights
        if weights is None:  # they follow the costs
            many = dataclasses.replace(self.pooled, x=self.pooled.x.expand(len(costs), -1, -1))
            weights = slice_weights(
                self.recipe.weighting, costs.to(self.slices.dtype), self.slices, many
            )
        return (weights.double() * costs).sum(dim=-1)


def _judged(
    lines: _Lines, observed: Tensor, drawn: Draws, statistic: Statistic, early_stop: int | None
) -> TwoSampleTest:
    n_slices = len(lines.slices)
    # Every relabeling with the observed labels among them: what is computed of all alike keeps the test exact.
    everything = drawn.costs if drawn.exact else torch.cat([observed, drawn.costs])
    spread = everything.std(dim=0, correction=0)
    scores = (everything - everything.mean(dim=0)) / torch.where(spread > 0, spread, 1)
    own = scores[:1]
    if drawn.exact:
        middle = everything.mean(dim=0)
        own = (observed - middle) / torch.where(spread > 0, spread, 1)
    if statistic == "standardized":
        null, least = scores.amax(dim=-1), own.amax(dim=-1)
        null = null if drawn.exact else null[1:]
    else:
        null = lines.statistic(drawn.costs, statistic)
        least = lines.statistic(observed, statistic)
    reached = int((null >= _at_least(least)).sum())
    if drawn.exact:
        p_value = reached / len(null)
    elif drawn.stopped and early_stop is not None:
        p_value = early_stop / len(null)
    else:
        p_value = (1 + reached) / (1 + len(null))
    influence = _influence(lines)
    axes = slice(n_slices, None)
    with_axes = everything.shape[1] > n_slices
    costs = observed[0].to(lines.slices.dtype)
    return TwoSampleTest(
        p_value,
        float(least),
        null,
        _effect_size(
            lines, float(observed[0, :n_slices].mean() - drawn.costs[:, :n_slices].mean())
        ),
        drawn.exact,
        drawn.stopped,
        lines.slices,
        costs[:n_slices],
        _corrected(scores[:, :n_slices], own[0, :n_slices]),
        costs[axes] if with_axes else None,
        _corrected(scores[:, axes], own[0, axes]) if with_axes else None,
        *influence,
    )


def _at_least(least: Tensor) -> Tensor:
    """A little below the observed statistic: equal relabelings may differ by rounding."""
    return least - 1e-12 * least.abs()


def _corrected(scores: Tensor, own: Tensor) -> Tensor:
    """For each of several scores, how often the largest of them is at least as large: p-values for all at once."""
    largest = scores.amax(dim=-1)  # (B,)
    return (largest.unsqueeze(-1) >= _at_least(own)).double().mean(dim=0)


def _effect_size(lines: _Lines, beyond: float) -> float:
    """What the mean cost exceeds that of relabelings by, as a distance, over the spread of the pool along slices."""
    n_slices, p = len(lines.slices), 1.0 if lines.kind == "energy" else lines.problem.p
    values = lines.values[:n_slices].double()
    mass = torch.ones_like(values)
    if lines.weights is not None:
        mass = lines.weights.double()[lines.order[:n_slices]]
    mass = mass / mass.sum(dim=-1, keepdim=True)
    off = (values - (mass * values).sum(dim=-1, keepdim=True)).abs()
    moment = (mass * off.pow(p)).sum(dim=-1).mean()
    if lines.kind == "energy":
        return max(beyond, 0.0) / float(moment) if moment > 0 else 0.0
    beyond = beyond / (1 if lines.recipe.convention == "mean" else lines.problem.n)
    return float((max(beyond, 0.0) / moment) ** (1 / p)) if moment > 0 else 0.0


def _influence(lines: _Lines) -> tuple[Tensor, Tensor]:
    """The mean transport cost of each sample over the slices: (n,) and (m,)."""
    problem, pool = lines.problem, lines.pooled
    n = len(problem.x)
    on_lines = pool.positions("x", lines.slices)  # (L, N)
    u, v, p = on_lines[:, :n], on_lines[:, n:], problem.p
    a, b = (
        None if w is None else w.expand(len(u), -1) for w in (problem.x_weights, problem.y_weights)
    )

    def cost(gap: Tensor) -> Tensor:
        return gap.abs() ** p

    moved_x = plan_mean(u, v, cost, u_weights=a, v_weights=b).mean(dim=0)
    moved_y = plan_mean(v, u, cost, u_weights=b, v_weights=a).mean(dim=0)
    return moved_x, moved_y


def _blocks_of(n: int, m: int, paired: bool, blocks: tuple[Any, Any] | None) -> Tensor | None:
    if paired:
        if blocks is not None:
            raise ValueError("paired=True beside blocks: pairs are blocks of two; give one of them")
        if n != m:
            raise ValueError(
                f"paired=True, but x has {n} samples and y {m}: give pairs, x[i] with y[i]"
            )
        return torch.arange(n).repeat(2)
    if blocks is None:
        return None
    if not isinstance(blocks, (tuple, list)) or len(blocks) != 2:
        raise ValueError("blocks: give a pair, the blocks of the samples of x and of those of y")
    both = [np.asarray(one).reshape(-1) for one in blocks]
    for name, one, size in (("x", both[0], n), ("y", both[1], m)):
        if len(one) != size:
            raise ValueError(
                f"blocks of {name} are {len(one)}, but {name} has {size} samples: give one for each"
            )
    for one in both:
        if one.dtype.kind not in "iubUS":
            raise ValueError(
                f"blocks are {one.dtype}: give whole numbers or words, one for each block"
            )
    if not np.isin(both[0], both[1]).any():
        raise ValueError(
            "no block has samples of both x and y, so that no label can be exchanged: give blocks that both share"
        )
    return torch.from_numpy(np.unique(np.concatenate(both), return_inverse=True)[1])


def _without_absent(problem: Problem, blocks: Tensor | None) -> Tensor | None:
    """Blocks in which samples of weight zero are apart: moved, they could leave a side without any weight."""
    sides = ((problem.x, problem.x_weights), (problem.y, problem.y_weights))
    present = torch.cat([torch.ones(len(s)) if w is None else w.cpu() for s, w in sides]) > 0
    if bool(present.all()):
        return blocks
    found = torch.zeros(len(present), dtype=torch.int64) if blocks is None else blocks.clone()
    of_y = torch.arange(len(present)) >= len(problem.x)
    return torch.where(present, found, int(found.max()) + 1 + of_y.long())


def _check(
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    permutations: int,
    statistic: Statistic,
    early_stop: int | None,
) -> None:
    for name, samples in (("x", x), ("y", y)):
        if isinstance(samples, Tensor) and samples.dim() != 2:
            instead = {0: "give several samples", 1: f"give {name}[:, None]"}.get(
                samples.dim(), "loop over a batch"
            )
            raise ValueError(
                f"{name} has shape {tuple(samples.shape)}: a test takes one set (n, d); {instead}"
            )
    check_count("permutations", -1 if permutations is None else permutations)
    check_count("early_stop", early_stop)
    check_choice("statistic", statistic, STATISTICS)
    if early_stop is not None and statistic == "standardized":
        raise ValueError(
            "early_stop with statistic='standardized', which needs all relabelings to know their spread: leave one out"
        )
    if early_stop is not None and early_stop > permutations:
        raise ValueError(
            f"early_stop = {early_stop} of {permutations} permutations never stops: give a smaller number, e.g. 20"
        )
    if not label_free((recipe.slicer, recipe.weighting, recipe.lift)):
        raise ValueError(
            f"{recipe!r} compares the two sides before they are relabeled, which would make the test invalid: use a variant "
            f"whose slices do not, e.g. 'sw', 'orthosw' or 'ebsw'; for the largest slice, statistic='max'"
        )
