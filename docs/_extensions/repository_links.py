"""Links of a page to files of the repository that are no pages: records and source become downloads, others text.

The pages are read on the site and in the repository alike, where `../benchmarks/results/…` is a file one can open. On the
site a file is copied and linked to; a folder is only named, since the site may be read far from the repository. What is a
page of the site, too, leads to that: README, CONTRIBUTING and CHANGELOG, and the examples of the gallery.
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
GALLERY = Path("examples/gallery")


def lead_inside(app: Sphinx, tree: nodes.document) -> None:
    """Replace links that leave the folder of the pages."""
    pages, top = Path(app.srcdir), Path(app.srcdir).parent
    for link in [*tree.findall(addnodes.download_reference), *tree.findall(addnodes.pending_xref)]:
        path = target(link, pages, Path(app.env.doc2path(app.env.docname)).parent)
        if path is None or not path.is_relative_to(top) or path.is_relative_to(pages):
            continue
        inside, page = link.children[0].deepcopy(), page_of(path.relative_to(top))
        if page is not None:
            link.replace_self(make_refnode(app.builder, app.env.docname, page, None, inside))
        elif path.is_dir():
            link.replace_self(inside)
        else:
            file = str(Path(os.path.relpath(path, pages)))
            link.replace_self(addnodes.download_reference("", "", inside, reftarget=f"/{file}"))


def page_of(path: Path) -> str | None:
    """Return the page of the site that a file of the repository is written to, or None."""
    if path == GALLERY:
        return "gallery/index"
    if path.is_relative_to(GALLERY) and path.suffix == ".py":
        return f"gallery/{path.relative_to(GALLERY).with_suffix('')}"
    return PAGES.get(str(path))


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
