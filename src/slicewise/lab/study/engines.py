"""Engines, which make the runs of cells: in this process, or in several. None of them writes to the store."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from pathlib import Path
from typing import Protocol

import torch

from slicewise.lab.study.machine import device_name, versions
from slicewise.lab.study.run import Cell, Result, Run


@dataclass(frozen=True)
class Job:
    """The runs of a cell that are still to be made."""

    cell: Cell
    runs: tuple[Run, ...]
    device: str
    scratch: Path | None = None  # folder for checkpoints of long cells

    @property
    def checkpoint(self) -> Path | None:
        """The file of this job, named by a hash of its runs."""
        if self.scratch is None:
            return None
        whole = "".join(run.key for run in self.runs)
        return self.scratch / f"{hashlib.sha256(whole.encode()).hexdigest()[:32]}.pt"

    def remove_checkpoint(self) -> None:
        """Remove the checkpoint of this job, if there is one."""
        if self.checkpoint is not None:
            self.checkpoint.unlink(missing_ok=True)


@dataclass(frozen=True, eq=False)
class JobResult:
    """The results of a job, or its error, and where it was made."""

    job: Job
    results: tuple[Result, ...] = ()
    seconds: float = 0.0
    device: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


class Engine(Protocol):
    """Makes jobs in some order, and yields the result of each when it is done."""

    def __call__(self, jobs: Sequence[Job]) -> Iterator[JobResult]: ...

    def run_alone(self, job: Job) -> JobResult:
        """Make one job with no other beside it, because its time is measured."""
        ...


def run_job(job: Job) -> JobResult:
    """Make one job; a batch that is too large for the device's memory is made in halves, with the same results."""
    begun = time.perf_counter()
    try:
        results = tuple(_measured(job))
        took = time.perf_counter() - begun
        return JobResult(job, results, took, device_name(job.device), versions())
    except Exception as error:  # the other cells go on, and it is reported at the end
        return JobResult(job, error=f"{type(error).__name__}: {error}")


def _measured(job: Job) -> list[Result]:
    try:
        return job.cell.measure(job.runs, job.device, job.checkpoint)
    except torch.OutOfMemoryError:
        if len(job.runs) == 1:
            raise
    torch.cuda.empty_cache()
    half = len(job.runs) // 2
    parts = [replace(job, runs=runs) for runs in (job.runs[:half], job.runs[half:])]
    results = [result for part in parts for result in _measured(part)]
    for part in parts:
        part.remove_checkpoint()
    return results


@dataclass(frozen=True)
class SerialEngine:
    """Makes jobs one after another in this process."""

    def __call__(self, jobs: Sequence[Job]) -> Iterator[JobResult]:
        for job in jobs:
            yield run_job(job)

    def run_alone(self, job: Job) -> JobResult:
        return run_job(job)


@dataclass(frozen=True)
class ProcessEngine:
    """Makes jobs in several processes of this machine, which share its cores.

    If a process dies (killed, out of memory), the jobs in progress are made once more, each by itself. A job that ends its
    process twice has failed; the others go on.
    """

    count: int

    def __call__(self, jobs: Sequence[Job]) -> Iterator[JobResult]:
        left = deque(jobs)
        while left:
            lost = yield from _in_pool(left, self.count)
            for job in lost:
                if (yield from _in_pool(deque([job]), 1)):
                    why = "its process died twice: was it killed, or is memory short? try fewer --jobs"
                    yield JobResult(job, error=why)

    def run_alone(self, job: Job) -> JobResult:
        return run_job(job)  # in this process: the others have ended


def _in_pool(left: deque[Job], count: int) -> Generator[JobResult, None, list[Job]]:
    """Make jobs, taken from the left; return those in progress if a process died."""
    pool = ProcessPoolExecutor(
        count,
        mp_context=multiprocessing.get_context("spawn"),  # CUDA does not survive a fork
        initializer=_begin,
        initargs=(max(1, (os.cpu_count() or 1) // count),),
    )
    others = set(multiprocessing.active_children())
    waiting: dict[Future[JobResult], Job] = {}
    lost: list[Job] = []
    try:
        while waiting or (left and not lost):
            # As many as there are processes: all submitted jobs are lost if a process dies.
            while left and not lost and len(waiting) < count:
                job = left.popleft()
                try:
                    waiting[pool.submit(run_job, job)] = job
                except BrokenProcessPool:
                    lost.append(job)
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                job = waiting.pop(future)
                try:
                    yield future.result()
                except BrokenProcessPool:
                    lost.append(job)
        return lost
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()


def _begin(threads: int) -> None:
    # Ctrl-C is handled by the main process, which ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the main one has ended, which may have been killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
