"""Every faster path against the twenty lines of `distance/reference.py`, for every variant."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
import torch

import slicewise as sw
from slicewise.distance import reference
from tests import oracles
from tests.tolerances import assert_close


def pair(n, m, d=3):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return x, torch.randn(m, d, generator=generator, dtype=torch.float64) * 1.5 + 0.5


@pytest.mark.parametrize("name", sw.VARIANTS)
@pytest.mark.parametrize("sizes", [(12, 12), (12, 7)], ids=str)
@pytest.mark.parametrize(
    ("p", "backend"), [(2, "torch"), (2, "numpy"), (2, "numba"), (1, "numba"), (3, "torch")]
)
def test_every_path_is_the_reference(name, sizes, p, backend, monkeypatch):
    if p != 2 and "every_order" not in sw.VARIANTS[name].properties:
        pytest.skip("defined for p = 2 alone")
    on_circles = {"ssw": oracles.circle_cost, "linearssw": oracles.embedded_circle_cost}
    if name in on_circles:  # the same lines of code, with transport on circles
        monkeypatch.setattr(reference, "transport_cost", on_circles[name])
    x, y = pair(*sizes)
    expected = reference.sliced_wasserstein(x, y, sw.VARIANTS[name](), seed=0, p=p)
    how = {"p": p, "generator": 0, "backend": backend}
    assert_close(sw.sliced_wasserstein(x, y, name, **how), expected)
    assert_close(sw.value_and_grad(x, y, name, **how)[0], expected)
    batched = sw.sliced_wasserstein(torch.stack([x, x]), y, name, **how | {"generator": [0, 0]})
    assert_close(batched, torch.stack([expected, expected]))
    loss = sw.SlicedWasserstein(name, p=p, objective="root", backend=backend)
    assert_close(loss(x, y, generator=0), expected)


@pytest.mark.parametrize("name", ["sw", "ebsw", "phisw", "gsw", "lcvsw"])
def test_gradients_are_autograds_of_the_reference(name):
    """The reference is plain torch: autograd differentiates it, given the slices."""
    x, y = pair(9, 9)
    x.requires_grad_()
    expected = reference.sliced_wasserstein(x, y, sw.VARIANTS[name](), seed=0)
    (slope,) = torch.autograd.grad(expected, x)
    value, gradient = sw.value_and_grad(x.detach(), y, name, generator=0)
    assert_close(value, expected)
    assert_close(gradient, slope)


@pytest.mark.parametrize("objective", ["power", "root", "mean_root"])
@pytest.mark.parametrize("convention", ["mean", "reference"])
def test_objectives_and_conventions(objective, convention):
    """From the costs of the reference, each objective by its definition."""
    x, y = pair(9, 9)
    found = sw.evaluate(x, y, generator=0)
    n = 9 if convention == "reference" else 1
    costs = found.costs * n
    by_definition = {
        "power": costs.mean(),
        "root": costs.mean().sqrt(),
        "mean_root": costs.sqrt().mean(),
    }
    how = {"objective": objective, "convention": convention, "generator": 0}
    expected = by_definition[objective] * n
    assert_close(sw.sliced_wasserstein(x, y, **how), expected)
    assert_close(sw.value_and_grad(x, y, **how)[0], expected)
    assert_close(
        sw.SlicedWasserstein(**{k: how[k] for k in ("objective", "convention")})(x, y, generator=0),
        expected,
    )


def test_the_reference_is_short():
    """It is there to be read at one sitting: the whole computation in about twenty lines."""
    tree = ast.parse(inspect.getsource(reference))
    lines = 0
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            body = [
                n for n in ast.walk(node) if isinstance(n, ast.stmt) and not isinstance(n, ast.Expr)
            ]
            lines += len({n.lineno for n in body})
    assert lines <= 20


def test_the_design_page_opens_with_it():
    source = inspect.getsource(reference.sliced_wasserstein)
    body = source.split('"""')[2].strip("\n").splitlines()
    page = (Path(__file__).parents[2] / "docs" / "design.md").read_text()
    block = page.split("```python\n")[1].split("```")[0]
    assert block.splitlines()[1:] == body
    assert page.index("```python") < 400
