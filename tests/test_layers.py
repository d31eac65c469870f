"""The architecture, read off the imports."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import slicewise

ROOT = Path(slicewise.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
# A room imports only rooms before it.
ROOMS = [
    "support",
    "sampling",
    "transport",
    "kernels",
    "laws",
    "problem",
    "parts",
    "variants",
    "steps",
    "distributed",
    "distance",
    "plans",
    "stats",
    "nn",
    "optim",
    "flows",
    "judging",
    "training",
    "color",
    "metric",
    "pot",
    "lab",
]
# What is imported inside a function, or under TYPE_CHECKING, against that order; each with its reason.
LAZY_UPWARD = {
    # None so far.
}
FORBIDDEN_NAMES = {"utils.py", "common.py", "base.py", "helpers.py"}
LIGHT = {"torch", "numpy", "slicewise", "__future__"}


def room(path):
    parts = path.relative_to(ROOT).parts
    return "" if len(parts) == 1 else parts[0]


def imports(path):
    """Every module a file imports and the line: at its top, inside functions, under TYPE_CHECKING."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.module, node.lineno
            if node.module == "slicewise":
                yield from ((f"slicewise.{alias.name}", node.lineno) for alias in node.names)


def name(path):
    return str(path.relative_to(ROOT))


def test_every_folder_is_a_room():
    folders = {p.name for p in ROOT.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders == set(ROOMS)
    files = {p.name for p in ROOT.iterdir() if p.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}


@pytest.mark.parametrize("one", ROOMS)
def test_a_room_says_what_it_is(one):
    doc = ast.get_docstring(ast.parse((ROOT / one / "__init__.py").read_text()))
    assert doc, f"{one} has no docstring"
    assert "Imports " in doc, f"{one} does not say what it may import"
    assert "Used by " in doc or "Used " in doc, f"{one} does not say who uses it"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_go_one_way(path):
    here = room(path)
    assert path.name not in FORBIDDEN_NAMES
    for module, line in imports(path):
        first, _, rest = module.partition(".")
        if first != "slicewise" or not rest or not here:
            continue
        there = rest.split(".")[0]
        upward = there not in ROOMS or ROOMS.index(there) > ROOMS.index(here)
        if upward:
            assert (name(path), there) in LAZY_UPWARD, f"{path}:{line} imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_rooms_are_entered_by_their_door(path):
    here = room(path)
    for module, line in imports(path):
        parts = module.split(".")
        if parts[0] == "slicewise" and len(parts) > 2 and parts[1] != here and here:
            assert parts[1] == "lab", f"{path}:{line} imports {module}, not slicewise.{parts[1]}"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_the_core_imports_torch_and_numpy_only(path):
    if room(path) in ("metric", "lab"):
        return
    for node in ast.parse(path.read_text()).body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        for module in names:
            first = module.split(".")[0]
            if room(path) == "kernels" and first in ("numba", "triton", "cuda"):
                continue  # imported once they are used
            assert first in LIGHT or first in sys.stdlib_module_names, f"{path} imports {module}"
