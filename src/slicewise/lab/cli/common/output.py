"""What commands print, and checks of the files they write."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slicewise.lab.data import printable, visible
from slicewise.lab.errors import UserError
from slicewise.support import check_file_writable

# In the head of every report.
REPORT_MARK = b'<meta name="generator" content="slicewise report">'


def check_output_path(
    option: str,
    path: Path,
    suffixes: tuple[str, ...] = (),
    *,
    force: bool,
    inputs: Iterable[str | Path | None] = (),
) -> Path:
    """Check, before the work is done, that a file may and can be written; nothing is created yet.

    Args:
        option: its name, for messages.
        path: the file.
        suffixes: those of which it must have one; any if there are none.
        force: whether an existing file may be overwritten. Databases and inputs never are.
        inputs: files that the command reads.

    Returns:
        The path.

    Raises:
        UserError: its suffix is not one of `suffixes`; it is a folder, a database, an input, or exists; or it
            cannot be written.
    """
    given = f"{option} {printable(str(path))}"
    if suffixes and path.suffix.lower() not in suffixes:
        raise UserError(f"{given}: give a name that ends in {' or '.join(suffixes)}")
    if path.is_dir():
        raise UserError(f"{given} is a folder: give a file")
    check_kept(given, path, inputs)
    if path.is_file() and not force:
        raise UserError(f"{given} exists: give another name, or --force")
    try:
        check_file_writable(path)
    except OSError as error:
        raise UserError(f"{given} cannot be written: {error.strerror}; give another path") from None
    return path


def check_kept(given: str, path: Path, inputs: Iterable[str | Path | None]) -> None:
    """Refuse to write over a database, or over a file that the command reads.

    Raises:
        UserError: it is one of these.
    """
    if not path.is_file():
        return
    if is_database(path):
        raise UserError(f"{given} is a database, perhaps a store of runs: give another name")
    for one in inputs:
        # An array of a file is named by file.npz:name.
        for name in () if one is None else {str(one), str(one).rpartition(":")[0]}:
            if name and os.path.exists(name) and os.path.samefile(name, path):
                raise UserError(f"{given} is an input of this command: give another name")


def is_database(path: Path) -> bool:
    """Return whether a file is one of SQLite, as stores are."""
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False  # one that cannot be read cannot be written either, which is told as such


def is_report(page: Path) -> bool:
    """Return whether a page is the report of a study, which can be written again from its store."""
    try:
        return page.is_file() and REPORT_MARK in page.read_bytes()[:4096]
    except OSError:
        return False


def check_one_format(*, as_json: bool, quiet: bool) -> None:
    """Refuse --json together with --quiet."""
    if as_json and quiet:
        raise UserError("--json and --quiet: choose one of them")


def print_json(found: Mapping[str, Any]) -> None:
    """Print one JSON object; numbers that are not finite become null."""
    from slicewise.lab.study import plain

    print(json.dumps(plain(found), allow_nan=False))


def print_lines(lines: Sequence[tuple[str, str]]) -> None:
    """Print lines of a name and some words, in two columns."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    # Names of files, arrays and labels are among the words.
    shown = [(visible(name), visible(words)) for name, words in lines]
    width = max(len(name) for name, _ in shown)
    for name, words in shown:
        # Not wrapped: a terminal does that, and a pipe needs whole lines.
        console.print(
            Text(f"{name:{width}}  ", style="bold").append(words, "default"), soft_wrap=True
        )
