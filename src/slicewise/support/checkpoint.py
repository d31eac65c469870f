"""A flow that can be stopped at any moment and gone on with."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slicewise.support.files import write_whole

# How often a running flow writes itself down.
_EVERY_SECONDS = 30.0


class Checkpoint:
    """A file that always holds a state to go on from."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._last = time.monotonic()
        if self.path.is_dir():
            raise ValueError(f"checkpoint = {str(path)!r} is a folder: give the name of a file")

    def load(self) -> dict[str, Any] | None:
        """The state, if there is one."""
        if not self.path.exists():
            return None
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
            if not isinstance(state, dict):
                raise TypeError(f"it holds a {type(state).__name__}")
            return state
        except Exception as problem:  # torch raises many kinds for files that are not its own
            raise ValueError(
                f"checkpoint = {str(self.path)!r} cannot be read as a flow's state ({problem}): remove "
                f"it to start anew, or give another name"
            ) from problem

    def due(self) -> bool:
        """Is it time to write again?"""
        return time.monotonic() - self._last > _EVERY_SECONDS

    def save(self, state: dict[str, Any]) -> None:
        """Replace the file, all at once."""
        content = io.BytesIO()
        torch.save(state, content)
        write_whole(self.path, content.getvalue())
        self._last = time.monotonic()


def fingerprint(*things: Any) -> str:
    """What a state belongs to: a hash of settings and samples, the same in every process."""
    digest = hashlib.sha256()
    _feed(digest, things)
    return digest.hexdigest()


def _feed(digest: Any, thing: Any) -> None:
    """Tensors by their content, dataclasses by their fields, functions by their name, the rest as printed."""
    if isinstance(thing, Tensor):
        plain = thing.detach().cpu()
        wide = plain.double() if plain.is_floating_point() else plain
        digest.update(repr((plain.dtype, tuple(plain.shape))).encode() + wide.numpy().tobytes())
    elif isinstance(thing, (list, tuple)):
        for part in thing:
            _feed(digest, part)
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        _feed(digest, type(thing).__qualname__)
        _feed(digest, [getattr(thing, field.name) for field in dataclasses.fields(thing)])
    elif hasattr(thing, "__qualname__"):
        digest.update(f"{thing.__module__}.{thing.__qualname__}".encode())
    else:
        digest.update(repr(thing).encode())
    digest.update(b"\0")
