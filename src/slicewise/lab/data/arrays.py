"""Arrays from files: npy, npz, safetensors. Nothing in them is ever run."""

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
# How files begin that hold what their names say.
_SIGNATURES = {".npy": b"\x93NUMPY", ".npz": b"PK"}


def printable(name: str) -> str:
    """A name that does nothing to a terminal, whatever characters are in it."""
    return name if name.isprintable() else ascii(name)


def find_file(source: str, known: Sequence[str] = ARRAY_SUFFIXES) -> tuple[Path, str | None]:
    """The file that is meant, of a kind that is known, and the array in it (`file.npz:name`)."""
    path, wanted = Path(source), None
    named = _NAMED_ARRAY.fullmatch(source)
    if named and not path.exists():
        path, wanted = Path(named[1]), named[2]
    shown, suffix = printable(str(path)), path.suffix.lower()
    if path.is_dir():
        raise UserError(f"{shown} is a folder: name a file")
    if not path.exists():
        raise UserError(f"there is no file {shown}")
    if suffix not in known:
        raise UserError(
            f"{shown} ends in {suffix!r}: what a file holds is told by the end of its name, "
            f"{', '.join(known)}"
        )
    try:
        with path.open("rb") as file:
            begins = file.read(6)
    except OSError as trouble:
        raise UserError(f"{shown} cannot be read: {trouble.strerror}") from None
    if not begins:
        raise UserError(f"{shown} is empty: give at least one sample")
    if not begins.startswith(_SIGNATURES.get(suffix, b"")):
        raise UserError(f"{shown} is no {suffix[1:]} file, whatever its name: save it anew")
    return path, wanted


def read_with(path: Path, kind: str, read: Callable[[Path], Read]) -> Read:
    """What a decoder makes of a file; anything may be wrong in there, and any error may come of it."""
    try:
        return read(path)
    except (UserError, ImportError):
        raise
    except Exception as trouble:
        said = " ".join(str(trouble).split()) or type(trouble).__name__
        if "pickle" in said:
            said = "it holds pickled objects, which could run code; save plain numbers instead"
        raise UserError(
            f"{printable(str(path))} cannot be read as {kind}: {printable(said)}"
        ) from None


def read_array(path: Path, wanted: str | None) -> Array:
    """One array of a file: the one that is named, or the only one."""
    return read_with(path, _kind(path), lambda file: _one_array(file, wanted))


def read_arrays(path: Path) -> dict[str, Array]:
    """All arrays of a file by name; that of an npy file has the name of the file."""
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
            f"{given} holds {len(names)} arrays ({listed}): say which, e.g. {given}:{printable(names[0])}"
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
    """Named arrays in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.archive = path.suffix.lower() == ".npz"
        if self.archive:
            # Handed an open file, which is closed also where it is no archive.
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

        # By way of torch: NumPy has no bfloat16.
        with safe_open(self.path, framework="pt") as tensors:
            found = {name: tensors.get_tensor(name) for name in names}
        return {
            name: (tensor.float() if tensor.is_floating_point() else tensor).numpy()
            for name, tensor in found.items()
        }
