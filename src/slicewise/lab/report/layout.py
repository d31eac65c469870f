"""What a report is made of: figures and tables, as blocks of the page and as files."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True)
class Figure:
    """A picture with its alternative text and caption."""

    name: str  # of its files
    png: bytes
    svg: bytes
    alt: str
    caption: str = ""
    # Photographs keep their colors on a dark page; drawings are inverted.
    photographs: bool = False


@dataclass(frozen=True)
class Table:
    """A table of text; the first column names the row."""

    name: str  # of its files
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    apart: bool = False  # whether it is a file only, too long for the page


Block = Figure | Table


def as_figure(
    drawing: Drawing, name: str, alt: str, caption: str, *, photographs: bool = False
) -> Figure:
    """Return a drawing as a block, in PNG for the page and SVG for a paper."""
    files = []
    for kind in ("png", "svg"):
        file = io.BytesIO()
        # Without a date, so that the same runs give the same file.
        drawing.savefig(
            file, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None
        )
        files.append(file.getvalue())
    return Figure(name, files[0], files[1], alt, caption, photographs)


def file_name(words: str) -> str:
    """Return words as part of a file name; long ones are shortened with a hash."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in words)
    if len(plain.encode()) <= 80:
        return plain
    return f"{plain[:40]}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"


_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "×": r"$\times$", "∞": r"$\infty$", "≤": r"$\leq$", "≥": r"$\geq$", "→": r"$\to$",
    "−": r"$-$", "₂": r"$_2$", "²": r"$^2$", "₁": r"$_1$", "√": r"$\surd$", "–": "--", "—": "---", "·": r"$\cdot$",
    "δ": r"$\delta$", "ᵀ": r"$^T$", "₀": r"$_0$", "⟨": r"$\langle$", "⟩": r"$\rangle$", "φ": r"$\varphi$", "λ": r"$\lambda$",
    "σ": r"$\sigma$", "Σ": r"$\Sigma$", "θ": r"$\theta$", "‖": r"$\|$", "ε": r"$\varepsilon$", "μ": r"$\mu$",
}  # fmt: skip


def as_csv(table: Table) -> str:
    """Return a table as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([table.header, *table.rows])
    return out.getvalue()


def as_latex(table: Table) -> str:
    """Return a table as LaTeX to `\\input`, with the package booktabs."""
    columns = "l" * len(table.header)
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [_latex_row(table.header), r"\midrule", *map(_latex_row, table.rows), r"\bottomrule"]
    caption = ". ".join(part.rstrip(".") for part in (table.title, table.note) if part)
    lines += [r"\end{tabular}", rf"\caption{{{_latex(caption)}}}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def as_markdown(table: Table) -> str:
    """Return a table as Markdown."""
    rows = [table.header, ["---"] * len(table.header), *table.rows]
    cells = [[_markdown(cell) for cell in row] for row in rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def _markdown(words: str) -> str:
    for letter, instead in (("&", "&amp;"), ("<", "&lt;"), ("|", r"\|"), ("\n", " ")):
        words = words.replace(letter, instead)
    return words


def _latex(words: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in words)


def _latex_row(cells: Sequence[str]) -> str:
    # After the end of a row, LaTeX reads a bracket as an optional length.
    return " & ".join("{}" * cell.startswith("[") + _latex(cell) for cell in cells) + r" \\"
