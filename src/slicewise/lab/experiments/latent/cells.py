"""Trainings as cells of a study: the rates and seeds of one variant on one task are trained as one stack."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import slicewise as sw
from slicewise.judging import MIN_VARIANCE_RATIO
from slicewise.lab.experiments.flows import TIMED_PREFIX
from slicewise.lab.experiments.latent.tasks import LatentTask, Measures
from slicewise.lab.images import log_spaced
from slicewise.lab.study import Result, Run
from slicewise.optim import Walker
from slicewise.sampling import DRAWS
from slicewise.support import CheckpointError
from slicewise.training import Precision, Stack, Training, train

# What stands for the objective in runs that differ from others by how they are trained, all of them on the power: by
# displacements, by Adam at searched rates, and with the step length computed, at no rate at all.
DISPLACEMENT = "displacement"
ADAM = "adam"
COMPUTED = "computed"
UNTRAINED = "untrained"
# In the keys of runs without a rate: they are made again when `train(lr="auto")` computes another step.
COMPUTED_VERSION = str(Walker.version)
_log = logging.getLogger("slicewise")


@dataclass(frozen=True)
class TrainingCell:
    """Trainings of one variant on one task, at some rates or, with `rates=None`, with computed step lengths."""

    experiment: str
    task: LatentTask
    variant: str
    objective: str  # "root", "power", "mean_root"; or "displacement", "adam", "computed"
    rates: tuple[float, ...] | None
    seeds: tuple[int, ...]
    steps: int
    precision: Precision = "float32"
    optimizer: str = "sgd"  # with computed step lengths: the direction
    decay: str | None = None
    n_slices: int | None = None  # None is the number of the paper
    exact: bool = True  # whether the exact distance is computed, too
    timed_on: str = ""  # the machine, for a cell that is timed

    def __post_init__(self) -> None:
        if (self.rates is None) != (self.objective == COMPUTED):
            raise ValueError(
                f"rates = {self.rates} with objective {self.objective!r}: a cell has no rates if, and only if, its step "
                f"lengths are computed ({COMPUTED!r})"
            )

    @property
    def name(self) -> str:
        return f"{self.experiment} {self.setting}, {self.variant}, {self.objective}"

    @property
    def setting(self) -> str:
        return (TIMED_PREFIX if self.alone else "") + self.task.name

    @property
    def alone(self) -> bool:
        return bool(self.timed_on)

    def device(self, asked: str) -> str:
        return asked

    @property
    def _recipe(self) -> sw.Recipe:
        more: dict[str, Any] = {} if self.n_slices is None else {"n_slices": self.n_slices}
        return sw.VARIANTS[self.variant](defaults="paper", **more)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        given = {
            "task": dict(self.task.given),
            "recipe": repr(self._recipe),
            "steps": self.steps,
            "precision": self.precision,
            "optimiser": self.optimizer,  # as the keys of stored runs spell it
            "decay": self.decay or "none",
            "draws": DRAWS,
        }
        if self.rates is None:
            given["computed"] = COMPUTED_VERSION
        if self.alone:
            given["machine"] = self.timed_on
        identity = (self.experiment, self.setting, self.variant, self.objective)
        noted = self.task.noted
        rates = (None,) if self.rates is None else self.rates
        return tuple(
            Run(*identity, rate, seed, given, noted) for rate in rates for seed in self.seeds
        )

    def measure(
        self, runs: Sequence[Run], device: str, checkpoint: Path | None = None
    ) -> list[Result]:
        """Train and judge all runs as one stack."""
        if self.alone:
            # Compile kernels, and on a GPU capture graphs, before the time is measured.
            self._trained(runs, device, None, steps=100 if device != "cpu" else 2)
            checkpoint = None
        stack, found = self._resumed(runs, device, checkpoint)
        if self.alone:
            measures = {"steps": float(found.n_steps)}
            return [
                Result(
                    run,
                    found.status if isinstance(found.status, str) else found.status[0],
                    found.seconds,
                    measures=measures,
                )
                for run in runs
            ]
        judged = self.task.judge(stack, exact=self.exact)
        best = _best_rate(runs, judged, found.status) if self.exact else []
        apart = self.task.self_distance(stack, best)
        return [
            self._result(run, i, stack, found, {**judged[i], "self_w2": apart.get(i, math.nan)})
            for i, run in enumerate(runs)
        ]

    def _resumed(
        self, runs: Sequence[Run], device: str, checkpoint: Path | None
    ) -> tuple[Stack, Training]:
        """Train; a checkpoint that is damaged or has other settings is named and removed."""
        if checkpoint is not None and checkpoint.exists():
            try:
                return self._trained(runs, device, checkpoint)
            except CheckpointError as refused:
                _log.warning(
                    "%s: its runs begin anew (%s)", self.name, str(refused).rpartition(": ")[0]
                )
                checkpoint.unlink(missing_ok=True)
        return self._trained(runs, device, checkpoint)

    def _trained(
        self, runs: Sequence[Run], device: str, checkpoint: Path | None, steps: int | None = None
    ) -> tuple[Stack, Training]:
        networks = [self.task.network(run.seed) for run in runs]
        seeds = [run.seed for run in runs]
        stack = Stack(networks).to(device)
        one_network = self.alone and len(runs) == 1
        on_power = self.objective in (DISPLACEMENT, ADAM, COMPUTED)
        how: dict[str, Any] = {
            "objective": "power" if on_power else self.objective,
            "scale": "displacement" if self.objective == DISPLACEMENT else "classic",
            "optimizer": self.optimizer,
            "decay": self.decay,
            "precision": self.precision,
        }
        if self.rates is None:
            how["lr"] = "auto"
        else:
            rates = [float(run.lr or 0) for run in runs]
            how["lr"] = rates[0] if one_network else rates
        with _quiet_log():
            found = train(
                networks[0].to(device) if one_network else stack,
                self.task.target,
                self._recipe,
                source=self.task.source,
                max_steps=self.steps if steps is None else steps,
                batch=self.task.batch,
                seeds=seeds[0] if one_network else seeds,
                checkpoint=checkpoint,
                progress_bar=False,
                **how,
            )
        return stack, found

    def _result(
        self, run: Run, i: int, stack: Stack, found: Training, measures: Measures
    ) -> Result:
        status = found.status[i]
        losses = found.losses[:, i]
        at = [step for step in log_spaced(len(losses), 30)[1:] if step]
        trace: dict[str, Sequence[float]]
        trace = {"at": at, "loss": [float(f"{losses[step - 1].item():.6g}") for step in at]}
        if status == "diverged":
            # The network is as it was when last finite: its measures mean nothing.
            measures = dict.fromkeys(measures, math.inf)
        arrays = {}
        if run.seed == self.seeds[0] and status != "diverged":
            arrays["end"] = self.task.kept(stack, i)
            if self.task.pictured:
                arrays["pictures"] = self.task.pictures(arrays["end"])
        return Result(
            run,
            status,
            found.seconds / len(found.status),
            batch=len(found.status),
            w2=measures.pop("w2"),
            measures={**measures, "steps": float(found.n_steps)},
            trace=trace,
            arrays=arrays,
        )


@dataclass(frozen=True)
class BaselineCell:
    """Baselines without training, and real samples, which every table has beside the variants."""

    experiment: str
    task: LatentTask

    @property
    def name(self) -> str:
        return f"{self.experiment} {self.task.name}, {UNTRAINED}"

    @property
    def alone(self) -> bool:
        return False

    def device(self, asked: str) -> str:
        return asked

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        names = ["real", "constant mean", "Gaussian"]
        if not self.task.generates:
            names = ["real", "not moved", "mean shift", "Gaussian map", "target's mean"]
        given = {"task": dict(self.task.given), "steps": 0}
        identity = (self.experiment, self.task.name)
        noted = self.task.noted
        return tuple(Run(*identity, name, UNTRAINED, None, 0, given, noted) for name in names)

    def measure(
        self, runs: Sequence[Run], device: str, checkpoint: Path | None = None
    ) -> list[Result]:
        """Judge all baselines at once, because they share the preparation."""
        found = self.task.baselines(device)
        results = []
        for run in runs:
            measures = dict(found[run.variant])
            w2 = measures.pop("w2")
            arrays = {}
            if run.variant == "real" and self.task.generates and self.task.pictured:
                arrays["pictures"] = self.task.pictures(self.task.real)
            measures["steps"] = 0.0
            results.append(Result(run, "measured", 0.0, len(runs), w2, measures, arrays=arrays))
        return results


@contextlib.contextmanager
def _quiet_log() -> Iterator[None]:
    """Suppress warnings about the data, which are in the notes of the runs."""
    log = logging.getLogger("slicewise")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def _best_rate(runs: Sequence[Run], judged: Sequence[Measures], status: Sequence[str]) -> list[int]:
    """Return the indices of the runs at the best rate by mean SW_2, among eligible rates if there are any."""
    rates: dict[float | None, list[int]] = {}
    for i, run in enumerate(runs):
        rates.setdefault(run.lr, []).append(i)
    there = {rate: some for rate, some in rates.items() if "diverged" not in {status[i] for i in some}}  # fmt: skip
    may = [
        r for r in there if all(judged[i]["variance_ratio"] >= MIN_VARIANCE_RATIO for i in there[r])
    ]
    best = min(may or there, key=lambda r: sum(judged[i]["sw2"] for i in there[r]), default=None)
    return there.get(best, [])
