"""The `slicewise` command: a file for each subcommand.

`app` puts the subcommands together and turns errors into one line; `options`, `samples` and `output` are what they share.

Importing torch takes over a second. No file of this room imports it at its top, nor a room that needs it: help, version,
completion and most mistakes are answered without. A command checks what it is given, then imports what it works with.

Imports the library and every other room of lab. Used by the console script and `python -m slicewise`.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any

__all__ = ["DRIFT", "PARTLY", "PIPE_CLOSED", "STOPPED", "USAGE", "Told", "main"]

# Exit statuses: an error that a person can correct, work that was done in part, drift that was found, an interruption, and
# output that nobody reads any more (as the shell reports SIGPIPE).
USAGE, PARTLY, DRIFT, STOPPED, PIPE_CLOSED = 2, 1, 3, 130, 141


class Told(int):
    """An exit status whose reason the command has printed by itself."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: the words after `slicewise`; those of this process by default.

    Returns:
        The exit status: 0, or one of PARTLY, USAGE, DRIFT, STOPPED and PIPE_CLOSED. Errors are printed in one line, without a traceback.
    """
    interrupts = _Interrupts()
    try:
        with interrupts:
            status = _run(sys.argv[1:] if arguments is None else arguments)
        # An import that is interrupted may fail with any error, which is then a line and a status.
        return STOPPED if interrupts.came and status else status
    except BaseException:
        if not interrupts.came:
            raise
        print("slicewise: stopped", file=sys.stderr)
        return STOPPED


def _run(arguments: list[str]) -> int:
    try:
        from slicewise.lab.cli.app import run
    except ImportError as missing:
        print(
            f"slicewise: the command needs {missing.name}: pip install 'slicewise[lab]'",
            file=sys.stderr,
        )
        return USAGE
    return run(arguments)


class _Interrupted(KeyboardInterrupt):
    """Ctrl-C. Python ends by the signal, whatever status is returned, once a plain KeyboardInterrupt has passed through code
    that C runs, as it may in an import."""


class _Interrupts:
    """Notes Ctrl-C, and raises KeyboardInterrupt as Python does by itself."""

    def __init__(self) -> None:
        self.came = False
        self._before: Any = None

    def __enter__(self) -> None:
        # Elsewhere there is nothing to set up; where Ctrl-C is ignored, as in background jobs, it stays ignored.
        here = threading.current_thread() is threading.main_thread()
        if here and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._note)

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self.came = self.came or (kind is not None and issubclass(kind, KeyboardInterrupt))
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        raise _Interrupted
