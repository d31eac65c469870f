"""`slicewise reproduce`: run the paper's experiments, which can be resumed, and write a report."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from slicewise.lab.cli import PARTLY, STOPPED, Told
from slicewise.lab.cli.common import options
from slicewise.lab.cli.common.output import check_output_path, is_report
from slicewise.lab.data import check_there, find_file, printable, visible
from slicewise.lab.errors import NothingToDo, UserError
from slicewise.lab.names import (
    ADULT,
    CHILD,
    DTYPES,
    ESTIMATORS,
    EXPERIMENTS,
    FLOW_PARTS,
    GENERATE,
    LATENT_PARTS,
    OBJECTIVES,
    OPTION_USERS,
    PRESETS,
    RECIPES,
    THEORY,
    TRANSLATE,
    VARIANTS,
)
from slicewise.support import check_choice

if TYPE_CHECKING:
    from slicewise.lab.experiments import Options
    from slicewise.lab.study import Cell, Engine
    from slicewise.problem import Convention

OF_A_FILE = ("--labels", "--held-out", "--adult", "--child", "--more")
HELP = f"""Run the paper's experiments: {", ".join(EXPERIMENTS)}, or all.

It can be stopped at any time and resumed by the same command: runs that are
in the store are not made again.

[bold]Examples[/bold]
  slicewise reproduce all                              small: three minutes
  slicewise reproduce gradient-flow --preset paper     as published
  slicewise reproduce image-flow --faces img_align_celeba --device cuda
  slicewise reproduce generate --latents alae_ffhq     with your own latents
  slicewise reproduce translate --latents w.npy --labels age.npy --adult 30 --child 12
  slicewise reproduce generate --preset paper --only no-rate --only search
  slicewise reproduce color --preset paper --setting set1 --variant sw --objective root
  slicewise reproduce all --engine ray --address auto  on a Ray cluster
