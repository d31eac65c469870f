"""From the arguments of a call to groups of runs that are ready to start."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from slicewise.flows.group import Group, Snapshot
from slicewise.flows.settings import FlowSettings
from slicewise.flows.stopping import Stopping, rows_of
from slicewise.problem import Problem, State, Subspace, absent_to_mean, span_of
from slicewise.sampling import Generators, draw_seeds
from slicewise.support import check_broadcast

Rates = float | Sequence[float] | Tensor | Literal["auto"]
Seeds = int | Sequence[int] | Tensor | None


@dataclass(frozen=True, eq=False)
class Runs:
    """A batch of runs, flattened: R of them."""

    batch: tuple[int, ...]
    problem: Problem  # x (R, n, d); y and sample weights with R or shared by all
    rates: Tensor | None  # (R,)
    seeds: Tensor  # (R,)
    span: Subspace | None  # batched as x and y were
    dimensions: Tensor  # (R,), of the data's span, or d
    absent: tuple[Tensor, Tensor] | None  # where samples of x have weight; x as it was given


def runs_of(
    problem: Problem, settings: FlowSettings, lr: Rates, seeds: Seeds, generator: int | Generators
) -> Runs:
    """All runs: one for each element of the broadcast leading dimensions of samples, rates and seeds."""
    rates = None if isinstance(lr, str) else _as_rates(lr)
    seeds = None if seeds is None else _as_seeds(seeds)
    shapes = {"samples": problem.batch, "lr": () if rates is None else tuple(rates.shape)}
    if seeds is not None:
        shapes["seeds"] = tuple(seeds.shape)
    batch = check_broadcast(**shapes)
    n_runs = math.prod(batch)
    if seeds is None:
        seeds = draw_seeds(n_runs, generator).reshape(batch)
    x, y, a, b = problem.x, problem.y, problem.x_weights, problem.y_weights
    x, y = absent_to_mean(x, a), absent_to_mean(y, b)
    whole = dataclasses.replace(problem, x=x, y=y)
    reduces = settings.auto if settings.reduce == "auto" else settings.reduce
    if problem.law is not None:  # which would have to be reduced as well
        if settings.reduce is True:
            problem.check_has_samples("reduce=True")
        reduces = False
    span = span_of(whole) if reduces else None
    dimensions = torch.full((n_runs,), problem.d)
    if span is not None:
        dimensions = span.ranks.clamp(min=1).expand(batch).reshape(-1).cpu()
    flat = dataclasses.replace(
        whole,
        x=x.expand(*batch, *x.shape[-2:]).reshape(n_runs, *x.shape[-2:]),
        y=_flat(y, batch, 2),
        x_weights=None if a is None else _flat(a, batch, 1),
        y_weights=None if b is None else _flat(b, batch, 1),
    )
    rates = None if rates is None else rates.expand(batch).reshape(-1)
    absent = None
    if a is not None:
        given = problem.x.expand(*batch, *x.shape[-2:]).reshape(flat.x.shape)
        absent = ((a > 0).unsqueeze(-1).expand(*batch, -1, 1).reshape(n_runs, -1, 1), given)
    return Runs(batch, flat, rates, seeds.expand(batch).reshape(-1), span, dimensions, absent)


def groups_for(
    runs: Runs, settings: FlowSettings, stopping: Stopping, saved: list[Snapshot] | None
) -> list[Group]:
    """Groups of runs of equal dimension: the slices of a run must not depend on the dimension of others.

    What was `saved` has the frames the runs were worked in, which another machine might compute differently.
    """
    groups = []
    for i, k in enumerate(sorted(set(runs.dimensions.tolist()))):
        ids = torch.nonzero(runs.dimensions == k).flatten()
        problem = rows_of(runs.problem, ids)
        frame, given = None, problem
        if runs.span is not None and _is_reducible(settings, problem.d, k):
            frame = _frame(runs.span, runs.batch, ids, k)
            if saved is not None:
                basis, mean = (saved[i][name].to(problem.x) for name in ("basis", "mean"))
                frame = Subspace(basis, mean, frame.spectrum, frame.ranks)
            x, y = frame.reduce(problem.x), frame.reduce(problem.y)
            problem = dataclasses.replace(problem, x=x, y=y)
        extra: State = {} if runs.rates is None else {"rate": runs.rates[ids].to(problem.x)}
        mover = settings.mover(problem, assigns=stopping.assign is True)
        seeds, objective = runs.seeds[ids], settings.objective
        groups.append(Group(problem, given, frame, mover, seeds, ids, stopping, objective, extra))
    return groups


def _is_reducible(settings: FlowSettings, d: int, k: int) -> bool:
    """Whether runs of d dimensions can be worked in k.

    Raises:
        ValueError: If they cannot, and `reduce=True` asked for it.
    """
    unfit = settings.recipe.unfit_for(k)
    if unfit is not None and settings.reduce is True:
        raise ValueError(f"in the data's own {k} dimensions (reduce=True): {unfit}")
    return unfit is None and settings.recipe.rotation_invariant


def _frame(span: Subspace, batch: tuple[int, ...], ids: Tensor, k: int) -> Subspace:
    """The subspace of some runs, cut to their k dimensions; not repeated where all runs share one."""
    basis, mean = span.basis[..., :k], span.mean
    rows = ids.to(mean.device)
    if k == basis.shape[-2]:
        # Nothing to leave out: center, and keep the axes.
        basis = torch.eye(k, dtype=basis.dtype, device=basis.device)
    elif basis.dim() > 2:
        basis = basis.expand(*batch, *basis.shape[-2:]).reshape(-1, *basis.shape[-2:])[rows]
    if mean.dim() > 1:
        mean = mean.expand(*batch, -1).reshape(-1, mean.shape[-1])[rows]
    return Subspace(basis, mean, span.spectrum, span.ranks)


def _as_rates(lr: float | Sequence[float] | Tensor) -> Tensor:
    try:
        rates = torch.as_tensor(lr, dtype=torch.float64).detach().cpu()
        if rates.layout != torch.strided:
            rates = rates.to_dense()
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"lr = {lr!r}: give 'auto', a number, or a tensor over the batch"
        ) from None
    positive = bool((torch.isfinite(rates) & (rates > 0)).all())
    if rates.numel() == 0 or isinstance(lr, bool) or not positive:
        raise ValueError(f"lr = {lr}: give positive, finite rates, or 'auto'")
    return rates


def _as_seeds(seeds: int | Sequence[int] | Tensor) -> Tensor:
    try:
        whole = torch.as_tensor(seeds, device="cpu")
    except (TypeError, ValueError, RuntimeError):  # strings; numbers of more than 64 bits
        whole = None
    if whole is None or whole.is_floating_point() or whole.is_complex():
        raise ValueError(
            f"seeds = {seeds!r}: give whole numbers below 2^63, one for each run or one for all"
        )
    return whole.long()


def _flat(tensor: Tensor, batch: tuple[int, ...], inner: int) -> Tensor:
    """One leading dimension of runs, or none where all runs share the tensor."""
    if tensor.dim() == inner:
        return tensor
    return tensor.expand(*batch, *tensor.shape[-inner:]).reshape(-1, *tensor.shape[-inner:])
