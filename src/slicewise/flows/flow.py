"""Samples carried to samples: the gradient flow of a sliced distance, with the step computed."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from slicewise.distance import Objective, problem_for, recipe_for
from slicewise.flows.loop import Loop, check_state
from slicewise.flows.result import Flow, Trace
from slicewise.flows.settings import Settings
from slicewise.flows.setup import Rates, Seeds, groups_for, runs_of
from slicewise.flows.stopping import Stopping
from slicewise.problem import Target
from slicewise.sampling import DRAWS, Generators
from slicewise.steps import Rule, rule_for
from slicewise.support import (
    CheckpointFile,
    check_choice,
    check_count,
    check_finite,
    check_flow_argument,
    comes_from_elsewhere,
    current,
    did_you_mean,
    fingerprint,
    full_precision,
    meant,
)
from slicewise.variants import VARIANTS, Recipe, Variant


def flow(
    x: Tensor,
    y: Tensor,
    variant: str | Variant | Recipe = "sw",
    *,
    lr: Rates = "auto",
    steps: int = 1000,
    objective: Objective = "power",
    p: float = 2,
    n_slices: int | None = None,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    seeds: Seeds = None,
    generator: Generators = None,
    reduce: bool | Literal["auto"] = "auto",
    step: str | float | Rule | None = None,
    share: float = 1.0,
    hold_weights: bool = True,
    stop_w2: float | None = None,
    tolerance: float | Literal["auto"] | None = "auto",
    finish: Literal["assign"] | None = None,
    at_least: float | None = None,
    w2_at: Iterable[int] = (),
    particles_at: Iterable[int] = (),
    resume: dict[str, Any] | None = None,
    checkpoint: str | Path | None = None,
    bar: bool | None = None,
    backend: str = "auto",
    **options: Any,
) -> Flow:
    """Move samples x (*batch, n, d) until they are samples y (*batch, m, d), down a sliced distance.

    With `lr="auto"` nothing needs tuning: each step is computed from the slices it draws. For "sw" that is
    the whole default: exact reduction to the data's own dimensions, evenly spread slices, momentum with
    restarts, escapes from dead ends. Other variants take their own slices and the Cauchy step (tempered, beyond the plane).

    Every leading dimension is a batch of runs, those of `lr` and `seeds` included: 36 rates (36, 1) and 3
    seeds (3,) are 108 runs in one call. What a run draws depends on its seed and the step alone.

    Args:
        lr: "auto", or plain gradient steps of this rate: a number, or a tensor (a list, an array) over the batch.
        n_slices: in a step. None is the variant's own default; "sw" with lr="auto" takes 50, and from 8 dimensions
            on 7 for each.
        objective: what is descended: "power" (SW_p^p), "root" (SW_p) or "mean_root" (the mean W_p).
        seeds: one for each run, or one for all; None draws them from `generator`.
        reduce: work in the data's own k dimensions. Distances and the minimiser stay, a given rate means d / k
            times as much; "auto" does so for computed steps, where the variant can.
        step: "cauchy", "tempered", "trace", "polyak", "constant", a number (the dimensionless a) or a rule: plain
            computed steps by that rule, also for "sw". Needs lr="auto".
        share: of the computed step; stable below 2, and 1 is right.
        hold_weights: computed steps take slice weights as constants; False differentiates energies.
        stop_w2: end a run once its exact W_2 is at most this (extra `exact`).
        tolerance: end a run once no sample is asked to move further than this, relative to the largest
            coordinate; "auto" is 1e-9 (float32: 1e-6) for computed steps and no such end for rates.
        finish: "assign" solves one exact assignment when a run first stalls and jumps there. That is a
            solver's answer, not the flow's: such runs are marked, and compare no objectives.
        at_least: no coordinate goes below this, as published colour flows have it at 0; for given rates.
        w2_at, particles_at: after how many steps to note the exact W_2, to keep the particles.
        resume: the `state` of a flow with the same samples and settings, to go on from. `steps` may change; where
            something follows the share of steps made (schedules such as `Anneal`; the shrinking steps of
            n ≠ m and of weights) that makes another flow of it.
        checkpoint: a file to go on from if it exists, kept up to date while the flow runs.
        bar: show progress; None does on a terminal.

    A run that diverges is stopped, marked and keeps its last finite particles; the others go on.

    >>> x, y = torch.randn(2, 100, 2, dtype=torch.float64)
    >>> found = flow(x, y, seeds=0)
    >>> bool(found.converged), bool(found.w2 < 1e-6)
    (True, True)
    """
    _check(steps=steps, lr=lr, objective=objective, finish=finish, stop_w2=stop_w2, y=y)
    _check_names(variant, options)
    recipe = recipe_for(variant, n_slices, options)
    what = (x, y, p, x_weights, y_weights, recipe.convention, 0.0, backend)
    problem = problem_for(*what, keep_absent=True).detached()
    settings = Settings(
        recipe=recipe,
        objective=objective,
        auto=isinstance(lr, str),
        reduce=reduce,
        rule=None if step is None else rule_for(step),
        share=share,
        hold_weights=hold_weights,
        # A number that was asked for, by hand, by a preset or in a recipe, is kept.
        n_slices_given=n_slices is not None
        or "defaults" in options
        or not isinstance(variant, str | Variant),
        assign=finish == "assign",
        at_least=at_least,
    )
    saver = None if checkpoint is None else CheckpointFile(checkpoint, "flow")
    if saver is not None and resume is None:
        resume = saver.load()
    if seeds is None and isinstance(resume, dict):
        seeds = resume.get("seeds")
    device = problem.x.device
    with torch.no_grad(), full_precision(device.type), current(device):
        runs = runs_of(problem, settings, lr, seeds, generator)
        check_finite(x=runs.problem.x, y=runs.problem.y)
        stopping = Stopping(
            stop_w2, settings.tolerance(tolerance, problem), assign=finish == "assign"
        )
        samples = (problem.x, problem.y, x_weights, y_weights, problem.p)
        identity = fingerprint(DRAWS, settings, stopping, runs.rates, runs.seeds, samples)
        if saver is not None:
            saver.check_identity(identity)
        if resume is not None:
            check_state(resume, identity)
        groups = groups_for(runs, settings, stopping, None if resume is None else resume["groups"])
        loop = Loop(runs, groups, Trace(runs.batch, w2_at, particles_at), identity)
        if resume is not None:
            loop.restore(resume)
        loop.run(steps, saver, bar)
        particles = loop.particles().reshape(*runs.batch, *x.shape[-2:])
    return Flow(
        particles=particles.to(x.dtype),
        target=y.detach().clone(),
        trace=loop.trace,
        status=loop.whole("status").reshape(runs.batch),
        steps=loop.whole("steps").reshape(runs.batch),
        ranks=loop.whole("dimension").reshape(runs.batch),
        seeds=runs.seeds.reshape(runs.batch),
        state=loop.saved(),
        x_weights=x_weights,
        y_weights=y_weights,
    )


def _check(*, steps: Any, lr: Any, objective: str, finish: Any, stop_w2: Any, y: Any) -> None:
    if steps is None:
        raise ValueError("steps = None: give a whole number of at least 0")
    check_count("steps", steps, at_least=0)
    check_choice("objective", objective, get_args(Objective))
    if isinstance(lr, str) and lr != "auto":
        raise ValueError(f"lr = {lr!r}: give 'auto', a number, or a tensor over the batch")
    if finish is not None:
        check_choice("finish", finish, ("assign",))
    if stop_w2 is not None and not (isinstance(stop_w2, (int, float)) and stop_w2 > 0):
        raise ValueError(f"stop_w2 = {stop_w2!r}: give a positive distance, or None")
    if isinstance(y, Target):
        raise ValueError(
            "y is a Target, whose slices are fixed: a flow draws its own; give target.y"
        )


def _check_names(variant: str | Variant | Recipe, options: dict[str, Any]) -> None:
    """A misspelt argument of `flow` lands among the variant's options, which would not know it."""
    one = VARIANTS.get(variant) if isinstance(variant, str) else variant
    has = one.options if isinstance(one, Variant) else ()
    own = [name for name in inspect.signature(flow).parameters if name not in ("x", "y", "options")]
    for name in options:
        if name in has or name in ("defaults", "convention", "legacy"):
            continue
        check_flow_argument(name)
        # An option of another variant is told what this one has.
        strange = not any(name in other.options for other in VARIANTS.values())
        near = meant(name, own, cutoff=0.6) if strange or comes_from_elsewhere(name) else []
        if near:
            raise ValueError(f"flow has no argument {name!r}: {did_you_mean(near[:1]).strip()}")
