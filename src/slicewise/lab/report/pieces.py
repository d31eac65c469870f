"""What a report is made of: sections of charts, figures and tables, none of which knows how it is shown."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True)
class Figure:
    """A picture and its words."""

    name: str  # of its files
    png: bytes
    svg: bytes
    alt: str
    caption: str = ""
    # Photographs keep their colours on a dark page; of drawings, white becomes black there.
    photographs: bool = False


@dataclass(frozen=True)
class Chart:
    """A picture one can ask: a Vega-Lite specification with its data in it."""

    title: str
    spec: Mapping[str, Any]


@dataclass(frozen=True)
class Charts:
    """Some charts side by side, where there is room, and the figure for those who print, or run no scripts."""

    charts: Sequence[Chart]
    caption: str
    still: Figure | None = None


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column names its row."""

    name: str  # of its files
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    folded: bool = False  # shown when asked for: some tables are long


@dataclass(frozen=True)
class Card:
    """One number, large, and what it is."""

    number: str
    words: str


@dataclass(frozen=True)
class Heading:
    """Begins a part of a section."""

    title: str


Piece = Figure | Charts | Table | Heading


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    title: str
    words: Sequence[str] = ()
    pieces: Sequence[Piece] = field(default_factory=list)
    cards: Sequence[Card] = ()
    chosen: bool = False  # whether the reader chooses here which variants are drawn


def pictured(
    drawing: Drawing, name: str, alt: str, caption: str, *, photographs: bool = False
) -> Figure:
    """A drawing as pixels, for the page, and as lines, for a paper."""
    files = []
    for kind in ("png", "svg"):
        file = io.BytesIO()
        # Without a date, the same runs give the same file.
        drawing.savefig(
            file, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None
        )
        files.append(file.getvalue())
    return Figure(name, files[0], files[1], alt, caption, photographs)


def file_name(words: str) -> str:
    """Words as a part of a file's name; long ones by their beginning and a hash."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in words)
    if len(plain.encode()) <= 80:
        return plain
    return f"{plain[:40]}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
