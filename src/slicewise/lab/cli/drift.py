"""`slicewise drift`: has a table drifted from a reference, and where?"""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slicewise.lab.cli import DRIFT
from slicewise.lab.cli.common import options
from slicewise.lab.cli.common.output import (
    check_one_format,
    check_output_path,
    print_json,
    print_lines,
)
from slicewise.lab.cli.common.samples import check_seed
from slicewise.lab.data import check_there, printable
from slicewise.lab.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from slicewise.stats import Drift, DriftDetector, DriftInTime, TableDistance

_PICTURES = (".png", ".svg", ".pdf")
_MOST_COLUMNS = 20  # of a picture or a list
_OF_THE_DETECTOR = ("columns", "level", "n_slices", "permutations", "rows", "seed", "save")


def drift(
    context: typer.Context,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE",
            show_default=False,
            help="The reference: a table, a folder of tables, or a detector that --save wrote.",
        ),
    ],
    new: Annotated[
        str,
        typer.Argument(metavar="NEW", show_default=False, help="The table to test, or a folder."),
    ],
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Only these columns.", rich_help_panel=options.DATA),
    ] = None,
    level: Annotated[
        float, typer.Option(help="How often drift may be reported where there is none.")
    ] = 0.01,
    time: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Order the new rows by this column, for --windows."),
    ] = None,
    windows: Annotated[
        int | None,
        typer.Option(metavar="N", help="Test N successive windows, and find a change point."),
    ] = None,
    all_rows: Annotated[
        bool,
        typer.Option(
            "--all-rows",
            help="Also compute the distance between all rows, streamed in bounded memory.",
        ),
    ] = False,
    n_slices: Annotated[int, typer.Option(metavar="L", help="The number of slices.")] = 100,
    permutations: Annotated[
        int, typer.Option(metavar="B", help="The number of relabelings.")
    ] = 999,
    rows: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Test at most N random rows of each table.",
            rich_help_panel=options.DATA,
        ),
    ] = 5000,
    seed: options.Seed = 0,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Draw the columns that moved: png, svg or pdf.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save the detector, to be given as REFERENCE: a file that ends in .pt.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="Print nothing; the exit status tells.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = False,
) -> int:
    """Test whether a table has drifted from a reference, over all columns together and by each of them.

    Tables are parquet, arrow, feather, npy, csv or tsv files, or folders of them. Columns of
    numbers are standardized, categories get a coordinate each; which columns are left out,
    such as times and names, is printed.

    The exit status is 3 if there is drift, 0 if there is none, 2 for a mistake.

    [bold]Examples[/bold]
      slicewise drift january.parquet february.parquet
      slicewise drift january.parquet february.parquet -o drift.png
      slicewise drift train/ live/ --time timestamp --windows 20 --json
      slicewise drift train/ live/ --save reference.pt; slicewise drift reference.pt today.csv
    """  # fmt: skip
    check_one_format(as_json=as_json, quiet=quiet)
    check_seed(seed)
    for path in (reference, new):
        check_there(Path(path))
    if picture is not None:
        check_output_path("--out", picture, _PICTURES, force=force, inputs=(reference, new))
    if save is not None:
        check_output_path("--save", save, (".pt",), force=force, inputs=(reference, new))
    if time is not None and windows is None:
        raise UserError(f"--time {printable(time)} orders windows: add --windows 10")

    start = clock.perf_counter()
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    detector = _detector(
        reference, context, columns=names, level=level, n_slices=n_slices, permutations=permutations, max_rows=rows,
        generator=seed,
    )  # fmt: skip
    if save is not None:
        detector.save(save)
    found = detector.score(new)
    in_time = None
    if windows is not None:
        in_time = detector.score_windows(new, n_windows=windows, time=time)
    whole = _whole(reference, new, names, n_slices, seed) if all_rows else None
    drifted = found.drifted if in_time is None else in_time.drifted
    if picture is not None:
        _draw(picture, detector, found, in_time)
    result = _result(detector, found, in_time, whole, drifted)
    result["seconds"] = clock.perf_counter() - start
    if as_json:
        print_json(result)
    elif not quiet:
        print_lines(_lines(detector, found, in_time, whole, drifted, picture))
    return DRIFT if drifted else 0


