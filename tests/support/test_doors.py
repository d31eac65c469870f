"""Doors that open on demand: what they promise to type checkers is what they give, under one name each."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import slicewise

ROOT = Path(slicewise.__file__).parent


def table_of(tree):
    """The table that a door gives to `open_on_demand`, if it does: names by module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "open_on_demand":
            return {
                place: set(names.split()) for place, names in ast.literal_eval(node.args[1]).items()
            }
    return None


DOORS = {
    ".".join(["slicewise", *path.parent.relative_to(ROOT).parts]): path
    for path in sorted(ROOT.rglob("__init__.py"))
    if table_of(ast.parse(path.read_text())) is not None
}


def test_there_are_such_doors():
    assert {"slicewise", "slicewise.support", "slicewise.transport", "slicewise.lab.data"} <= set(
        DOORS
    )


@pytest.mark.parametrize("door", DOORS)
def test_the_table_is_what_type_checkers_see(door):
    tree = ast.parse(DOORS[door].read_text())
    seen = {}
    for block in tree.body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                assert isinstance(node, ast.ImportFrom)
                names = [alias.name for alias in node.names]
                if node.module == door:  # modules, as attributes of the door
                    seen.update({name: seen.get(name, set()) for name in names})
                else:
                    assert node.module.rpartition(".")[0] == door
                    seen.setdefault(node.module.rpartition(".")[2], set()).update(names)
    assert seen == table_of(tree)


@pytest.mark.parametrize("door", DOORS)
def test_every_name_is_found_and_is_what_its_place_has(door):
    package = importlib.import_module(door)
    for place, names in table_of(ast.parse(DOORS[door].read_text())).items():
        there = importlib.import_module(f"{door}.{place}")
        for name in names:
            assert getattr(package, name) is getattr(there, name), name
            assert name in vars(package)  # looked up once


@pytest.mark.parametrize("door", DOORS)
def test_no_file_takes_the_place_of_a_name(door):
    """Importing `room/thing.py` sets `room.thing`: a name of that spelling has to be in the table with its file."""
    table = table_of(ast.parse(DOORS[door].read_text()))
    files = {path.stem for path in DOORS[door].parent.glob("*.py")}
    files |= {path.parent.name for path in DOORS[door].parent.glob("*/__init__.py")}
    for names in table.values():
        assert names & files <= table.keys()


def fresh(code):
    """What a program prints in a process of its own."""
    run = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_function_is_not_hidden_by_the_file_it_is_in():
    """Whoever imports the file first: a pickle, or a room of ours."""
    said = fresh(
        """
        import slicewise.transport.subspace_detour, slicewise.lab.images.before_after, slicewise.lab.study.sweep
        from slicewise.lab.images import before_after
        from slicewise.lab.study import sweep
        from slicewise.transport import subspace_detour
        import slicewise
        assert slicewise.subspace_detour is subspace_detour
        print(*(type(one).__name__ for one in (subspace_detour, before_after, sweep)))
        """
    )
    assert said == "function function function"


def test_a_name_that_is_not_there_is_answered_by_one_that_is():
    with pytest.raises(
        AttributeError, match=r"'slicewise' has no attribute 'vairants': did you mean 'VARIANTS'"
    ):
        slicewise.vairants  # noqa: B018
    with pytest.raises(AttributeError, match=r"'slicewise' has no attribute '_private'$"):
        slicewise._private  # noqa: B018
    with pytest.raises(ImportError):
        from slicewise.support import check_cuont  # noqa: F401


def test_dir_of_a_door_has_names_that_were_not_asked_for_yet():
    said = fresh(
        "import slicewise.lab.data as data; print('toy' in vars(data), 'toy' in dir(data))"
    )
    assert said == "False True"
