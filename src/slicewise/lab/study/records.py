"""Kept records of a study: runs of stores as CSV in a folder, which a repository can hold.

A folder has, for each experiment of flows or networks, `runs/NAME.csv.gz` with a line for each run (settings, results, commit,
versions and machine; curves are left out) and `NAME.csv` with means over seeds. Checks have one file, `NAME.csv`, with a line for
each run. Means may be of runs that were never kept singly: they stay until at least as many runs are.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slicewise.lab.errors import UserError
from slicewise.lab.names import ESTIMATORS, THEORY
from slicewise.lab.study.export import MEANS, as_csv, means_as_csv
from slicewise.lab.study.schema import JSON
from slicewise.lab.study.store import Store
from slicewise.support import write_whole

# What tells one line of means from another.
PLACE = ("experiment", "setting", "variant", "objective", "lr", "n", "limit", "convention", "dtype")
_CHECKS = (THEORY, ESTIMATORS)
Line = dict[str, str]


def keep(stores: Iterable[Path], folder: Path, commit: str | None = None) -> dict[str, int]:
    """Add the runs of stores to the records in a folder.

    A run that is there already is replaced if the store's is newer, which matters for times: other runs depend on their
    settings only.

    Args:
        stores: files that `slicewise reproduce` wrote.
        folder: of the records; it is made if there is none.
        commit: of the code that made the runs, for those that name none, or one with changes ("-dirty").

    Returns:
        How many runs were added or replaced, by experiment.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for store in stores:
        with Store.reading(store) as opened:
            for row in opened.rows():
                if commit is not None and _unknown(row["versions"].get("commit")):
                    row["versions"]["commit"] = commit
                found.setdefault(row["experiment"], []).append({**row, "trace": {}})
    counts = {}
    for experiment, rows in found.items():
        there = {row["key"]: row for row in kept_runs(folder, experiment)}
        newer = {
            row["key"]: row
            for row in sorted(rows, key=lambda row: str(row["finished"]))
            if row["key"] not in there or there[row["key"]]["finished"] <= row["finished"]
        }
        counts[experiment] = len(newer)
        whole = sorted({**there, **newer}.values(), key=_order)
        _write_runs(_runs_file(folder, experiment), as_csv(whole))
        if experiment not in _CHECKS:
            _write_means(folder, experiment, whole)
    return counts


def kept_runs(folder: Path, experiment: str) -> list[dict[str, Any]]:
    """Return the runs that a folder has of an experiment, as rows of a store; none if it has no such file."""
    file = _runs_file(folder, experiment)
    if not file.exists():
        return []
    packed = file.read_bytes()
    text = gzip.decompress(packed).decode() if file.suffix == ".gz" else packed.decode()
    return [_parsed(row) for row in csv.DictReader(io.StringIO(text))]


def kept_means(folder: Path, experiment: str) -> list[Line]:
    """Return means over seeds of an experiment, a line for each rate, as the columns of `MEANS` in text.

    Raises:
        UserError: the folder has none.
    """
    file = folder / f"{experiment}.csv"
    if not file.exists():
        raise UserError(
            f"{folder} has no {experiment}.csv: give a folder of records, which `slicewise runs STORE --keep FOLDER` writes"
        )
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def _unknown(commit: str | None) -> bool:
    return commit is None or commit.endswith("-dirty")


def _runs_file(folder: Path, experiment: str) -> Path:
    return folder / (f"{experiment}.csv" if experiment in _CHECKS else f"runs/{experiment}.csv.gz")


def _write_runs(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # Without the time of writing: the same runs are the same file.
    write_whole(file, gzip.compress(text.encode(), mtime=0) if file.suffix == ".gz" else text)


def _write_means(folder: Path, experiment: str, runs: Sequence[dict[str, Any]]) -> None:
    lines: dict[tuple[str, ...], Line] = {}
    there = kept_means(folder, experiment) if (folder / f"{experiment}.csv").exists() else []
    judged = [row for row in runs if row["w2"] is not None or row["lr"] is not None]
    # Later lines win unless they are of fewer runs.
    for line in (*there, *csv.DictReader(io.StringIO(means_as_csv(judged)))):
        place = tuple(line.get(name, "") for name in PLACE)
        if place not in lines or int(lines[place]["seeds"]) <= int(line["seeds"]):
            lines[place] = line
    columns = [name for name in MEANS if any(line.get(name) for line in lines.values())]
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(lines.values(), key=_order))
    write_whole(folder / f"{experiment}.csv", out.getvalue())


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    rate = row.get("lr")
    place = [str(row[name]) for name in ("setting", "variant", "objective")]
    return (*place, -1.0 if rate in (None, "") else float(rate), int(row.get("seed", 0)))


def _parsed(row: Line) -> dict[str, Any]:
    numbers = {name: float(row[name]) if row[name] else None for name in ("lr", "w2", "seconds")}
    whole = {name: int(row[name]) for name in ("seed", "batch")}
    return {**row, **numbers, **whole, **{name: json.loads(row[name]) for name in JSON}}
