"""The `slicewise` command: a file for each subcommand.

`app` puts the subcommands together and turns errors into one line; `options`, `samples` and `output` are what they share.

Importing torch takes over a second. No file of this room imports it at its top, nor a room that needs it: help, version,
completion and most mistakes are answered without. A command checks what it is given, then imports what it works with.

Imports the library and every other room of lab. Used by the console script and `python -m slicewise`.
"""

from __future__ import annotations

import sys

__all__ = ["DRIFT", "PARTLY", "PIPE_CLOSED", "STOPPED", "USAGE", "main"]

# Exit statuses: an error that a person can correct, work that was done in part, drift that was found, an interruption, and
# output that nobody reads any more (as the shell reports SIGPIPE).
USAGE, PARTLY, DRIFT, STOPPED, PIPE_CLOSED = 2, 1, 3, 130, 141


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: the words after `slicewise`; those of this process by default.

    Returns:
        The exit status: 0, or one of PARTLY, USAGE, DRIFT, STOPPED and PIPE_CLOSED. Errors are printed in one line, without a traceback.
    """
    try:
        from slicewise.lab.cli.app import run
    except ImportError as missing:
        print(
            f"slicewise: the command needs {missing.name}: pip install 'slicewise[lab]'",
            file=sys.stderr,
        )
        return USAGE
    return run(sys.argv[1:] if arguments is None else arguments)
