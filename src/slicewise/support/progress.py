"""A progress bar for whoever is watching."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tick = Callable[[int, str], None]


@contextmanager
def progress_bar(total: int, show: bool | None, label: str = "flow") -> Iterator[Tick]:
    """A function to call with the steps made and a few words; None shows a bar on a terminal only."""
    if show is None:
        show = sys.stderr.isatty() and _has_rich()
    if not show:
        yield lambda _steps, _words: None
        return
    if not _has_rich():
        raise ImportError("bar=True needs rich: pip install 'slicewise[lab]'")
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), Remaining())
    console = Console(stderr=True)
    with Progress(*columns, TextColumn("{task.fields[words]}"), console=console) as progress:
        task = progress.add_task(label, total=total, words="")
        yield lambda steps, words: progress.update(task, completed=steps, words=words)


def _has_rich() -> bool:
    from importlib.util import find_spec

    return find_spec("rich") is not None
