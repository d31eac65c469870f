"""The playground: a page on which clouds are drawn by hand and moved by sliced steps, computed in the browser.

The page is one file without a server behind it: nothing listens, and nothing that is drawn leaves the browser. `sliced.js`
has the arithmetic, which a test compares with the library; `page.js` draws.

Imports nothing but the standard library. Used by the command line and by the documentation.
"""

from __future__ import annotations

from importlib.resources import files

__all__ = ["playground_page"]


def playground_page() -> str:
    """Return the page as one HTML document that needs no other file and no network."""
    folder = files("slicewise.lab.play")

    def read(name: str) -> str:
        return folder.joinpath(name).read_text(encoding="utf-8")

    page = read("page.html")
    for mark, name in (("STYLE", "page.css"), ("SLICED", "sliced.js"), ("PAGE", "page.js")):
        page = page.replace(f"/*{mark}*/", read(name).strip())
    return page
