"""What a person at the command line can put right."""

from __future__ import annotations


class Trouble(Exception):
    """One line that says what was given, what is wanted and what to try; shown without a traceback."""
