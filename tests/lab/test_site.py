"""The documentation site in a browser without a network: `make docs` builds it, `make browser` asks here."""

from __future__ import annotations

from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "build" / "site"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no site: make docs builds it"),
]
PAGES = [
    "index.html",
    "start.html",
    "understand/computed-step.html",
    "gallery/index.html",
    "gallery/flows/b_basins.html",
    "reference/api/slicewise.flow.html",
    "reference/commands.html",
    "reproduction.html",
]


def opened(chromium, page, *, width=1400, scheme="light"):
    """The page, and what the console said and what could not be loaded."""
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    tab, wrong = context.new_page(), []
    tab.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("requestfailed", lambda request: wrong.append(request.url))
    tab.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else wrong.append(asked.url))  # fmt: skip
    tab.goto((SITE / page).as_uri())
    return tab, wrong


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark")])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_reads_from_disk(chromium, page, width, scheme):
    tab, wrong = opened(chromium, page, width=width, scheme=scheme)
    assert wrong == []
    assert tab.locator("h1").count() == 1
    assert tab.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    # Nothing but tables, code and formulas, which scroll by themselves, is wider than the screen.
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_mathematics_is_drawn_by_the_browser(chromium):
    tab, _ = opened(chromium, "understand/computed-step.html")
    fraction = tab.locator("math mfrac").first.bounding_box()
    assert fraction["height"] > 25  # numerator above denominator, not beside it


@pytest.mark.parametrize("word", ["barycenter", "two_sample_test", "drift"])
def test_search_works_from_disk(chromium, word):
    tab, wrong = opened(chromium, "index.html")
    tab.locator("input[name=q]").first.fill(word)
    tab.keyboard.press("Enter")
    # Results come one by one: the third is waited for, not counted when the first is there.
    tab.locator("#search-results li a").nth(2).wait_for(timeout=20_000)
    assert wrong == []
