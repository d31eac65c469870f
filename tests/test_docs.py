"""Examples in the README and the docs run, commands and links in them exist, and the reference of names is complete."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
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
WRITTEN_BY_THE_BUILD = (ROOT / "docs" / "gallery", ROOT / "docs" / "reference" / "api")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(
        page
        for page in (ROOT / "docs").rglob("*.md")
        if not any(page.is_relative_to(folder) for folder in WRITTEN_BY_THE_BUILD)
    ),
]
GALLERY = sorted((ROOT / "examples" / "gallery").rglob("*.py"))
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


def test_commands_within_sentences_exist():
    """`slicewise drift --json`: such a command may lack arguments, but its name and its options exist."""
    commands = typer.main.get_command(app).commands
    for page in (*PAGES, *GALLERY):
        for name, rest in re.findall(r"`slicewise ([a-z]+)\b([^`]*)`", page.read_text()):
            assert name in commands, f"{page.name}: slicewise {name}"
            known = {
                "--help",
                *(word for p in commands[name].params for word in (*p.opts, *p.secondary_opts)),
            }
            given = set(re.findall(r"(?<!\S)--?[a-z-]+", rest))
            assert given <= known, f"{page.name}: slicewise {name}{rest}"


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
            there = (page.parent / target).resolve() if target else page
            if any(there.is_relative_to(folder) for folder in WRITTEN_BY_THE_BUILD):
                continue  # not there before the site is built, which then checks it
            assert there.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in headings(there), (
                f"{page.name} links to {target}#{anchor}"
            )


def listed(page):
    """The names that a page of the reference makes pages of."""
    blocks = re.findall(r"autosummary::\n(.*?)```", (ROOT / "docs" / "reference" / page).read_text(), re.DOTALL)  # fmt: skip
    return [name for block in blocks for name in re.findall(r"^   (\w+)$", block, re.MULTILINE)]


def test_reference_has_a_page_of_every_public_name():
    """Of `slicewise`: all names; of its modules: all classes and functions that are not names of `slicewise`, too."""
    page = (ROOT / "docs" / "reference" / "slicewise.md").read_text()
    modules = re.findall(r"^\| \[`sw\.(\w+)`\]", page, re.MULTILINE)
    assert sorted([*listed("slicewise.md"), *modules, "VARIANTS"]) == sorted(sw.__all__)
    for name in (*modules, "metric", "variants"):
        module = importlib.import_module(f"slicewise.{name}")
        there = {
            public
            for public in set(module.__all__) - set(sw.__all__)
            if inspect.isclass(thing := getattr(module, public)) or inspect.isfunction(thing)
        }
        assert set(listed(f"{name}.md")) == there, name


def test_gallery_is_of_examples_that_assert_what_they_show():
    """Twenty and more; each has a title, draws, and fails if what it states no longer holds. The build executes them."""
    assert len(GALLERY) >= 20
    for example in GALLERY:
        tree = ast.parse(example.read_text())
        title, line, *_ = ast.get_docstring(tree).splitlines()
        assert line == "=" * len(title) > "", example.name
        assert any(isinstance(node, ast.Assert) for node in ast.walk(tree)), example.name
        assert example.read_text().count("plt.show()") == 1, example.name


def test_numbers_of_the_readme_are_those_of_their_records():
    """To three digits: every time of the table against other libraries, with the record that it links to."""
    readme = (ROOT / "README.md").read_text()
    rows = {
        "one SW step, n = 3,000": ("one_thread_cpu_seconds", "D"),
        "n = 100,000, d = 64": ("one_thread_cpu_seconds", "F1e5"),
        "n = 1,000,000, d = 3": ("steps", "F1e6"),
    }
    compared = 0
    for start, (part, workload) in rows.items():
        cells = next(row for row in readme.splitlines() if row.startswith(f"| {start}")).split("|")
        for library, cell in zip(("slicewise", "POT", "OTT-JAX"), cells[2:5], strict=True):
            for stated, record in re.findall(r"\[([\d.,]+) ms\]\((\S+?)\)", cell):
                times = json.loads((ROOT / record).read_text())[part][workload]
                there, that_day = (
                    1000 * (time["seconds"] if isinstance(time, dict) else time)
                    for time in (times[library], times["slicewise"])
                )
                assert f"{there:.3g}" == f"{float(stated.replace(',', '')):.3g}", (start, library)
                for ours in re.findall(r"slicewise ([\d.]+) in that run", cell):
                    assert f"{that_day:.3g}" == ours, (start, library)
                compared += 1
    assert compared == 8
    least = json.loads((ROOT / "benchmarks/results/cpu-2026-11-16.json").read_text())
    ratios = [
        times["POT"] / times["slicewise"]
        for times in least["one_thread_cpu_seconds"].values()
        if "POT" in times
    ]
    assert f"only {min(ratios):.1f} times as fast as POT" in readme


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/glossary.md"])
def test_number_of_variants_is_right(page):
    text = (ROOT / page).read_text()
    assert set(re.findall(r"\b(\d+)\s+variants|there are (\d+)\.", text)) <= {(str(len(sw.VARIANTS)), ""), ("", str(len(sw.VARIANTS)))}  # fmt: skip
    assert str(len(sw.VARIANTS)) in text


def test_moving_picture_is_small():
    assert (ROOT / "docs" / "images" / "flow.gif").stat().st_size < 2e6


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
