"""Which steps of a flow to look at."""

from __future__ import annotations


def log_spaced(last: int, most: int) -> list[int]:
    """At most so many different steps from 0 to the last, denser at the start, where most happens.

    >>> log_spaced(100, 6)
    [0, 1, 3, 10, 32, 100]
    """
    steps = [0]
    while steps[-1] < last:
        now, missing = steps[-1], most - len(steps)
        ahead = now * (last / now) ** (1 / missing) if now else 1
        # Where the next of equal ratio is no whole step away, the rest is spaced anew.
        steps.append(last if missing <= 1 else max(now + 1, round(ahead)))
    return steps
