"""The folders of lab are rooms of their own: their order, their doors and their sizes, read off the imports."""

import ast
import importlib
from pathlib import Path

import pytest

import slicewise

SOURCE = Path(slicewise.__file__).parent
LAB = SOURCE / "lab"
# A room imports only rooms before it.
ROOMS = [
    "errors",
    "names",
    "published",
    "data",
    "images",
    "latents",
    "study",
    "experiments",
    "coverage",
    "report",
    "play",
    "cli",
]
FOLDERS = ROOMS[2:]
FILES = sorted(LAB.rglob("*.py"))
MOST_FILES = 12


def name(path):
    return str(path.relative_to(SOURCE))


def imports(path):
    """Every module a file imports and the line, inside functions and under TYPE_CHECKING too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module, node.lineno


def test_every_folder_is_a_room():
    assert {folder.name for folder in LAB.iterdir() if any(folder.glob("*.py"))} == set(FOLDERS)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_rooms_import_downward_and_by_the_door(path):
    here = path.relative_to(LAB).parts[0].removesuffix(".py")
    for module, line in imports(path):
        parts = module.split(".")
        if parts[:2] != ["slicewise", "lab"] or len(parts) == 2 or parts[2] == here:
            continue
        assert ROOMS.index(parts[2]) < ROOMS.index(here), f"{path}:{line} imports {module}"
        assert len(parts) == 3, f"{path}:{line} imports {module}, not slicewise.lab.{parts[2]}"


@pytest.mark.parametrize("room", FOLDERS)
def test_a_room_says_what_it_is_and_names_what_it_gives(room):
    door = importlib.import_module(f"slicewise.lab.{room}")
    assert "Imports " in door.__doc__
    assert "Used by " in door.__doc__ or "Used " in door.__doc__
    assert all(hasattr(door, one) for one in door.__all__)


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=name)
def test_a_folder_can_be_read_at_a_glance(folder):
    assert len(list(folder.glob("*.py"))) <= MOST_FILES


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=name)
def test_nothing_of_the_package_imports_benchmarks(path):
    assert not [line for module, line in imports(path) if module.split(".")[0] == "benchmarks"]