def _detector(reference: str, context: typer.Context, **settings: Any) -> DriftDetector:
    from slicewise.stats import DriftDetector

    if Path(reference).suffix == ".pt":
        for name in _OF_THE_DETECTOR:
            source = context.get_parameter_source(name)
            if source is not None and source.name != "DEFAULT":
                raise UserError(
                    f"--{name.replace('_', '-')}: {printable(reference)} is a saved detector, which has its own; leave it "
                    f"out, or give the reference table"
                )
        return DriftDetector.load(reference)
    return DriftDetector(reference, **settings)


def _whole(
    reference: str, new: str, columns: list[str] | None, n_slices: int, seed: int
) -> TableDistance:
    from slicewise.stats import compare_tables

    if Path(reference).suffix == ".pt":
        raise UserError(
            "--all-rows needs the reference table, not a saved detector: give the table"
        )
    return compare_tables(reference, new, columns=columns, n_slices=n_slices, generator=seed)


def _result(
    detector: DriftDetector,
    found: Drift,
    in_time: DriftInTime | None,
    whole: TableDistance | None,
    drifted: bool,
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "drift": drifted,
        "p_value": _p_value(found, in_time),
        "p_value_of_all_windows_together": None if in_time is None else found.p_value,
        "effect_size": found.effect_size,
        "level": detector.level,
        "rows": {"reference": detector.rows, "tested": [detector.n_kept, found.n]},
        "columns": [
            {"name": c.name, "distance": c.distance, "p_value": c.p_value, "change": c.direction,
             "moved": c.p_value <= found.level}
            for c in found.columns
        ],
        "left_out": dict(detector.encoding.left_out),
        "most_influential_rows": found.order[:10].tolist(),
    }  # fmt: skip
    if in_time is not None:
        result["windows"] = [
            {"start": w.start, "end": w.end, "drift": w.drift.drifted, "p_value": w.drift.p_value,
             "effect_size": w.drift.effect_size}
            for w in in_time.windows
        ]  # fmt: skip
        point = in_time.change_point
        result["change_point"] = None if point is None else in_time.windows[point].start
        result["change_p_value"] = in_time.change_p_value
    if whole is not None:
        low, high = whole.interval()
        result["all_rows"] = {
            "distance": float(whole.value), "error_bound": float(whole.error_bound), "low": float(low),
            "high": float(high), "n": whole.n, "m": whole.m,
        }  # fmt: skip
    return result


def _lines(
    detector: DriftDetector,
    found: Drift,
    in_time: DriftInTime | None,
    whole: TableDistance | None,
    drifted: bool,
    picture: Path | None,
) -> list[tuple[str, str]]:
    moved = found.moved
    verdict = (
        f"{'DRIFT' if drifted else 'no drift'}, p = {_p_value(found, in_time):.3g} at level {detector.level:g}, effect "
        f"size {found.effect_size:.3g} (in spreads of all rows)"
    )
    lines = [("verdict", verdict)]
    for column in moved[:_MOST_COLUMNS]:
        lines.append(
            (
                "moved",
                f"{column.name}: {column.direction} (W_2 {column.distance:.3g}, p = {column.p_value:.2g})",
            )
        )
    if len(moved) > _MOST_COLUMNS:
        lines.append(("", f"and {len(moved) - _MOST_COLUMNS} more columns; --json lists all"))
    if found.drifted and not moved:
        lines.append(("moved", "no column by itself: what changed is how columns go together"))
    coded = [
        f"{c.name} ({len(c.categories)} + others)"
        for c in detector.encoding.columns
        if c.kind == "category"
    ]
    if coded:
        lines.append(("categories", "a coordinate for each: " + ", ".join(coded)))
    for name, why in detector.encoding.left_out:
        lines.append(("left out", f"{name}: {why}"))
    tested = f"{found.n} rows against {detector.n_kept} of the {detector.rows} of the reference"
    lines.append(("tested", tested))
    if in_time is not None:
        marks = "".join("#" if w.drift.drifted else "." for w in in_time.windows)
        lines.append(("windows", f"{marks}  (# drifted, . not; the level is shared by all)"))
        lines.append(("together", f"p = {found.p_value:.3g} for all windows as one table"))
        if in_time.change_point is not None:
            since = in_time.windows[in_time.change_point].start
            lines.append(("changed", f"since {since} (p = {in_time.change_p_value:.2g})"))
        elif in_time.drifted:
            lines.append(
                ("changed", f"at no clear point in time (p = {in_time.change_p_value:.2g})")
            )
    if whole is not None:
        low, high = whole.interval()
        lines.append(
            ("all rows", f"SW_2 {float(whole.value):.4g} ± {float(whole.error_bound):.1g} by counting, 95 % interval "
                         f"over slices [{float(low):.4g}, {float(high):.4g}], {whole.n:,} and {whole.m:,} rows")
        )  # fmt: skip
    if picture is not None:
        lines.append(("picture", printable(str(picture))))
    return lines


