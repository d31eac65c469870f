"""From cells to a store that holds their runs: only what is missing is made."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

import torch

from slicewise.lab.study.engines import Engine, InTurn, Job
from slicewise.lab.study.run import Cell
from slicewise.lab.study.store import Store
from slicewise.lab.study.watch import Watch
from slicewise.lab.trouble import Trouble


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
    engine: Engine = InTurn(),
    watch: Watch | None = None,
) -> Outcome:
    """Make every run that the store lacks, a cell at a time; each cell is written as a whole when it is done.

    Stop it whenever you like and call it again: at most the cells in flight are lost, and of those that
    run for long only the last half minute.
    """
    watch = Watch(quiet=True) if watch is None else watch
    outcome, jobs = Outcome(), []
    scratch = store.path.with_name(store.path.name + ".cells")
    for cell in cells:
        missing = tuple(store.missing(cell.runs))
        outcome.there += len(cell.runs) - len(missing)
        if missing:
            jobs.append(Job(cell, missing, device, scratch))
    where, packages = device_name(device), versions()
    with watch.over([(job.cell.name, len(job.runs)) for job in jobs]):
        together = [job for job in jobs if not job.cell.alone]
        by_themselves = [job for job in jobs if job.cell.alone]
        for done in itertools.chain(engine(together), InTurn()(by_themselves)):
            if done.error:
                outcome.failed[done.job.cell.name] = done.error
            else:
                store.add(done.results, where, packages)
                outcome.made += len(done.results)
                if done.job.checkpoint is not None:
                    done.job.checkpoint.unlink(missing_ok=True)
            watch.done(done.job.cell.name, len(done.job.runs), done.error)
    if scratch.is_dir() and not any(scratch.iterdir()):
        scratch.rmdir()
    return outcome


def choose_device(asked: str) -> str:
    """ "auto" is a CUDA device where there is one."""
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(asked)
    except RuntimeError:
        raise Trouble(f"--device {asked}: give auto, cpu, cuda or cuda:0") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise Trouble(f"--device {asked}: no CUDA device was found; try --device cpu")
    return asked


def device_name(device: str) -> str:
    """What kind of device it is, for the record."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    found = {"python": platform.python_version(), "torch": torch.__version__}
    for package in ("slicewise", "numpy", "numba", "POT", "scipy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
