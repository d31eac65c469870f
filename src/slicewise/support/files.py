"""Writing that is never seen half done."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def check_writable(folder: Path) -> None:
    """An OSError now rather than after the work; nothing is made, not even a folder that is not there yet."""
    whole = folder.absolute()
    there = next(one for one in (whole, *whole.parents) if one.exists())
    tempfile.TemporaryFile(dir=there).close()


def write_whole(path: Path, content: str | bytes) -> None:
    """Write to a temporary name beside `path`, then rename: readers see the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # a power cut must not leave a name without its content
        # mkstemp lets only its owner read; a report is for others too.
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