def _p_value(found: Drift, in_time: DriftInTime | None) -> float:
    """The p-value of the verdict: of the table, or the least of all windows, corrected for how many there are."""
    if in_time is None:
        return found.p_value
    return min(1.0, len(in_time.windows) * min(w.drift.p_value for w in in_time.windows))


def _draw(path: Path, detector: DriftDetector, found: Drift, in_time: DriftInTime | None) -> None:
    """Draw how far each column moved, and how drift developed, if windows were tested."""
    import io

    from slicewise.lab.images import BLUE, GRAY, ORANGE, PAGE_WIDTH, blank, in_style
    from slicewise.support import write_whole

    shown = sorted(found.columns, key=lambda c: -c.distance)[:_MOST_COLUMNS][::-1]
    height = 1.6 + 0.28 * len(shown)
    with in_style():
        figure = blank(PAGE_WIDTH if in_time is not None else 5.5, max(height, 3.0))
        panels = figure.subplots(1, 1 if in_time is None else 2, squeeze=False)[0]
        panel: Axes = panels[0]
        colors = [ORANGE if c.p_value <= found.level else GRAY for c in shown]
        panel.barh([printable(c.name) for c in shown], [c.distance for c in shown], color=colors)
        panel.set_xlabel(f"W₂ to the reference, in its spreads\n(orange: moved at level {found.level:g})")  # fmt: skip
        panel.set_title(_headline(found))
        if in_time is not None:
            panel = panels[1]
            sizes = [w.drift.effect_size for w in in_time.windows]
            marks = [ORANGE if w.drift.drifted else GRAY for w in in_time.windows]
            places = range(1, len(sizes) + 1)
            panel.plot(places, sizes, color=BLUE, lw=1, zorder=1)
            panel.scatter(places, sizes, color=marks, zorder=2, clip_on=False)
            since = "No window has drifted"
            if in_time.drifted:
                since = f"Windows have drifted,\nsince no clear point in time (p = {in_time.change_p_value:.2g})"
            if in_time.change_point is not None:
                panel.axvline(in_time.change_point + 0.5, color=BLUE, ls=":")
                since = f"Changed since\n{_moment(in_time.windows[in_time.change_point].start)}"
            panel.set_title(since)
            panel.set_xlabel("window of the new rows\n(orange: drifted)")
            panel.set_ylabel("effect size, in spreads")
            panel.set_ylim(bottom=0)
        buffer = io.BytesIO()
        figure.savefig(buffer, format=path.suffix[1:].lower(), dpi=180)
    write_whole(path, buffer.getvalue())


def _headline(found: Drift) -> str:
    """Return the verdict of all columns together, and which moved, in two lines."""
    verdict = f"All rows: {'drift' if found.drifted else 'no drift'}, p = {found.p_value:.2g}"
    names = [printable(column.name) for column in found.moved]
    if not names:
        return f"{verdict}:\nno column moved by itself" if found.drifted else verdict
    first = names[0] if len(names[0]) <= 24 else f"{names[0][:23]}…"
    more = f" and {len(names) - 1} more columns" if len(names) > 1 else ""
    return f"{verdict}:\n{first}{more} moved"


def _moment(start: object) -> str:
    """Return a place in time as a person writes it."""
    words = str(start)
    return words.removesuffix(".000").replace("T", " ") if "T" in words and "-" in words else words
