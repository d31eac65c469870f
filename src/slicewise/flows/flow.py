"""Move samples onto samples: the gradient flow of a sliced distance."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from slicewise.distance import Objective, problem_for, recipe_for
from slicewise.flows.history import History, Recording
from slicewise.flows.loop import FlowLoop, check_state
from slicewise.flows.result import Flow
from slicewise.flows.settings import FlowSettings
from slicewise.flows.setup import Rates, Seeds, groups_for, runs_of
from slicewise.flows.stopping import Stopping
from slicewise.laws import Law
from slicewise.problem import Problem, Target
from slicewise.sampling import DRAWS, Generators
from slicewise.steps import Rule, rule_for
from slicewise.support import (
    CheckpointFile,
    NotArrivedWarning,
    broadcast,
    check_choice,
    check_count,
    check_finite,
    check_flow_argument,
    comes_from_elsewhere,
    current,
    did_you_mean,
    fingerprint,
    full_precision,
    level_of_caller,
    meant,
    one_thread,
    takes_arrays,
)
from slicewise.variants import VARIANTS, Recipe, Variant


@takes_arrays("x", "y", "x_weights", "y_weights")
def flow(
    x: Tensor,
    y: Tensor | Law,
    variant: str | Variant | Recipe = "sw",
    *,
    lr: Rates = "auto",
    max_steps: int | None = None,
    objective: Objective = "power",
    p: float = 2,
    n_slices: int | None = None,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    seeds: Seeds = None,
    generator: int | Generators = None,
    reduce: bool | Literal["auto"] = "auto",
    step_rule: str | float | Rule | None = None,
    step_factor: float = 1.0,
    hold_weights: bool | None = None,
    lower_bound: float | None = None,
    stopping: Stopping = Stopping(),
    recording: Recording = Recording(),
    resume: dict[str, Any] | None = None,
    backend: str = "auto",
    **options: Any,
) -> Flow:
    """Move samples x until they coincide with samples y, by descending a sliced distance.

    With the default `lr="auto"` no learning rate needs tuning: each step is computed from the slices it draws. For "sw"
    this comes with an exact reduction to the dimensions of the data, evenly spread slices and momentum with restarts.
    Other variants use their own slices and the Cauchy step (`Tempered` in more than two dimensions). Once sliced steps
    no longer bring the particles nearer, an assignment ends the run (`Stopping(assign=False)` goes on with sliced
    steps instead). Give numbers as `lr` for plain gradient descent, for example to sweep over rates.

    All leading dimensions are a batch of runs, including those of `lr` and `seeds`: 36 rates of shape (36, 1) and 3
    seeds of shape (3,) are 108 runs in one call. What a run draws depends on its seed and the step only.

    `status` says how each run ended, and a `NotArrivedWarning` that some with computed steps did not arrive. A run that
    diverges is stopped, marked and keeps its last finite particles; the others continue.

    Args:
        x: Samples to move, (*batch, n, d).
        y: Target samples, (*batch, m, d), or a law of `slicewise.laws`. A flow to a law ends at "minimum reached", where
            the particles are the law's best n points, as the slices see them; its exact W_2 is not known.
        variant: The distance to descend: a name in `VARIANTS`, or a `Recipe`.
        lr: "auto" for computed steps, or the rate of plain gradient steps: a number, or a tensor, list or array over
            the batch.
        max_steps: Number of steps after which a run ends in any case. None is 1,000 where an assignment can end it and for
            given rates, else 1,000 + 5 n log2(2 k) for n samples (the larger set) that span k dimensions: sliced steps
            alone need a number that grows with n.
        objective: What is descended: "power" (SW_p^p), "root" (SW_p) or "mean_root" (the mean of W_p over slices).
        p: Order of the distance, at least 1.
        n_slices: Slices in each step. None is the variant's default; "sw" with computed steps uses 50, and 7 for each
            dimension from 8 dimensions on.
        x_weights, y_weights: Weights of the samples, (n,) and (m,) or with leading dimensions; each sums to 1. Samples
            of weight zero are absent (padding).
        seeds: A seed for each run, or one for all. None draws them from `generator`.
        generator: Source of the seeds: an int, a `torch.Generator`, a list of those (one for each run), or None for
            PyTorch's global generator.
        reduce: Work in the k dimensions the data span. Distances and the minimizer stay the same, and a given rate acts
            as one d / k times as large. "auto" reduces for computed steps, unless the variant is not rotation invariant
            or does not exist in k dimensions; True raises an error then.
        step_rule: Rule that computes the step: "cauchy", "tempered", "trace", "polyak", "constant", a number (the
            dimensionless step) or a rule of `slicewise.steps`. It replaces the default of the variant, for "sw"
            including momentum. Needs `lr="auto"`.
        step_factor: Multiplies the computed step. Values of 2 or more diverge.
        hold_weights: Treat slice weights that depend on the costs (energies) as constants (True) or differentiate them
            (False). None holds them for computed steps, and differentiates them for given rates, unless the variant
            says otherwise.
        lower_bound: Keep every coordinate at or above this. For given rates only.
        stopping: When a run may end before `max_steps`, a `Stopping`.
        recording: What to record on the way, where to keep a checkpoint, and whether to show a progress bar, a
            `Recording`.
        resume: The `state` of a flow with the same samples and settings, to continue from. `max_steps` and `recording`
            may change. Where something depends on the fraction of steps made (schedules such as `Anneal`) another
            `max_steps` continues as another flow.
        backend: What computes: "auto", or a name that `slicewise.backends()` lists.
        **options: Options of the variant, e.g. `kappa=50` for "rpsw".

    Returns:
        A `Flow`: `particles` (*batch, n, d), `status`, `by`, `n_steps`, `w2`, `history`, `state` and more.

    Warns:
        NotArrivedWarning: If runs with computed steps ended before they met what `stopping` asks for; and before the
            first step, in its place, if a variant's slices never change, so that they may never do.

    Raises:
        ValueError: If arguments do not fit together, a checkpoint or state belongs to another flow, or an argument is
            unknown (the message names the one that may be meant).

    Example:
        >>> import slicewise as sw
        >>> x, y = torch.randn(2, 100, 2, dtype=torch.float64)
        >>> result = sw.flow(x, y, seeds=0)
        >>> result.status, bool(result.w2 < 1e-6)
        ('arrived', True)
        >>> rates = torch.tensor([[1.0], [10.0]])
        >>> sweep = sw.flow(x, y, lr=rates, seeds=[1, 2, 3], max_steps=20, recording=sw.Recording(w2_at=[0, 20]))
        >>> sweep.history.w2.shape
        torch.Size([2, 2, 3])
    """
    _check(max_steps=max_steps, lr=lr, objective=objective, y=y)
    _check_kind("stopping", stopping, Stopping, "w2=1e-3")
    _check_kind("recording", recording, Recording, "w2_at=[0, 100]")
    _check_names(variant, options)
    auto = isinstance(lr, str)
    if hold_weights is not None and not auto:
        _check_holdable(variant)
        options["hold_weights"] = hold_weights
    recipe = recipe_for(variant, n_slices, options)
    if isinstance(y, Law) and (recording.w2_at or stopping.w2 is not None):
        raise ValueError(
            f"an exact W_2 to {y!r} is not known: leave w2_at and Stopping(w2=...) out, or give samples of the law"
        )
    what = (x, y, p, x_weights, y_weights, recipe.convention, 0.0, backend)
    # Laws of a batch are rows of a frame that runs are picked from; all of it goes with them.
    several = isinstance(y, Law) and not y.is_constant
    problem = problem_for(*what, keep_absent=True, whole_frame=several).detached()
    settings = FlowSettings(
        recipe=recipe,
        objective=objective,
        auto=auto,
        reduce=reduce,
        rule=None if step_rule is None else rule_for(step_rule),
        step_factor=step_factor,
        hold_weights=True if hold_weights is None else hold_weights,
        # A number that was asked for, by argument, by a preset or in a recipe, is kept.
        n_slices_given=n_slices is not None
        or "defaults" in options
        or not isinstance(variant, str | Variant),
        assign=stopping.assign,
        lower_bound=lower_bound,
    )
    file = None if recording.checkpoint is None else CheckpointFile(recording.checkpoint, "flow")
    saved = None if file is None else file.load()
    resume = saved if resume is None else resume
    if seeds is None and generator is None and isinstance(resume, dict):
        seeds = resume.get("seeds")
        if torch.is_tensor(seeds) and not _fit_together(problem, lr, seeds):
            # Of another batch, and so of another flow: refused as such, below.
            seeds = None
    device = problem.x.device
    with torch.no_grad(), full_precision(device.type), current(device), one_thread(device):
        runs = runs_of(problem, settings, lr, seeds, generator)
        check_finite(x=runs.problem.x, y=runs.problem.y)
        stopping = settings.resolved(stopping, problem)
        asked = stopping.assign or stopping.tolerance is not None or stopping.w2 is not None
        expected = auto and asked  # to arrive
        sees_no_more = (
            expected and recipe.has_fixed_slices and problem.d > 1 and not stopping.assign
        )
        if max_steps is None:
            max_steps = settings.default_steps(stopping, problem, int(runs.dimensions.max()))
        samples = (problem.x, problem.y, x_weights, y_weights, problem.p)
        named = () if problem.law is None else (repr(problem.law),)
        identity = fingerprint(DRAWS, settings, stopping, runs.rates, runs.seeds, samples, *named)
        if file is not None:
            file.check_identity(identity)
        if resume is not None:
            check_state(resume, identity)
        groups = groups_for(runs, settings, stopping, None if resume is None else resume["groups"])
        history = History(runs.batch, recording.w2_at, recording.particles_at)
        loop = FlowLoop(runs, groups, history, identity)
        if resume is not None:
            loop.restore(resume)
        elif sees_no_more:
            warnings.warn(
                f"{_named(variant)} has the same slices at every step, and never moves what they do not see: its flow may "
                "end short of the target. Use a variant whose slices change, e.g. 'sw' or 'rqsw', or let an assignment end "
                "it: stopping=sw.Stopping(assign=True)",
                NotArrivedWarning,
                stacklevel=level_of_caller(),
            )
        loop.run(max_steps, file, recording.progress_bar)
        particles = loop.particles().reshape(*runs.batch, *x.shape[-2:])
    found = Flow(
        particles=particles.to(x.dtype),
        target=y if isinstance(y, Law) else y.detach().clone(),
        history=history,
        n_steps=loop.whole("n_steps").reshape(runs.batch),
        dimensions=loop.whole("dimension").reshape(runs.batch),
        seeds=runs.seeds.reshape(runs.batch),
        state=loop.saved(),
        outcome=loop.whole("outcome").reshape(runs.batch),
        jump=loop.whole("jump").reshape(runs.batch),
        stopping=stopping,
        x_weights=x_weights,
        y_weights=y_weights,
    )
    if expected and not sees_no_more and (trouble := found.not_arrived()):
        warnings.warn(trouble, NotArrivedWarning, stacklevel=level_of_caller())
    return found


def _named(variant: str | Variant | Recipe) -> str:
    return f"variant {variant!r}" if isinstance(variant, str) else repr(variant)


def _fit_together(problem: Problem, lr: Any, seeds: Tensor) -> bool:
    """Whether stored seeds broadcast with the samples and the rates."""
    rates = () if isinstance(lr, str) else tuple(torch.as_tensor(lr).shape)
    try:
        broadcast(problem.batch, rates, tuple(seeds.shape))
    except RuntimeError:
        return False
    return True


def _check(*, max_steps: Any, lr: Any, objective: str, y: Any) -> None:
    if max_steps is not None:
        check_count("max_steps", max_steps, at_least=0)
    check_choice("objective", objective, get_args(Objective))
    if isinstance(lr, str) and lr != "auto":
        raise ValueError(f"lr = {lr!r}: give 'auto', a number, or a tensor over the batch")
    if isinstance(y, Target):
        raise ValueError(
            "y is a Target, whose slices are fixed: a flow draws its own; give target.y"
        )


def _check_kind(name: str, value: object, kind: type, example: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(
            f"{name} = {value!r}: give a {kind.__name__}, e.g. {name}=sw.{kind.__name__}({example})"
        )


def _check_holdable(variant: str | Variant | Recipe) -> None:
    """Beside a given rate, `hold_weights` is an option of the variant: check that it has one."""
    one = VARIANTS.get(variant) if isinstance(variant, str) else variant
    if isinstance(one, Variant) and "hold_weights" not in one.options:
        raise ValueError(
            f"hold_weights beside a rate: the slice weights of variant {one.name!r} do not depend on the costs; "
            f"leave it out"
        )
    if isinstance(one, Recipe):
        raise ValueError(
            f"hold_weights beside a rate and a recipe: say it in the weighting of {one!r}"
        )


def _check_names(variant: str | Variant | Recipe, options: dict[str, Any]) -> None:
    """Refuse arguments that `flow` does not have; they arrive among the options of the variant."""
    one = VARIANTS.get(variant) if isinstance(variant, str) else variant
    has = one.options if isinstance(one, Variant) else ()
    own = [name for name in inspect.signature(flow).parameters if name not in ("x", "y", "options")]
    for name in options:
        if name in has or name in ("defaults", "convention", "legacy"):
            continue
        check_flow_argument(name)
        # The error for an option of another variant is `recipe_for`'s: it lists what this one has.
        unknown = not any(name in other.options for other in VARIANTS.values())
        near = meant(name, own, cutoff=0.6) if unknown or comes_from_elsewhere(name) else []
        if near:
            raise ValueError(f"flow has no argument {name!r}: {did_you_mean(near[:1]).strip()}")
        if unknown and not comes_from_elsewhere(name):
            raise ValueError(
                f"flow has no argument {name!r}: it takes {', '.join(own)}, and the options of the variant"
            )
