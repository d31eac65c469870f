"""The primitive against an exact linear program, POT, a slow loop, and finite differences."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import slicewise as sw
from slicewise.transport.one_dim import Wanted, match
from tests import oracles
from tests.tolerances import assert_close

SIZES = [(1, 7), (5, 1000), (37, 53), (300, 300)]
ORDERS = [1, 1.5, 2, 3]


def weights_of(n, seed, dtype=torch.float64):
    draw = torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=dtype) + 0.1
    return draw / draw.sum()


def problem(n, m, d=5, n_slices=11, dtype=torch.float64):
    slices = torch.nn.functional.normalize(torch.randn(n_slices, d, dtype=dtype), dim=-1)
    return torch.randn(n, d, dtype=dtype), torch.randn(m, d, dtype=dtype) + 0.5, slices


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 4), (4, 4), (5, 3), (6, 4)])
@pytest.mark.parametrize("weighted", [False, True])
def test_cost_is_that_of_an_exact_linear_program(n, m, p, weighted):
    u, v = torch.randn(n, dtype=torch.float64), torch.randn(m, dtype=torch.float64)
    a, b = (weights_of(n, 1), weights_of(m, 2)) if weighted else (None, None)
    ours = match(u, v, p=p, u_weights=a, v_weights=b).cost
    full_a, full_b = (np.full(k, 1 / k) if w is None else w.numpy() for k, w in ((n, a), (m, b)))
    exact = oracles.cost_by_linear_program(u.numpy(), v.numpy(), p, full_a, full_b)
    assert_close(ours, torch.tensor(exact, dtype=torch.float64), rtol=1e-9)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.parametrize("weighted", [False, True])
def test_value_and_gradients_are_those_of_pot(n, m, p, weighted):
    x, y, slices = problem(n, m)
    a, b = (weights_of(n, 1), weights_of(m, 2)) if weighted else (None, None)
    ours_in = [t.clone().requires_grad_() for t in (x, y)]
    pot_in = [t.clone().requires_grad_() for t in (x, y)]
    ours = sw.sliced_wasserstein(*ours_in, p=p, slices=slices, x_weights=a, y_weights=b)
    pots = ot.sliced_wasserstein_distance(*pot_in, a, b, p=p, projections=slices.T)
    assert_close(ours, pots)
    for mine, theirs in zip(
        torch.autograd.grad(ours, ours_in), torch.autograd.grad(pots, pot_in), strict=True
    ):
        assert_close(mine, theirs)


@pytest.mark.parametrize("p", ORDERS)
def test_gradient_to_sample_weights_is_that_of_pot(p):
    x, y, slices = problem(9, 7)
    found = []
    for distance in ("ours", "pot"):
        scores = weights_of(9, 3).log().requires_grad_(), weights_of(7, 4).log().requires_grad_()
        a, b = (s.softmax(-1) for s in scores)
        if distance == "ours":
            value = sw.sliced_wasserstein(x, y, p=p, slices=slices, x_weights=a, y_weights=b)
        else:
            value = ot.sliced_wasserstein_distance(x, y, a, b, p=p, projections=slices.T)
        found.append(torch.autograd.grad(value, scores))
    for mine, theirs in zip(*found, strict=True):
        assert_close(mine, theirs)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize(("n", "m"), [(5, 5), (5, 3)])
def test_all_gradients_by_finite_differences(n, m, p):
    x, y, slices = problem(n, m, d=3, n_slices=4)
    scores = torch.randn(n, dtype=torch.float64), torch.randn(m, dtype=torch.float64)
    inputs = [t.requires_grad_() for t in (x, y, slices, *scores)]

    def plain(x, y, slices, a, b):
        return sw.sliced_wasserstein(x, y, p=p, slices=slices)

    def weighted(x, y, slices, a, b):
        return sw.sliced_wasserstein(
            x, y, p=p, slices=slices, x_weights=a.softmax(-1), y_weights=b.softmax(-1)
        )

    assert gradcheck(weighted, inputs)
    assert gradgradcheck(weighted, inputs)
    assert gradcheck(lambda *t: plain(*t, None, None), inputs[:3])
    assert gradgradcheck(lambda *t: plain(*t, None, None), inputs[:3])


def test_gradient_to_weights_needs_no_softmax():
    """Weights are divided by their sum inside, so their gradient is right off the simplex too."""
    x, y, slices = problem(6, 4, d=2, n_slices=3)
    a = weights_of(6, 5).requires_grad_()
    assert gradcheck(lambda a: sw.sliced_wasserstein(x, y, slices=slices, x_weights=a), [a])


@pytest.mark.parametrize(("n", "m"), [(63, 63), (1000, 1000), (1000, 63), (1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_against_a_slow_loop(n, m, dtype):
    u, v = torch.randn(2, 3, n, dtype=dtype), torch.randn(2, 3, m, dtype=dtype)
    found = match(u, v, p=2)
    for index in np.ndindex(2, 3):
        slow = oracles.cost_on_line(u[index].double().numpy(), v[index].double().numpy(), 2)
        assert_close(found.cost[index], torch.tensor(slow, dtype=dtype))


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("m", [40, 30])
def test_ties_give_the_gradient_of_the_stable_matching(p, m):
    """Integer data: many equal projections, matched in the order in which they were given."""
    u, v = torch.randint(0, 4, (40,)).double(), torch.randint(0, 4, (m,)).double()
    slow = torch.zeros(40, dtype=torch.float64)
    for i, j, mass in oracles.plan_on_line(u.numpy(), v.numpy()):
        gap = u[i] - v[j]
        slow[i] += mass * p * gap.abs() ** (p - 1) * gap.sign()
    assert_close(match(u, v, p=p).u_grad, slow)


def test_at_ties_the_gradient_bounds_every_one_sided_derivative():
    """SW_2^2 is semiconcave: where it has a kink, a valid gradient is one from above."""
    x, y = torch.randint(0, 3, (2, 20, 2)).double().unbind()
    x.requires_grad_()
    slices = torch.eye(2, dtype=torch.float64)
    here = sw.sliced_wasserstein(x, y, slices=slices, objective="power")
    (gradient,) = torch.autograd.grad(here, x)
    for _ in range(50):
        way = torch.randn_like(x)
        step = 1e-6
        there = sw.sliced_wasserstein(x + step * way, y, slices=slices, objective="power")
        assert (gradient * way).sum() >= (there - here) / step - 1e-4


def test_coincident_points_have_gradient_zero_for_p_1():
    u = torch.zeros(3, dtype=torch.float64)
    assert match(u, u, p=1).u_grad.abs().sum() == 0


def test_gradient_to_weights_ignores_how_far_padding_lies():
    x, y, slices = problem(6, 5, d=3, n_slices=4)
    real = weights_of(6, 1)
    gradients = []
    for far in (None, 1e3, 1e8):
        a, samples = real.clone(), x
        if far is not None:
            samples = torch.cat([x[:2], torch.full((1, 3), far).double(), x[2:]])
            a = torch.cat([real[:2], torch.zeros(1).double(), real[2:]])
        a.requires_grad_()
        value = sw.sliced_wasserstein(samples, y, slices=slices, x_weights=a, objective="power")
        (gradient,) = torch.autograd.grad(value, a)
        gradients.append(gradient if far is None else gradient[[0, 1, 3, 4, 5, 6]])
    assert_close(gradients[1], gradients[0])
    assert_close(gradients[2], gradients[0])


def test_gradient_to_a_weight_of_zero_is_what_a_little_mass_would_cost():
    x, y, slices = problem(6, 5, d=3, n_slices=4)
    a = weights_of(6, 1)
    a = torch.cat([a[:3] / a[:3].sum(), torch.zeros(3).double()]).requires_grad_()

    def cost(weights):
        return sw.sliced_wasserstein(x, y, slices=slices, x_weights=weights, objective="power")

    (gradient,) = torch.autograd.grad(cost(a), a)
    for i in range(3, 6):
        bump = torch.zeros(6).double()
        bump[i] = 1e-7
        slope = (cost((a + bump) / (1 + 1e-7)) - cost(a)).item() / 1e-7
        assert abs(slope - gradient[i]) < 1e-5 * (1 + abs(slope))


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_second_derivatives_are_finite_where_projections_coincide(p):
    x, _, slices = problem(5, 5)
    x.requires_grad_()
    value = sw.sliced_wasserstein(x, x.detach().clone(), p=p, slices=slices, objective="power")
    (first,) = torch.autograd.grad(value, x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum() + first.sum(), x, allow_unused=True)
    assert second is None or second.isfinite().all()


def test_uniform_weights_change_nothing():
    x, y, slices = problem(30, 30)
    equal = torch.full((30,), 1 / 30, dtype=torch.float64)
    assert_close(
        sw.sliced_wasserstein(x, y, slices=slices, x_weights=equal),
        sw.sliced_wasserstein(x, y, slices=slices),
    )


def test_a_million_weights_lose_no_digits_in_single_precision():
    n = 1_000_000
    u, v = torch.randn(2, n).unbind()
    single = match(u, v, p=2, u_weights=torch.full((n,), 1 / n)).cost
    exact = (u.double().sort().values - v.double().sort().values).square().mean()
    assert_close(single, exact, rtol=1e-5)


def test_only_wanted_gradients_are_made():
    u, v = torch.randn(4), torch.randn(5)
    found = match(u, v, p=2, wanted=Wanted(u=False, v=True))
    assert found.u_grad is None
    assert found.v_grad.shape == (5,)


@pytest.mark.parametrize("where", ["x", "y"])
@pytest.mark.parametrize("m", [4, 6])
def test_nan_in_is_nan_out(where, m):
    u, v = torch.randn(4), torch.randn(m)
    (u if where == "x" else v)[1] = torch.nan
    assert match(u, v, p=2).cost.isnan()
    assert match(u, v, p=2, u_weights=weights_of(4, 0)).cost.isnan()
