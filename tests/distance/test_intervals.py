"""Intervals: Student's quantiles, coverage with few slices, and as many slices as a tolerance needs."""

from __future__ import annotations

import pytest
import torch

import slicewise as sw
from slicewise.distance.intervals import (
    confidence_interval,
    sample_skewness,
    skewness_of_costs,
    student_quantile,
)
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


@pytest.mark.parametrize("d", [2, 3, 10, 50])
def test_costs_of_a_shift_are_as_skewed_as_is_said(d):
    """Two slices that cost alike show no skewness: what is left is the law of squared cosines of that spread."""
    g = torch.Generator().manual_seed(d)
    slices = torch.nn.functional.normalize(
        torch.randn(400_000, d, generator=g, dtype=torch.float64), dim=1
    )
    costs = slices[:, 0].square()
    spread = costs.std() / costs.mean()
    terms = torch.tensor([-0.5, 0.5], dtype=torch.float64)
    terms = terms * (spread / (2 * terms.std()))  # two slices of that relative spread about 1
    found = skewness_of_costs(terms, terms, torch.tensor(1.0, dtype=torch.float64), d)
    # The sample skewness of 400,000 heavy-tailed costs has an error of about 0.03.
    torch.testing.assert_close(found, sample_skewness(costs), rtol=0.03, atol=0.02)


def test_slices_tell_how_skewed_their_chains_are():
    """Sums of m independent exponentials have skewness 2 / √m; copies of one have 2."""
    g = torch.Generator().manual_seed(0)
    n, m = 40_000, 4
    terms = torch.empty(n, m, dtype=torch.float64).exponential_(generator=g) / (n * m)
    one = torch.tensor(0.0, dtype=torch.float64)
    for shares, wanted in ((terms, 2 / m**0.5), (terms[:, :1].expand(n, m), 2.0)):
        found = skewness_of_costs(shares.flatten(), shares.sum(dim=1), one, None)
        torch.testing.assert_close(
            found, torch.tensor(wanted, dtype=torch.float64), rtol=0.05, atol=0
        )


def test_a_control_variate_is_a_regression_read_off_at_its_mean():
    """Costs that the control variate explains wholly leave no doubt, though the published estimate is off."""
    shift = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    truth = float(shift.norm()) / 3**0.5
    found = sw.evaluate(x.expand(200, -1, -1), x + shift, "lcvsw", n_slices=10, generator=0)
    low, high = found.interval()
    assert bool(((low <= truth * (1 + 1e-9)) & (truth <= high * (1 + 1e-9))).all())
    assert bool(((low <= found.value) & (found.value <= high)).all())
    # One end is the truth, the other the estimate: the interval is as wide as that is off.
    assert float((high - low - (found.value - truth).abs()).abs().max()) < 1e-7
    assert float((found.value - truth).abs().max()) > 0.01


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
    ("variant", "slices", "d"),
    [
        ("sw", 10, 5),
        ("ebsw", 10, 5),
        ("ebsw", 10, 50),
        ("lcvsw", 10, 5),
        ("ucvsw", 10, 5),
        ("rpsw", 10, 5),
        ("omsw", 50, 5),
        ("rmsw", 50, 5),
        ("orthosw", 25, 5),
    ],
)
def test_few_slices_are_covered(variant, slices, d):
    """600 intervals: 95 % with a standard deviation of 0.9 points; 93 to 97 % is asked for, give or take two of these."""
    x, y = pair(d)
    if d == 50:
        y = y - 0.3 + 3 * torch.eye(50)[0]  # a shift of which ten slices see little
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
