"""Errors that a person at the command line can correct."""

from __future__ import annotations


class UserError(Exception):
    """What was given, what is wanted and what to try, in one line; the command prints it without a traceback."""


class NothingToDo(UserError):
    """The input is valid, but an experiment cannot use it: refused if that experiment was named, else it is left out."""
