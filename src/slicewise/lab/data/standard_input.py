"""Samples that come through a pipe: `-` in the place of a file."""

from __future__ import annotations

import atexit
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from slicewise.lab.data.limits import check_bytes
from slicewise.lab.errors import UserError

DASH = "-"
_SHOWN = "standard input"
_AT_ONCE = 1 << 20


def read_dashes(files: Sequence[str | None]) -> list[str | None]:
    """Replace `-` among names of files by a file that holds standard input, removed when the process ends.

    What it holds is told by its first bytes: an npy or npz file, else a table of numbers.

    Raises:
        UserError: there is more than one, standard input is a terminal or empty, or it is too large.
    """
    if DASH not in files:
        return list(files)
    if files.count(DASH) > 1:
        raise UserError("- is standard input, which can be read once: give it for one file only")
    if sys.stdin is None or sys.stdin.isatty():
        raise UserError("- reads standard input, but nothing is piped into it: give a file")
    held = bytearray()
    while more := sys.stdin.buffer.read(_AT_ONCE):
        held += more
        check_bytes(_SHOWN, len(held))
    if not held:
        raise UserError(f"{_SHOWN} is empty: give at least one sample")
    kinds = ((b"\x93NUMPY", "npy"), (b"PK", "npz"))
    kind = next((kind for begins, kind in kinds if held.startswith(begins)), "csv")
    folder = tempfile.TemporaryDirectory(prefix="slicewise-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / f"standard-input.{kind}"
    path.write_bytes(held)
    return [str(path) if file == DASH else file for file in files]
