"""`slicewise runs` and `slicewise report`: list or export the runs of a store, and write its report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from slicewise.lab import names
from slicewise.lab.cli.common import options
from slicewise.lab.cli.common.output import check_output_path
from slicewise.lab.data import visible
from slicewise.lab.errors import UserError
from slicewise.support import check_choice, write_whole

HELP = """List the runs of a store, or export them.

[bold]Examples[/bold]
  slicewise runs                        a line for each batch, with its best rate
  slicewise runs --all --variant sw     every run of one variant
  slicewise runs --csv runs.csv         all columns; --csv - to a pipe
  slicewise runs --csv m.csv --means    a line for each rate of flows
  slicewise runs --keep results         add the runs to the records in a folder
"""
REPORT = """Write the report of a store, or count the paper's numbers that records cover.

[bold]Examples[/bold]
  slicewise report runs.db -o report    an HTML page with its figures and tables
  slicewise report --coverage results   the paper's 1,617 numbers: ours beside them?
"""

# Where `slicewise reproduce` writes by default, and where `make demo` does.
PLACES = (Path("runs.db"), Path("report") / "runs.db")
StoreFile = Annotated[
    Path | None,
    typer.Argument(
        help="The SQLite file. \\[default: runs.db, else report/runs.db]", show_default=False
    ),
]


def _found(store: Path | None) -> Path:
    """Return the store that was named, or the one that is there."""
    if store is not None:
        return store
    return next((place for place in PLACES if place.exists()), PLACES[0])


def runs(
    store: StoreFile = None,
    experiment: Annotated[
        str | None,
        typer.Option(
            help="Only this experiment.", autocompletion=options.one_of(names.EXPERIMENTS)
        ),
    ] = None,
    setting: Annotated[str | None, typer.Option(help="Only this setting.")] = None,
    variant: Annotated[
        str | None,
        typer.Option(help="Only this variant.", autocompletion=options.one_of(names.VARIANTS)),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="List every run instead of a summary.")
    ] = False,
    csv: Annotated[
        Path | None, typer.Option(help="Write all columns to a file; - is standard output.")
    ] = None,
    means: Annotated[
        bool, typer.Option(help="With --csv: a line for each rate of flows, instead of each run.")
    ] = False,
    as_json_lines: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per run.")
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(help="Add all runs to the records in this folder, without their curves."),
    ] = None,
    commit: Annotated[
        str | None,
        typer.Option(
            help="With --keep: the commit that made the runs, for those that do not say it."
        ),
    ] = None,
    force: options.Force = False,
) -> int:
    """List or export the runs of a store."""
    store = _found(store)
    if commit is not None and keep is None:
        raise UserError(f"--commit {commit} is noted with kept runs: give --keep FOLDER too")
    if keep is not None:
        others = {
            "--experiment": experiment,
            "--setting": setting,
            "--variant": variant,
            "--csv": csv,
            "--means": means or None,
            "--json": as_json_lines or None,
            "--all": every or None,
        }
        if given := [name for name, value in others.items() if value is not None]:
            raise UserError(f"--keep adds all runs of the store: leave out {', '.join(given)}")
        return _keep(store, keep, commit)
    named = {"experiment": experiment, "setting": setting, "variant": variant}
    wanted = {name: value for name, value in named.items() if value is not None}
    if means and csv is None:
        raise UserError("--means needs --csv FILE, or --csv - for standard output")
    if csv is not None and str(csv) != "-":
        check_output_path("--csv", csv, force=force, inputs=(store,))

    from slicewise.lab.study import Store, as_csv, as_json, means_as_csv

    with Store.reading(store) as kept:
        for name, value in wanted.items():
            check_choice(f"--{name}", value, kept.values_of(name))
        rows = kept.rows(**wanted)
    if csv is not None:
        if means:
            # Checks of the theory have no rates; networks that were only timed have no distance.
            rows = [row for row in rows if row["w2"] is not None or row["lr"] is not None]
        text = means_as_csv(rows) if means else as_csv(rows)
        if str(csv) == "-":
            print(text, end="")
        else:
            write_whole(csv, text)
            print(f"{visible(str(csv))}: {len(rows)} runs")
    elif as_json_lines:
        for row in rows:
            print(as_json(row))
    else:
        _table(rows if every else _summary(rows), every)
    return 0


def _summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each batch of rates and seeds: its best rate, and the mean over seeds at that rate."""
    from slicewise.lab.report import best_of
    from slicewise.lab.study import as_json

    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        place = [row[name] for name in ("experiment", "setting", "variant", "objective")]
        # Runs of different sizes, lengths or conventions are different batches; the tasks of a check are one.
        given = "" if row["w2"] is None else as_json(row["given"])
        groups.setdefault((*place, row["lr"] is None, given), []).append(row)
    lines = []
    for members in groups.values():
        best = best_of(members)
        assert best is not None
        shown = dict(best.runs[0])
        if shown["w2"] is not None:
            shown["w2"] = best.mean
        seconds = sum(row["seconds"] for row in members)
        lines.append({**shown, "runs": len(members), "seconds": seconds})
    return lines


