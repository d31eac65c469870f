"""One-to-one matchings, against exact assignments."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import slicewise as sw
from slicewise.kernels.cpu import NumbaMatching
from slicewise.transport import match_samples, matched_distance, matching

LOOPS = pytest.mark.parametrize("loops", [NumbaMatching(), None], ids=["numba", "numpy"])


def samples(n, d, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(2, n, d, generator=g, dtype=torch.float64)


def cost(x, y, partners):
    return float((x - y[partners]).square().sum(dim=-1).mean())


@LOOPS
@pytest.mark.parametrize("all_pairs", [0, 1024])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 3), (40, 2), (300, 2), (300, 10), (500, 50)])
def test_nearly_optimal_one_to_one(n, d, all_pairs, loops, monkeypatch):
    monkeypatch.setattr(matching, "matching_loops", lambda: loops)
    monkeypatch.setattr(matching, "_ALL_PAIRS", all_pairs)
    x, y = samples(n, d)
    x = (
        y[torch.randperm(n, generator=torch.Generator().manual_seed(1))] + 0.5 * x
    )  # near, as a flow ends
    partners = match_samples(x, y)
    assert sorted(partners.tolist()) == list(range(n))
    exact = float(sw.wasserstein(x, y)) ** 2
    assert exact * (1 - 1e-9) <= cost(x, y, partners) <= exact * 1.01 + 1e-12


@LOOPS
@pytest.mark.parametrize("all_pairs", [0, 1024])
def test_samples_that_coincide_find_each_other(all_pairs, loops, monkeypatch):
    monkeypatch.setattr(matching, "matching_loops", lambda: loops)
    monkeypatch.setattr(matching, "_ALL_PAIRS", all_pairs)
    y = samples(30, 3)[0].repeat_interleave(10, dim=0)
    x = y[torch.randperm(300, generator=torch.Generator().manual_seed(1))]
    assert torch.equal(y[match_samples(x, y)], x)
    assert matched_distance(x, y) == 0
    everywhere = torch.zeros(200, 3)
    assert sorted(match_samples(everywhere, everywhere).tolist()) == list(range(200))


@LOOPS
@pytest.mark.parametrize("far", [1e3, 1e6, 1e12, 1e150])
def test_an_outlier_gets_the_nearest_and_costs_the_others_nothing(far, loops, monkeypatch):
    monkeypatch.setattr(matching, "matching_loops", lambda: loops)
    x, y = samples(200, 2)
    y[7] = far
    x[3] = 0.9 * far
    partners = match_samples(x, y)
    assert sorted(partners.tolist()) == list(range(200))
    assert partners[3] == 7
    others = [i for i in range(200) if i != 3]
    rest = [j for j in range(200) if j != 7]
    exact = float(sw.wasserstein(x[others], y[rest])) ** 2
    assert cost(x[others], y, partners[others]) <= 1.02 * exact


@LOOPS
@pytest.mark.parametrize("n", [40, 300])
def test_a_bound_that_is_small_when_the_distance_is(n, loops, monkeypatch):
    monkeypatch.setattr(matching, "matching_loops", lambda: loops)
    x, y = samples(n, 2)
    for noise in (0.0, 1e-9, 1e-3, 0.1):
        near = y.flip(0) + noise * x
        exact = float(sw.wasserstein(near, y))
        assert exact - 1e-12 <= matched_distance(near, y) <= 1.001 * exact + 1e-12


def test_one_must_go_far():
    """Nobody is near an outlier: it costs one of them much, not all of them a little time each."""
    x, y = samples(400, 2)
    y[0] = 1e6
    partners = match_samples(x, y)
    assert sorted(partners.tolist()) == list(range(400))
    others = [i for i in range(400) if partners[i] != 0]
    exact = float(sw.wasserstein(x[others], y[1:])) ** 2
    assert cost(x[others], y, partners[others]) <= 1.1 * exact


def test_many_copies_do_not_take_all_places(monkeypatch):
    """Fifty copies of each target: the nearest of a sample are not all the same one."""
    monkeypatch.setattr(matching, "_ALL_PAIRS", 0)
    x, sites = samples(1000, 2)
    y = sites[:20].repeat_interleave(50, dim=0)
    exact = float(sw.wasserstein(x, y)) ** 2
    assert cost(x, y, match_samples(x, y)) <= 1.05 * exact


def test_nan_is_refused():
    x, y = samples(100, 2)
    x[3, 1] = torch.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        match_samples(x, y)


@pytest.mark.parametrize("scale", [1e-150, 1e-3, 1e10, 1e140])
def test_units_and_places_do_not_matter(scale):
    x, y = samples(300, 3)
    plain = match_samples(x, y)
    assert torch.equal(match_samples(scale * x, scale * y), plain)
    assert matched_distance(scale * x, scale * y) == pytest.approx(scale * matched_distance(x, y))
    moved = match_samples(x + 1e4, y + 1e4)
    assert cost(x, y, moved) == pytest.approx(cost(x, y, plain), rel=1e-3)


def test_single_precision_and_half_of_it():
    x, y = samples(300, 3)
    exact = float(sw.wasserstein(x, y)) ** 2
    for dtype in (torch.float32, torch.bfloat16):
        partners = match_samples(x.to(dtype), y.to(dtype))
        assert sorted(partners.tolist()) == list(range(300))
        assert cost(x, y, partners) <= 1.05 * exact


def test_candidates_near_another_place(monkeypatch):
    monkeypatch.setattr(matching, "_ALL_PAIRS", 0)
    x, y = samples(300, 2)
    partners = match_samples(x, y, near=y)  # each y is its own nearest
    gaps = (y - y[partners]).norm(dim=-1)
    assert sorted(partners.tolist()) == list(range(300))
    assert gaps.median() < 0.5 * torch.cdist(y, y).median()


def test_very_many_samples_are_searched_along_lines(monkeypatch):
    monkeypatch.setattr(matching, "_ALL_PAIRS", 0)
    x, y = samples(600, 2)
    x = y.flip(0) + 0.05 * x
    whole = cost(x, y, match_samples(x, y))
    monkeypatch.setattr(matching, "_MOST_PAIRS", 0)
    partners = match_samples(x, y)
    assert sorted(partners.tolist()) == list(range(600))
    assert cost(x, y, partners) <= 1.2 * whole


def test_an_auction_without_budget_still_ends(monkeypatch):
    """ε grows where bids do not suffice: the matching is worse, and whole."""
    monkeypatch.setattr(matching, "_PATIENCE", 1)
    x, y = samples(300, 2)
    assert sorted(match_samples(x, y).tolist()) == list(range(300))


def test_the_least_of_rows():
    rows = torch.randn(50, 400, generator=torch.Generator().manual_seed(0))
    rows[3, 7] = torch.nan
    rows[4] = 1.0
    found = NumbaMatching().least(rows, 9)
    assert found.shape == (50, 9)
    for row, places in zip(rows, found, strict=True):
        assert len(set(places.tolist())) == 9
        wanted = np.sort(row.nan_to_num(torch.inf).numpy())[:9]
        np.testing.assert_array_equal(np.sort(row[places].numpy()), wanted)
