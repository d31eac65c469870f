"""Arrays from npy, npz and safetensors files. Pickled objects, which could run code, are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from slicewise.lab.errors import UserError
from slicewise.support import check_choice

Array = np.ndarray[Any, Any]
Read = TypeVar("Read")

ARRAY_SUFFIXES = (".npy", ".npz", ".safetensors")

_NAMED_ARRAY = re.compile(r"(.+\.(?:npz|safetensors)):(.*)", re.IGNORECASE | re.DOTALL)
# The first bytes of files that are what their names say.
_SIGNATURES = {".npy": b"\x93NUMPY", ".npz": b"PK"}


def printable(name: str) -> str:
    """Return a name that is safe to print on a terminal: control characters are escaped."""
    return name if name.isprintable() else ascii(name)


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


def read_with(path: Path, kind: str, read: Callable[[Path], Read]) -> Read:
    """Call `read` on a file; whatever error a damaged file causes becomes a UserError."""
    try:
        return read(path)
    except (UserError, ImportError):
        raise
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        if "pickle" in said:
            said = "it holds pickled objects, which could run code; save plain numbers instead"
        raise UserError(
            f"{printable(str(path))} cannot be read as {kind}: {printable(said)}"
        ) from None


def read_array(path: Path, wanted: str | None) -> Array:
    """Read one array of a file: the named one, or the only one if no name is given."""
    return read_with(path, _kind(path), lambda file: _one_array(file, wanted))


def read_arrays(path: Path) -> dict[str, Array]:
    """Read all arrays of a file, by name; the array of an npy file has the name of the file."""
    return read_with(path, _kind(path), _all_arrays)


def _kind(path: Path) -> str:
    return {".npy": "an npy file", ".npz": "an npz file"}.get(
        path.suffix.lower(), "a safetensors file"
    )


def _one_array(path: Path, wanted: str | None) -> Array:
    if path.suffix.lower() == ".npy":
        return _all_arrays(path)[path.stem]
    held = _ArrayFile(path)
    names, given = held.names, printable(str(path))
    if wanted is None and len(names) == 1:
        wanted = names[0]
    if wanted is None:
        listed = ", ".join(map(printable, names))
        raise UserError(
            f"{given} holds {len(names)} arrays ({listed}): name one, e.g. {given}:{printable(names[0])}"
            if names
            else f"{given} holds no array"
        )
    try:
        check_choice(f"array of {printable(path.name)}", wanted, names)
    except ValueError as unknown:
        raise UserError(str(unknown)) from None
    return held.read([wanted])[wanted]


def _all_arrays(path: Path) -> dict[str, Array]:
    if path.suffix.lower() == ".npy":
        return {path.stem: np.asarray(np.load(path, allow_pickle=False))}
    held = _ArrayFile(path)
    return held.read(held.names)


class _ArrayFile:
    """Named arrays of an npz or safetensors file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.archive = path.suffix.lower() == ".npz"
        if self.archive:
            # NumPy leaves a file open that it opened itself and that is no archive.
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                self.names = list(archive.files)
        else:
            from safetensors import safe_open

            with safe_open(path, framework="pt") as tensors:
                self.names = list(tensors.keys())

    def read(self, names: Sequence[str]) -> dict[str, Array]:
        if self.archive:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                return {name: np.asarray(archive[name]) for name in names}
        from safetensors import safe_open

        # Read with torch, because NumPy has no bfloat16.
        with safe_open(self.path, framework="pt") as tensors:
            found = {name: tensors.get_tensor(name) for name in names}
        return {
            name: (tensor.float() if tensor.is_floating_point() else tensor).numpy()
            for name, tensor in found.items()
        }
