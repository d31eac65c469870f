"""Check the built site: `python docs/check_site.py build/site`, the last step of `make docs`.

Every link within the site leads to a page, and to an anchor that is there; nothing is loaded from elsewhere, neither by a
page nor by a style sheet; every public name has a page; every example of the gallery has been executed and has a picture.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import slicewise as sw

HERE = Path(__file__).parent
LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}


class Page(HTMLParser):
    """The anchors of a page, what it loads, and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        given = dict(attrs)
        self.anchors |= {name for name in (given.get("id"), given.get("name")) if name}
        if tag in LOADED and (address := given.get(LOADED[tag])):
            self.loads.append(address)
        if tag == "a" and (address := given.get("href")):
            self.links.append(address)


def faults(site: Path) -> list[str]:
    """Return what is wrong with the site, a line each."""
    found: list[str] = []
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for path, page in pages.items():
        name = path.relative_to(site)
        for address in page.loads:
            if (parts := urlsplit(address)).scheme not in ("", "data") or parts.netloc:
                found.append(f"{name} loads {address}")
        for address in (*page.loads, *page.links):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not there.exists():
                found.append(f"{name} leads to {address}, which is not there")
            elif anchor and there in pages and anchor not in pages[there].anchors:
                found.append(f"{name} leads to {address}, whose anchor is not there")
    for sheet in site.rglob("*.css"):
        for address in re.findall(r"(?:url\(|@import\s+)['\"]?((?:https?:)?//[^'\")]+)", sheet.read_text(encoding="utf-8")):  # fmt: skip
            found.append(f"{sheet.relative_to(site)} loads {address}")
    modules = {"color", "judging", "laws", "nn", "optim", "parts", "pot", "stats", "steps", "training"}  # fmt: skip
    for name in {*sw.__all__} - modules - {"VARIANTS"}:
        if not (site / "reference" / "api" / f"slicewise.{name}.html").exists():
            found.append(f"sw.{name} has no page")
    for name in modules:
        if not (site / "reference" / f"{name}.html").exists():
            found.append(f"sw.{name} has no page")
    for script in (HERE.parent / "examples" / "gallery").rglob("*.py"):
        page_of = site / "gallery" / script.parent.name / f"{script.stem}.html"
        if not page_of.exists() or f"sphx_glr_{script.stem}_001" not in page_of.read_text():
            found.append(f"the example {script.name} has no page with a picture")
    return found


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]).resolve())
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(1 if wrong else 0)