"""
CLUSTER = "A Ray cluster"
PART = "A part of an experiment"
ENGINES = ("local", "ray")


def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            help="An experiment, or all.",
            show_default=False,
            autocompletion=options.one_of((*EXPERIMENTS, "all")),
        ),
    ],
    preset: Annotated[
        str,
        typer.Option(
            help="quick: a small part. paper: everything as published.",
            autocompletion=options.one_of(PRESETS),
        ),
    ] = "quick",
    store: Annotated[Path, typer.Option(help="The SQLite file of all runs.")] = Path("runs.db"),
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the report.")] = Path(
        "report"
    ),
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    jobs: Annotated[
        int, typer.Option(help="Processes; 0 means one per core on a CPU, one on a GPU.")
    ] = 0,
    engine: Annotated[
        str,
        typer.Option(
            help="local: processes of this machine. ray: tasks of a Ray cluster.",
            autocompletion=options.one_of(ENGINES),
        ),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT|auto|local",
            help="The head of the cluster; auto is that of this machine, local starts a new one. \\[default: "
            "RAY_ADDRESS, else auto if there is one, else local]",
            rich_help_panel=CLUSTER,
        ),
    ] = None,
    cpus_per_task: Annotated[
        float | None,
        typer.Option(help="Cores per task. \\[default: 1]", rich_help_panel=CLUSTER),
    ] = None,
    gpus_per_task: Annotated[
        float | None,
        typer.Option(
            help="The share of a GPU per task; with 0.25 four tasks share one. \\[default: 1]",
            rich_help_panel=CLUSTER,
        ),
    ] = None,
    convention: Annotated[
        str, typer.Option(help="mean, or reference for the scale of the published scripts.")
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
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART",
            help=f"A part of the experiment: {', '.join(LATENT_PARTS)} (flows: {', '.join(FLOW_PARTS)}). "
            f"\\[default: all]",
            autocompletion=options.one_of(LATENT_PARTS),
            rich_help_panel=PART,
        ),
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="One of the paper's variants. \\[default: all]",
            autocompletion=options.one_of(VARIANTS),
            rich_help_panel=PART,
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A setting as `slicewise runs` lists it, such as 'swiss d=50'. \\[default: all]",
            rich_help_panel=PART,
        ),
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What is descended: power, root, mean_root, ... \\[default: all]",
            autocompletion=options.one_of(OBJECTIVES),
            rich_help_panel=PART,
        ),
    ] = None,
    rate: Annotated[
        list[float] | None,
        typer.Option(
            metavar="RATE",
            help="A rate of the preset, on the scale it is given to the flow. \\[default: all]",
            rich_help_panel=PART,
        ),
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(
            metavar="SEED",
            help="A seed, instead of the preset's; repeat it, like the others here, for several.",
            rich_help_panel=PART,
        ),
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option(help="Steps of a run, instead of the preset's.", rich_help_panel=PART),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="float64 or float32 for flows, instead of the preset's.",
            autocompletion=options.one_of(DTYPES),
            rich_help_panel=PART,
        ),
    ] = None,
    recipes: Annotated[
        str | None,
        typer.Option(
            help=f"Published options of the variants, for flows: {', '.join(RECIPES)}. \\[default: paper]",
            autocompletion=options.one_of(RECIPES),
            rich_help_panel=PART,
        ),
    ] = None,
    report: Annotated[bool, typer.Option(help="Write a report at the end.")] = True,
    force: options.Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> int:
    """Run one experiment, or all of them, into a store; then write the report."""
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
        "--only": only or None,
        "--variant": variant or None,
        "--setting": setting or None,
        "--objective": objective or None,
        "--rate": rate or None,
        "--seed": seed or None,
        "--max-steps": max_steps,
        "--dtype": dtype,
        "--recipes": recipes,
    }
    _check_read(experiment, [name for name, v in given.items() if v != usual.get(name)])
    parts = LATENT_PARTS if experiment in (GENERATE, TRANSLATE, "all") else FLOW_PARTS
    for part in only or ():
        check_choice("--only", part, parts)
    if dtype is not None:
        check_choice("--dtype", dtype, DTYPES)
    if recipes is not None:
        check_choice("--recipes", recipes, RECIPES)
    if max_steps is not None and max_steps < 1:
        raise UserError(f"--max-steps {max_steps}: give a number of steps, 1 or more")
    asked = EngineOptions(engine, device, jobs, address, cpus_per_task, gpus_per_task, quiet)
    if report and out.exists() and not out.is_dir():
        raise UserError(f"--out {printable(str(out))} is a file: name a folder for the report")
    if report:
        # A study that is resumed writes its report again; a page of something else is not ours to replace.
        page = out / "index.html"
        check_output_path("--out", page, force=force or is_report(page), inputs=(store,))
    for path in (mnist, faces, photographs):
        if path is not None:
            check_there(path)
    for file in (latents, labels):
        if file is not None and not Path(file).is_dir():
            find_file(str(file))

    from slicewise.lab.experiments import ELEVEN, Options, Selection
    from slicewise.lab.latents import LatentChoice
    from slicewise.lab.report import no_rate_lines, write_report
    from slicewise.lab.study import Store, SweepProgress, sweep

    for name in variant or ():
        check_choice("--variant", name, ELEVEN)
    names = list(EXPERIMENTS) if experiment == "all" else [experiment]
    with open_engine(asked) as place:
        cells, left_out = _cells(
            names,
            Options(
                preset,
                cast("Convention", convention),
                _absolute(mnist),
                _absolute(faces),
                _absolute(photographs),
                place.machine,
                LatentChoice(_absolute(latents), _absolute(labels), held_out, adult, child, more),
                Selection(
                    tuple(only or ()),
                    tuple(variant or ()),
                    tuple(setting or ()),
                    tuple(objective or ()),
                    tuple(rate or ()),
                    tuple(seed or ()),
                    max_steps,
                    dtype,
                    recipes,
                ),
            ),
        )
        # Invalid input files are reported here, before anything is written.
        n_runs = sum(len(cell.runs) for cell in cells)
        with Store(store) as kept:
            if not quiet:
                for line in (*left_out, *_notes(cells)):
                    print(f"slicewise: {visible(line)}", file=sys.stderr)
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
                    f"slicewise: stopped; {printable(str(store))} holds the finished runs: repeat the command to resume",
                    file=sys.stderr,
                )
                return Told(STOPPED)
    if not quiet:
        there = f", {outcome.there} were stored already" if outcome.there else ""
        print(f"{printable(str(store))}: {outcome.made} runs made{there}")
        with Store.reading(store) as kept:
            for name in (one for one in names if one in (GENERATE, TRANSLATE)):
                for line in no_rate_lines(kept, name):
                    print(visible(line))
    for line in _failures(outcome.failed):
        print(f"slicewise: {visible(line)}", file=sys.stderr)
    if report:
        page = write_report(store, out)
        if not quiet:
            print(f"report: {visible(str(page))}")
    return PARTLY if outcome.failed else 0


def _check_read(experiment: str, given: Sequence[str]) -> None:
    """Refuse options that an experiment does not use."""
    for option in given:
        readers = OPTION_USERS[option]
        if experiment not in (*readers, "all"):
            raise UserError(
                f"{option} is for {' and '.join(readers)}: {experiment} does not use it; leave it out"
            )
        if option in OF_A_FILE and "--latents" not in given:
            raise UserError(f"{option} is for latents from a file: give --latents PATH too")


def _cells(names: Sequence[str], asked: Options) -> tuple[list[Cell], list[str]]:
    """Return the cells of some experiments, and a line on each that has nothing to do."""
    from slicewise.lab.experiments import EXPERIMENTS

    cells: list[Cell] = []
    left_out: list[str] = []
    for name in names:
        try:
            there = EXPERIMENTS[name](asked)
            # Checks have neither variants nor seeds to select.
            cells += there if name in (THEORY, ESTIMATORS) else asked.selection.of(there)
        except NothingToDo as why:
            if len(names) == 1:
                raise
            left_out.append(f"{name} is left out: {why}")
    return cells, left_out


def _notes(cells: Sequence[Cell]) -> list[str]:
    """Return the notes about the data, each once."""
    found = [
        f"{run.experiment}: {note}"
        for cell in cells
        for run in cell.runs
        for note in run.noted.get("notes", ())
    ]
    return list(dict.fromkeys(found))


def _failures(failed: Mapping[str, str]) -> list[str]:
    """Return a line for each error: many cells may fail for one reason."""
    cells: dict[str, list[str]] = {}
    for name, error in failed.items():
        cells.setdefault(" ".join(error.split()), []).append(name)
    return [
        f"{names[0]}{f' and {len(names) - 1} other cells' if len(names) > 1 else ''} failed: {error}"
        for error, names in cells.items()
    ]


def _absolute(path: Path | str | None) -> str | None:
    """Return an absolute path: other processes may be in another folder."""
    return None if path is None else str(Path(path).absolute())


@dataclass(frozen=True)
class EngineOptions:
    """The options that say where a study is run, checked."""

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
                f"--jobs {self.jobs} is for --engine local: on a cluster as many tasks run as fit; "
                f"--cpus-per-task and --gpus-per-task set what each takes"
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
    """An engine, the device it uses, and their names."""

    engine: Engine
    device: str
    machine: str  # that cells are timed on
    words: str


@contextlib.contextmanager
def open_engine(asked: EngineOptions) -> Iterator[Execution]:
    """Return the engine that options ask for; a connection to a cluster is closed at the end."""
    from slicewise.lab.study import (
        ProcessEngine,
        RayEngine,
        SerialEngine,
        choose_device,
        device_name,
    )

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
