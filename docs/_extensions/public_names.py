"""Docstrings for the reference: their plain text is given to Sphinx without the meaning that markup would add."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

CODE = re.compile(r"(``.+?``|`[^`]+`)")
SEVERAL = re.compile(r"^(\s+(?:\*{0,2}\w+, )+\*{0,2}\w+):(?= |$)")
_of_attributes: dict[str, list[str]] = {}


def escape(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escape stars, bars and trailing underscores outside of code, in place.

    Several arguments of one entry ("x, y: samples") are joined: what is before the last space would be read as a type.
    """
    out: list[str] = []
    in_example = False
    for line in lines:
        if line.lstrip().startswith((">>> ", "... ")):
            in_example = True
        elif not line.strip():
            in_example = False
        if not in_example:
            line = SEVERAL.sub(lambda names: names.group().replace(", ", ","), line)
            line = "".join(
                piece if i % 2 else re.sub(r"([*|])|(?<=\w)_(?=\W|$)", lambda m: "\\" + m.group(), piece)
                for i, piece in enumerate(CODE.split(line))
            )  # fmt: skip
        out.append(line)
    lines[:] = out
    if what in ("attribute", "property", "data"):
        _of_attributes[name] = out


def restore(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Take the text of an attribute as it is: Napoleon would read what is before its first colon as a type."""
    if name in _of_attributes:
        lines[:] = [*_of_attributes.pop(name), ""]


def setup(app: Sphinx) -> dict[str, bool]:
    """Look at docstrings before and after their sections are read."""
    app.connect("autodoc-process-docstring", escape, priority=100)
    app.connect("autodoc-process-docstring", restore, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
