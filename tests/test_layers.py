"""The architecture, read off the imports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import slicewise

ROOT = Path(slicewise.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
# Folder -> the folders (and "core", the files beside __init__) its modules may import at their top.
MAY_IMPORT = {
    "core": {"core"},
    "kernels": {"core", "kernels"},
    "learn": {"core", "learn"},
    "distributed": {"core", "distributed"},
    "metric": {"core", "metric"},
    "lab": {"core", "kernels", "learn", "distributed", "lab"},
}
FORBIDDEN_NAMES = {"utils.py", "common.py", "base.py", "helpers.py"}
LIGHT = {"torch", "numpy", "slicewise", "__future__"}


def layer(path):
    parts = path.relative_to(ROOT).parts
    return "core" if len(parts) == 1 else parts[0]


def layer_of_import(name):
    rest = name.split(".")[1:]
    return rest[0] if rest and rest[0] in MAY_IMPORT else "core"


def top_imports(path):
    """Modules imported when the file is; imports inside functions are not counted."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            if node.module == "slicewise":
                yield from (f"slicewise.{alias.name}" for alias in node.names)


def test_there_is_something_to_check():
    assert {layer(p) for p in MODULES} >= {"core", "lab"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_module(path):
    import sys

    assert path.name not in FORBIDDEN_NAMES
    assert len(path.read_text().splitlines()) <= 250, "a module over 250 lines is asked why"
    for name in top_imports(path):
        if name.split(".")[0] == "slicewise":
            if path.name != "__init__.py" or layer(path) != "core":
                assert layer_of_import(name) in MAY_IMPORT[layer(path)], f"imports {name}"
        elif layer(path) == "core":
            first = name.split(".")[0]
            assert first in LIGHT or first in sys.stdlib_module_names, f"core imports {name}"
