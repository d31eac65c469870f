"""Docstrings for the reference: their plain text is given to Sphinx without the meaning that markup would add."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

CODE = re.compile(r"(``.+?``|`[^`]+`)")


def escape(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escape stars, bars and trailing underscores outside of code, in place; give lists and blocks their blank lines."""
    if not getattr(thing, "__module__", "slicewise").startswith("slicewise") and what != "module":
        return  # inherited from another library, which has its own markup
    out: list[str] = []
    in_example = False
    for line in lines:
        if line.lstrip().startswith((">>> ", "... ")):
            in_example = True
        elif not line.strip():
            in_example = False
        if not in_example:
            line = "".join(
                piece if i % 2 else re.sub(r"([*|])|(?<=\w)_(?=\W|$)", lambda m: "\\" + m.group(), piece)
                for i, piece in enumerate(CODE.split(line))
            )  # fmt: skip
        out.append(line)
    lines[:] = out


def setup(app: Sphinx) -> dict[str, bool]:
    """Look at docstrings before their sections are read."""
    app.connect("autodoc-process-docstring", escape, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
