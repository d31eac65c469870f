"""Where numba keeps compiled kernels: files that are checked before they are loaded, in a folder of the user."""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile

from slicewise.kernels.kept_code import cache_base, private_folder, read_sealed, sealed
from slicewise.support import write_whole


def folder_for_numba() -> Path:
    """Return the folder: inside NUMBA_CACHE_DIR if that is set; one for each place that slicewise
    is installed at, and each version of numba and Python."""
    base = os.environ.get("NUMBA_CACHE_DIR")
    # What another version of numba or Python has pickled may not be readable by this one.
    which = (str(Path(__file__).resolve().parent), numba.__version__, sys.version)
    place = hashlib.sha256(repr(which).encode()).hexdigest()[:16]
    return (Path(base) if base else cache_base()) / "slicewise" / f"numba-{place}"


def why_not_kept() -> str | None:
    """Return None if compiled code can be kept, or why it cannot."""
    return private_folder(folder_for_numba())


class _CheckedFile(IndexDataCacheFile):
    """Numba's index and data files, each with a hash before its content."""

    def _load_index(self) -> dict[Any, Any]:
        held = read_sealed(Path(self._index_path))
        if held is None:
            return {}
        version, stamp, overloads = pickle.loads(held)
        same = version == self._version and stamp == self._source_stamp
        return overloads if same else {}

    def _save_index(self, overloads: dict[Any, Any]) -> None:
        whole = self._dump((self._version, self._source_stamp, overloads))
        write_whole(Path(self._index_path), sealed(whole))

    def _load_data(self, name: str) -> Any:
        held = read_sealed(Path(self._data_path(name)))
        if held is None:
            raise FileNotFoundError(name)  # numba then compiles it
        return pickle.loads(held)

    def _save_data(self, name: str, data: Any) -> None:
        write_whole(Path(self._data_path(name)), sealed(self._dump(data)))


def keep_checked(function: Any) -> Any:
    """Have a compiled function keep its code in checked files."""
    cache = function._cache
    base, stamp = cache._impl.filename_base, cache._impl.locator.get_source_stamp()
    cache._cache_path = str(folder_for_numba())
    cache._cache_file = _CheckedFile(cache._cache_path, base, stamp)
    return function
