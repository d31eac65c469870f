"""Flows as cells of a study: the rates and seeds of one variant on one task, as one batch."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

import slicewise as sw
from slicewise.distance import Objective
from slicewise.flows import STEP_VERSION_KEY
from slicewise.lab.data import Array
from slicewise.lab.images import log_spaced
from slicewise.lab.names import FIRST_SEARCH, NO_RATE, TIMES
from slicewise.lab.study import Result, Run
from slicewise.parts import PushForward
from slicewise.problem import Convention
from slicewise.sampling import DRAWS
from slicewise.support import CheckpointError

ELEVEN = (
    "sw", "maxsw", "dsw", "maxksw", "imsw", "vimsw", "omsw", "rmsw", "ebsw", "rpsw", "ebrpsw",
)  # fmt: skip
# Begins the setting of runs that are timed, each by itself.
TIMED_PREFIX = "runtime, "
# Larger states are not written to checkpoints; larger batches are made in parts.
_CHECKPOINT_BYTES, _BATCH_BYTES = 10**9, 16 * 10**9
_log = logging.getLogger("slicewise")


class FlowTask(Protocol):
    """The samples that a flow moves, and their target."""

    @property
    def setting(self) -> str:
        """The name of the setting in a store."""
        ...

    @property
    def given(self) -> Mapping[str, Any]:
        """Everything that determines the samples but for the seed."""
        ...

    @property
    def noted(self) -> Mapping[str, Any]:
        """What else is stored about the samples, such as their source."""
        ...

    @property
    def shown(self) -> Sequence[int]:
        """The steps after which particles are stored for a figure."""
        ...

    @property
    def pictured(self) -> bool:
        """Whether the final particles of runs with a learning rate are stored, too."""
        ...

    @property
    def filmed(self) -> bool:
        """Whether the path of every variant is stored, not of "sw" alone."""
        ...

    def samples(self, seed: int) -> tuple[Tensor, Tensor]:
        """Return x (n, d) and y (m, d) of one run, in float64."""
        ...

    def picture(self, particles: Tensor, seed: int) -> Array:
        """Return what is stored of particles (S, n, d) to draw them."""
        ...


@dataclass(frozen=True, eq=False)
class RunPath:
    """What a run looked like after some steps, and its exact distances after some."""

    pictures: Array  # as `FlowTask.picture` makes them
    w2: Sequence[float]


@dataclass(frozen=True)
class FlowCell:
    """Flows of one variant on one task, at some learning rates or, with `rates=None`, with computed steps."""

    experiment: str
    task: FlowTask
    variant: str
    objective: Objective
    rates: tuple[float, ...] | None
    seeds: tuple[int, ...]
    steps: int
    convention: Convention = "mean"
    dtype: str = "float64"
    reduce: bool = False
    defaults: str | None = "paper"  # the preset of the variant; None is the default one
    suffix: str = ""  # of the setting, if a task is used in several ways
    lower_bound: float | None = None  # lower bound of coordinates, with rates
    timed_on: str = ""  # the machine, for a cell that is timed

    @property
    def name(self) -> str:
        how = "computed step" if self.rates is None else self.objective
        return f"{self.experiment} {self.setting}, {self.variant}, {how}"

    @property
    def setting(self) -> str:
        return (TIMED_PREFIX if self.alone else "") + self.task.setting + self.suffix

    @property
    def alone(self) -> bool:
        return bool(self.timed_on)

    @property
    def keeps_path(self) -> bool:
        """Whether the path of the particles is stored, not only their end."""
        return self.rates is None and (self.variant == "sw" or self.task.filmed)

    @property
    def part(self) -> str:
        """Its part of the experiment, one of `slicewise.lab.names.FLOW_PARTS`."""
        if self.alone:
            return TIMES
        return NO_RATE if self.rates is None else FIRST_SEARCH

    def device(self, asked: str) -> str:
        return asked

    @property
    def _recipe(self) -> sw.Recipe:
        return sw.VARIANTS[self.variant](defaults=self.defaults, convention=self.convention)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        given = {
            "task": dict(self.task.given),
            "recipe": repr(self._recipe),
            "defaults": self.defaults or "slicewise",
            "convention": self.convention,
            "steps": self.steps,
            "dtype": self.dtype,
            "reduce": self.reduce,
            "draws": DRAWS,
        }
        if self.rates is None:
            given["computed"] = STEP_VERSION_KEY
        if self.alone:
            given["machine"] = self.timed_on
        if self.lower_bound is not None:
            given["at_least"] = self.lower_bound  # its name in the keys of stored runs
        identity = (self.experiment, self.setting, self.variant, self.objective)
        rates = (None,) if self.rates is None else self.rates
        noted = self.task.noted
        return tuple(
            Run(*identity, rate, seed, given, noted) for rate in rates for seed in self.seeds
        )

    def measure(
        self, runs: Sequence[Run], device: str, checkpoint: Path | None = None
    ) -> list[Result]:
        """Make all runs in one call of `flow`, or in several if the batch is too large."""
        most = max(1, int(_BATCH_BYTES // self._bytes_per_run()))
        if len(runs) > most:
            parts = [runs[at : at + most] for at in range(0, len(runs), most)]
            return [result for part in parts for result in self.measure(part, device)]
        if self._bytes_per_run() * len(runs) > _CHECKPOINT_BYTES or self.alone:
            checkpoint = None
        seeds = [run.seed for run in runs]
        pairs = {seed: self.task.samples(seed) for seed in set(seeds)}
        dtype = getattr(torch, self.dtype)
        x, y = (
            torch.stack([pairs[seed][side] for seed in seeds]).to(device, dtype) for side in (0, 1)
        )
        how = self._how(runs)
        if self.alone:
            # Compile kernels, and on a GPU capture graphs, before the time is measured.
            few = {**how, "stopping": sw.Stopping(tolerance=None)}
            sw.flow(x, y, self.variant, max_steps=min(self.steps, 500 if x.is_cuda else 3), **few)
        begun = time.perf_counter()
        found = self._flow(x, y, checkpoint, how)
        if x.is_cuda:
            torch.cuda.synchronize()
        seconds = max(time.perf_counter() - begun, float(found.state["seconds"]))
        recorded = log_spaced(self.steps, 30)[1:]
        losses = found.history.loss  # joined anew at each access
        results = [
            self._result(run, i, found, seconds, recorded, losses[:, i])
            for i, run in enumerate(runs)
        ]
        if self.keeps_path:
            results[0] = self._with_path(results[0], int(found.n_steps[0]), device)
        return results

    def _how(self, runs: Sequence[Run]) -> dict[str, Any]:
        """Return the settings of `flow` for some runs."""
        how: dict[str, Any] = {
            "objective": self.objective,
            "seeds": [run.seed for run in runs],
            "reduce": self.reduce,
            "convention": self.convention,
            # Sliced steps alone: what is compared is what descending a distance does.
            "stopping": sw.Stopping(assign=False),
            "recording": sw.Recording(progress_bar=False),
        }
        if self.defaults is not None:
            how["defaults"] = self.defaults
        if self.rates is not None:
            rates = [run.lr for run in runs]
            how |= {
                "lr": torch.tensor(rates, dtype=torch.float64),
                "stopping": sw.Stopping(tolerance=None),
                "lower_bound": self.lower_bound,
            }
        return how

    def _flow(
        self, x: Tensor, y: Tensor, checkpoint: Path | None, how: Mapping[str, Any]
    ) -> sw.Flow:
        """Run the flow; a checkpoint that is damaged or has other settings is named and removed."""
        how = {**how, "recording": replace(how["recording"], checkpoint=checkpoint)}
        with warnings.catch_warnings():
            # How each run ended is stored and shown with it.
            warnings.simplefilter("ignore", sw.NotArrivedWarning)
            if checkpoint is not None and checkpoint.exists():
                try:
                    return sw.flow(x, y, self.variant, max_steps=self.steps, **how)
                except CheckpointError as refused:
                    _log.warning(
                        "%s: its runs begin anew (%s)", self.name, str(refused).rpartition(": ")[0]
                    )
                    checkpoint.unlink(missing_ok=True)
            return sw.flow(x, y, self.variant, max_steps=self.steps, **how)

    def _bytes_per_run(self) -> float:
        """Estimate the memory of one run: copies of its samples, its curves, and what it learns."""
        n, d = self.task.samples(0)[0].shape
        worked_in = min(d, 2 * n) if self.reduce else d
        numbers = 8 * n * worked_in
        if isinstance(self._recipe.slicer, PushForward):
            numbers += 4 * worked_in**2  # a square matrix, its gradient and the two states of Adam
        return numbers * getattr(torch, self.dtype).itemsize + 3 * 8 * self.steps

    def _result(
        self,
        run: Run,
        i: int,
        found: sw.Flow,
        seconds: float,
        recorded: Sequence[int],
        losses: Tensor,
    ) -> Result:
        w2 = found.w2[i].item()
        steps = int(found.n_steps[i])
        # Including the last step: the loss may drop much after the one before.
        at = sorted({step for step in (*recorded, steps) if 0 < step <= steps})
        noted = losses[[step - 1 for step in at]].tolist()
        trace: dict[str, Sequence[float]]
        trace = {"at": at, "loss": [float(f"{loss:.6g}") for loss in noted]}
        arrays = {}
        kept = self.rates is None or (self.task.pictured and not self.alone)
        if kept and run.seed == self.seeds[0] and not found.diverged[i]:
            arrays["end"] = self.task.picture(found.particles[None, i], run.seed)
        return Result(
            run,
            found.status[i],
            seconds / len(found.n_steps),
            batch=len(found.n_steps),
            w2=w2,
            measures={"steps": steps, "rank": int(found.dimensions[i]), "w2_squared": w2 * w2},
            trace=trace,
            arrays=arrays,
        )

    def _with_path(self, result: Result, steps: int, device: str) -> Result:
        """Repeat the first run and record its path; not done in the timed call because recording takes time."""
        w2_at = log_spaced(steps, 16)
        shown = sorted({*(step for step in self.task.shown if step < steps), steps})
        path = self.path(result.run, shown, w2_at, device)
        trace = {**result.trace, "w2_at": w2_at, "w2": path.w2, "shown": shown}
        return replace(result, trace=trace, arrays={**result.arrays, "way": path.pictures})

    def path(
        self, run: Run, shown: Sequence[int], w2_at: Sequence[int], device: str = "cpu"
    ) -> RunPath:
        """Make a run again, as far as the last of some steps, and record it there.

        Args:
            run: one of `runs`.
            shown: the steps after which particles are pictured.
            w2_at: the steps after which the exact distance is measured.
            device: "cpu" or "cuda"; the same as that of the run gives the same particles.
        """
        x, y = (side.to(device, getattr(torch, self.dtype)) for side in self.task.samples(run.seed))
        once: dict[str, Any] = {
            **self._how([run]),
            "seeds": run.seed,
            "stopping": sw.Stopping(tolerance=None),  # as many steps as are asked for
            "recording": sw.Recording(w2_at=w2_at, particles_at=shown, progress_bar=False),
        }
        if "lr" in once:
            once["lr"] = run.lr
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sw.NotArrivedWarning)  # its end is that of the run
            most = max(*shown, *w2_at)
            history = sw.flow(x, y, self.variant, max_steps=most, **once).history
        picture = self.task.picture(history.particles, run.seed)
        return RunPath(picture, history.w2.tolist())


def timed_cells(
    experiment: str,
    task: FlowTask,
    steps: int,
    convention: Convention,
    machine: str,
    seeds: Sequence[int] = (0,),
) -> list[FlowCell]:
    """Return a timed cell for every variant and seed, in all dimensions, at a rate that never diverges."""
    return [
        FlowCell(
            *(experiment, task, name, "root", (1e-3,), (seed,), steps, convention, "float32"),
            timed_on=machine,
        )
        for name in ELEVEN
        for seed in seeds
    ]
