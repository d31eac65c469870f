"""The last sections: how to read the rest, and what it was made on."""

from __future__ import annotations

from collections.abc import Sequence

from slicewise.lab.report.best import Row
from slicewise.lab.report.pieces import Section, Table

_CONVENTIONS = [
    ("W₂", "exact, of all particles, in double precision, whatever the flow was run in: not W₂², and not an estimate"),
    ("power", "the loss is SW₂², a mean over particles and slices"),
    ("root", "the loss is SW₂, its square root, as the paper's scripts have it: with a constant rate it never comes to rest"),
    ("mean convention", "losses are means over particles; a rate h moves each particle by 2 h / n times its displacement (power)"),
    ("reference convention", "the scale of the published scripts: a sum over particles, times their number"),
    ("step computed", "no rate: the step that minimises the loss on the slices drawn, their matching held fixed"),
    ("best rate", "the rate whose mean W₂ over seeds is least, as the paper chooses; ± is the standard deviation over seeds"),
    ("diverged", "infinitely far: such a run never wins"),
    ("edge of sw by theory", "n L d / (L + d − 1): beyond this rate the squared loss of L fresh slices in d dimensions diverges"),
    ("seconds", "a run's share of its batch, unless it was timed by itself"),
]  # fmt: skip


def sections(rows: Sequence[Row]) -> list[Section]:
    """Conventions, environment."""
    told = Table(
        "conventions", "Words", ["word", "what it means here"], [list(one) for one in _CONVENTIONS]
    )
    return [Section("Conventions", (), [told]), _environment(rows)]


def _environment(rows: Sequence[Row]) -> Section:
    machines: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        packages = ", ".join(f"{name} {version}" for name, version in sorted(row["versions"].items()))  # fmt: skip
        machines.setdefault((row["device"], packages), []).append(row)
    lines = [
        [
            device,
            packages,
            f"{len(some):,}",
            f"{sum(row['seconds'] for row in some) / 3600:.2f}",
            max(row["finished"] for row in some),
        ]
        for (device, packages), some in sorted(machines.items())
    ]
    header = ["machine", "with", "runs", "hours", "the last at (UTC)"]
    return Section("Environment", (), [Table("environment", "Where it was made", header, lines)])
