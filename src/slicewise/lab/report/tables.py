"""Tables for other programs: CSV, LaTeX, Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from slicewise.lab.report.layout import Table

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "×": r"$\times$", "∞": r"$\infty$", "≤": r"$\leq$", "≥": r"$\geq$", "→": r"$\to$",
    "−": r"$-$", "₂": r"$_2$", "²": r"$^2$", "₁": r"$_1$", "√": r"$\surd$", "–": "--", "—": "---", "·": r"$\cdot$",
    "δ": r"$\delta$", "ᵀ": r"$^T$", "₀": r"$_0$", "⟨": r"$\langle$", "⟩": r"$\rangle$", "φ": r"$\varphi$", "λ": r"$\lambda$",
    "σ": r"$\sigma$", "Σ": r"$\Sigma$", "θ": r"$\theta$", "‖": r"$\|$", "ε": r"$\varepsilon$", "μ": r"$\mu$",
}  # fmt: skip


def as_csv(table: Table) -> str:
    """A line for each row, and the header."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([table.header, *table.rows])
    return out.getvalue()


def as_latex(table: Table) -> str:
    """To be `\\input`; it wants the package booktabs."""
    columns = "l" * len(table.header)
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [_latex_row(table.header), r"\midrule", *map(_latex_row, table.rows), r"\bottomrule"]
    caption = ". ".join(part.rstrip(".") for part in (table.title, table.note) if part)
    lines += [r"\end{tabular}", rf"\caption{{{_latex(caption)}}}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def as_markdown(table: Table) -> str:
    """For a README."""
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
    # The end of a row takes an optional length in brackets: a cell that begins so must not be read as one.
    return " & ".join("{}" * cell.startswith("[") + _latex(cell) for cell in cells) + r" \\"
