"""Distances are right wherever they can be represented, whatever their p-th powers do on the way."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import slicewise as sw
from slicewise.transport import wasserstein

# Sizes whose squares leave the range of their precision.
SIZES = [
    (torch.float32, 1e20), (torch.float32, 1e-24), (torch.float64, 1e200), (torch.float64, 1e-200),
]  # fmt: skip
PROPORTIONAL = [name for name, own in sw.VARIANTS.items() if "homogeneous" in own.properties]
EVERY_ORDER = [name for name in PROPORTIONAL if "every_order" in sw.VARIANTS[name].properties]
CLIMBERS = {"maxsw", "maxksw", "vdsw", "ksw", "rpsw", "omsw", "rmsw", "imsw", "vimsw"}


def clouds(n=24, m=24, d=3, shift=1.0):
    draw = torch.Generator().manual_seed(5)
    x = torch.randn(n, d, generator=draw, dtype=torch.float64)
    return x, torch.randn(m, d, generator=draw, dtype=torch.float64) + shift


def tolerance(variant, dtype):
    # Rounding of the samples to float32 moves the slices that a search ends at.
    return 5e-3 if variant in CLIMBERS and dtype == torch.float32 else 2e-6


@pytest.mark.filterwarnings("ignore:the moment approximation")
@pytest.mark.parametrize("variant", PROPORTIONAL)
@pytest.mark.parametrize(("dtype", "size"), SIZES)
def test_values_and_gradients_of_any_size(variant, dtype, size):
    x, y = clouds()
    # In the unit 1, where nothing can go wrong; gradients of a root do not depend on the unit.
    value, gradient = sw.value_and_grad(x, y, variant, generator=3)
    large_x, large_y = ((size * t).to(dtype) for t in (x, y))
    near = {"rtol": tolerance(variant, dtype), "atol": tolerance(variant, dtype)}
    found, slope = sw.value_and_grad(large_x, large_y, variant, generator=3)
    assert found.dtype == slope.dtype == dtype
    assert float(found) / size == pytest.approx(float(value), rel=near["rtol"])
    torch.testing.assert_close(slope.double(), gradient, **near)
    live = large_x.clone().requires_grad_()
    by_autograd = sw.sliced_wasserstein(live, large_y, variant, generator=3)
    by_autograd.backward()
    assert float(by_autograd.detach()) / size == pytest.approx(float(value), rel=near["rtol"])
    torch.testing.assert_close(live.grad.double(), gradient, **near)
    loss = sw.SlicedWasserstein(variant, objective="root")
    live.grad = None
    by_module = loss(live, large_y, generator=3)
    by_module.backward()
    assert float(by_module.detach()) / size == pytest.approx(float(value), rel=near["rtol"])
    torch.testing.assert_close(live.grad.double(), gradient, **near)
    whole = sw.evaluate(large_x, large_y, variant, generator=3)
    assert float(whole.value) / size == pytest.approx(float(value), rel=near["rtol"])


@pytest.mark.parametrize("variant", EVERY_ORDER)
@pytest.mark.parametrize("p", [50, 150])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_orders(variant, p, dtype):
    x, y = (30 * t for t in clouds())
    x, y = x.to(dtype), y.to(dtype)
    found = sw.evaluate(x, y, variant, generator=3, p=p)
    # The definition on the slices that were used, in logarithms, which do not overflow.
    slices = found.slices.double()
    gaps = ((slices @ x.double().T).sort().values - (slices @ y.double().T).sort().values).abs()
    logs = torch.logsumexp(p * gaps.log(), dim=-1) - math.log(len(x))  # (L,)
    if variant in (
        "lcvsw",
        "ucvsw",
    ):  # an estimate beside the mean of the slices, of which it is a part
        assert math.isfinite(float(found.value))
        return
    expected = math.exp(float(torch.logsumexp(logs + found.weights.double().log(), dim=-1)) / p)
    assert float(found.value) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("m", [24, 17])
def test_weights_and_other_numbers_of_samples(weighted, m):
    x, y = clouds(m=m)
    given = {}
    if weighted:
        given = {"x_weights": torch.rand(24).double(), "y_weights": torch.rand(m).double()}
        given = {name: w / w.sum() for name, w in given.items()}
    expected = sw.sliced_wasserstein(x, y, generator=1, **given)
    for dtype, size in SIZES:
        same = {name: w.to(dtype) for name, w in given.items()}
        found = sw.sliced_wasserstein(
            (size * x).to(dtype), (size * y).to(dtype), generator=1, **same
        )
        assert float(found) / size == pytest.approx(float(expected), rel=1e-5)


def test_a_batch_of_all_sizes():
    x, y = clouds()
    sizes = torch.tensor([1.0, 1e20, 1e-24])[:, None, None]
    found = sw.sliced_wasserstein((sizes * x).float(), (sizes * y).float(), generator=1)
    for one, size in zip(found, (1.0, 1e20, 1e-24), strict=True):
        assert float(one) > 0
        assert math.isfinite(float(one))
        assert 0.3 < float(one) / size < 3


def test_energies_are_those_of_the_samples_as_they_are():
    """Weights exp(cost) have no unit: far apart the dearest slice is all, nearby all count alike."""
    x, y = clouds()
    far = sw.evaluate((1e20 * x).float(), (1e20 * y).float(), "ebsw", generator=1)
    assert float(far.weights.max()) == 1
    assert float(far.value) == pytest.approx(float(far.costs.max()) ** 0.5, rel=1e-5)
    near = sw.sliced_wasserstein(1e-200 * x, 1e-200 * y, "ebsw", generator=1)
    plain = sw.sliced_wasserstein(x, y, "sw", generator=1, n_slices=50)
    assert float(near) / 1e-200 == pytest.approx(float(plain), rel=1e-6)


def test_what_cannot_be_represented_is_an_error():
    x, y = clouds()
    with pytest.raises(ValueError, match=r"overflow: SW_2\^2.*float32.*objective='root'"):
        sw.sliced_wasserstein((1e20 * x).float(), (1e20 * y).float(), objective="power")
    with pytest.raises(ValueError, match=r"overflow.*float32"):
        sw.SlicedWasserstein()((1e20 * x).float(), (1e20 * y).float())
    with pytest.raises(ValueError, match="underflow"):
        sw.sliced_wasserstein(1e-200 * x, 1e-200 * y, "dsw", generator=1)
    with pytest.raises(ValueError, match="infinite"):
        sw.sliced_wasserstein(math.inf * x, y)


def test_equal_sets_are_at_zero():
    x, _ = clouds()
    assert float(sw.sliced_wasserstein(x, x, generator=1)) == 0
    assert float(sw.sliced_wasserstein(x, x.flip(0), generator=1)) < 1e-15
    assert float(sw.sliced_wasserstein(x.float(), x.float().flip(0), "maxsw", generator=1)) < 1e-6


def test_ordinary_values_are_computed_once(monkeypatch):
    from slicewise.distance import evaluation, gradient, loss

    def never(*given, **options):
        raise AssertionError("made again")

    for room in (evaluation, gradient, loss):
        monkeypatch.setattr(room, "in_range", never)
    x, y = clouds()
    for size in (1e-12, 1.0, 1e12):
        for dtype in (torch.float32, torch.float64):
            given = ((size * x).to(dtype), (size * y).to(dtype))
            sw.sliced_wasserstein(*given)
            sw.value_and_grad(*given, objective="power")
            sw.SlicedWasserstein()(*given)


@pytest.mark.parametrize(
    ("p", "far"), [(150, 1.0), (150, 1e6), (1000, 1e3), (2, 1e200), (2, 1e-200)]
)
def test_the_exact_distance(p, far):
    """One pair is 0.5 apart in some unit, all others stay where they are or are far away."""
    unit = far if p == 2 else 1.0
    x = torch.tensor([[0.0], [far / unit * 3]], dtype=torch.float64) * unit
    y = x + 0.5 * unit
    assert float(wasserstein(x, y, p=p)) == pytest.approx(0.5 * unit, rel=1e-9)
    weights = torch.tensor([0.5, 0.5]).double()
    found = wasserstein(x, y, p=p, x_weights=weights, y_weights=weights)
    assert float(found) == pytest.approx(0.5 * unit, rel=1e-9)


def test_the_exact_distance_of_many_at_a_large_order():
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=40) * 100)
    y = np.sort(rng.normal(size=40) * 100)
    gaps = np.abs(x - y)
    p = 200
    logs = np.logaddexp.reduce(p * np.log(gaps)) - math.log(40)
    assert float(wasserstein(x[:, None], y[:, None], p=p)) == pytest.approx(
        math.exp(logs / p), rel=1e-6
    )


@pytest.mark.parametrize("n_slices", [20, "auto"])
@pytest.mark.parametrize(("dtype", "size"), SIZES)
def test_intervals_at_any_size(dtype, size, n_slices):
    x, y = clouds()
    large = [(size * t).to(dtype) for t in (x, y)]
    for wish in [{"rtol": 0.05}, {"atol": 0.05}] if n_slices == "auto" else [{}]:
        near = sw.evaluate(x, y, n_slices=n_slices, generator=3, **wish)
        far = {
            name: tolerance * (size if name == "atol" else 1) for name, tolerance in wish.items()
        }
        found = sw.evaluate(*large, n_slices=n_slices, generator=3, **far)
        assert len(found.slices) == len(near.slices)
        for one, other in zip(found.interval(0.95), near.interval(0.95), strict=True):
            assert float(one) / size == pytest.approx(float(other), rel=1e-5)
        assert float(found.value) / size == pytest.approx(float(near.value), rel=1e-6)
        assert not found.stderr.isnan()


@pytest.mark.parametrize("n_slices", [20, "auto"])
def test_powers_that_overflow_are_told(n_slices):
    x, y = (1e200 * t for t in clouds())
    with pytest.raises(ValueError, match=r"overflow: SW_2\^2"):
        sw.evaluate(x, y, n_slices=n_slices, objective="power", generator=3)


@pytest.mark.parametrize("p", [1.5, 3, 1.1])
def test_roots_of_large_powers_are_exact(p):
    """The rounding of 1/p, times the logarithm of a power near 1e302, would be some 100 units in the last place."""
    gap = 0.8 * 10 ** (302 / p)
    x, y = torch.zeros(1, 1, dtype=torch.float64), torch.full((1, 1), gap, dtype=torch.float64)
    assert float(sw.evaluate(x, y, p=p).value) == pytest.approx(gap, rel=1e-15)
