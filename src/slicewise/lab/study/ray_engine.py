"""An engine that makes cells as tasks of a Ray cluster. Ray schedules and retries them; this process stores the results."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from slicewise.lab.errors import UserError
from slicewise.lab.study.engines import Job, JobResult, run_job
from slicewise.lab.study.machine import device_name
from slicewise.lab.study.ray_cluster import Cluster

# How many tasks are submitted at a time, about 10 kB each: enough for any cluster.
_IN_FLIGHT = 1000
_SILENCE = 30  # seconds without a result before the nodes are checked
_log = logging.getLogger("slicewise")


class RayEngine:
    """Makes jobs as tasks of a Ray cluster.

    Jobs that are timed get all cores of a node, or a whole GPU, on a machine of the kind that `machine` returned.

    Args:
        address: of the head; None is the cluster of this machine, which is started if there is none.
        cpus: cores that a task takes.
        gpus: the share of a GPU that a task takes; with 0.25 four tasks share one.
        quiet: whether the output of Ray is suppressed.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        cpus: float = 1.0,
        gpus: float = 1.0,
        quiet: bool = False,
    ) -> None:
        self._cluster = Cluster(address, cpus, gpus, quiet=quiet)
        self._machines: dict[str, str] = {}

    def __call__(self, jobs: Sequence[Job]) -> Iterator[JobResult]:
        left, waiting = iter(jobs), dict[Any, Job]()
        devices = {job.device for job in jobs}
        with _marked(jobs) as mark:
            try:
                while True:
                    for job in islice(left, _IN_FLIGHT - len(waiting)):
                        sent = replace(job, scratch=None if mark is None else mark.parent)
                        reference = self._cluster.submit(
                            job.cell.name, job.device, _make, sent, mark
                        )
                        waiting[reference] = job
                    if not waiting:
                        return
                    for ready in self._ready(list(waiting), devices):
                        yield self._outcome(ready, waiting.pop(ready))
            finally:
                self._cluster.cancel(waiting)

    def _ready(self, waiting: list[Any], devices: set[str]) -> list[Any]:
        """Return the tasks whose results have arrived; lost results are made again by Ray."""
        while True:
            try:
                first, _ = self._cluster.ray.wait(waiting, num_returns=1, timeout=_SILENCE)
            except self._cluster.Lost as lost:
                self._check_there(lost)
                raise
            if first:
                # All at once: with a thousand tasks, waiting for each would take longer than small cells.
                ready, _ = self._cluster.ray.wait(waiting, num_returns=len(waiting), timeout=0)
                return ready or first
            if not all(map(self._cluster.able, devices)):
                _log.warning("no node of the Ray cluster can take a task: waiting for one to join")

    def _outcome(self, reference: Any, job: Job) -> JobResult:
        try:
            # With the original job: that of the task has another scratch folder.
            return replace(self._cluster.ray.get(reference), job=job)
        except self._cluster.Lost as lost:
            self._check_there(lost)
            return JobResult(job, error=_said(lost))

    def _check_there(self, lost: Exception) -> None:
        """End the sweep if a task was lost because the whole cluster was: all others would be lost as well."""
        try:
            there = bool(self._cluster.alive())
        except Exception:  # Ray raises many kinds once its head does not answer
            there = False
        if not there:
            raise UserError(
                f"the Ray cluster is gone ({_said(lost)}); the finished runs are stored: start it again and repeat the command"
            ) from lost

    def run_alone(self, job: Job) -> JobResult:
        """Make a job on a node of the kind that `machine` named; if it is lost, on another of the same kind."""
        machine = self._machines.get(job.device, "")
        for node in self._cluster.able(job.device):
            try:
                sent = replace(job, scratch=None)
                done = self._cluster.at(node, job.device, _make_timed, sent, machine)
            except self._cluster.NodeLost:
                continue
            except self._cluster.Lost as lost:
                self._check_there(lost)
                return JobResult(job, error=_said(lost))
            if done is not None:
                return replace(done, job=job)
        kind = machine or job.device
        return JobResult(
            job, error=f"no node is left to time it on ({kind}): give the command again"
        )

    def device(self, asked: str) -> str:
        """Return the device to use: "auto" is a GPU if the cluster has one, whatever this machine has."""
        if asked not in ("auto", "cpu", "cuda"):
            raise UserError(f"--device {asked}: on a Ray cluster give auto, cpu or cuda")
        device = asked
        if asked == "auto":
            device = "cuda" if self._cluster.able("cuda") else "cpu"
        if not self._cluster.able(device):
            has = " / ".join(
                f"{node['Resources'].get('CPU', 0):g} and {node['Resources'].get('GPU', 0):g}"
                for node in self._cluster.alive()
            )
            wanted = f"--cpus-per-task {self._cluster.cpus:g}{' and a GPU' * (device == 'cuda')}"
            instead = "--device cpu" if device == "cuda" else "fewer"
            raise UserError(
                f"no node of the Ray cluster has {wanted}; cores and GPUs of its nodes are {has}: give {instead}, "
                f"or add a node"
            )
        return device

    def machine(self, device: str) -> str:
        """Return the name of the machine that timed cells are made on: the largest node."""
        for node in self._cluster.able(device):
            try:
                name: str = self._cluster.at(node, device, _name, device)
            except self._cluster.NodeLost:
                continue
            except self._cluster.Lost as wrong:
                raise UserError(
                    f"node {node['NodeManagerHostname']} of the Ray cluster cannot be used: {_said(wrong)}; "
                    f"is the same slicewise installed there, with torch for this device?"
                ) from wrong
            self._machines[device] = name
            return name
        raise UserError(f"no node of the Ray cluster is left for --device {device}: add one")

    @property
    def description(self) -> str:
        """How many nodes there are, in words."""
        count = len(self._cluster.alive())
        return f"{count} node{'s' * (count != 1)} of a Ray cluster"

    def close(self) -> None:
        """Disconnect; a cluster that was started by this engine ends."""
        self._cluster.close()

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@contextlib.contextmanager
def _marked(jobs: Sequence[Job]) -> Iterator[Path | None]:
    """Create a file in the scratch folder while jobs are made: a node that sees it shares the disk with this machine."""
    scratch = next((job.scratch for job in jobs if job.scratch is not None), None)
    if scratch is None:
        yield None
        return
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=scratch.absolute(), prefix=".shared-") as mark:
        yield Path(mark.name)


def _said(error: Exception) -> str:
    """Return an error of Ray in one line: its first, or the last line of the traceback of a task."""
    lines = str(error).strip().splitlines() or [""]
    if type(error).__name__.startswith("RayTaskError"):
        return lines[-1].strip()
    return f"lost by the cluster, {type(error).__name__}: {lines[0]}"


# The functions below run on the nodes.


def _make(job: Job, mark: Path | None, threads: int) -> JobResult:
    torch.set_num_threads(threads)
    # A checkpoint on a disk of the node would never be read again.
    shared = mark is not None and mark.exists()
    return run_job(job if shared else replace(job, scratch=None))


def _make_timed(job: Job, machine: str, threads: int) -> JobResult | None:
    """Make a job; return None on a machine of another kind."""
    torch.set_num_threads(threads)
    return run_job(job) if machine in ("", device_name(job.device)) else None


def _name(device: str, threads: int) -> str:
    torch.set_num_threads(threads)
    return device_name(device)
