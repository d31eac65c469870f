"""Arrays from npy, npz and safetensors files. Pickled objects, which could run code, are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from slicewise.lab.data.paths import printable
from slicewise.lab.errors import UserError
from slicewise.support import check_choice

Array = np.ndarray[Any, Any]
Read = TypeVar("Read")


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
