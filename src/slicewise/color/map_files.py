"""Fitted maps as files: plain numbers, nothing that could run."""

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
_FORMAT = "slicewise colour map 1"
_MOST_BYTES = 2**26  # a small archive may claim to hold more than any memory; a map is below 1 MB


def save_map(path: Path, field: Tensor, about: dict[str, Any]) -> None:
    """Write a field (S, S, S, 3) and what is known of it, in the format that the name's ending says."""
    suffix = path.suffix.lower()
    # A seed may well be a number of NumPy's.
    said = json.dumps({"format": _FORMAT, **about}, default=lambda number: number.item())
    array = field.contiguous().numpy()
    if suffix == ".npz":
        file = io.BytesIO()
        np.savez_compressed(file, displacements=array, about=np.array(said))
        write_whole(path, file.getvalue())
    elif suffix == ".safetensors":
        from safetensors.numpy import save

        write_whole(path, save({"displacements": array}, metadata={"about": said}))
    elif suffix == ".cube":
        write_whole(path, cube_text(field))
    else:
        raise ValueError(f"{path.name}: give a map a name that ends in {' or '.join(SUFFIXES)}")


def load_map(path: Path) -> tuple[Tensor, dict[str, Any]]:
    """The field of a file that `save_map` wrote, and what is known of it."""
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".safetensors"):
        raise ValueError(f"{path.name}: give the .npz or .safetensors file of a map")
    read = _from_npz if suffix == ".npz" else _from_safetensors
    try:
        array, said = read(path)
        about = json.loads(said)
    except OSError as wrong:
        raise type(wrong)(
            f"{path} cannot be read: {wrong.strerror}; name the file of a map"
        ) from None
    except Exception as wrong:  # anything may be wrong in a file, and any error may come of it
        raise ValueError(f"{path} holds no map of colours: {wrong}; save it anew") from None
    cube = array.ndim == 4 and array.shape[3] == 3 and len(set(array.shape[:3])) == 1
    # Colours are 1 apart at most; what is huge would be infinite in single precision.
    if not cube or len(array) < 2 or array.dtype.kind != "f" or not (np.abs(array) < 1e6).all():
        raise ValueError(
            f"{path} holds displacements of shape {array.shape}, {array.dtype}: wanted are finite, "
            f"small ones of shape (S, S, S, 3), as `save` writes them"
        )
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise ValueError(f"{path} is no {_FORMAT!r}: fit the map anew with this version")
    return torch.from_numpy(array.astype(np.float32)), about


def _from_npz(path: Path) -> tuple[np.ndarray[Any, Any], str]:
    # Handed an open file, which is closed also where it is no archive.
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no npz file, whatever its name")
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            large = max((one.file_size for one in archive.infolist()), default=0)
        if large > _MOST_BYTES:
            raise ValueError(f"it would take {large / 1e6:.0f} MB")
        file.seek(0)
        with np.load(file, allow_pickle=False) as held:
            return held["displacements"], str(held["about"])


def _from_safetensors(path: Path) -> tuple[np.ndarray[Any, Any], str]:
    from safetensors import SafetensorError, safe_open

    path.open("rb").close()  # a file that is not there is told as such
    try:
        with safe_open(path, framework="numpy") as held:
            return held.get_tensor("displacements"), (held.metadata() or {})["about"]
    except SafetensorError as wrong:
        raise ValueError(str(wrong)) from None


def cube_text(field: Tensor) -> str:
    """The map as a look-up table that photo and video programs read: red runs fastest, sRGB in and out.

    Such a table knows single pixels only: it does not hold grain back as `transform` does.
    """
    side = len(field)
    levels = torch.linspace(0, 1, side)
    nodes = torch.cartesian_prod(levels, levels, levels).flip(-1)  # red changes fastest
    moved = (nodes + look_up(field, nodes)).clamp(0, 1)
    lines = [f"{r:.6f} {g:.6f} {b:.6f}" for r, g, b in moved.tolist()]
    return "\n".join([f'TITLE "slicewise"\nLUT_3D_SIZE {side}', *lines, ""])
