"""The `slicewise` command: one file a subcommand, errors in one line."""

from __future__ import annotations

import sys

# Where something went wrong that a person can put right; 1 is kept for work that was done in part.
USAGE, PARTLY, STOPPED = 2, 1, 130


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns its exit status. No traceback reaches the user."""
    try:
        from slicewise.lab.cli.app import run
    except ImportError as missing:
        print(
            f"slicewise: the command needs {missing.name}: pip install 'slicewise[lab]'",
            file=sys.stderr,
        )
        return USAGE
    return run(sys.argv[1:] if arguments is None else arguments)