def _table(rows: list[dict[str, Any]], every: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    numbers = ("seed",) if every else ("runs",)
    for name in ("experiment", "setting", "variant", "objective"):
        table.add_column(name, no_wrap=True)
    for name in ("rate" if every else "best rate", *numbers, "W2", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("status")
    for row in rows:
        rate = "computed" if row["lr"] is None and row["w2"] is not None else _short(row["lr"])
        shown = [row[name] for name in ("experiment", "setting", "variant", "objective")]
        shown += [
            rate,
            str(row[numbers[0]]),
            _short(row["w2"]),
            f"{row['seconds']:.2f}",
            row["status"],
        ]
        table.add_row(*(visible(str(word)) for word in shown))
    # A pipe has no width, and a truncated table cannot be searched.
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console = Console(markup=False, highlight=False, width=200)
    console.print(table)
    console.print(f"{len(rows)} {'runs' if every else 'lines'}")


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _keep(store: Path, folder: Path, commit: str | None) -> int:
    from slicewise.lab.study import keep

    for experiment, count in keep([store], folder, commit).items():
        print(f"{visible(str(folder))}: {count} runs of {experiment}")
    return 0


def report(
    store: StoreFile = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the report.")] = Path(
        "report"
    ),
    covering: Annotated[
        Path | None,
        typer.Option(
            "--coverage",
            metavar="FOLDER",
            help="Count which of the paper's numbers the records in a folder cover, instead of a report.",
        ),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="With --coverage: write every number, ours beside it.")
    ] = None,
    force: options.Force = False,
) -> int:
    """Write the report of a store, or count what records cover."""
    if covering is not None:
        return _coverage(covering, csv, force=force)
    if csv is not None:
        raise UserError(
            f"--csv {csv} is for --coverage: the tables of a report lie beside its page"
        )

    from slicewise.lab.study import Store

    store = _found(store)
    Store.reading(store).close()  # a store that is not there is missed before the work begins
    check_output_path("--out", out / "index.html", force=force, inputs=(store,))

    from slicewise.lab.report import write_report

    print(f"report: {visible(str(write_report(store, out)))}")
    return 0


def _coverage(folder: Path, csv: Path | None, *, force: bool) -> int:
    if csv is not None:
        check_output_path("--csv", csv, force=force)
    from rich.console import Console
    from rich.table import Table

    from slicewise.lab.coverage import counts, coverage, coverage_csv, coverage_table

    found = coverage(folder)
    if csv is not None:
        write_whole(csv, coverage_csv(found))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("the paper's", "numbers", "at its settings", "reduced", "none", "seeds", "what is reduced"):  # fmt: skip
        table.add_column(
            name, justify="left" if name in ("the paper's", "what is reduced") else "right"
        )
    for row in coverage_table(found):
        table.add_row(*row)
    console = Console(markup=False, highlight=False)
    (console if console.is_terminal else Console(markup=False, highlight=False, width=160)).print(
        table
    )
    number = counts(found)
    print(
        f"none {number['none']}, at paper settings {number['paper']}, reduced {number['reduced']}"
    )
    return 0
