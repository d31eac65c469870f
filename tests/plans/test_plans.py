"""Plans of slices: marginals, bounds, exactness on a line, batches, gradients; pairs and interpolation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

import slicewise as sw
from slicewise.transport import couplings, one_dim, pair_costs
from tests.tolerances import assert_close

SIZES = [(9, 9, False), (9, 7, False), (8, 8, True), (5, 12, True)]


def samples(*shape, seed=0, shift=0.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64) + shift


def problem(n, m, weighted, d=3):
    x, y = samples(n, d), samples(m, d, seed=1, shift=0.5)
    if not weighted:
        return x, y, {}
    a, b = (torch.rand(k, generator=torch.Generator().manual_seed(k)).double() for k in (n, m))
    return x, y, {"x_weights": a / a.sum(), "y_weights": b / b.sum()}


@pytest.mark.parametrize(("n", "m", "weighted"), SIZES)
@pytest.mark.parametrize("kind", ["best", "expected"])
def test_marginals_and_the_exact_plan_as_a_bound(n, m, weighted, kind):
    x, y, given = problem(n, m, weighted)
    plan = sw.sliced_plan(x, y, kind, n_slices=30, generator=0, **given)
    dense = plan.dense()
    assert (dense >= 0).all()
    equal = [torch.full((k,), 1 / k, dtype=torch.float64) for k in (n, m)]
    for axis, wanted in enumerate(given.values() or equal):
        assert (dense.sum(dim=1 - axis) - wanted).abs().max() < 1e-12
    assert_close(plan.sparse().to_dense(), dense)
    ground = torch.cdist(x, y).square()
    assert_close(plan.cost, (dense * ground).sum())
    exact = sw.wasserstein(x, y, **given) ** 2
    assert plan.cost >= exact * (1 - 1e-9)
    assert (plan.costs >= exact * (1 - 1e-9)).all()


def test_marginals_are_exact_in_double_precision():
    x, y, given = problem(300, 211, True)
    for kind in ("best", "expected"):
        plan = sw.sliced_plan(x, y, kind, n_slices=7, generator=0, **given)
        rows = torch.zeros(300, dtype=torch.float64).scatter_add(0, plan.rows, plan.mass)
        cols = torch.zeros(211, dtype=torch.float64).scatter_add(0, plan.cols, plan.mass)
        assert (rows - given["x_weights"]).abs().max() < 1e-12
        assert (cols - given["y_weights"]).abs().max() < 1e-12


@pytest.mark.parametrize("p", [1, 1.5, 2])
@pytest.mark.parametrize(("n", "m", "weighted"), SIZES)
def test_exact_on_a_line(n, m, weighted, p):
    x, y, given = problem(n, m, weighted, d=1)
    plan = sw.sliced_plan(x, y, p=p, generator=0, **given)
    assert_close(plan.cost, sw.wasserstein(x, y, p=p, **given) ** p, rtol=1e-9)


@pytest.mark.parametrize(("p", "norm"), [(2, 2), (1, 2), (1, 1), (1, 3), (2, 1.5)])
@pytest.mark.parametrize(("n", "m", "weighted"), SIZES)
def test_the_cost_is_that_of_the_ground_distance(n, m, weighted, p, norm):
    x, y, given = problem(n, m, weighted)
    plan = sw.sliced_plan(x, y, "expected", p=p, norm=norm, n_slices=5, generator=0, **given)
    assert_close(plan.cost, (plan.dense() * torch.cdist(x, y, p=norm) ** p).sum())


def test_temperatures_go_from_the_mean_to_the_best():
    x, y, given = problem(9, 7, True)
    how = given | {"generator": 0, "n_slices": 20}
    best, mean = sw.sliced_plan(x, y, **how), sw.sliced_plan(x, y, "expected", **how)
    assert_close(mean.cost, mean.costs.mean())
    assert_close(sw.sliced_plan(x, y, "expected", beta=1e6, **how).cost, best.cost)
    costs = [float(sw.sliced_plan(x, y, "expected", beta=b, **how).cost) for b in (0, 1, 10, 100)]
    assert costs == sorted(costs, reverse=True)
    assert_close(best.cost, mean.costs.min())


@pytest.mark.parametrize("kind", ["best", "expected"])
@pytest.mark.parametrize(("n", "m", "weighted"), SIZES)
def test_a_batch_is_a_loop(n, m, weighted, kind):
    x, y, given = problem(n, m, weighted)
    many = torch.stack([x, x + samples(n, 3, seed=5)])
    slices = torch.nn.functional.normalize(samples(11, 3, seed=7), dim=-1)
    together = sw.sliced_plan(many, y, kind, slices=slices, **given)
    assert together.dense().shape == (2, n, m)
    for i in range(2):
        alone = sw.sliced_plan(many[i], y, kind, slices=slices, **given)
        assert_close(together.cost[i], alone.cost)
        assert_close(together.dense()[i], alone.dense())
        assert_close(together.sparse().to_dense()[i], alone.dense())
        assert_close(together.map(y)[i], alone.map(y))


def test_many_slices_are_compared_in_pieces(monkeypatch):
    from slicewise.plans import plan as room

    x, y, given = problem(40, 31, True)
    whole = sw.sliced_plan(x, y, generator=0, **given)
    monkeypatch.setattr(room, "_PIECE", 200)
    monkeypatch.setattr(couplings, "_PIECE", 200)
    pieces = sw.sliced_plan(x, y, generator=0, **given)
    assert_close(pieces.cost, whole.cost)
    assert_close(pieces.costs, whole.costs)
    assert_close(pieces.dense(), whole.dense())


@pytest.mark.parametrize("kind", ["best", "expected"])
def test_gradients_of_the_cost(kind):
    x, y, given = problem(5, 4, True)
    slices = torch.nn.functional.normalize(samples(6, 3, seed=7), dim=-1)

    def cost(x, y):
        return sw.sliced_plan(x, y, kind, p=1.5, slices=slices, **given).cost

    assert gradcheck(cost, (x.requires_grad_(), y.requires_grad_()))


def test_the_map_of_a_permutation_is_the_partner():
    x, y, _ = problem(9, 9, False)
    plan = sw.sliced_plan(x, y, generator=0)
    assert_close(plan.map(y), y[plan.permutation])
    assert sorted(plan.permutation.tolist()) == list(range(9))
    with pytest.raises(ValueError, match="no permutation"):
        _ = sw.sliced_plan(x, y[:5], generator=0).permutation


def test_loops_and_plain_pytorch_find_the_same(monkeypatch):
    x, y, given = problem(31, 17, True)
    fast = [sw.sliced_plan(x, y, kind, generator=0, **given) for kind in ("best", "expected")]
    for room in (one_dim, couplings):
        monkeypatch.setattr(room, "line_loops", lambda *tensors: None)
    for kind, found in zip(("best", "expected"), fast, strict=True):
        plain = sw.sliced_plan(x, y, kind, generator=0, **given)
        assert plain.rows.equal(found.rows)
        assert plain.cols.equal(found.cols)
        assert_close(found.mass, plain.mass)
        assert_close(found.costs, plain.costs)


def test_arrays_come_back_as_arrays():
    x, y = np.random.RandomState(0).randn(2, 8, 3)
    plan = sw.sliced_plan(x, y, generator=0)
    assert isinstance(plan.rows, np.ndarray)
    assert isinstance(plan.dense(), np.ndarray)
    assert plan.map(y).shape == (8, 3)


def test_other_variants_give_slices_but_curves_do_not():
    x, y, _ = problem(9, 9, False)
    best = sw.sliced_plan(x, y, variant="maxsw", generator=0)
    assert best.costs.shape == (1,)
    with pytest.raises(ValueError, match="not linear in the samples"):
        sw.sliced_plan(x, y, variant="ssw")
    with pytest.raises(ValueError, match="kind"):
        sw.sliced_plan(x, y, "cheapest")
    with pytest.raises(ValueError, match="norm"):
        sw.sliced_plan(x, y, norm=0.5)


def test_pairs_are_a_permutation_that_costs_less_than_random_ones():
    x0, x1 = samples(200, 2), samples(200, 2, seed=1, shift=3.0)
    found = sw.couple(x0, x1, generator=0)
    assert found.index1.sort().values.equal(torch.arange(200))
    assert found.x0 is x0
    assert_close(found.x1, x1[found.index1])
    paired, random = ((x0 - t).square().sum(dim=-1).mean() for t in (found.x1, x1))
    exact = sw.wasserstein(x0, x1) ** 2
    assert exact * (1 - 1e-9) <= paired < 0.9 * random


def test_arrays_are_paired_as_arrays():
    x0, x1 = np.random.RandomState(0).randn(2, 8, 3)
    found = sw.couple(x0, x1, generator=0)
    assert isinstance(found.x1, np.ndarray)
    assert (found.x1 == x1[found.index1]).all()


def test_images_are_paired_as_vectors():
    x0, x1 = samples(6, 3, 4, 4), samples(6, 3, 4, 4, seed=1)
    found = sw.couple(x0, x1, generator=0)
    assert found.x1.shape == (6, 3, 4, 4)
    flat = sw.couple(x0.flatten(1), x1.flatten(1), generator=0)
    assert found.index1.equal(flat.index1)


def test_pairs_of_unequal_sets_are_drawn_from_the_plan():
    x0, x1, given = problem(4, 6, True)
    weights = {"x0_weights": given["x_weights"], "x1_weights": given["y_weights"]}
    found = sw.couple(x0, x1, n_pairs=40_000, generator=0, **weights)
    assert_close(found.x0, x0[found.index0])
    assert_close(found.x1, x1[found.index1])
    share = torch.bincount(found.index0, minlength=4) / 40_000
    # The standard error of a share is at most 0.5 / √40,000 = 0.0025.
    assert (share - given["x_weights"]).abs().max() < 0.01
    with pytest.raises(ValueError, match="one to one"):
        sw.couple(x0, x0, n_pairs=3)


def test_interpolation_goes_from_one_set_to_the_other():
    x, y, _ = problem(9, 9, False)
    assert_close(sw.interpolate(x, y, 0.0, generator=0).points, x)
    end = sw.interpolate(x, y, 1.0, generator=0).points
    assert sw.sliced_wasserstein(end, y) < 1e-9
    moved = sw.interpolate(x, x + 2.0, 0.25, generator=0).points
    assert_close(moved, x + 0.5)
    x, y, given = problem(5, 7, True)
    found = sw.interpolate(x, y, 0.5, generator=0, **given)
    assert_close(found.weights.sum(), torch.ones(()).double())
    # The mean moves on a straight line.
    middle = (found.weights.unsqueeze(-1) * found.points).sum(dim=0)
    ends = [(w.unsqueeze(-1) * t).sum(dim=0) for w, t in zip(given.values(), (x, y), strict=True)]
    assert_close(middle, (ends[0] + ends[1]) / 2)
    with pytest.raises(ValueError, match="share of the way"):
        sw.interpolate(x, y, 1.5)


def test_a_pair_at_one_point_has_no_gradient():
    x = samples(3, 2).requires_grad_()
    rows = torch.arange(3).unsqueeze(0)
    cost = pair_costs(x, x.detach(), rows, rows, torch.full((1, 3), 1 / 3).double(), p=1)
    assert torch.autograd.grad(cost.sum(), x)[0].abs().max() == 0


def test_numbers_without_a_dimension_are_refused_with_advice():
    with pytest.raises(ValueError, match=r"t\[:, None\]"):
        sw.couple(torch.rand(4), torch.rand(4))


@pytest.mark.parametrize("norm", [50, 10**30])
@pytest.mark.parametrize("shape", [(9, 3), (2, 9, 3)])
def test_norms_of_high_order_do_not_overflow(norm, shape):
    """The power of a gap of the order of the norm leaves the range; the norm, near the largest gap, does not."""
    x, y = 1e8 * torch.randn(2, *shape, dtype=torch.float64)
    found = sw.sliced_plan(x, y, norm=norm, generator=0)
    gaps = (x - found.map(y)).abs().amax(dim=-1)  # the limit of the norm; 3^(1/50) at most from it
    assert torch.allclose(found.cost, gaps.square().mean(dim=-1), rtol=0.05)
