"""Fitted maps as files: numbers and JSON, so that opening one runs no code."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.color.field import lattice, look_up
from slicewise.support import write_whole

SUFFIXES = (".npz", ".safetensors", ".cube")
_FORMAT = "slicewise colour map 1"  # in every file written so far: it stays
_MAX_BYTES = 2**26  # a small archive may expand to more than fits into memory; a map has below 1 MB
_MAX_CUBE = 129
_TITLE = "slicewise, "  # of a table, followed by the look


def save_map(path: Path, field: Tensor, about: dict[str, Any], size: int) -> None:
    """Write a field (S, S, S, 3) and the options it was fitted with, in the format of the name's ending.

    `size` is the number of nodes along an edge of a .cube table.
    """
    suffix = path.suffix.lower()
    # Options may be NumPy numbers.
    options = json.dumps({"format": _FORMAT, **about}, default=lambda number: number.item())
    array = field.contiguous().numpy()
    if suffix == ".npz":
        file = io.BytesIO()
        np.savez_compressed(file, displacements=array, about=np.array(options))
        write_whole(path, file.getvalue())
    elif suffix == ".safetensors":
        from safetensors.numpy import save

        write_whole(path, save({"displacements": array}, metadata={"about": options}))
    elif suffix == ".cube":
        write_whole(path, cube_text(field, size, about["look"]))
    else:
        raise ValueError(f"{path.name}: give a map a name that ends in {' or '.join(SUFFIXES)}")


def load_map(path: Path) -> tuple[Tensor, dict[str, Any]]:
    """Read the field of a file that `save_map` wrote, or of another program's .cube, and the options known of it."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path.name}: give the {', '.join(SUFFIXES)} file of a map")
    read = {".npz": _from_npz, ".safetensors": _from_safetensors, ".cube": _from_cube}[suffix]
    try:
        array, options = read(path)
        about = json.loads(options)
    except OSError as wrong:
        raise type(wrong)(
            f"{path} cannot be read: {wrong.strerror}; name the file of a map"
        ) from None
    except Exception as wrong:  # a damaged file may raise any error
        raise ValueError(f"{path} holds no map of colors: {wrong}; save it anew") from None
    cube = array.ndim == 4 and array.shape[3] == 3 and len(set(array.shape[:3])) == 1
    # Displacements are at most 1; huge ones would overflow in single precision.
    if not cube or len(array) < 2 or array.dtype.kind != "f" or not (np.abs(array) < 1e6).all():
        raise ValueError(
            f"{path} holds displacements of shape {array.shape}, {array.dtype}: wanted are finite, "
            f"small ones of shape (S, S, S, 3), as `save` writes them"
        )
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise ValueError(f"{path} is no {_FORMAT!r}: fit the map anew with this version")
    return torch.from_numpy(array.astype(np.float32)), about


def _from_npz(path: Path) -> tuple[np.ndarray[Any, Any], str]:
    # An open file rather than a path: np.load leaves a file open that is no archive.
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no npz file, whatever its name")
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            large = max((one.file_size for one in archive.infolist()), default=0)
        if large > _MAX_BYTES:
            raise ValueError(f"it would take {large / 1e6:.0f} MB")
        file.seek(0)
        with np.load(file, allow_pickle=False) as held:
            return held["displacements"], str(held["about"])


def _from_safetensors(path: Path) -> tuple[np.ndarray[Any, Any], str]:
    from safetensors import SafetensorError, safe_open

    path.open("rb").close()  # raises FileNotFoundError, which safe_open does not
    try:
        with safe_open(path, framework="numpy") as held:
            return held.get_tensor("displacements"), (held.metadata() or {})["about"]
    except SafetensorError as wrong:
        raise ValueError(str(wrong)) from None


def _from_cube(path: Path) -> tuple[np.ndarray[Any, Any], str]:
    """Read a look-up table of three dimensions over [0, 1]³ as displacements."""
    if path.stat().st_size > _MAX_BYTES:
        raise ValueError(f"it has {path.stat().st_size / 1e6:.0f} MB")
    size, rows, about = 0, [], {"format": _FORMAT}
    for line in path.read_text(encoding="utf-8-sig", errors="replace").splitlines():
        words = line.split()
        if line == f'TITLE "{_TITLE}natural"':
            about["look"] = "natural"
        if not words or words[0].startswith("#") or words[0] == "TITLE":
            continue
        if words[0] == "LUT_3D_SIZE":
            size = int(words[1])
        elif words[0] in ("DOMAIN_MIN", "DOMAIN_MAX"):
            wanted = 0.0 if words[0] == "DOMAIN_MIN" else 1.0
            if [float(word) for word in words[1:]] != [wanted] * 3:
                raise ValueError(
                    f"its {words[0]} is {' '.join(words[1:])}; tables over 0 to 1 can be used"
                )
        elif words[0][0].isalpha():
            raise ValueError(f"it has a line {words[0]!r}; tables of three dimensions can be used")
        else:
            rows.append([float(word) for word in words])
    table = np.array(rows, np.float64)
    if not 2 <= size <= _MAX_CUBE or table.shape != (size**3, 3):
        raise ValueError(f"it has {len(rows)} colors for a LUT_3D_SIZE of {size}")
    # Red changes fastest in the file and is the first axis of a field.
    moved = table.reshape(size, size, size, 3).swapaxes(0, 2)
    return moved - lattice(size).numpy(), json.dumps(about)


def cube_text(field: Tensor, size: int, look: str) -> str:
    """Return the map as a .cube look-up table for photo and video programs: red varies fastest, sRGB in and out.

    Such a table maps single pixels: it does not limit grain as `transform` does. Its title has the look, by which
    `transform` moves calm regions when the table is loaded again.
    """
    nodes = lattice(size).swapaxes(0, 2).reshape(-1, 3)  # red changes fastest
    moved = (nodes + look_up(field, nodes)).clamp(0, 1)
    lines = [f"{r:.6f} {g:.6f} {b:.6f}" for r, g, b in moved.tolist()]
    return "\n".join([f'TITLE "{_TITLE}{look}"\nLUT_3D_SIZE {size}', *lines, ""])
