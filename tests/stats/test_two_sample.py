"""The permutation test: exact where everything can be counted, valid where not, and it says where the difference is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import slicewise as sw
from slicewise.stats.relabeling import Relabelings
from tests.tolerances import assert_close


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("variant", ["sw", "ebsw", "orthosw"])
@pytest.mark.parametrize(("n", "m", "p"), [(4, 4, 2), (3, 5, 1), (4, 3, 1.5)])
def test_small_sets_are_enumerated(n, m, p, variant):
    x, y = normal(n, 2), normal(m, 2, seed=1) + 0.7
    found = sw.two_sample_test(x, y, variant, p=p, n_slices=6, permutations=999, generator=3)
    pool = torch.cat([x, y])
    every = []
    for chosen in itertools.combinations(range(n + m), n):
        first = torch.zeros(n + m, dtype=torch.bool)
        first[list(chosen)] = True
        every.append(
            float(sw.evaluate(pool[first], pool[~first], variant, p=p, slices=found.slices).power)
        )
    own = every[0]  # the first combination is the observed one
    assert found.exact
    assert found.statistic == pytest.approx(own, rel=1e-9)
    assert found.p_value == pytest.approx(np.mean([one >= own * (1 - 1e-9) for one in every]))
    np.testing.assert_allclose(sorted(found.null), sorted(every), rtol=1e-9)


def test_relabelings_within_blocks():
    first = torch.tensor([True, True, False, True, False, False, False])
    blocks = torch.tensor([0, 0, 0, 1, 1, 2, 2])
    every = Relabelings(first, blocks)
    assert every.count == 3 * 2 * 1
    found = every.all()
    assert len({tuple(row.tolist()) for row in found}) == 6
    drawn = next(every.drawn([400], seed=0))
    for labels in (found, drawn):
        for block in range(3):
            assert (labels[:, blocks == block].sum(dim=1) == first[blocks == block].sum()).all()
    # Each of the six is drawn as often: 400 / 6 with a standard deviation of 7.5.
    _, counts = torch.unique(drawn, dim=0, return_counts=True)
    assert len(counts) == 6
    assert (counts - 400 / 6).abs().max() < 4 * 7.5


def test_pairs_are_exchanged_as_pairs():
    common = 5 * normal(12, 3)
    x, y = common + 0.1 * normal(12, 3, seed=1), common + 0.1 * normal(12, 3, seed=2) + 0.3
    assert sw.two_sample_test(x, y, permutations=499, generator=0).p_value > 0.5
    assert sw.two_sample_test(x, y, permutations=499, paired=True, generator=0).p_value < 0.01


def test_it_says_where():
    x, y = normal(150, 6), normal(120, 6, seed=1)
    y[:, 4] += 1.2
    found = sw.two_sample_test(x, y, generator=0, permutations=499)
    assert found.p_value == 1 / 500
    assert found.coordinate_p_values.argmin() == 4
    assert (found.coordinate_p_values < 0.05).nonzero().flatten().tolist() == [4]
    assert_close(found.x_influence.mean(), found.slice_costs.mean())
    assert_close(found.y_influence.mean(), found.slice_costs.mean())
    assert found.slice_p_values.min() <= 0.01
    along = torch.stack([found.slices[:, 4].square(), found.slice_costs])
    assert torch.corrcoef(along)[0, 1] > 0.9


def test_samples_that_stand_apart_have_influence():
    x, y = normal(60, 3), normal(50, 3, seed=1)
    y[7] += 20
    found = sw.two_sample_test(x, y, generator=0, permutations=19)
    assert found.y_influence.argmax() == 7


def test_effect_size_is_the_shift_in_spreads_at_any_size():
    for n in (200, 1000):
        x, y = normal(n, 5), normal(n, 5, seed=1) + 1
        found = sw.two_sample_test(x, y, generator=0, permutations=49, n_slices=200)
        # A shift of 1 in every coordinate is 1 along each slice in the mean square; the pool is wider than either set.
        assert found.effect_size == pytest.approx(1 / 1.25**0.5, abs=0.1)


@pytest.mark.parametrize("statistic", ["mean", "max", "energy"])
def test_stopping_early_is_the_same_test_cut_short(statistic):
    x, y = normal(30, 3), normal(40, 3, seed=1)
    how = {"permutations": 400, "statistic": statistic, "generator": 5}
    whole = sw.two_sample_test(x, y, **how)
    cut = sw.two_sample_test(x, y, early_stop=7, **how)
    assert cut.stopped
    drawn = len(cut.null)
    torch.testing.assert_close(cut.null, whole.null[:drawn])
    assert int((cut.null >= cut.statistic).sum()) == 7
    assert cut.null[-1] >= cut.statistic
    assert cut.p_value == 7 / drawn


def test_arrays_lists_and_seeds():
    x, y = normal(20, 2).numpy(), normal(25, 2, seed=1).numpy()
    one = sw.two_sample_test(x, y, generator=1, permutations=99)
    assert isinstance(one.slices, np.ndarray)
    assert isinstance(one.quantiles((0.5, 0.9)), np.ndarray)
    again = sw.two_sample_test(
        torch.from_numpy(x), torch.from_numpy(y), generator=1, permutations=99
    )
    assert (one.p_value, one.statistic) == (again.p_value, again.statistic)
    assert "relabelings" in repr(one)


def test_equal_weights_are_no_weights_and_zero_weights_are_absent():
    x, y = normal(20, 2), normal(25, 2, seed=1)
    plain = sw.two_sample_test(x, y, generator=1, permutations=99)
    equal = sw.two_sample_test(
        x, y, generator=1, permutations=99, x_weights=torch.full((20,), 1 / 20, dtype=torch.float64)
    )
    assert equal.p_value == plain.p_value
    np.testing.assert_allclose(equal.null, plain.null, rtol=1e-9)
    weights = torch.ones(25, dtype=torch.float64)
    weights[:5] = 0
    far = y.clone()
    far[:5] = 1e6
    found = sw.two_sample_test(
        x, far, generator=1, permutations=99, y_weights=weights / 20, slices=plain.slices
    )
    value = sw.evaluate(x, y[5:], slices=plain.slices).power
    assert found.statistic == pytest.approx(float(value), rel=1e-9)


@pytest.mark.parametrize("statistic", ["mean", "energy"])
def test_samples_of_weight_zero_keep_their_side(statistic):
    """Moved, they would leave sides without weight; the test is that of the samples that have some."""
    x, y = normal(10, 2), normal(12, 2, seed=1)
    weights = torch.zeros(10, dtype=torch.float64)
    weights[:3] = 1 / 3
    slices = torch.eye(2, dtype=torch.float64)
    how = {"slices": slices, "statistic": statistic, "permutations": 999}
    found = sw.two_sample_test(x, y, x_weights=weights, **how)
    alone = sw.two_sample_test(x[:3], y, **how)
    assert (found.exact, found.p_value) == (True, alone.p_value)
    np.testing.assert_allclose(sorted(found.null), sorted(alone.null), rtol=1e-9)
    assert found.effect_size == pytest.approx(alone.effect_size, rel=1e-9)


def test_blocks_may_be_words():
    x, y = normal(8, 2), normal(8, 2, seed=1)
    of_x, of_y = ["b", "a"] * 4, ["a", "a", "b", "b"] * 2
    by_words = sw.two_sample_test(x, y, blocks=(of_x, of_y), generator=0)
    numbers = tuple([" ab".index(b) for b in one] for one in (of_x, of_y))
    assert by_words.p_value == sw.two_sample_test(x, y, blocks=numbers, generator=0).p_value
    with pytest.raises(ValueError, match="from 0 to 1"):
        by_words.quantiles((2.0,))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"variant": "maxsw"}, "statistic='max'"),
        ({"variant": "lcvsw"}, "compares the two sides"),
        ({"x": normal(2, 5, 3)}, r"one set \(n, d\)"),
        ({"statistic": "median"}, "choose from mean, max"),
        ({"statistic": "standardized", "early_stop": 5}, "needs all relabelings"),
        ({"early_stop": 5000}, "never stops"),
        ({"paired": True}, "paired=True, but x has 9 samples and y 12"),
        ({"blocks": ([0] * 9, [1] * 12)}, "no block has samples of both"),
        ({"blocks": ([0] * 8, [1] * 12)}, "blocks of x are 8"),
        ({"permutations": 0}, "whole number of at least 1"),
        ({"generator": "a"}, "generator is a str"),
    ],
)
def test_mistakes(change, words):
    given = {"x": normal(9, 3), "y": normal(12, 3), **change}
    with pytest.raises(ValueError, match=words):
        sw.two_sample_test(**given)


def test_p_values_are_uniform_without_a_difference():
    """400 tests with 19 relabelings: every multiple of 1/20 comes up 20 times, with a standard deviation of 4.4."""
    rng = np.random.default_rng(0)
    found = [
        sw.two_sample_test(
            rng.normal(size=(8, 2)),
            rng.normal(size=(11, 2)),
            n_slices=5,
            permutations=19,
            coordinates=False,
            generator=k,
        ).p_value
        for k in range(400)
    ]
    counts = np.bincount(np.round(np.array(found) * 20).astype(int), minlength=21)[1:]
    # χ² with 19 degrees of freedom: above 43.8 once in a thousand.
    assert ((counts - 20) ** 2 / 20).sum() < 43.8
