"""Quantiles of studentized estimates, simulated with normal distributions in place of the samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import slicewise as sw
from slicewise.distance import evaluation, simulated
from slicewise.distance.simulated import NormalPair
from slicewise.problem import Problem
from tests.tolerances import assert_close


def pair(d=5, n=60, m=50, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=g, dtype=torch.float64)
    return x, 1.2 * torch.randn(m, d, generator=g, dtype=torch.float64) + 0.3


def directions(n, d, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(n, d, generator=g, dtype=torch.float64), dim=1)


def moments(samples, slices):
    along = samples @ slices.mT
    return along.mean(dim=0), along.std(dim=0, correction=0)


def test_costs_are_those_of_normal_distributions_of_the_same_moments():
    x, y = pair()
    slices = directions(20, 5)
    (u, a), (v, b) = moments(x, slices), moments(y, slices)
    found = NormalPair.like(Problem(x, y, 2.0)).costs(slices)
    assert_close(found, (u - v).square() + (a - b).square())
    # E |m + s Z|, a folded normal variable; the quadrature is not exact at the kink.
    m, s = u - v, (a - b).abs()
    folded = s * math.sqrt(2 / math.pi) * torch.exp(-(m**2) / (2 * s**2)) + m * torch.erf(m / (s * 2**0.5))  # fmt: skip
    found = NormalPair.like(Problem(x, y, 1.0)).costs(slices)
    torch.testing.assert_close(found, folded, rtol=0.05, atol=0.01)


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
def test_ascents_are_gradients_of_the_costs(p):
    x, y = pair()
    twin = NormalPair.like(Problem(x, y, p))
    slices = directions(6, 5).requires_grad_()
    costs, ascent = twin.costs_and_ascent(slices)
    (wanted,) = torch.autograd.grad(twin.costs(slices).sum(), slices)
    assert_close(costs, twin.costs(slices))
    assert_close(ascent, wanted)


def test_what_auto_stopped_by_is_not_simulated_again(monkeypatch):
    x, y = pair()
    found = sw.evaluate(x, y, n_slices="auto", rtol=0.1, generator=0)
    wanted = found._computed_interval(0.95, True, None)
    calls = []
    simulated = evaluation.studentized_quantiles
    monkeypatch.setattr(
        evaluation, "studentized_quantiles", lambda *a: calls.append(a) or simulated(*a)
    )
    low, high = found.interval()
    assert calls == []
    assert (low, high) == wanted
    low.zero_()  # the caller's own
    assert found.interval()[0] == wanted[0]
    assert found.interval(0.8)[0] > wanted[0]
    assert len(calls) == 1


def test_an_interval_is_repeatable_and_leaves_the_global_generator_alone():
    x, y = pair()
    found = sw.evaluate(x, y, n_slices=10, generator=0)
    before = torch.get_rng_state()
    again = sw.evaluate(x, y, n_slices=10, generator=0)
    assert found.interval() == again.interval()
    assert found.interval(np.array(0.9)) == again.interval(0.9)
    assert torch.equal(before, torch.get_rng_state())


def test_pairs_of_a_batch_are_simulated_once_for_all_looks(monkeypatch):
    """As many slices as a wish needs are found in several looks; above 64 slices each would simulate the same."""
    (x, y), (v, w) = pair(), pair(seed=3)
    simulate, calls = simulated._Plan.simulated, []
    monkeypatch.setattr(
        simulated._Plan, "simulated", lambda *given: calls.append(1) or simulate(*given)
    )
    how = {"n_slices": "auto", "rtol": 0.02, "generator": 0}
    both = sw.evaluate(torch.stack([x, v]), torch.stack([y, w]), **how)
    assert both.costs.shape[-1] > 200
    assert len(calls) == 2
    plain = both.interval()
    monkeypatch.setattr(simulated, "_MOST_KEPT", 0)  # no room
    again = sw.evaluate(torch.stack([x, v]), torch.stack([y, w]), **how)
    assert len(calls) > 4
    for one, other in zip(plain, again.interval(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("variant", ["sw", "ebsw", "lcvsw", "rpsw", "phisw", "imsw"])
def test_an_element_of_a_batch_has_its_own_interval(variant):
    (x, y), (v, w) = pair(), pair(seed=3)
    both = sw.evaluate(
        torch.stack([x, v]), torch.stack([y, w]), variant, n_slices=20, generator=[4, 5]
    )
    for k, (one, other) in enumerate(((x, y), (v, w))):
        alone = sw.evaluate(one, other, variant, n_slices=20, generator=4 + k)
        for end, wanted in zip(both.interval(), alone.interval(), strict=True):
            torch.testing.assert_close(end[k], wanted, rtol=1e-4, atol=1e-6)


def test_one_pair_expanded_to_a_batch_is_simulated_once_for_all():
    x, y = pair()
    seeds = [1, 2, 3]
    found = sw.evaluate(x.expand(3, -1, -1), y, n_slices=10, generator=seeds).interval()
    for k, seed in enumerate(seeds):
        alone = sw.evaluate(x, y, n_slices=10, generator=seed).interval()
        for end, wanted in zip(found, alone, strict=True):
            torch.testing.assert_close(end[k], wanted, rtol=1e-4, atol=1e-6)


def test_higher_levels_are_wider_and_few_groups_or_many_dimensions_work():
    x, y = pair()
    found = sw.evaluate(x, y, n_slices=10, generator=0)
    widths = [float(high - low) for low, high in map(found.interval, (0.5, 0.9, 0.99, 0.9999))]
    assert widths == sorted(widths)
    assert len(set(widths)) == 4
    few = sw.evaluate(x, y, "orthosw", n_slices=10, generator=0)  # two frames
    wide = sw.evaluate(torch.randn(20, 600), torch.randn(20, 600), n_slices=10, generator=0)
    for one in (few, wide):
        low, high = one.interval()
        assert low < one.value < high < math.inf


def test_given_slices_are_no_draws_of_the_recipe(monkeypatch):
    monkeypatch.setattr(
        evaluation, "studentized_quantiles", lambda *_, **__: pytest.fail("nothing to simulate")
    )
    x, y = pair()
    slices = directions(10, 5)
    given = sw.evaluate(x, y, slices=slices)
    assert not given.drawn
    low, high = given.interval()
    assert low < given.value < high


@pytest.mark.parametrize(("variant", "slices"), [("sw", 10), ("ebsw", 10), ("lcvsw", 10), ("imsw", 50)])  # fmt: skip
def test_rare_slices_of_large_costs_are_covered(variant, slices):
    """One coordinate of four times the spread in d = 50: ten costs of skewness 5; a shift, which few ascents miss."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(100, 50, generator=g), torch.randn(80, 50, generator=g)
    if variant == "imsw":
        y[:, 0] += 3
    else:
        y[:, 0] *= 4
    truth = sw.evaluate(x, y, variant, n_slices=20_000, generator=1).value
    found = sw.evaluate(x.expand(400, -1, -1), y, variant, n_slices=slices, generator=2)
    low, high = found.interval()
    share = float(((low <= truth) & (truth <= high)).double().mean())
    assert abs(share - 0.95) < 3.3 * (0.95 * 0.05 / 400) ** 0.5, (
        share
    )  # three standard errors and those of the truth


