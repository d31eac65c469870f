"""The progress of a sweep: a bar on a terminal, a line for each cell elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from slicewise.lab.data import visible

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class SweepProgress:
    """Shows how far a sweep is, on standard error: on a terminal a bar with the remaining time, otherwise lines."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._total = self._made = 0

    @contextlib.contextmanager
    def over(self, cells: Sequence[tuple[str, int]]) -> Iterator[None]:
        """Show the progress of these cells, given by name and number of runs, inside a `with` block."""
        self._total, self._made = len(cells), 0
        if self._quiet or not cells or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("cells"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as self._progress:
            self._task = self._progress.add_task("", total=len(cells))
            yield
        self._progress = None

    def done(self, name: str, runs: int, seconds: float, error: str = "") -> None:
        """Report that one cell has ended."""
        self._made += 1
        name, error = visible(name), visible(" ".join(error.split()))
        words = (
            f"{name}: {error}"
            if error
            else f"{name}: {runs} run{'s' * (runs != 1)}, {seconds:.1f} s"
        )
        if self._progress is not None and self._task is not None:
            if error:
                self._progress.console.print(words, markup=False)
            self._progress.update(self._task, advance=1, description=f"after {name}")
        elif not self._quiet:
            print(f"[{self._made}/{self._total}] {words}", file=sys.stderr, flush=True)
