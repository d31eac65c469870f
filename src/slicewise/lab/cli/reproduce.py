"""`slicewise reproduce`: the paper's experiments, resumable, ending in a report."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, cast

import typer

from slicewise.checks import check_choice
from slicewise.lab.cli import PARTLY, STOPPED
from slicewise.lab.experiments import EXPERIMENTS, PRESETS, Options
from slicewise.lab.study.engines import Engine, InProcesses, InTurn
from slicewise.lab.study.machine import choose_device, device_name
from slicewise.lab.study.store import Store
from slicewise.lab.study.sweep import sweep
from slicewise.lab.study.watch import Watch
from slicewise.lab.trouble import Trouble
from slicewise.problem import Convention

HELP = f"""Run the paper's experiments: {", ".join(EXPERIMENTS)}, or all.

Stop it at any moment and give the same command again: what is in the store
is not made twice.

[bold]Examples[/bold]
  slicewise reproduce all                              in small: two minutes
  slicewise reproduce gradient-flow --preset paper     all as published
  slicewise reproduce image-flow --faces img_align_celeba --device cuda
"""


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
    convention: Annotated[
        str, typer.Option(help="mean, or reference: the scale of the published scripts.")
    ] = "mean",
    mnist: Annotated[
        Path | None, typer.Option(help="npz or folder of idx files, for image-flow.")
    ] = None,
    faces: Annotated[
        Path | None, typer.Option(help="Folder of pictures (CelebA) or npz, for image-flow.")
    ] = None,
    photographs: Annotated[
        Path | None, typer.Option(help="Folder of set1_source, set1_target, … for color.")
    ] = None,
    report: Annotated[bool, typer.Option(help="End in a report.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> int:
    """Run one experiment, or all, into a store; then write the report."""
    if experiment != "all":
        check_choice("experiment", experiment, (*EXPERIMENTS, "all"))
    check_choice("--preset", preset, PRESETS)
    check_choice("--convention", convention, ("mean", "reference"))
    if jobs < 0:
        raise Trouble(f"--jobs {jobs}: give a number of processes, or 0")
    if report and out.exists() and not out.is_dir():
        raise Trouble(f"--out {out} is a file: name a folder for the report")
    where = choose_device(device)
    asked = Options(
        preset,
        cast(Convention, convention),
        None if mnist is None else str(mnist),
        None if faces is None else str(faces),
        None if photographs is None else str(photographs),
        device_name(where),
    )
    names = list(EXPERIMENTS) if experiment == "all" else [experiment]
    cells = [cell for name in names for cell in EXPERIMENTS[name](asked)]
    # Files that are not what they should be come out here, before anything is written.
    n_runs = sum(len(cell.runs) for cell in cells)
    processes = jobs or (1 if where.startswith("cuda") else os.cpu_count() or 1)
    engine: Engine = InTurn() if processes == 1 else InProcesses(processes)
    with Store(store) as kept:
        if not quiet:
            print(f"{n_runs} runs in {len(cells)} cells, on {device_name(where)}", file=sys.stderr)
        try:
            outcome = sweep(cells, kept, device=where, engine=engine, watch=Watch(quiet=quiet))
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
        from slicewise.lab.report import write_report

        page = write_report(store, out)
        if not quiet:
            print(f"report: {page}")
    return PARTLY if outcome.failed else 0
