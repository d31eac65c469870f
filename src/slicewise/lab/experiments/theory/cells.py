"""The checks of the theory as cells of a study: one run a task."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from slicewise.counting import DRAWS
from slicewise.lab.experiments.theory import CHECKS
from slicewise.lab.study.run import Result, Run

NAME = "theory"
_RANDOM = "random numbers"  # no task has a parameter of that name


@dataclass(frozen=True)
class CheckCell:
    """All tasks of one check. They are small, and made in double precision on a CPU."""

    check: str
    preset: str

    @property
    def name(self) -> str:
        return f"{NAME} {self.check}"

    @property
    def alone(self) -> bool:
        return False

    def device(self, asked: str) -> str:
        return "cpu"

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        tasks = CHECKS[self.check].tasks(self.preset)
        return tuple(
            Run(NAME, self.check, "", "", None, int(task["seed"]), {**task, _RANDOM: DRAWS})
            for task in tasks
        )

    def measure(
        self, runs: Sequence[Run], device: str, checkpoint: Path | None = None
    ) -> list[Result]:
        """One task after another."""
        results = []
        for run in runs:
            begun = time.perf_counter()
            measures = CHECKS[self.check].measure(task_of(run.given))
            results.append(
                Result(run, "measured", time.perf_counter() - begun, measures=dict(measures))
            )
        return results


def task_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The task of a run, from all that determines it."""
    return {name: value for name, value in given.items() if name != _RANDOM}


def cells(preset: str) -> list[CheckCell]:
    """One for each check."""
    return [CheckCell(check, preset) for check in CHECKS]
