"""A progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tick = Callable[[int, str], None]


@contextmanager
def progress_bar(total: int, show: bool | None, label: str = "flow") -> Iterator[Tick]:
    """Show a progress bar while the context is open.

    Args:
        total: Number of steps in all.
        show: True shows the bar (extra `lab`), False does not, None does on a terminal if it can.
        label: What stands before the bar.

    Yields:
        A function to call with the number of steps made and a few words.

    Raises:
        ImportError: If `show` is True and rich is not installed.

    Example:
        >>> with progress_bar(10, show=False) as tick:
        ...     tick(1, "loss 0.5")
    """
    if show is None:
        show = sys.stderr.isatty() and _has_rich()
    if not show:
        yield lambda _steps, _words: None
        return
    if not _has_rich():
        raise ImportError("progress_bar=True needs rich: pip install 'slicewise[lab]'")
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
