"""Checks as cells of a study: each task is a run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from slicewise.lab.experiments.check import Check
from slicewise.lab.experiments.estimators import CHECKS as ESTIMATOR_CHECKS
from slicewise.lab.experiments.theory import CHECKS as THEORY_CHECKS
from slicewise.lab.names import ESTIMATORS
from slicewise.lab.names import THEORY as NAME
from slicewise.lab.study import Result, Run
from slicewise.sampling import DRAWS

# By experiment.
CHECKS: dict[str, dict[str, Check]] = {NAME: THEORY_CHECKS, ESTIMATORS: ESTIMATOR_CHECKS}
_RANDOM, _MACHINE = "random numbers", "timed on"  # names that no task has as a parameter


@dataclass(frozen=True)
class CheckCell:
    """All tasks of one check, made on a CPU in double precision."""

    check: str
    preset: str
    experiment: str = NAME
    machine: str = ""  # that is timed

    @property
    def name(self) -> str:
        return f"{self.experiment} {self.check}"

    @property
    def alone(self) -> bool:
        return self._check.timed

    @property
    def _check(self) -> Check:
        return CHECKS[self.experiment][self.check]

    def device(self, asked: str) -> str:
        return "cpu"

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        beside = {_RANDOM: DRAWS} | ({_MACHINE: self.machine} if self._check.timed else {})
        return tuple(
            Run(self.experiment, self.check, "", "", None, int(task["seed"]), {**task, **beside})
            for task in self._check.tasks(self.preset)
        )

    def measure(
        self, runs: Sequence[Run], device: str, checkpoint: Path | None = None
    ) -> list[Result]:
        """Measure one task after another."""
        results = []
        for run in runs:
            begun = time.perf_counter()
            measures = self._check.measure(task_from(run.given))
            results.append(
                Result(run, "measured", time.perf_counter() - begun, measures=dict(measures))
            )
        return results


def task_from(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task of a run."""
    return {name: value for name, value in given.items() if name not in (_RANDOM, _MACHINE)}


def cells(preset: str, experiment: str = NAME, machine: str = "") -> list[CheckCell]:
    """Return a cell for each check."""
    return [CheckCell(check, preset, experiment, machine) for check in CHECKS[experiment]]
