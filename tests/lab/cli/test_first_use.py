"""Help, version, mistakes and completion are answered before torch is imported."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import typer

import slicewise as sw
from benchmarks.first_use import CALLS, COMPLETED, SUBCOMMANDS, completion
from slicewise import color
from slicewise.color.spaces import SPACES
from slicewise.distance import Objective
from slicewise.lab import names
from slicewise.lab.cli.app import app
from slicewise.lab.data import TOYS
from slicewise.lab.experiments import EXPERIMENTS
from slicewise.variants import PRESETS

# Makes one call after another, and prints of each what it returned and printed, and which packages were imported by then.
MANY_CALLS = """
import contextlib, io, json, os, sys
from slicewise.lab.cli import main

heavy = ("torch", "numba", "scipy", "matplotlib", "sklearn", "PIL")
found = []
for arguments, variables in json.loads(sys.argv[1]):
    os.environ.update(variables)
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            status = main(arguments)
        except SystemExit as end:  # of completion
            status = end.code
    imported = [name for name in heavy if name in sys.modules]
    found.append([status, out.getvalue(), err.getvalue(), imported])
print(json.dumps(found))
"""
HERE = {**os.environ, "PYTHONPATH": str(Path(sw.__file__).parents[1]), "COLUMNS": "100"}


def made(folder, calls):
    run = [sys.executable, "-c", MANY_CALLS, json.dumps(calls)]
    done = subprocess.run(run, cwd=folder, env=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())
    return json.loads(done.stdout)


def test_no_torch_before_the_work(tmp_path):
    found = made(tmp_path, [(call.split(), {}) for call in CALLS])
    for call, (status, out, err, imported) in zip(CALLS, found, strict=True):
        assert imported == [], call
        if call == "--version":
            assert (status, out, err) == (0, f"slicewise {sw.__version__}\n", "")
        elif not call:
            # Bare, it greets: a few commands that are there, and where to find the rest.
            greeted = set(re.findall(r"^  slicewise (\w+)", out, re.MULTILINE))
            assert len(greeted) >= 5
            assert greeted <= set(SUBCOMMANDS)
            assert "slicewise --help" in out
            assert (status, err) == (0, "")
        elif "--help" in call:
            assert "Usage: slicewise" in out, call
        else:
            assert (status, out) == (2, ""), call
            assert err.startswith("slicewise: ")
            assert err.count("\n") == 1


def test_no_torch_at_tab(tmp_path):
    found = made(tmp_path, [([], completion(line)) for line in COMPLETED])
    shown = {}
    for line, (status, out, err, imported) in zip(COMPLETED, found, strict=True):
        assert (status, err, imported) == (0, "", []), line
        shown[line] = set(out.split())
    assert shown[""] >= set(SUBCOMMANDS)
    assert shown["dist"] == {"distance"}
    assert shown["flow --"] >= {"--variant", "--steps", "--toy", "--help"}
    assert shown["flow -v eb"] == {"ebsw", "ebrpsw"}
    assert shown["reproduce g"] == shown["runs --experiment g"] == {"gradient-flow", "generate"}
    assert shown["runs --variant rp"] == {"rpsw"}
    assert shown["transfer --space o"] == {"oklab"}


def test_work_takes_torch(tmp_path):
    """So that the tests above can fail."""
    ((status, _, _, imported),) = made(tmp_path, [(["variants", "sw"], {})])
    assert status == 0
    assert "torch" in imported


def test_the_calls_name_every_subcommand():
    assert set(SUBCOMMANDS) == set(typer.main.get_command(app).commands)


def test_the_words_offered_are_those_there_are():
    assert tuple(sw.VARIANTS) == names.VARIANTS
    assert get_args(Objective) == names.OBJECTIVES
    assert color.LOOKS == names.LOOKS
    assert tuple(SPACES) == names.SPACES
    assert tuple(PRESETS) == names.RECIPES
    assert tuple(TOYS) == names.TOYS
    assert tuple(EXPERIMENTS) == names.EXPERIMENTS
    users = {user for some in names.OPTION_USERS.values() for user in some}
    assert users <= set(names.EXPERIMENTS)


def spent():
    """Seconds of a processor that processes started here have taken, whoever shares it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
@pytest.mark.parametrize("call", ["--help", "--version", "flow --help", "flow -v eb"])
def test_an_answer_takes_less_than_a_second(call, tmp_path):
    """0.1 to 0.3 s on a quiet machine; importing torch alone takes more than a second."""
    times = []
    for _ in range(3):
        before = spent()
        run = [sys.executable, "-m", "slicewise", *call.split()]
        subprocess.run(run, cwd=tmp_path, env=HERE, capture_output=True, check=False)
        times.append(spent() - before)
    assert min(times) < 0.8, times