def test_no_interval_reaches_beyond_what_a_slice_can_cost():
    """Where one slice takes nearly all the weight, quantiles of simulated errors are hundreds of times the value."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(100, 2, generator=g), torch.randn(80, 2, generator=g)
    y[:, 0] *= 8
    # |u − v|² + (a + b)² is at least the cost of any slice.
    gap = x.mean(dim=0) - y.mean(dim=0)
    widths = [torch.linalg.eigvalsh(s.mT.cov(correction=0)).max().sqrt() for s in (x, y)]
    bound = (gap.square().sum() + sum(widths).square()).sqrt()
    for seed in range(4):
        found = sw.evaluate(x, y, "ebsw", n_slices=10, generator=seed)
        low, high = found.interval()
        assert low <= found.value <= high <= bound, seed


def test_an_interval_without_a_simulation(monkeypatch):
    """That of given slices, for which nothing is simulated either."""
    x, y = pair()
    found = sw.evaluate(x, y, n_slices=20, generator=0)
    simulated_ends = found.interval()
    monkeypatch.setattr(
        evaluation, "studentized_quantiles", lambda *_, **__: pytest.fail("nothing to simulate")
    )
    plain = found.interval(simulate=False)
    given = sw.evaluate(x, y, slices=found.slices).interval()
    assert_close(torch.stack(plain), torch.stack(given))
    assert found.interval() == simulated_ends  # kept
    assert plain != simulated_ends
