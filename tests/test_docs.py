"""Every Python example of the README and the docs runs."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

import slicewise as sw

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(code, id=f"{page.name}-{i}")
    for page in PAGES
    for i, code in enumerate(re.findall(r" *```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("code", BLOCKS)
def test_example_runs(code):
    before = dict(sw.VARIANTS)
    try:
        exec(compile(textwrap.dedent(code), "example", "exec"), {})
    finally:  # one example enters a variant of its own
        sw.VARIANTS.clear()
        sw.VARIANTS.update(before)


def test_every_variant_has_its_row_in_the_table_of_methods():
    table = (ROOT / "docs" / "methods.md").read_text().split("## Options")[0]
    rows = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert rows == list(sw.VARIANTS)
    for name in rows:
        line = next(r for r in table.splitlines() if r.startswith(f"| `{name}` |"))
        says_metric = line.split("|")[4].strip().startswith("yes")
        assert says_metric == ("metric" in sw.VARIANTS[name].laws), name


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_public_names_are_documented():
    for name in sw.__all__:
        thing = getattr(sw, name)
        assert isinstance(thing, dict) or thing.__doc__, name
