"""What a run is, what comes of it, and the cells that make many at once."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from slicewise.lab.data import Array


@dataclass(frozen=True)
class Run:
    """One run: its place in the study, and everything else that determines what comes out.

    `lr=None` is a step computed. `given` holds plain numbers and words: the task, the recipe as it prints,
    convention, steps, dtype. `noted` is told of it and determines nothing, such as the name of a file. Where a
    run is made (device, batch, engine) is not part of what it is, unless its time is what is asked for.
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
        """A hash of all of it: the same in every process and on every machine."""
        whole = [self.experiment, self.setting, self.variant, self.objective, self.lr, self.seed]
        return hashlib.sha256(as_json([*whole, dict(self.given)]).encode()).hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class Result:
    """What came of a run.

    `seconds` is the run's share of the time its batch took, `batch` how many runs that was. `measures` are
    numbers by name, `trace` curves by name; `arrays` is what pictures are drawn from.
    """

    run: Run
    status: str
    seconds: float
    batch: int = 1
    w2: float | None = (
        None  # exact; infinite for a run that diverged, None where there is none to speak of
    )
    measures: Mapping[str, float] = field(default_factory=dict)
    trace: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


class Cell(Protocol):
    """Runs that are made together, as one batch: usually the rates and seeds of one variant on one task.

    Cells travel to other processes, so they pickle; what they measure depends on the runs alone.
    """

    @property
    def name(self) -> str:
        """What to call it while it runs."""
        ...

    @property
    def runs(self) -> tuple[Run, ...]:
        """All its runs."""
        ...

    @property
    def alone(self) -> bool:
        """Whether its time is what is asked for, so that nothing else may run beside it."""
        ...

    def device(self, asked: str) -> str:
        """Where it is made, if this device is asked for."""
        ...

    def measure(
        self, runs: Sequence[Run], device: str, checkpoint: Path | None = None
    ) -> list[Result]:
        """Make these of its runs; a long cell keeps a file to go on from."""
        ...


def as_json(value: Any) -> str:
    """JSON that is the same for the same value, and valid for every reader: what is not finite is null."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain(value: Any) -> Any:
    """As JSON has it: lists and dictionaries all the way down, null for what is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value
