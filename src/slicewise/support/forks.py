"""Whether this process was forked after slicewise was imported: it has none of the threads its parent had."""

from __future__ import annotations

import os

_forked = False


def was_forked() -> bool:
    """Was it? A process whose parent had not imported slicewise does not know."""
    return _forked


def _note() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):  # a worker of multiprocessing, say
    os.register_at_fork(after_in_child=_note)
