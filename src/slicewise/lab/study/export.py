"""Runs of a store as CSV."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from slicewise.lab.data import visible
from slicewise.lab.study.run import as_json
from slicewise.lab.study.schema import COLUMNS, JSON


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows of a store as CSV, all columns; JSON columns stay JSON."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(
            [as_json(row[name]) if name in JSON else plain_cell(row[name]) for name in COLUMNS]
        )
    return out.getvalue()


def plain_cell(value: Any) -> Any:
    """Return a cell that is data to every program: no formula of a spreadsheet, no control character.

    A store may come from somebody else. Words that begin as formulas do get an apostrophe before them, the mark by which
    spreadsheets know text.
    """
    if not isinstance(value, str):
        return value
    shown = visible(value)
    return f"'{shown}" if value.lstrip().startswith(("=", "+", "-", "@")) else shown


MEANS = (
    "experiment", "setting", "variant", "objective", "lr", "n", "limit", "convention", "dtype", "seeds", "diverged",
    "w2_mean", "w2_std", "w2_least", "w2_most", "sw2_mean", "energy_mean", "variance_mean", "frechet_mean",
    "w2_removed_mean", "frechet_removed_mean", "probe_mean", "move_mean", "own_nearest_mean", "steps_least", "steps_most",
    "seconds", "device",
)  # fmt: skip

# Those that hold words, which are from the store; the others are numbers in six digits.
_WORDS = (
    "experiment",
    "setting",
    "variant",
    "objective",
    "convention",
    "dtype",
    "device",
    "n",
    "limit",
)
_OF_NETWORKS = ("frechet", "w2_removed", "frechet_removed", "probe", "move", "own_nearest")


def means_as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a line of CSV for each rate of each setting, with means over seeds in six digits."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        place = [row[name] for name in ("experiment", "setting", "variant", "objective", "lr")]
        groups.setdefault(as_json([*place, row["given"], row["device"]]), []).append(row)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(MEANS)
    for some in groups.values():
        mean = _mean(some)
        writer.writerow(
            [plain_cell(mean[name]) if name in _WORDS else mean[name] for name in MEANS]
        )
    return out.getvalue()


def _mean(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    first, given = rows[0], rows[0]["given"]
    # Networks that were only timed have no distance.
    found = [row["w2"] for row in rows if row["w2"] is not None]
    finite = [w2 for w2 in found if w2 < float("inf")]
    # As in the tables of the report, the mean is infinite if one run diverged.
    whole = len(finite) == len(found)
    mean = statistics.fmean(finite) if finite and whole else float("inf")
    steps = [int(row["measures"].get("steps") or 0) for row in rows]
    return {
        **first,
        # Particles of a flow, or samples that a network is judged on.
        "n": given["task"].get("n", given.get("judged", "")),
        "limit": given["steps"],
        "convention": given.get("convention", "mean"),
        "dtype": given.get("dtype", given.get("precision", "")),
        "seeds": len(rows),
        "diverged": len(found) - len(finite),
        "w2_mean": _short(mean) if found else "",
        "w2_std": _short(statistics.stdev(finite)) if whole and len(finite) > 1 else "",
        "w2_least": _short(min(finite, default=float("inf"))) if found else "",
        "w2_most": _short(max(finite) if finite and whole else float("inf")) if found else "",
        "sw2_mean": _mean_of(rows, "sw2"),
        "energy_mean": _mean_of(rows, "energy"),
        "variance_mean": _mean_of(rows, "variance_ratio"),
        **{f"{name}_mean": _mean_of(rows, name) for name in _OF_NETWORKS},
        "steps_least": min(steps),
        "steps_most": max(steps),
        "seconds": _short(statistics.fmean(row["seconds"] for row in rows)),
    }


def _mean_of(rows: list[Mapping[str, Any]], name: str) -> str:
    """Return the mean of a measure of networks; nothing for flows."""
    if name not in rows[0]["measures"]:
        return ""
    found = [row["measures"][name] for row in rows]
    return _short(float("inf") if None in found else statistics.fmean(found))


def _short(value: float) -> str:
    return f"{value:.6g}"
