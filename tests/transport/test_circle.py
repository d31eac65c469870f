"""Transport on the circle: against an exact linear program, POT, all rotations, and finite differences."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from slicewise.transport import circle as circle_room
from slicewise.transport import (
    circle_costs,
    linear_circle_costs,
    plan_on_circles,
    uniform_circle_costs,
)
from slicewise.transport import one_dim as line_room
from tests import oracles
from tests.tolerances import assert_close

SIZES = [(1, 1), (1, 4), (7, 7), (7, 5), (6, 9), (30, 30)]


def positions(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights_of(n, seed):
    draw = positions(n, seed=seed) + 0.1
    return draw / draw.sum()


@pytest.fixture(params=["loops", "plain"])
def route(request, monkeypatch):
    """The compiled loops, and plain PyTorch."""
    if request.param == "plain":
        for room in (circle_room, line_room):
            monkeypatch.setattr(room, "line_loops", lambda *tensors: None)
    return request.param


def by_linear_program(u, v, a, b, p):
    gap = (u[:, None] - v[None]).abs()
    cost = torch.minimum(gap, 1 - gap) ** p
    weights = [np.full(len(t), 1 / len(t)) if w is None else w.numpy() for t, w in ((u, a), (v, b))]
    return ot.emd2(*weights, cost.numpy())


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.parametrize("weighted", [False, True])
def test_cost_is_that_of_an_exact_linear_program(route, n, m, p, weighted):
    u, v = positions(3, n), positions(3, m, seed=1)
    a, b = (weights_of(n, 2), weights_of(m, 3)) if weighted else (None, None)
    ours = circle_costs(u, v, p=p, u_weights=a, v_weights=b)
    exact = [by_linear_program(u[k], v[k], a, b, p) for k in range(3)]
    assert_close(ours, torch.tensor(exact, dtype=torch.float64), rtol=1e-9)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_cost_is_that_of_pot(p):
    u, v = positions(40, 5), positions(40, 5, seed=1)
    theirs = ot.binary_search_circle(u.numpy(), v.numpy(), p=p)
    assert_close(circle_costs(u.T, v.T, p=p), torch.from_numpy(theirs), rtol=1e-6)


@pytest.mark.parametrize("sizes", [(6, 6), (6, 5)], ids=str)
@pytest.mark.parametrize("p", [2, 3])
def test_gradients_by_finite_differences(route, sizes, p):
    u, v = (positions(2, n, seed=n + k).requires_grad_() for k, n in enumerate(sizes))
    assert gradcheck(lambda *t: circle_costs(*t, p=p), (u, v))
    assert gradgradcheck(lambda *t: circle_costs(*t, p=p), (u, v))
    a, b = (weights_of(n, n + 5).requires_grad_() for n in sizes)
    held = u.detach(), v.detach()
    assert gradcheck(lambda a, b: circle_costs(*held, p=p, u_weights=a, v_weights=b), (a, b))
    assert gradcheck(lambda u, a, b: linear_circle_costs(u, held[1], u_weights=a, v_weights=b), (u, a, b))  # fmt: skip
    assert gradcheck(lambda u, a: uniform_circle_costs(u, a), (u, a))


def test_turning_the_circle_changes_nothing(route):
    u, v, turn = positions(4, 9), positions(4, 7, seed=1), 0.37
    for cost in (
        lambda u, v: circle_costs(u, v, p=2),
        lambda u, v: circle_costs(u, v, p=1),
    ):
        assert_close(cost(u + turn, v + turn), cost(u, v), rtol=1e-9)
    assert_close(uniform_circle_costs(u + turn), uniform_circle_costs(u), rtol=1e-9)


def test_the_uniform_law_is_the_limit_of_many_samples():
    u, grid = positions(5), (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    assert_close(uniform_circle_costs(u), circle_costs(u, grid, p=2), rtol=1e-6)
    a = weights_of(5, 1)
    assert_close(uniform_circle_costs(u, a), circle_costs(u, grid, p=2, u_weights=a), rtol=1e-6)
    # POT sorts positions, but not the weights with them: sorted ones it gets right.
    order = u.argsort()
    theirs = ot.semidiscrete_wasserstein2_unif_circle(u[order].numpy(), a[order].numpy())
    wrong = ot.semidiscrete_wasserstein2_unif_circle(u.numpy(), a.numpy())
    assert abs(theirs[0] - wrong[0]) > 1e-3
    assert_close(uniform_circle_costs(u, a), torch.tensor(theirs[0], dtype=torch.float64))


@pytest.mark.parametrize(("n", "m"), [(6, 6), (6, 4)])
def test_linear_transport_is_the_rotation_by_the_means(route, n, m):
    u, v = positions(3, n), positions(3, m, seed=1)
    assert_close(linear_circle_costs(u, v), oracles.embedded_circle_cost(u, v, 2))
    assert (linear_circle_costs(u, v) >= circle_costs(u, v, p=2) * (1 - 1e-9)).all()
    a, b = weights_of(n, 4), weights_of(m, 5)
    weighted = linear_circle_costs(u, v, u_weights=a, v_weights=b)
    recorded = linear_circle_costs(u.requires_grad_(), v, u_weights=a, v_weights=b)
    assert_close(weighted, recorded)


def test_pots_quantile_is_the_one_after():
    """POT's linear_circular_ot is that of quantiles shifted by one: a point and itself, moved, show it."""
    u, v = np.array([0.2, 0.5, 0.9]), np.array([0.1, 0.4])
    exact = float(linear_circle_costs(torch.from_numpy(u), torch.from_numpy(v)))
    # By definition, on a fine grid: quantile q of u against quantile q + mean(u) − mean(v) of v.
    q = (np.arange(200_000) + 0.5) / 200_000
    at = (q + u.mean() - v.mean()) % 1
    gap = u[np.minimum((q * 3).astype(int), 2)] - v[np.minimum((at * 2).astype(int), 1)]
    defined = float(np.mean((gap - np.round(gap)) ** 2))
    assert exact == pytest.approx(defined, rel=1e-4)
    assert abs(float(ot.linear_circular_ot(u, v)[0]) - defined) > 0.1 * defined


@pytest.mark.parametrize("weighted", [False, True])
def test_plans_have_their_marginals(route, weighted):
    u, v = positions(3, 8), positions(3, 5, seed=1)
    a, b = (weights_of(8, 2), weights_of(5, 3)) if weighted else (None, None)
    plan = plan_on_circles(u, v, p=2, u_weights=a, v_weights=b)
    for index, weights, n in ((plan.u_index, a, 8), (plan.v_index, b, 5)):
        wanted = torch.full((n,), 1 / n, dtype=torch.float64) if weights is None else weights
        sums = torch.zeros(3, n, dtype=torch.float64).scatter_add(-1, index, plan.mass)
        assert (sums - wanted).abs().max() < 1e-12


def test_equal_sets_cost_nothing_exactly():
    u = positions(4, 9).requires_grad_()
    cost = circle_costs(u, u.detach().clone(), p=2)
    assert cost.abs().max() == 0
    assert torch.autograd.grad(cost.sum(), u)[0].abs().max() == 0
