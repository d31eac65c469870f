"""`import slicewise` takes nothing with it; a name brings what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import slicewise as sw

HEAVY = ("torch", "numpy", "numba", "scipy", "matplotlib", "sklearn", "PIL", "rich", "typer")


def loaded(code):
    """The heavy packages that a program has imported at its end, in a process of its own."""
    tail = f"\nimport sys; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code + tail],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "code",
    [
        "import slicewise",
        "import slicewise; slicewise.__version__; dir(slicewise); slicewise.__doc__",
        "import slicewise; assert not hasattr(slicewise, 'sliced_waserstein')",
        "from slicewise import NotArrivedWarning",
        "import slicewise.support; slicewise.support.check_count('n', 3)",
        "import slicewise.lab; import slicewise.lab.data, slicewise.lab.study, slicewise.lab.names",
    ],
)
def test_nothing_heavy_is_imported(code):
    assert loaded(code) == []


def test_a_distance_takes_torch_and_no_more_than_it_needs():
    assert loaded("import slicewise; slicewise.sliced_wasserstein") == ["torch", "numpy"]


def test_no_call_takes_the_compiler_of_torch():
    """SymPy and what comes with it take a second; torch's own broadcasting of shapes imports them."""
    code = """
import sys, torch, slicewise as sw
x, y = torch.randn(2, 30, 3), torch.randn(20, 3)
sw.sliced_wasserstein(x, y)
sw.flow(x[0], y, max_steps=2, stopping=sw.Stopping(tolerance=None))
sw.evaluate(x, y, n_slices=10).interval()
sw.two_sample_test(x[0], y, permutations=19)
sw.SlicedWasserstein()(x[0].requires_grad_(), sw.laws.Normal()).backward()
assert "sympy" not in sys.modules
"""
    assert "torch" in loaded(code)


def test_every_name_can_be_the_first_one():
    """Each public name in a fresh interpreter, without the others: here by forgetting the package in between."""
    code = f"""
import importlib, sys
import torch
for name in {[*sw.__all__]!r}:
    for module in [one for one in sys.modules if one.partition(".")[0] == "slicewise"]:
        del sys.modules[module]
    found = getattr(importlib.import_module("slicewise"), name)
    assert found is not None
"""
    assert "torch" in loaded(code)


def test_rooms_are_attributes():
    rooms = ("parts", "steps", "problem", "transport", "kernels", "variants", "sampling", "flows")
    code = "".join(f"assert slicewise.{room}.__name__ == 'slicewise.{room}'\n" for room in rooms)
    assert "torch" in loaded(f"import slicewise\n{code}")
