"""Files that are named on a command line: found, or missed in words. Needs no NumPy, so that mistakes are told at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from slicewise.lab.errors import UserError

ARRAY_SUFFIXES = (".npy", ".npz", ".safetensors")
TABLE_SUFFIXES = (".csv", ".tsv", ".txt")
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp")
SAMPLE_SUFFIXES = (*ARRAY_SUFFIXES, *TABLE_SUFFIXES, *IMAGE_SUFFIXES)

_NAMED_ARRAY = re.compile(r"(.+\.(?:npz|safetensors)):(.*)", re.IGNORECASE | re.DOTALL)
# The first bytes of files that are what their names say.
_SIGNATURES = {".npy": b"\x93NUMPY", ".npz": b"PK"}


def printable(name: str) -> str:
    """Return a name that is safe to print on a terminal: control characters are escaped."""
    return name if name.isprintable() else ascii(name)


def visible(text: str) -> str:
    """Return text that cannot steer a terminal: each control character is escaped, all others stay as they are."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
        for c in text
    )


def find_file(source: str, known: Sequence[str] = ARRAY_SUFFIXES) -> tuple[Path, str | None]:
    """Find the file, and the array in it, that `file.npz:name` names.

    Args:
        source: a path, or a path, a colon and the name of an array in that file.
        known: the suffixes that are accepted.

    Returns:
        The path of an existing, readable file, and the name of the array if one was given.

    Raises:
        UserError: there is no such file, it is empty, or it is not of a known kind.
    """
    path, wanted = Path(source), None
    named = _NAMED_ARRAY.fullmatch(source)
    if named and not path.exists():
        path, wanted = Path(named[1]), named[2]
    shown, suffix = printable(str(path)), path.suffix.lower()
    if path.is_dir():
        raise UserError(f"{shown} is a folder: give a file")
    if not path.exists():
        raise UserError(f"there is no file {shown}")
    if suffix not in known:
        raise UserError(
            f"{shown} ends in {suffix!r}: the kind of a file is read from its suffix, one of "
            f"{', '.join(known)}"
        )
    try:
        with path.open("rb") as file:
            begins = file.read(6)
    except OSError as error:
        raise UserError(f"{shown} cannot be read: {error.strerror}") from None
    if not begins:
        raise UserError(f"{shown} is empty: give at least one sample")
    if not begins.startswith(_SIGNATURES.get(suffix, b"")):
        raise UserError(f"{shown} is not a valid {suffix[1:]} file: save it again")
    return path, wanted


def check_there(path: Path) -> None:
    """Check that there is a file or folder of this name.

    Raises:
        UserError: there is none.
    """
    if not path.exists():
        raise UserError(f"{printable(str(path))}: there is no such file")
