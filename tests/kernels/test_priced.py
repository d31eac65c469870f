"""Value and gradient in one go, on the CPU, against plain torch: every size, order, kind of weights and batch."""

from __future__ import annotations

import types

import numpy as np
import pytest
import torch

import slicewise as sw
from slicewise.kernels import cpu
from slicewise.kernels.cpu import match_by_numba
from slicewise.parts import Equal
from slicewise.transport import Needs, match_slices, pull_back, root, root_slope
from slicewise.variants import Recipe
from tests.tolerances import assert_close

# On both sides of where words and sorts change.
EQUAL = [(n, n) for n in (1, 2, 300, 1024, 1025, 4096, 4097)]
UNEQUAL = [(1, 7), (300, 200), (30, 1025), (4097, 100), (5, 4097)]
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@pytest.fixture(autouse=True)
def _nothing_is_left_as_it_was_allocated(monkeypatch):
    """Memory that NumPy hands out is not zero by chance: a number that nobody wrote is NaN."""

    def empty(shape, dtype=float):
        found = np.empty(shape, dtype)
        found.fill(np.nan if np.issubdtype(dtype, np.floating) else 77)
        return found

    monkeypatch.setattr(cpu, "np", types.SimpleNamespace(**{**vars(np), "empty": empty}))


def samples(n, m, d, dtype, batch=(), n_slices=7):
    x = torch.randn(*batch, n, d, dtype=dtype)
    y = torch.randn(*batch, m, d, dtype=dtype) + 0.5
    slices = torch.nn.functional.normalize(torch.randn(*batch, n_slices, d, dtype=dtype), dim=-1)
    return x, y, slices


def plain(x, y, slices, a=None, b=None, coefficients=None, *, p, root_wanted):
    """The same by `match_slices`, `root` and `pull_back`."""
    found = match_slices(x, y, slices, a, b, p=p)
    weights = torch.full_like(found.cost, 1 / slices.shape[-2])
    if coefficients is not None:
        weights = coefficients.expand_as(found.cost)
    total = (weights * found.cost).sum(-1)
    outer = root_slope(total, p).unsqueeze(-1) if root_wanted else 1.0
    gradient = pull_back(found, x, y, slices, weights * outer, Needs(x=True)).x
    return root(total, p) if root_wanted else total, gradient


def check(x, y, slices, a=None, b=None, coefficients=None, *, p=2.0):
    for wanted in (True, False):
        ours = match_by_numba.priced(x, y, slices, a, b, coefficients, p=p, root=wanted)
        truth = plain(x, y, slices, a, b, coefficients, p=p, root_wanted=wanted)
        for one, other in zip(ours, truth, strict=True):
            assert_close(one, other)
        assert ours[1].is_contiguous()


@both_dtypes
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("sizes", EQUAL + UNEQUAL)
def test_sizes_and_orders(dtype, sizes, p):
    check(*samples(*sizes, 3, dtype), p=p)


@both_dtypes
@pytest.mark.parametrize("d", [1, 2, 8, 9, 40])
@pytest.mark.parametrize("n", [5, 600, 1500])
def test_dimensions(dtype, d, n):
    """Gradients are taken back by a loop or by a product, which scales the shorter of its sides."""
    check(*samples(n, n, d, dtype))


@both_dtypes
@pytest.mark.parametrize("d", [3, 20])
def test_batches(dtype, d):
    x, y, slices = samples(30, 30, d, dtype, batch=(2, 3))
    check(x, y, slices)
    check(x, y[0, 0], slices)
    check(x, y[0, 0], slices[0, 0])
    check(x[0], y[0], slices[0, 0])
    weights = torch.rand(2, 3, 7, dtype=dtype)
    check(x, y, slices, coefficients=weights)
    check(x, y, slices, coefficients=weights[0, 0])


@both_dtypes
@pytest.mark.parametrize(("n", "m"), [(63, 63), (30, 50), (1500, 1500), (1500, 40)])
def test_weights_of_slices_and_samples(dtype, n, m):
    x, y, slices = samples(n, m, 3, dtype)
    a, b = torch.rand(n, dtype=dtype), torch.rand(m, dtype=dtype)
    a[::3] = 0
    a[1:2] += 0.1
    a, b = a / a.sum(), b / b.sum()
    signed = torch.randn(7, dtype=dtype).abs()
    check(x, y, slices, a, b)
    check(x, y, slices, a, None, signed)
    check(x, y, slices, None, b, signed, p=1.5)


@both_dtypes
@pytest.mark.parametrize("n", [50, 2000])
def test_ties_outliers_and_equal_samples(dtype, n):
    x, y, _ = samples(n, n, 3, dtype)
    axes = torch.eye(3, dtype=dtype)
    check(x.mul(2).round(), y.mul(2).round(), axes)
    far = torch.cat([x[:-1], x[-1:] * 1e12])
    check(far, y, axes, p=1.0)
    value, gradient = match_by_numba.priced(x, x.clone(), axes, None, None, None, p=2.0, root=True)
    assert value == 0
    assert gradient.abs().max() == 0


@both_dtypes
@pytest.mark.parametrize("n", [50, 2000, 5000])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_in_is_nan_out(dtype, n, bad):
    x, y, slices = samples(n, n, 3, dtype)
    for side in (x, y):
        kept = side[3].clone()
        side[3] = bad
        value, _ = match_by_numba.priced(x, y, slices, None, None, None, p=2.0, root=True)
        assert not value.isfinite()
        side[3] = kept
    x[3] = bad
    with pytest.raises(ValueError, match="NaN or infinite entries"):
        sw.value_and_grad(x, y)


@pytest.mark.parametrize("n", [300, 2000])
def test_a_target_is_read_and_not_written(n):
    x, y, slices = samples(n, n, 3, torch.float32)
    target = sw.Target(y, slices)
    before = target.sorted.clone()
    value, gradient = sw.value_and_grad(x, target)
    truth = sw.value_and_grad(x, y, slices=slices, backend="torch")
    assert_close(value, truth[0])
    assert_close(gradient, truth[1])
    assert target.sorted.equal(before)


def test_it_is_what_value_and_grad_runs(monkeypatch):
    """For known slice weights, whatever the objective; not where weights follow the costs."""
    x, y, _ = samples(40, 40, 3, torch.float32)
    calls = []
    honest = cpu.NumbaMatcher.priced

    def counted(self, *args, **kwargs):
        calls.append(kwargs["root"])
        return honest(self, *args, **kwargs)

    monkeypatch.setattr(cpu.NumbaMatcher, "priced", counted)
    sw.value_and_grad(x, y)
    sw.value_and_grad(x, y, objective="power")
    sw.value_and_grad(x, y, Recipe(sw.VARIANTS["sw"]().slicer, Equal()))
    assert calls == [True, False, True]
    sw.value_and_grad(x, y, "ebsw")
    sw.value_and_grad(x, y, objective="mean_root")
    sw.value_and_grad(x, y, convention="reference")
    assert len(calls) == 3
