"""Make the runs of cells that a store lacks, and store them."""

from __future__ import annotations

import contextlib
import errno
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
    """What a sweep did: counts of runs, and errors of cells."""

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
    """Make every run that the store lacks; each cell is stored as a whole when it is done.

    It may be stopped at any time and called again: at most the cells in progress are lost, and of long ones only the last
    half minute.

    Args:
        cells: what is wanted.
        store: where results go.
        device: "cpu", "cuda" or "cuda:1".
        engine: makes the runs; those that are timed come last, one by one.
        progress: shows how far it is; nothing by default.

    Returns:
        How many runs were made and how many were stored already, and the errors of cells that failed.
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
    """Remove temporary files of killed processes, and the folder if it is empty."""
    if not scratch.is_dir():
        return
    # Another sweep on this store may write and remove files here at any moment, and remove the folder.
    with contextlib.suppress(FileNotFoundError):
        for file in list(scratch.glob(".*")):
            with contextlib.suppress(FileNotFoundError):
                if file.is_file() and time.time() - file.stat().st_mtime > 60:
                    file.unlink()
    try:
        scratch.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise
