"""`slicewise reproduce`: the paper's experiments, resumable, ending in a report."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast

import typer

from slicewise.lab.cli import PARTLY, STOPPED, options
from slicewise.lab.errors import NothingToDo, UserError
from slicewise.lab.experiments import EXPERIMENTS, OPTION_USERS, PRESETS, Options
from slicewise.lab.latents import ADULT, CHILD, LatentChoice
from slicewise.lab.report import write_report
from slicewise.lab.study import (
    Cell,
    Engine,
    ProcessEngine,
    RayEngine,
    SerialEngine,
    Store,
    SweepProgress,
    choose_device,
    device_name,
    sweep,
)
from slicewise.problem import Convention
from slicewise.support import check_choice

OF_A_FILE = ("--labels", "--held-out", "--adult", "--child", "--more")

HELP = f"""Run the paper's experiments: {", ".join(EXPERIMENTS)}, or all.

Stop it at any moment and give the same command again: what is in the store
is not made twice.

[bold]Examples[/bold]
  slicewise reproduce all                              in small: three minutes
  slicewise reproduce gradient-flow --preset paper     all as published
  slicewise reproduce image-flow --faces img_align_celeba --device cuda
  slicewise reproduce generate --latents alae_ffhq     in a latent space of one's own
  slicewise reproduce translate --latents w.npy --labels age.npy --adult 30 --child 12
  slicewise reproduce all --engine ray --address auto  on a Ray cluster
