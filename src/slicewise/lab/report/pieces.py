"""What a report is made of: sections of figures and tables, none of which knows how it is shown."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

Row = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A picture, as PNG, and its words."""

    name: str  # of its file
    png: bytes
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column names its row."""

    name: str  # of its file
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def as_csv(self) -> str:
        """For other programs."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.header, *self.rows])
        return out.getvalue()


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    title: str
    words: Sequence[str] = ()
    pieces: Sequence[Figure | Table] = field(default_factory=list)


@dataclass(frozen=True)
class Best:
    """The best of some rates: the mean over seeds is least there."""

    rate: float | None  # None: computed
    mean: float
    std: float
    runs: Sequence[Row]
    end_of_grid: str = ""  # words, where a rate beyond all that were tried might be better


def best_of(rows: Iterable[Row]) -> Best | None:
    """Among rates, as the paper chooses: by the mean final distance over seeds. None of none."""
    by_rate: dict[float | None, list[Row]] = {}
    for row in rows:
        by_rate.setdefault(row["lr"], []).append(row)
    found = [_at(rate, members) for rate, members in by_rate.items()]
    best = min(found, key=lambda best: best.mean, default=None)
    rates = [rate for rate in by_rate if rate is not None]
    if best is not None and len(rates) > 1 and best.rate in (min(rates), max(rates)):
        which = "least" if best.rate == min(rates) else "largest"
        return replace(best, end_of_grid=f" (the {which} tried)")
    return best


def _at(rate: float | None, rows: list[Row]) -> Best:
    distances = [float("inf") if row["w2"] is None else row["w2"] for row in rows]
    mean = statistics.fmean(distances)
    std = statistics.stdev(distances) if len(rows) > 1 and mean != float("inf") else 0.0
    return Best(rate, mean, std, rows)


def as_png(drawing: Drawing) -> bytes:
    """A drawing's bytes."""
    file = io.BytesIO()
    drawing.savefig(file, format="png", dpi=110)
    return file.getvalue()


def number(value: float | None, digits: int = 2) -> str:
    """Short, and the same width everywhere: 3.1e-04, inf; a dash where there is none."""
    if value is None or value != value:
        return "–"
    return "∞ (diverged)" if value == float("inf") else f"{value:.{digits - 1}e}"


def file_name(words: str) -> str:
    """Words as a part of a file's name."""
    return "".join(letter if letter.isalnum() else "-" for letter in words)
