"""Checkpoint files of long runs.

Flows and trainings share one format and one promise: the file on disk is always whole, and a run that is resumed
from it continues bit for bit.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import time
import warnings
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from slicewise.support.files import check_file_writable, write_whole
from slicewise.support.status import level_of_caller

# Version 1 is what slicewise 0.1 wrote: a bare dictionary for flows, safetensors for trainings.
FORMAT_VERSION = 2

Kind = Literal["flow", "training", "comparison", "detector"]
Content = dict[str, Any]
_PLAIN = (type(None), bool, int, float, str)


class CheckpointError(ValueError):
    """A checkpoint that cannot be continued from: damaged, or of something else."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the run goes on without."""


class CheckpointFile:
    """The checkpoint file of one flow, training or comparison of tables.

    `save` replaces the file atomically, so that a process killed at any moment leaves the previous checkpoint or
    the new one. `load` refuses a file that cannot be continued from, and leaves it as it is.

    The file is written by `torch.save` and read with `weights_only=True`: opening it runs no code.

    Args:
        path: Name of the file. Missing folders are created when it is first written.
        kind: What the file holds, "flow", "training", "comparison" or "detector".
        every: Seconds between two writes, for `due`. 0 writes whenever asked, infinity never.

    Raises:
        ValueError: If `path` is a folder, or `every` is negative or NaN.
        OSError: If the file cannot be written.

    Example:
        >>> import tempfile
        >>> file = CheckpointFile(Path(tempfile.mkdtemp()) / "run.pt", "flow")
        >>> file.load("settings of my run") is None
        True
        >>> file.save({"step": 3, "x": torch.zeros(2)}, "settings of my run")
        >>> file.load("settings of my run")
        {'step': 3, 'x': tensor([0., 0.])}
    """

    def __init__(self, path: str | Path, kind: Kind, every: float = 30.0) -> None:
        self.path, self.kind, self.every = Path(path), kind, every
        self._last_write = time.monotonic()
        self._found_identity: str | None = None
        if self.path.is_dir():
            raise ValueError(f"checkpoint = {str(path)!r} is a folder: give the name of a file")
        if not every >= 0:  # true of NaN as well
            raise ValueError(
                f"checkpoint_every = {every}: give the seconds between two writes, at least 0"
            )
        try:
            check_file_writable(self.path)  # now, rather than after an hour of work
        except OSError as error:
            raise type(error)(
                f"checkpoint = {str(path)!r} cannot be written ({error.strerror}): give another name"
            ) from None

    def due(self) -> bool:
        """Return whether `every` seconds have passed since the last write."""
        return time.monotonic() - self._last_write >= self.every

    def save(self, content: Content, identity: str) -> None:
        """Replace the file atomically.

        Args:
            content: Tensors (of any device; stored on the CPU), numbers, strings, booleans and None, in
                dictionaries, lists and tuples, nested as needed.
            identity: What the content belongs to, e.g. a `fingerprint` of data and settings.

        Raises:
            ValueError: If `content` holds anything else.
        """
        stored = _on_cpu(content, "")
        whole = {
            "kind": self.kind,
            "version": FORMAT_VERSION,
            "identity": identity,
            "checksum": _checksum(stored),
            "content": stored,
        }
        buffer = io.BytesIO()
        torch.save(whole, buffer)
        write_whole(self.path, buffer.getvalue())
        self._last_write = time.monotonic()

    def save_if_possible(self, content: Content, identity: str) -> None:
        """Replace the file, as `save` does; if the disk is full or gone, warn and go on.

        A run of hours is worth more than its checkpoint: it must not end because of it. The next write is tried when it is
        `due`.

        Raises:
            ValueError: As `save`.
        """
        try:
            self.save(content, identity)
        except OSError as error:
            self._last_write = time.monotonic()
            before = "the one before it is still there" if self.path.exists() else "there is none"
            warnings.warn(
                f"checkpoint = {str(self.path)!r} could not be written ({error.strerror or error}): the run goes on, {before}",
                CheckpointWarning,
                stacklevel=level_of_caller(),
            )

    def load(self, identity: str | None = None) -> Content | None:
        """Read the file.

        Args:
            identity: What the content must belong to. None reads without asking, for callers that need the
                content to compute it; they call `check_identity` before they use the rest.

        Returns:
            The content, with all tensors on the CPU, or None if there is no file.

        Raises:
            CheckpointError: If the file is damaged, of another kind, of another run, or of another format version.
        """
        if not self.path.exists():
            return None
        whole = self._read()
        if whole["kind"] != self.kind:
            raise self._refusal(f"holds a {whole['kind']}, not a {self.kind}")
        if not isinstance(whole["version"], int) or not isinstance(whole["identity"], str):
            raise self._refusal("is damaged (its head makes no sense)")
        if whole["version"] > FORMAT_VERSION:
            raise self._refusal(
                f"was written by a later version of slicewise (format {whole['version']})",
                "continue it with that version, ",
            )
        try:
            found = _checksum(whole["content"])
        except (
            RecursionError,
            RuntimeError,
        ):  # damage that makes a list hold itself, or tensors of odd strides
            found = None
        if found != whole["checksum"]:
            raise self._refusal("is damaged (its checksum does not match)")
        self._found_identity = whole["identity"]
        if identity is not None:
            self.check_identity(identity)
        content: Content = whole["content"]
        return content

    def check_identity(self, identity: str) -> None:
        """Check what was loaded last against the identity of the present run.

        Raises:
            CheckpointError: If a file was loaded that belongs to another run.
        """
        if self._found_identity not in (None, identity):
            raise self._refusal(
                f"belongs to another {self.kind} (other samples or settings)",
                f"give those the {self.kind} began with, ",
            )

    def _read(self) -> dict[str, Any]:
        """The stored dictionary, with all its keys."""
        try:
            # By content: given a path, torch chooses how to read by its ending.
            content = io.BytesIO(self.path.read_bytes())
            whole = torch.load(content, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many types for files that are not its own
            if _is_safetensors(self.path):
                raise self._outdated() from None
            reason = str(error).partition("\n")[0]
            raise self._refusal(f"cannot be read as a {self.kind} ({reason})") from error
        if isinstance(whole, dict) and "identity" in whole and "version" not in whole:
            raise self._outdated()
        expected = {"kind", "version", "identity", "checksum", "content"}
        if not isinstance(whole, dict) or set(whole) != expected:
            raise self._refusal(f"cannot be read as a {self.kind} (it holds something else)")
        return whole

    def _outdated(self) -> CheckpointError:
        return self._refusal("was written by slicewise 0.1", "finish the run with that version, ")

    def _refusal(self, what: str, first: str = "") -> CheckpointError:
        return CheckpointError(
            f"checkpoint = {str(self.path)!r} {what}: {first}give another name, or remove the file to start "
            f"anew; it was left as it is"
        )


def fingerprint(*things: Any) -> str:
    """Hash settings and samples: equal things give equal hashes, in every process and on every device.

    Tensors count by dtype, shape and values, dataclasses by name and fields, functions by their qualified name (without
    the module, so that moving one keeps checkpoints valid), code, defaults and closure, other objects by the name of
    their class and their attributes, plain values by `repr`.

    Args:
        *things: What to hash; lists and tuples are descended into.

    Returns:
        64 hexadecimal digits.

    Example:
        >>> fingerprint(1, torch.ones(2)) == fingerprint(1, torch.ones(2))
        True
    """
    digest = hashlib.sha256()
    _feed(digest, things)
    return digest.hexdigest()


def _feed(digest: Any, thing: Any) -> None:
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
    elif isinstance(thing, FunctionType):
        code, cells = thing.__code__, thing.__closure__ or ()
        digest.update(thing.__qualname__.encode() + code.co_code)
        _feed(digest, [repr(c) for c in code.co_consts if not isinstance(c, CodeType)])
        _feed(digest, [*(cell.cell_contents for cell in cells), thing.__defaults__])
    elif isinstance(thing, dict):
        _feed(digest, sorted(thing.items(), key=lambda item: str(item[0])))
    elif isinstance(thing, partial):
        _feed(digest, [thing.func, thing.args, thing.keywords])
    elif isinstance(thing, (type, BuiltinFunctionType)):
        digest.update(thing.__qualname__.encode())
    elif isinstance(thing, np.ndarray):
        _feed(digest, [str(thing.dtype), thing.shape, thing.tobytes()])
    elif hasattr(thing, "__dict__"):
        # What it holds, not how it prints, which may name an address or nothing at all.
        _feed(digest, [type(thing).__qualname__, vars(thing)])
    else:
        digest.update(repr(thing).encode())
    digest.update(b"\0")


def _on_cpu(value: Any, place: str) -> Any:
    """A copy of the content with its tensors on the CPU; refuses what `weights_only=True` could not read."""
    if isinstance(value, Tensor):
        # torch.save writes the whole storage that a view looks at: copy the view.
        return value.detach().cpu().contiguous().clone()
    if type(value) is dict:
        return {key: _on_cpu(item, f"{place}[{key!r}]") for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_on_cpu(item, f"{place}[{i}]") for i, item in enumerate(value))
    if type(value) not in _PLAIN:
        raise ValueError(
            f"a checkpoint cannot hold a {type(value).__name__} (content{place}): give tensors, numbers, "
            f"strings, None, and dictionaries, lists and tuples of them"
        )
    return value


def _checksum(value: Any) -> str:
    """A hash of all tensors and plain values: a file may open without error and still have wrong numbers."""
    digest = hashlib.sha256()
    _add_to_checksum(digest, value)
    return digest.hexdigest()


def _add_to_checksum(digest: Any, value: Any) -> None:
    if isinstance(value, Tensor):
        digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    elif isinstance(value, dict):
        for key, item in value.items():
            digest.update(repr(key).encode())
            _add_to_checksum(digest, item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _add_to_checksum(digest, item)
    else:
        digest.update(repr(value).encode())
    digest.update(b"\0")


def _is_safetensors(path: Path) -> bool:
    """Whether a file begins as safetensors does: the length of a header in 8 bytes, then the header, in JSON."""
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"