"""
CLUSTER = "A Ray cluster"
ENGINES = ("local", "ray")


def reproduce(
    experiment: Annotated[str, typer.Argument(help="Which one, or all.", show_default=False)],
    preset: Annotated[
        str, typer.Option(help="quick: a meaningful part. paper: everything as published.")
    ] = "quick",
    store: Annotated[Path, typer.Option(help="SQLite file that keeps every run.")] = Path(
        "runs.db"
    ),
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the report.")] = Path(
        "report"
    ),
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    jobs: Annotated[
        int, typer.Option(help="Processes; 0 is one a core on a CPU, one on a GPU.")
    ] = 0,
    engine: Annotated[
        str, typer.Option(help="local: processes of this machine. ray: tasks of a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT|auto|local",
            help="Its head; auto is the one on this machine, local one of its own. \\[default: "
            "RAY_ADDRESS, else auto if there is one, else local]",
            rich_help_panel=CLUSTER,
        ),
    ] = None,
    cpus_per_task: Annotated[
        float | None,
        typer.Option(help="Cores that a task takes. \\[default: 1]", rich_help_panel=CLUSTER),
    ] = None,
    gpus_per_task: Annotated[
        float | None,
        typer.Option(
            help="How much of a GPU a task takes: with 0.25 four share one. \\[default: 1]",
            rich_help_panel=CLUSTER,
        ),
    ] = None,
    convention: Annotated[
        str, typer.Option(help="mean, or reference: the scale of the published scripts.")
    ] = "mean",
    mnist: Annotated[
        Path | None,
        typer.Option(
            help="npz or folder of idx files, for image-flow.", rich_help_panel=options.DATA
        ),
    ] = None,
    faces: Annotated[
        Path | None,
        typer.Option(
            help="Folder of pictures (CelebA) or npz, for image-flow.",
            rich_help_panel=options.DATA,
        ),
    ] = None,
    photographs: Annotated[
        Path | None,
        typer.Option(
            help="Folder of set1_source, set1_target, … for color.", rich_help_panel=options.DATA
        ),
    ] = None,
    latents: Annotated[
        Path | None,
        typer.Option(
            help="Folder or file of latents with labels, for generate and translate.",
            rich_help_panel=options.LATENTS,
        ),
    ] = None,
    labels: options.LatentLabels = None,
    held_out: options.LatentsHeldOut = None,
    adult: options.AdultAge = ADULT,
    child: options.ChildAge = CHILD,
    more: options.MoreLatents = 0,
    report: Annotated[bool, typer.Option(help="End in a report.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> int:
    """Run one experiment, or all, into a store; then write the report."""
    if experiment != "all":
        check_choice("experiment", experiment, (*EXPERIMENTS, "all"))
    check_choice("--preset", preset, PRESETS)
    check_choice("--convention", convention, ("mean", "reference"))
    usual = {"--convention": "mean", "--adult": ADULT, "--child": CHILD, "--more": 0}
    given = {
        "--convention": convention,
        "--mnist": mnist,
        "--faces": faces,
        "--photographs": photographs,
        "--latents": latents,
        "--labels": labels,
        "--held-out": held_out,
        "--adult": adult,
        "--child": child,
        "--more": more,
    }
    _check_read(experiment, [name for name, v in given.items() if v != usual.get(name)])
    asked = EngineOptions(engine, device, jobs, address, cpus_per_task, gpus_per_task, quiet)
    if report and out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is a file: name a folder for the report")
    names = list(EXPERIMENTS) if experiment == "all" else [experiment]
    with open_engine(asked) as place:
        cells, left_out = _cells(
            names,
            Options(
                preset,
                cast(Convention, convention),
                _whole(mnist),
                _whole(faces),
                _whole(photographs),
                place.machine,
                LatentChoice(_whole(latents), _whole(labels), held_out, adult, child, more),
            ),
        )
        # Files that are not what they should be come out here, before anything is written.
        n_runs = sum(len(cell.runs) for cell in cells)
        with Store(store) as kept:
            if not quiet:
                for line in (*left_out, *_notes(cells)):
                    print(f"slicewise: {line}", file=sys.stderr)
                print(f"{n_runs} runs in {len(cells)} cells, on {place.words}", file=sys.stderr)
            try:
                outcome = sweep(
                    cells,
                    kept,
                    device=place.device,
                    engine=place.engine,
                    progress=SweepProgress(quiet=quiet),
                )
            except KeyboardInterrupt:
                print(
                    f"slicewise: stopped; {store} holds what is done: give the same command to go on",
                    file=sys.stderr,
                )
                return STOPPED
    if not quiet:
        there = f", {outcome.there} were there" if outcome.there else ""
        print(f"{store}: {outcome.made} runs made{there}")
    for name, error in outcome.failed.items():
        print(f"slicewise: {name} failed: {' '.join(error.split())}", file=sys.stderr)
    if report:
        page = write_report(store, out)
        if not quiet:
            print(f"report: {page}")
    return PARTLY if outcome.failed else 0


def _check_read(experiment: str, given: Sequence[str]) -> None:
    """What an experiment would not look at is a mistake, and told before it runs without it."""
    for option in given:
        readers = OPTION_USERS[option]
        if experiment not in (*readers, "all"):
            raise UserError(
                f"{option} is for {' and '.join(readers)}: {experiment} has no use for it; leave it out"
            )
        if option in OF_A_FILE and "--latents" not in given:
            raise UserError(f"{option} is for latents from a file: give --latents PATH, too")


def _cells(names: Sequence[str], asked: Options) -> tuple[list[Cell], list[str]]:
    """All cells; of several experiments those that have something to do, and a line on each that has not."""
    cells: list[Cell] = []
    left_out: list[str] = []
    for name in names:
        try:
            cells += EXPERIMENTS[name](asked)
        except NothingToDo as why:
            if len(names) == 1:
                raise
            left_out.append(f"{name} is left out: {why}")
    return cells, left_out


def _notes(cells: Sequence[Cell]) -> list[str]:
    """What is to be known of the data, each once."""
    found = [
        f"{run.experiment}: {note}"
        for cell in cells
        for run in cell.runs
        for note in run.noted.get("notes", ())
    ]
    return list(dict.fromkeys(found))


def _whole(path: Path | str | None) -> str | None:
    """A path from the root: who works for us may be in another folder."""
    return None if path is None else str(Path(path).absolute())


@dataclass(frozen=True)
class EngineOptions:
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
            raise UserError(f"--jobs {self.jobs}: give a number of processes, or 0")
        if self.engine == "ray":
            self._check_ray()
            return
        for option, value in (
            ("--address", self.address),
            ("--cpus-per-task", self.cpus),
            ("--gpus-per-task", self.gpus),
        ):
            if value is not None:
                raise UserError(f"{option} {value} is for a cluster: give --engine ray with it")

    def _check_ray(self) -> None:
        if self.jobs:
            raise UserError(
                f"--jobs {self.jobs} is for --engine local: on a cluster as many tasks run as there is room for; "
                f"--cpus-per-task and --gpus-per-task say how much each takes"
            )
        cpus, gpus = self.cpus, self.gpus
        if cpus is not None and not (0 < cpus < 1 or (1 <= cpus < math.inf and cpus == int(cpus))):
            raise UserError(
                f"--cpus-per-task {cpus:g}: give a whole number of cores, or part of one, as 0.5"
            )
        if gpus is not None and not 0 < gpus <= 1:
            raise UserError(
                f"--gpus-per-task {gpus:g}: a task uses one GPU or part of one; give at most 1, as 0.25"
            )


@dataclass(frozen=True)
class Execution:
    """An engine, the device that its cells are made on, and what to call these."""

    engine: Engine
    device: str
    machine: str  # what cells are timed on
    words: str


@contextlib.contextmanager
def open_engine(asked: EngineOptions) -> Iterator[Execution]:
    """What was asked for; a connection to a cluster ends with it."""
    if asked.engine == "ray":
        how = {"cpus": asked.cpus or 1.0, "gpus": asked.gpus or 1.0}
        with RayEngine(asked.address, **how, quiet=asked.quiet) as ray:
            device = ray.device(asked.device)
            machine = ray.machine(device)
            yield Execution(ray, device, machine, f"{ray.description}, {machine}")
        return
    device = choose_device(asked.device)
    processes = asked.jobs or (1 if device.startswith("cuda") else os.cpu_count() or 1)
    engine: Engine = SerialEngine() if processes == 1 else ProcessEngine(processes)
    machine = device_name(device)
    yield Execution(engine, device, machine, machine)
