"""Count the steps that flows and trainings take, and say which promises are kept.

python -m benchmarks.steps --out benchmarks/results
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.timing import environment
from benchmarks.steps import arrivals, flows, local, rates, training
from slicewise.support import write_whole

PARTS: dict[str, Callable[..., list[dict[str, Any]]]] = {
    "toys": flows.toys,
    "colors": flows.colors,
    "clouds": flows.clouds,
    "variants": flows.variants,
    "digits": flows.digits,
    "edges": local.edges,
    "contractions": local.contractions,
    "floors": local.floors,
    "grid": local.grid,
}
# Run by run, kept in a file: an interrupted benchmark goes on where it was.
RESUMABLE: dict[str, Callable[..., list[dict[str, Any]]]] = {
    "arrivals": arrivals.arrivals,
    "truth": arrivals.truth,
    "growth": arrivals.growth,
    "minima": arrivals.minima,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen parts; return 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the record")
    parser.add_argument("--quick", action="store_true", help="smaller versions of all")
    every = [*RESUMABLE, *PARTS]
    parser.add_argument("--only", nargs="+", choices=[*every, "training"], help="some parts")
    parser.add_argument("--steps", type=int, default=400, help="of each network in `training`")
    asked = parser.parse_args(arguments)
    names = asked.only or every
    stamp = datetime.date.today().isoformat()
    if "training" in names:
        train_all(asked.out / f"training-{stamp}.json", asked.steps)
    results: dict[str, Any] = {}
    begun = time.perf_counter()
    file = asked.out / f"steps-{stamp}"
    kept = arrivals.Kept(None if asked.quick else asked.out / "arrivals.jsonl")
    for name in names:
        if name in PARTS or name in RESUMABLE:
            print(f"{time.perf_counter() - begun:6.0f} s  {name}", file=sys.stderr, flush=True)
        if name in PARTS:
            results[name] = PARTS[name](quick=asked.quick)
        elif name in RESUMABLE:
            results[name] = RESUMABLE[name](quick=asked.quick, kept=kept)
    if not results:
        return 0
    record = {"environment": environment(), "quick": asked.quick, "parts": results}
    write_whole(file.with_suffix(".json"), json.dumps(record, indent=1))
    page = summary(results, quick=asked.quick)
    write_whole(file.with_suffix(".md"), page)
    print(page)
    print(f"written: {file}.json and .md", file=sys.stderr)
    met = [row["met"] for rows in results.values() for row in rows if "met" in row]
    return 0 if all(met) else 1


def train_all(file: Path, steps: int) -> None:
    """Train every setting that the record does not have yet, writing after each."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kept = json.loads(file.read_text())["curves"] if file.exists() else []
    done = {curve["setting"] for curve in kept}
    for i, setting in enumerate(training.SETTINGS, 1):
        if setting.name in done:
            continue
        begun = time.perf_counter()
        rows = training.train(setting, training.candidates(), steps=steps, seed=1, device=device)
        kept += rates.curves(rows)
        record = {"environment": environment(), "steps": steps, "curves": kept}
        write_whole(file, json.dumps(record))
        seconds = time.perf_counter() - begun
        print(f"{i} of {len(training.SETTINGS)}: {setting.name}, {seconds:.1f} s", flush=True)
    words = [
        f"by {judge}\n\n{rates.table(rates.spread(rates.rows_of(kept), judge))}\n"
        for judge in ("w2", "sw2")
    ]
    page = "# Networks trained over rates\n\n" + "\n".join(words)
    write_whole(file.with_suffix(".md"), page)
    print(page)


def summary(results: dict[str, Any], *, quick: bool) -> str:
    """Return the record as Markdown, a table for each part."""
    lines = ["# Steps" + (" (quick)" if quick else ""), ""]
    for name, rows in results.items():
        keys = list(dict.fromkeys(key for row in rows for key in row))
        lines += [f"## {name}", "", ((PARTS | RESUMABLE)[name].__doc__ or "").strip(), ""]
        lines += ["| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
        lines += ["| " + " | ".join(_cell(row.get(key)) for key in keys) + " |" for row in rows]
        lines.append("")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


if __name__ == "__main__":
    sys.exit(main())
