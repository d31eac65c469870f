"""From cells to a store that holds their runs: only what is missing is made."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slicewise.lab.study.engines import Engine, Job, SerialEngine
from slicewise.lab.study.progress import SweepProgress
from slicewise.lab.study.run import Cell
from slicewise.lab.study.store import Store


@dataclass
class Outcome:
    """What a sweep did."""

    made: int = 0  # runs
    there: int = 0  # runs that were in the store already
    failed: dict[str, str] = field(default_factory=dict)  # cell -> what went wrong


def sweep(
    cells: Sequence[Cell],
    store: Store,
    *,
    device: str = "cpu",
    engine: Engine = SerialEngine(),
    progress: SweepProgress | None = None,
) -> Outcome:
    """Make every run that the store lacks, a cell at a time; each cell is written as a whole when it is done.

    Stop it whenever you like and call it again: at most the cells in flight are lost, and of those that
    run for long only the last half minute.
    """
    progress = SweepProgress(quiet=True) if progress is None else progress
    outcome, jobs = Outcome(), []
    scratch = store.path.with_name(store.path.name + ".cells")
    for cell in cells:
        missing = tuple(store.missing(cell.runs))
        outcome.there += len(cell.runs) - len(missing)
        if missing:
            jobs.append(Job(cell, missing, cell.device(device), scratch))
    store.ask(cells)
    _clear(scratch)
    with progress.over([(job.cell.name, len(job.runs)) for job in jobs]):
        together = [job for job in jobs if not job.cell.alone]
        by_themselves = (engine.run_alone(job) for job in jobs if job.cell.alone)
        for done in itertools.chain(engine(together), by_themselves):
            if done.error:
                outcome.failed[done.job.cell.name] = done.error
                store.ask([done.job.cell], done.error)
            else:
                store.add(done.results, done.device, done.versions)
                outcome.made += len(done.results)
                done.job.remove_checkpoint()
            progress.done(done.job.cell.name, len(done.job.runs), done.seconds, done.error)
    _clear(scratch)
    return outcome


def _clear(scratch: Path) -> None:
    """Remove what a process that was killed in the middle of writing left; the folder too, if it is empty."""
    if not scratch.is_dir():
        return
    for file in scratch.glob(".*"):
        # A minute: another sweep on this store may be writing just now.
        if file.is_file() and time.time() - file.stat().st_mtime > 60:
            file.unlink(missing_ok=True)
    if not any(scratch.iterdir()):
        scratch.rmdir()
