"""From a caller's arguments to groups of runs that are ready to go."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from slicewise.checks import check_broadcast
from slicewise.gradient import Objective
from slicewise.learn.accelerated import Accelerated
from slicewise.learn.courses import Computed, Course, Descent
from slicewise.learn.escape import Escapes, escapes_for
from slicewise.learn.runs import Group, Stopping, rows_of
from slicewise.learn.seeds import draw_seeds
from slicewise.learned import State
from slicewise.problem import Problem
from slicewise.randomness import Generators
from slicewise.recipe import Recipe
from slicewise.rules import Cauchy, Rule
from slicewise.slicers import Uniform
from slicewise.subspace import Subspace, span_of
from slicewise.weighting import Equal

Rates = float | Tensor | Literal["auto"]
Seeds = int | Sequence[int] | Tensor | None


@dataclass(frozen=True)
class Settings:
    """How the runs of one call move; prints all that decides it."""

    recipe: Recipe
    objective: Objective
    auto: bool  # are steps computed?
    reduce: bool | Literal["auto"]
    rule: Rule | None
    share: float
    hold_weights: bool
    n_slices_given: bool
    assign: bool

    def __post_init__(self) -> None:
        if self.assign and not self.auto:
            raise ValueError("finish='assign' needs lr='auto': plain gradient steps know no stall")
        if self.rule is not None and not self.auto:
            raise ValueError(
                f"step = {self.rule!r} beside a rate: give lr='auto', or leave step out"
            )
        if self.reduce not in (True, False, "auto"):
            raise ValueError(f"reduce = {self.reduce!r}: give True, False or 'auto'")
        if not 0 < self.share < math.inf:
            raise ValueError(
                f"share = {self.share}: give a positive share of the step, 1 as a rule"
            )

    def accelerated(self, problem: Problem) -> bool:
        """Is this the plain distance, for which the whole default is made?"""
        plain = type(self.recipe.slicer) is Uniform and type(self.recipe.weighting) is Equal
        squares = problem.p == 2 and self.objective != "mean_root"
        return self.auto and self.rule is None and plain and squares

    def course(self, problem: Problem) -> Course:
        """How runs of this problem move, in the k dimensions they are worked in."""
        if not self.auto:
            return Descent(self.recipe, self.objective)
        # Otherwise no move of x makes the loss zero, and fresh slices never stop pulling.
        n, m, k = problem.x.shape[-2], problem.y.shape[-2], problem.d
        exact = n == m and problem.x_weights is None and problem.y_weights is None
        if self.assign and not exact:
            raise ValueError(
                f"finish='assign' with {n} and {m} samples, perhaps weighted: an assignment needs equal "
                f"numbers of equal weight"
            )
        if not self.accelerated(problem):
            rule = Cauchy() if self.rule is None else self.rule
            # Few dimensions only: there a random basis sees as much as any slices of the variant's.
            escapes = self._escapes(k, 50) if exact and problem.p == 2 else None
            held = self.hold_weights
            return Computed(self.recipe, self.objective, rule, self.share, held, not exact, escapes)
        slicer = self.recipe.slicer
        assert isinstance(slicer, Uniform)
        n_slices = slicer.n if self.n_slices_given else slices_for_rank(k)
        escapes = self._escapes(k, n_slices) if exact else None
        return Accelerated(n_slices, self.objective, self.share, not exact, escapes)

    def _escapes(self, k: int, n_slices: int) -> Escapes | None:
        # A run that ends at its first stall escapes from nothing: any dimension will do.
        return Escapes(50) if self.assign else escapes_for(k, n_slices)

    def tolerance(self, given: float | Literal["auto"] | None, problem: Problem) -> float | None:
        """How still a run must be to count as arrived."""
        if given is not None and given != "auto" and not 0 <= given < math.inf:
            raise ValueError(f"tolerance = {given}: give a share of the data's size, 0 or more")
        if given != "auto":
            return given
        return None if not self.auto else 1e-9 if problem.x.dtype == torch.float64 else 1e-6


def slices_for_rank(k: int) -> int:
    """How many slices a step in k dimensions takes: 50, in whole frames, and no fewer than 7 for each.

    From 5 to 10 for each the time to arrive is the same, in fewer steps; with less, momentum is lost.
    """
    return 50 if k <= 3 else k * max(7, -(-50 // k))


@dataclass(frozen=True, eq=False)
class Runs:
    """A batch of runs, flattened: R of them."""

    batch: tuple[int, ...]
    problem: Problem  # x (R, n, d); y and sample weights with R or shared by all
    rates: Tensor | None  # (R,)
    seeds: Tensor  # (R,)
    span: Subspace | None  # batched as x and y were
    ranks: Tensor  # (R,)


def runs_of(
    problem: Problem, settings: Settings, lr: Rates, seeds: Seeds, generator: Generators
) -> Runs:
    """Every run that the leading dimensions of samples, rates and seeds make."""
    rates = None if isinstance(lr, str) else _rates(lr)
    seeds = None if seeds is None else _whole(seeds)
    shapes = {"samples": problem.batch, "lr": () if rates is None else tuple(rates.shape)}
    if seeds is not None:
        shapes["seeds"] = tuple(seeds.shape)
    batch = check_broadcast(**shapes)
    n_runs = math.prod(batch)
    if seeds is None:
        seeds = draw_seeds(n_runs, generator).reshape(batch)
    x, y, a, b = problem.x, problem.y, problem.x_weights, problem.y_weights
    # An absent sample may lie anywhere, at NaN too: nothing is lost by moving it to the origin.
    x, y = _present(x, a), _present(y, b)
    whole = dataclasses.replace(problem, x=x, y=y)
    reduces = settings.auto if settings.reduce == "auto" else settings.reduce
    span = span_of(whole) if reduces else None
    ranks = torch.full((n_runs,), problem.d)
    if span is not None:
        ranks = span.ranks.clamp(min=1).expand(batch).reshape(-1).cpu()
    flat = dataclasses.replace(
        whole,
        x=x.expand(*batch, *x.shape[-2:]).reshape(n_runs, *x.shape[-2:]),
        y=_flat(y, batch, 2),
        x_weights=None if a is None else _flat(a, batch, 1),
        y_weights=None if b is None else _flat(b, batch, 1),
    )
    rates = None if rates is None else rates.expand(batch).reshape(-1)
    return Runs(batch, flat, rates, seeds.expand(batch).reshape(-1), span, ranks)


def groups_for(runs: Runs, settings: Settings, stopping: Stopping) -> list[Group]:
    """Runs of equal rank together: the slices of a run must not depend on its neighbours' dimension."""
    groups = []
    for rank in sorted(set(runs.ranks.tolist())):
        ids = torch.nonzero(runs.ranks == rank).flatten()
        rows = ids.to(runs.problem.x.device)
        problem = rows_of(runs.problem, ids)
        frame = None
        if runs.span is not None:
            frame = _frame(runs.span, runs.batch, rows, rank)
            problem = dataclasses.replace(
                problem, x=frame.reduce(problem.x), y=frame.reduce(problem.y)
            )
        extra: State = {} if runs.rates is None else {"rate": runs.rates[ids].to(problem.x)}
        course = settings.course(problem)
        groups.append(Group(problem, frame, course, runs.seeds[ids], ids, stopping, extra))
    return groups


