"""Examples in the README and the docs run, commands and links in them exist, and the reference of names is complete."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path

import pytest
import typer

import slicewise as sw
from slicewise.lab.cli.app import app
from slicewise.support.renamed import MOVED

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(code, id=f"{page.name}-{i}")
    for page in PAGES
    for i, code in enumerate(re.findall(r" *```python\n(.*?)```", page.read_text(), re.DOTALL))
]


def commands():
    """Yield the lines of shell blocks that call `slicewise`, without that word."""
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("slicewise "):
                    yield shlex.join(shlex.split(line, comments=True)[1:])


COMMANDS = sorted(set(commands()))


@pytest.mark.parametrize("code", BLOCKS)
def test_example_runs(code):
    before = dict(sw.VARIANTS)
    try:
        exec(compile(textwrap.dedent(code), "example", "exec"), {})
    finally:  # one example adds a variant
        sw.VARIANTS.clear()
        sw.VARIANTS.update(before)


def test_methods_table_has_every_variant():
    table = (ROOT / "docs" / "methods.md").read_text().split("## Options")[0]
    rows = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert rows == list(sw.VARIANTS)
    for name in rows:
        line = next(r for r in table.splitlines() if r.startswith(f"| `{name}` |"))
        says_metric = line.split("|")[4].strip().startswith("yes")
        assert says_metric == ("metric" in sw.VARIANTS[name].properties), name


@pytest.mark.parametrize("command", COMMANDS)
def test_command_exists(command):
    """Its name, options and values are accepted; whether its files exist is checked only when it runs."""
    name, *arguments = shlex.split(command)
    typer.main.get_command(app).commands[name].make_context(name, arguments)


def test_make_targets_exist():
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE))
        assert named <= known, page.name


def headings(page):
    """The anchors of a page: its headings in lower case, words joined by hyphens."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


def test_links_lead_somewhere():
    for page in PAGES:
        for target, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", page.read_text()):
            there = page.parent / target if target else page
            assert there.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in headings(there), (
                f"{page.name} links to {target}#{anchor}"
            )


def part_of_names(heading):
    """The part of docs/names.md under a heading."""
    return (ROOT / "docs" / "names.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]


def test_every_public_name_has_its_line():
    named = re.findall(r"^\| `(\w+)", part_of_names("Names in `slicewise`"), re.MULTILINE)
    assert sorted(named) == sorted(sw.__all__)


def test_every_old_path_is_named():
    old_paths = re.findall(r"`(slicewise[\w.]*)`(?=[^|]*\|[^|]*\|$)", part_of_names("Old paths that still work"), re.MULTILINE)  # fmt: skip
    assert sorted(old_paths) == sorted(MOVED)


def test_public_names_are_documented():
    for name in sw.__all__:
        thing = getattr(sw, name)
        assert isinstance(thing, dict) or thing.__doc__, name
