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

from slicewise.color.field import look_up
from slicewise.support import write_whole

SUFFIXES = (".npz", ".safetensors", ".cube")
_FORMAT = "slicewise colour map 1"  # in every file written so far: it stays
_MAX_BYTES = 2**26  # a small archive may expand to more than fits into memory; a map has below 1 MB


def save_map(path: Path, field: Tensor, about: dict[str, Any]) -> None:
    """Write a field (S, S, S, 3) and the options it was fitted with, in the format of the name's ending."""
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
        write_whole(path, cube_text(field))
    else:
        raise ValueError(f"{path.name}: give a map a name that ends in {' or '.join(SUFFIXES)}")


def load_map(path: Path) -> tuple[Tensor, dict[str, Any]]:
    """Read the field of a file that `save_map` wrote, and the options it was fitted with."""
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".safetensors"):
        raise ValueError(f"{path.name}: give the .npz or .safetensors file of a map")
    read = _from_npz if suffix == ".npz" else _from_safetensors
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


def cube_text(field: Tensor) -> str:
    """Return the map as a .cube look-up table for photo and video programs: red varies fastest, sRGB in and out.

    Such a table maps single pixels: it does not limit grain as `transform` does.
    """
    side = len(field)
    levels = torch.linspace(0, 1, side)
    nodes = torch.cartesian_prod(levels, levels, levels).flip(-1)  # red changes fastest
    moved = (nodes + look_up(field, nodes)).clamp(0, 1)
    lines = [f"{r:.6f} {g:.6f} {b:.6f}" for r, g, b in moved.tolist()]
    return "\n".join([f'TITLE "slicewise"\nLUT_3D_SIZE {side}', *lines, ""])