def _frame(span: Subspace, batch: tuple[int, ...], rows: Tensor, rank: int) -> Subspace:
    """The subspace of some runs, cut to their rank; as it came where all runs share one."""
    basis, mean = span.basis[..., :rank], span.mean
    if rank == basis.shape[-2]:
        # Nothing to leave out: centre, and keep the axes.
        basis = torch.eye(rank, dtype=basis.dtype, device=basis.device)
    elif basis.dim() > 2:
        basis = basis.expand(*batch, *basis.shape[-2:]).reshape(-1, *basis.shape[-2:])[rows]
    if mean.dim() > 1:
        mean = mean.expand(*batch, -1).reshape(-1, mean.shape[-1])[rows]
    return Subspace(basis, mean, span.spectrum, span.ranks)


def _rates(lr: float | Tensor) -> Tensor:
    rates = torch.as_tensor(lr, dtype=torch.float64).detach()
    if not bool((torch.isfinite(rates) & (rates > 0)).all()):
        raise ValueError(f"lr = {lr}: give positive, finite rates, or 'auto'")
    return rates


def _whole(seeds: int | Sequence[int] | Tensor) -> Tensor:
    whole = torch.as_tensor(seeds, device="cpu")
    if whole.is_floating_point() or whole.is_complex():
        raise ValueError(f"seeds = {seeds}: give whole numbers, one for each run or one for all")
    return whole.long()


def _present(samples: Tensor, weights: Tensor | None) -> Tensor:
    return samples if weights is None else torch.where(weights.unsqueeze(-1) > 0, samples, 0)


def _flat(tensor: Tensor, batch: tuple[int, ...], inner: int) -> Tensor:
    """One leading dimension of runs, or none where all runs share the tensor."""
    if tensor.dim() == inner:
        return tensor
    return tensor.expand(*batch, *tensor.shape[-inner:]).reshape(-1, *tensor.shape[-inner:])
