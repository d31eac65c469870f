"""Run many independent measurements in several processes, each kept as soon as it is done."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]
Measure = Callable[..., Row]
Cell = tuple[str, Measure, tuple[Any, ...]]


def run(cells: Iterable[Cell], jobs: int, kept: Path) -> list[Row]:
    """Return what each cell measures, in order, those that an earlier run kept not measured again.

    Args:
        cells: Names that no two share, functions of a module, and their arguments.
        jobs: How many processes; each has one thread.
        kept: A file of lines to which every result is added; delete it to measure anew.
    """
    cells = list(cells)
    found: dict[str, Row] = {}
    if kept.exists():
        for line in kept.read_text().splitlines():
            name, row = json.loads(line)
            found[name] = row
    kept.parent.mkdir(parents=True, exist_ok=True)
    left = [cell for cell in cells if cell[0] not in found]
    context = multiprocessing.get_context("spawn")
    with (
        kept.open("a") as file,
        ProcessPoolExecutor(
            jobs, context, initializer=torch.set_num_threads, initargs=(1,)
        ) as pool,
    ):
        waiting = {pool.submit(measure, *given): name for name, measure, given in left}
        for done in as_completed(waiting):
            name, row = waiting[done], done.result()
            found[name] = row
            file.write(json.dumps([name, row], default=float) + "\n")
            file.flush()
            print(name, row, flush=True)
    return [found[name] for name, _, _ in cells]


def chunks(repeats: int, size: int) -> list[tuple[int, int]]:
    """The first and the last but one of each chunk of repeats."""
    return [(start, min(start + size, repeats)) for start in range(0, repeats, size)]


def added(rows: list[Row], by: tuple[str, ...]) -> list[Row]:
    """Rows that agree in some fields as one, their other fields added up."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in by)
        whole = found.setdefault(key, {name: row[name] for name in by})
        for name, value in row.items():
            if name not in by:
                whole[name] = whole.get(name, 0) + value
    return list(found.values())
