"""What commands print, and checks of the files they write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slicewise.lab.data import printable
from slicewise.lab.errors import UserError
from slicewise.support import check_writable


def check_output_path(option: str, path: Path, suffixes: tuple[str, ...]) -> Path:
    """Check, before the work is done, that a file can be written; nothing is created yet.

    Returns:
        The path.

    Raises:
        UserError: its suffix is not one of `suffixes`, it is a folder, or it cannot be written.
    """
    given = f"{option} {printable(str(path))}"
    if path.suffix.lower() not in suffixes:
        raise UserError(f"{given}: give a name that ends in {' or '.join(suffixes)}")
    if path.is_dir():
        raise UserError(f"{given} is a folder: give a file")
    try:
        check_writable(path.parent)
    except OSError as error:
        raise UserError(f"{given} cannot be written: {error.strerror}; give another path") from None
    return path


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
    width = max(len(name) for name, _ in lines)
    for name, words in lines:
        # Not wrapped: a terminal does that, and a pipe needs whole lines.
        console.print(
            Text(f"{name:{width}}  ", style="bold").append(words, "default"), soft_wrap=True
        )
