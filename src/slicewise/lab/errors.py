"""What a person at the command line can put right."""

from __future__ import annotations


class UserError(Exception):
    """One line that says what was given, what is wanted and what to try; shown without a traceback."""


class NothingToDo(UserError):
    """What was given is sound, and an experiment has no use for it: asked for by itself it is refused, among others left out."""
