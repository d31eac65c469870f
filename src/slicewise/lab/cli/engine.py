"""Where a study is run: this machine or a Ray cluster, from what was asked for."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass

from slicewise.lab.errors import Trouble
from slicewise.lab.study.engines import Engine, InProcesses, InTurn
from slicewise.lab.study.machine import choose_device, device_name
from slicewise.support import check_choice

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Asked:
    """The options that say where."""

    engine: str
    device: str
    jobs: int
    address: str | None
    cpus: float | None
    gpus: float | None
    quiet: bool

    def __post_init__(self) -> None:
        check_choice("--engine", self.engine, ENGINES)
        if self.jobs < 0:
            raise Trouble(f"--jobs {self.jobs}: give a number of processes, or 0")
        if self.engine == "ray":
            self._check_ray()
            return
        for option, value in (
            ("--address", self.address),
            ("--cpus-per-task", self.cpus),
            ("--gpus-per-task", self.gpus),
        ):
            if value is not None:
                raise Trouble(f"{option} {value} is for a cluster: give --engine ray with it")

    def _check_ray(self) -> None:
        if self.jobs:
            raise Trouble(
                f"--jobs {self.jobs} is for --engine local: on a cluster as many tasks run as there is room for; "
                f"--cpus-per-task and --gpus-per-task say how much each takes"
            )
        cpus, gpus = self.cpus, self.gpus
        if cpus is not None and not (0 < cpus < 1 or (1 <= cpus < math.inf and cpus == int(cpus))):
            raise Trouble(
                f"--cpus-per-task {cpus:g}: give a whole number of cores, or part of one, as 0.5"
            )
        if gpus is not None and not 0 < gpus <= 1:
            raise Trouble(
                f"--gpus-per-task {gpus:g}: a task uses one GPU or part of one; give at most 1, as 0.25"
            )


@dataclass(frozen=True)
class Workplace:
    """An engine, the device that its cells are made on, and what to call these."""

    engine: Engine
    device: str
    machine: str  # what cells are timed on
    words: str


@contextlib.contextmanager
def workplace(asked: Asked) -> Iterator[Workplace]:
    """What was asked for; a connection to a cluster ends with it."""
    if asked.engine == "ray":
        from slicewise.lab.study.on_ray import OnRay

        how = {"cpus": asked.cpus or 1.0, "gpus": asked.gpus or 1.0}
        with OnRay(asked.address, **how, quiet=asked.quiet) as ray:
            device = ray.device(asked.device)
            machine = ray.machine(device)
            yield Workplace(ray, device, machine, f"{ray.place}, {machine}")
        return
    device = choose_device(asked.device)
    processes = asked.jobs or (1 if device.startswith("cuda") else os.cpu_count() or 1)
    engine: Engine = InTurn() if processes == 1 else InProcesses(processes)
    machine = device_name(device)
    yield Workplace(engine, device, machine, machine)
