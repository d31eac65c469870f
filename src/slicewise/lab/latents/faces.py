"""Decode latents to faces with the networks of the package random-face, run by OpenVINO.

Both packages are optional. The networks were distilled from StyleGAN2, trained on FFHQ: for non-commercial use only.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from slicewise.lab.data import Array
from slicewise.lab.errors import UserError

D = 512
TERMS = (
    "random-face is under Apache-2.0, but its networks were distilled from NVIDIA's StyleGAN2, trained on FFHQ "
    "(CC BY-NC-SA 4.0): latents and faces made with them are for research and other non-commercial use only. No face "
    "is a real person's."
)
# Decoded faces are 1024 pixels wide, and reduced to this.
_SIDE = 256
# Batch size of the mapping network.
_ROWS = 500


def missing() -> str | None:
    """Return which package has to be installed before faces can be decoded; None if none is missing."""
    for package in ("openvino", "random_face"):
        if importlib.util.find_spec(package) is None:
            return (
                f"faces need {package.replace('_', '-')}: run `make faces`, or pip install openvino, and random-face with "
                f"--no-deps"
            )
    return None


def decode(latents: Tensor, *, side: int = _SIDE) -> Array:
    """Return faces (n, side, side, 3), uint8, of latents (n, 512); about 0.7 s each on one core."""
    from PIL import Image

    if latents.dim() != 2 or latents.shape[1] != D:
        raise UserError(f"latents of shape {tuple(latents.shape)}: faces are decoded from (n, {D})")
    if not bool(latents.isfinite().all()):
        raise UserError("latents that are NaN or infinite have no face: has the run diverged?")
    network = _network("SynthesisNetwork", 1)
    faces = []
    for row in latents.float().cpu().numpy():
        image = network([row[None]])[network.output(0)][0]  # (3, 1024, 1024), about −1 to 1
        pixels = (255 * (image.transpose(1, 2, 0) / 2 + 0.5)).clip(0, 255).round().astype(np.uint8)
        small = Image.fromarray(pixels).resize((side, side), Image.Resampling.LANCZOS)
        faces.append(np.asarray(small))
    return np.stack(faces) if faces else np.zeros((0, side, side, 3), np.uint8)


def mapped(noise: Array) -> Array:
    """Return latents w (n, 512) of standard normal noise (n, 512)."""
    network = _network("MappingNetwork", _ROWS)
    found = np.empty_like(noise, dtype=np.float32)
    for start in range(0, len(noise), _ROWS):
        rows = noise[start : start + _ROWS]
        filled = np.zeros(
            (_ROWS, D), np.float32
        )  # the network has a fixed batch size; the last batch is padded
        filled[: len(rows)] = rows
        found[start : start + _ROWS] = network([filled])[network.output(0)][: len(rows)]
    return found


@functools.cache
def _network(name: str, rows: int) -> Any:
    lacking = missing()
    if lacking is not None:
        raise UserError(lacking)
    import openvino

    # Only its files are used: its code needs an older OpenVINO, and is not imported.
    origin = importlib.util.find_spec("random_face").origin  # type: ignore[union-attr]
    file = Path(str(origin)).parent / "data" / f"{name}.xml"
    if not file.exists():
        raise UserError(f"there is no {file}: reinstall random-face, version 2021.7.21.1")
    core = openvino.Core()
    model = core.read_model(str(file))
    if rows != 1:
        model.reshape([rows, D])
    return core.compile_model(model, "CPU")
