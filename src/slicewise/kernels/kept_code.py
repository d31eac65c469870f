"""Compiled code that is kept between processes: in a folder that only its user can write, and checked before it is loaded.

Machine code that is loaded is run. So the folder must belong to the user and be closed to others, and every file begins with
a hash of the rest: one that was damaged is compiled again.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import stat
from pathlib import Path

_log = logging.getLogger("slicewise")
_DIGEST = 32  # bytes of SHA-256


def cache_base() -> Path:
    """Return the user's folder of caches."""
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base) if base else Path.home() / ".cache"


@functools.cache
def private_folder(folder: Path) -> str | None:
    """Make a folder that only this user can write, if it is not there.

    Returns:
        None, or why what is in it cannot be trusted.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = folder.stat()
    except OSError as error:
        return f"{folder} cannot be made ({error.strerror})"
    if found.st_uid != os.geteuid():
        return f"{folder} belongs to another user"
    if stat.S_IMODE(found.st_mode) & 0o022:
        return f"{folder} can be written by others"
    if not os.access(folder, os.W_OK):
        return f"{folder} cannot be written"
    return None


def sealed(code: bytes) -> bytes:
    """Return code with its hash before it."""
    return hashlib.sha256(code).digest() + code


def unsealed(held: bytes, place: Path) -> bytes | None:
    """Return the code of a file as `sealed` made it; None, with a line, if it was changed since."""
    digest, code = held[:_DIGEST], held[_DIGEST:]
    if hashlib.sha256(code).digest() == digest:
        return code
    _log.warning("%s is damaged: it is compiled again", place)
    return None


def read_sealed(place: Path) -> bytes | None:
    """Return the code kept in a file; None if there is none, it is not this user's, or it was changed."""
    try:
        with place.open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                _log.warning("%s belongs to another user: it is not loaded", place)
                return None
            return unsealed(file.read(), place)
    except FileNotFoundError:
        return None
    except OSError as error:
        _log.warning("%s cannot be read (%s): it is compiled again", place, error.strerror)
        return None
