"""What a command says and writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slicewise.lab.data import printable
from slicewise.lab.errors import UserError
from slicewise.lab.study import plain
from slicewise.support import check_writable


def check_output_path(option: str, path: Path, suffixes: tuple[str, ...]) -> Path:
    """A path that can be written to, found out before the work is done; nothing is made yet, not even its folder."""
    given = f"{option} {printable(str(path))}"
    if path.suffix.lower() not in suffixes:
        raise UserError(f"{given}: give a name that ends in {' or '.join(suffixes)}")
    if path.is_dir():
        raise UserError(f"{given} is a folder: name a file")
    try:
        check_writable(path.parent)
    except OSError as trouble:
        raise UserError(
            f"{given} cannot be written: {trouble.strerror}; name another place"
        ) from None
    return path


def check_one_format(*, as_json: bool, quiet: bool) -> None:
    """Asked for twice, what is said would be one of them at random."""
    if as_json and quiet:
        raise UserError("--json and --quiet: choose one of them")


def print_json(found: Mapping[str, Any]) -> None:
    """One JSON object; numbers that are not finite, which JSON has not, are null."""
    print(json.dumps(plain(found), allow_nan=False))


def print_lines(lines: Sequence[tuple[str, str]]) -> None:
    """What was found, a name and a few words in each line."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    width = max(len(name) for name, _ in lines)
    for name, words in lines:
        # Whole lines, whatever the width: a terminal folds them, a pipe wants them as they are.
        console.print(
            Text(f"{name:{width}}  ", style="bold").append(words, "default"), soft_wrap=True
        )
