"""Arrays from npy, npz and safetensors files. Pickled objects, which could run code, are refused."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from slicewise.lab.data.limits import check_bytes
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
        check_bytes(printable(str(path)), path.stat().st_size)
        return {path.stem: np.asarray(np.load(path, allow_pickle=False))}
    held = _ArrayFile(path)
    return held.read(held.names)


def check_archive(shown: str, file: BinaryIO, names: Iterable[str] | None = None) -> None:
    """Refuse an npz file whose arrays are too large once they are unpacked; the file is then at its beginning.

    Args:
        shown: its name, for the message.
        file: the file, open.
        names: the arrays that will be read; None is all.

    Raises:
        UserError: they would take too much memory.
    """
    wanted = None if names is None else {f"{name}.npy" for name in names} | set(names)
    with zipfile.ZipFile(file) as archive:
        held = [one for one in archive.infolist() if wanted is None or one.filename in wanted]
        check_bytes(shown, sum(one.file_size for one in held))
        for one in held:
            if one.filename.endswith(".npy"):
                with archive.open(one) as packed:
                    _check_header(shown, packed, one.file_size)
    file.seek(0)


def _check_header(shown: str, packed: Any, size: int) -> None:
    """Refuse an array that claims more entries than there are bytes: its memory is taken before they are read."""
    try:
        version = np.lib.format.read_magic(packed)
        read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
            version, np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(packed)
    except Exception:  # NumPy says what is wrong when it reads the array
        return
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > size:
        raise UserError(f"{shown} is damaged: an array in it claims more numbers than there are")


class _ArrayFile:
    """Named arrays of an npz or safetensors file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.archive = path.suffix.lower() == ".npz"
        if self.archive:
            # NumPy leaves a file open that it opened itself and that is no archive.
            with path.open("rb") as file:
                check_archive(printable(str(path)), file, names=())
                archive = np.load(file, allow_pickle=False)
                self.names = list(archive.files)
        else:
            from safetensors import safe_open

            with safe_open(path, framework="pt") as tensors:
                self.names = list(tensors.keys())

    def read(self, names: Sequence[str]) -> dict[str, Array]:
        if self.archive:
            with self.path.open("rb") as file:
                check_archive(printable(str(self.path)), file, names)
                archive = np.load(file, allow_pickle=False)
                return {name: np.asarray(archive[name]) for name in names}
        from safetensors import safe_open

        check_bytes(printable(str(self.path)), self.path.stat().st_size)
        # Read with torch, because NumPy has no bfloat16.
        with safe_open(self.path, framework="pt") as tensors:
            found = {name: tensors.get_tensor(name) for name in names}
        return {
            name: (tensor.float() if tensor.is_floating_point() else tensor).numpy()
            for name, tensor in found.items()
        }
