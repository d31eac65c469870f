"""How much memory a file may take: a small file can claim, or unpack to, more than a machine has."""

from __future__ import annotations

import os

from slicewise.lab.errors import UserError

SETTING = "SLICEWISE_MAX_GB"
_USUAL = 4.0


def most_bytes() -> float:
    """Return the memory that the content of one file may take: 4 GB, or what the setting says.

    Raises:
        UserError: the setting is not a positive number.
    """
    given = os.environ.get(SETTING)
    if given is None:
        return _USUAL * 1e9
    try:
        most = float(given)
    except ValueError:
        most = -1.0
    if not 0 < most < float("inf"):
        raise UserError(f"{SETTING}={given!r}: give a number of gigabytes above 0, such as 16")
    return most * 1e9


def check_bytes(shown: str, count: float) -> None:
    """Refuse a file before it is read.

    Args:
        shown: its name, for the message.
        count: the bytes that it will take in memory.

    Raises:
        UserError: they are too many.
    """
    most = most_bytes()
    if count > most:
        raise UserError(
            f"{shown} would take {count / 1e9:.3g} GB of memory, more than {most / 1e9:g} GB: give a smaller one, or allow "
            f"it by the environment variable {SETTING}={count / 1e9 + 1:.0f}"
        )
