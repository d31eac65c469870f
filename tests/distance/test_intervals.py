"""Intervals: Student's quantiles, coverage with few slices, and as many slices as a tolerance needs."""

from __future__ import annotations

import pytest
import torch

import slicewise as sw
from slicewise.distance.intervals import confidence_interval, student_quantile
from tests.tolerances import assert_close


def pair(d=5):
    g = torch.Generator().manual_seed(0)
    return torch.randn(60, d, generator=g), 1.2 * torch.randn(50, d, generator=g) + 0.3


def test_quantiles_are_students():
    stats = pytest.importorskip("scipy.stats")
    freedom = torch.tensor([1.0, 1.7, 3.0, 9.0, 49.0, 1e4, 1e7], dtype=torch.float64)
    for level in (0.6, 0.9, 0.975, 0.9995):
        wanted = torch.from_numpy(stats.t.ppf(level, freedom.numpy()))
        torch.testing.assert_close(student_quantile(level, freedom), wanted, rtol=1e-4, atol=1e-6)


def test_without_skewness_it_is_students_interval():
    terms = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0], dtype=torch.float64) / 5
    below, above = confidence_interval(terms, torch.tensor(4.0), 0.95)
    wanted = 2.7764451 * 2.5**0.5 / 5**0.5
    assert_close(below, wanted, rtol=1e-6)
    assert_close(above, wanted, rtol=1e-6)


def test_skewed_terms_reach_further_to_the_long_side():
    terms = torch.tensor([-1.0, -1.0, -1.0, -1.0, 4.0], dtype=torch.float64) / 5
    below, above = confidence_interval(terms, torch.tensor(4.0), 0.95)
    assert above > 2 * below > 0


@pytest.mark.parametrize("objective", ["root", "power", "mean_root"])
def test_ends_are_in_the_unit_of_the_value(objective):
    x, y = pair()
    found = sw.evaluate(x, y, n_slices=40, generator=0, objective=objective)
    low, high = found.interval(0.9)
    wide = found.interval(0.99)
    assert wide[0] < low < found.value < high < wide[1]
    scaled = sw.evaluate(3 * x, 3 * y, n_slices=40, generator=0, objective=objective).interval(0.9)
    factor = 9 if objective == "power" else 3
    assert_close(scaled[1], factor * high)


def test_shapes_arrays_and_one_group():
    x, y = pair()
    low, _ = sw.evaluate(x.expand(2, 3, -1, -1), y).interval()
    assert low.shape == (2, 3)
    low, high = sw.evaluate(x.numpy(), y.numpy(), generator=1).interval(0.95)
    assert low < high
    assert sw.evaluate(x, y, "maxsw").interval()[0].isnan()
    with pytest.raises(ValueError, match="between 0 and 1"):
        sw.evaluate(x, y).interval(95)


# With ten slices or five chains ±2 standard errors cover 67 to 93 % (docs/statistics.md has all variants).
@pytest.mark.parametrize(
    ("variant", "slices"),
    [
        ("sw", 10),
        ("ebsw", 10),
        ("lcvsw", 10),
        ("ucvsw", 10),
        ("rpsw", 10),
        ("omsw", 50),
        ("orthosw", 25),
    ],
)
def test_few_slices_are_covered(variant, slices):
    """600 intervals: 95 % with a standard deviation of 0.9 points; 93 to 97 % is asked for, give or take two of these."""
    x, y = pair()
    truth = sw.evaluate(x, y, variant, n_slices=20_000, generator=1).value
    low, high = sw.evaluate(
        x.expand(600, -1, -1), y, variant, n_slices=slices, generator=2
    ).interval(0.95)
    covered = float(((low <= truth) & (truth <= high)).double().mean())
    assert 0.93 - 0.018 <= covered <= 0.97 + 0.018


@pytest.mark.parametrize("variant", ["sw", "orthosw", "omsw", "ebsw", "gsw", "lcvsw"])
def test_as_many_slices_as_a_tolerance_needs(variant):
    x, y = pair()
    coarse, fine = (
        sw.evaluate(x, y, variant, n_slices="auto", rtol=rtol, generator=0) for rtol in (0.1, 0.02)
    )
    for found, rtol in ((coarse, 0.1), (fine, 0.02)):
        low, high = found.interval(0.95)
        assert (high - low) / 2 <= rtol * found.value
        assert found.costs.shape[-1] % found.group_size == 0
    truth = sw.evaluate(x, y, variant, n_slices=20_000, generator=1).value
    assert abs(fine.value - truth) < 3 * 0.02 * truth
    assert fine.costs.shape[-1] >= coarse.costs.shape[-1]
    value = sw.sliced_wasserstein(x, y, variant, n_slices="auto", rtol=0.02, generator=0)
    assert_close(value, fine.value)


def test_absolute_tolerances_batches_and_equal_sets():
    x, y = pair()
    found = sw.evaluate(torch.stack([x, x + 5]), y, n_slices="auto", atol=0.05, generator=0)
    low, high = found.interval()
    assert ((high - low) / 2 <= 0.05).all()
    assert sw.evaluate(x, x, n_slices="auto", rtol=0.01).value == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rtol": 0.1, "n_slices": 50}, "give n_slices='auto', too"),
        ({"rtol": 0.0}, "are 0, which no number"),
        ({"rtol": -1.0}, "rtol"),
        ({"slices": torch.eye(5)}, "leave one of them out"),
        ({"variant": "maxsw"}, "states no standard error"),
        ({"variant": "qsw"}, "states no standard error"),
        ({"rtol": 1e-9}, "slices leave an interval"),
    ],
)
def test_mistakes(change, words, monkeypatch):
    monkeypatch.setattr("slicewise.distance.evaluation._MOST_SLICES", 2000)
    x, y = pair()
    with pytest.raises(ValueError, match=words):
        sw.evaluate(**{"x": x, "y": y, "n_slices": "auto", **change})
