"""Links of a page to files of the repository that are no pages: records and source become downloads, others text.

The pages are read on the site and in the repository alike, where `../benchmarks/results/…` is a file one can open. On the
site a file is copied and linked to; a folder is only named, since the site may be read far from the repository. The files
at the top that are pages of the site, too (README, CONTRIBUTING, CHANGELOG), lead to these.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.util.nodes import make_refnode

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PAGES = {"README.md": "index", "CONTRIBUTING.md": "developers/contributing", "CHANGELOG.md": "developers/changelog"}  # fmt: skip


def lead_inside(app: Sphinx, tree: nodes.document) -> None:
    """Replace links that leave the folder of the pages."""
    pages, top = Path(app.srcdir), Path(app.srcdir).parent
    for link in [*tree.findall(addnodes.download_reference), *tree.findall(addnodes.pending_xref)]:
        path = target(link, pages, Path(app.env.doc2path(app.env.docname)).parent)
        if path is None or not path.is_relative_to(top) or path.is_relative_to(pages):
            continue
        name, inside = str(path.relative_to(top)), link.children[0].deepcopy()
        if name in PAGES:
            link.replace_self(make_refnode(app.builder, app.env.docname, PAGES[name], None, inside))
        elif path.is_dir():
            link.replace_self(inside)
        else:
            file = str(Path(os.path.relpath(path, pages)))
            link.replace_self(addnodes.download_reference("", "", inside, reftarget=f"/{file}"))


def target(link: nodes.Element, pages: Path, here: Path) -> Path | None:
    """Return the file that a link in Markdown leads to, or None for other links."""
    if link.get("refdomain") == "doc":  # a page, or Markdown elsewhere: its path without the suffix
        return (pages / f"{link['reftarget']}.md").resolve()
    if link.get("reftype") == "myst":
        return (here / link["reftarget"].partition("#")[0]).resolve()
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    """Look at every page once it has been read."""
    # Before Sphinx collects what is to be copied.
    app.connect("doctree-read", lead_inside, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
