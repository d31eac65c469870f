"""The one writer of files: what it writes is never seen half done."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Temporary names begin with this. They do not contain the name of the file, which may be as long as names can be.
TEMPORARY = ".slicewise-"


def check_writable(folder: Path) -> None:
    """Check now, rather than after the work, that files can be made in a folder; nothing is created.

    Args:
        folder: it need not exist yet.

    Raises:
        OSError: no file can be made there.
    """
    whole = folder.absolute()
    there = next(one for one in (whole, *whole.parents) if one.exists())
    tempfile.TemporaryFile(dir=there).close()


def check_file_writable(path: Path) -> None:
    """Check now that `write_whole` can write a file of this name; nothing is created or changed.

    Raises:
        OSError: the name is too long or taken by a folder, the file is write-protected, or its folder is.
    """
    with _named(path):
        place, found = _place(path)
        if found is not None and stat.S_ISDIR(found.st_mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if found is not None and not os.access(place, os.W_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        if found is None or stat.S_ISREG(found.st_mode):
            check_writable(place.parent)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name beside it, then rename: readers see the old file or the new one.

    An existing file keeps its permissions, and a new one obeys the umask. A symbolic link is followed: the file it
    points to is replaced, not the link. A device or a named pipe cannot be replaced and is written into.

    Args:
        path: the file; missing folders are created.
        content: all of it.

    Raises:
        OSError: it cannot be written; the error names `path`, and the old file is left as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    with _named(path):
        place, found = _place(path)
        if found is not None and not os.access(place, os.W_OK):
            # A rename would succeed: it asks the folder, not the file.
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        if found is not None and not stat.S_ISREG(found.st_mode):
            with open(place, "wb") as into:
                into.write(data)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        _replace(place, data, found)


def _place(path: Path) -> tuple[Path, os.stat_result | None]:
    """Where a file really is, and what is there now."""
    place = Path(os.path.realpath(path))
    try:
        return place, os.stat(place)
    except FileNotFoundError:
        return place, None


def _replace(place: Path, data: bytes, before: os.stat_result | None) -> None:
    name = place.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    # Opened with all permissions, a new file has those that the umask leaves. An existing file may be private: its content
    # is readable to nobody else before it has the permissions of the old one.
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if before is None else 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if before is not None:
                if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                    # Only root can give a file away; for others it is theirs from now on.
                    with contextlib.suppress(PermissionError):
                        os.fchown(handle, before.st_uid, before.st_gid)
                os.fchmod(handle, stat.S_IMODE(before.st_mode))
            os.fsync(handle)  # a power cut must not leave a name without its content
        os.replace(name, place)
    except BaseException:
        name.unlink(missing_ok=True)
        raise
    _keep_name(place.parent)


def _keep_name(folder: Path) -> None:
    """Have a rename survive a power cut, on systems where a folder can be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors inside name the file that was asked for, not a temporary one, or none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
