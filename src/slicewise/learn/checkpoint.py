"""A flow that can be stopped at any moment and gone on with."""

from __future__ import annotations

import hashlib
import io
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slicewise.files import write_whole

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
            return torch.load(self.path, map_location="cpu", weights_only=True)
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


def fingerprint(*words: Any) -> str:
    """What a state belongs to: a hash of settings and samples."""
    digest = hashlib.sha256()
    for word in words:
        if isinstance(word, Tensor):
            plain = word.detach().cpu()
            digest.update(repr((plain.dtype, tuple(plain.shape))).encode())
            digest.update(plain.numpy().tobytes())
        else:
            digest.update(repr(word).encode())
        digest.update(b"\0")
    return digest.hexdigest()
