"""Runs, their results, and cells, which make many runs as one batch."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from slicewise.lab.data import Array


@dataclass(frozen=True)
class Run:
    """One run: everything that determines its result.

    `lr=None` means that the step is computed. `given` holds plain numbers and words: the task, the printed recipe,
    convention, steps, dtype. `noted` is stored too but determines nothing, such as the name of a file. Where a run is made
    (device, batch, engine) does not identify it, unless its time is measured.

    The key is a hash of these values and of their names: renaming an entry of `given` orphans all stored runs.
    """

    experiment: str
    setting: str
    variant: str
    objective: str
    lr: float | None
    seed: int
    given: Mapping[str, Any]
    noted: Mapping[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def key(self) -> str:
        """A hash of all but `noted`, the same in every process and on every machine."""
        whole = [self.experiment, self.setting, self.variant, self.objective, self.lr, self.seed]
        return hashlib.sha256(as_json([*whole, dict(self.given)]).encode()).hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a run.

    `seconds` is the run's share of the time of its batch, `batch` the number of runs in it. `measures` has numbers by name,
    `trace` curves by name, `arrays` what pictures are drawn from.
    """

    run: Run
    status: str
    seconds: float
    batch: int = 1
    w2: float | None = (
        None  # exact; infinite for a run that diverged, None for runs without a distance
    )
    measures: Mapping[str, float] = field(default_factory=dict)
    trace: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


class Cell(Protocol):
    """Runs that are made as one batch: usually the rates and seeds of one variant on one task.

    Cells are pickled and sent to other processes; their results depend on the runs only.
    """

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    @property
    def runs(self) -> tuple[Run, ...]:
        """All its runs."""
        ...

    @property
    def alone(self) -> bool:
        """Whether its time is measured, so that no other cell may run beside it."""
        ...

    def device(self, asked: str) -> str:
        """Return the device it is made on, if this one is asked for."""
        ...

    def measure(
        self, runs: Sequence[Run], device: str, checkpoint: Path | None = None
    ) -> list[Result]:
        """Make some of its runs; a long cell resumes from and writes the checkpoint."""
        ...


def as_json(value: Any) -> str:
    """Return canonical JSON: the same for equal values; numbers that are not finite are null."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain(value: Any) -> Any:
    """Return a value of lists and dictionaries only, with None for numbers that are not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value
