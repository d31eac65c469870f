"""Unbalanced sliced transport: against POT, its limits, its duality gap, and finite differences."""

from __future__ import annotations

import math

import numpy as np
import ot
import pytest
import torch

import slicewise as sw
from slicewise.transport import one_dim, potentials_on_lines
from tests.tolerances import assert_close

MARGINALS = ["per_slice", "shared"]


def problem(n=30, m=20, d=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(k, d, generator=generator, dtype=torch.float64) for k in (n, m))
    a, b = (torch.rand(k, generator=generator, dtype=torch.float64) / k for k in (n, m))
    slices = torch.nn.functional.normalize(
        torch.randn(7, d, generator=generator, dtype=torch.float64), dim=-1
    )
    return x, y + 0.5, {"x_weights": a, "y_weights": b, "slices": slices}


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("penalty", [1.0, (0.5, 2.0), (math.inf, 1.0), (1.0, math.inf)], ids=str)
@pytest.mark.parametrize("marginals", MARGINALS)
def test_value_and_marginals_are_those_of_pot(penalty, p, marginals):
    x, y, given = problem()
    ours = sw.unbalanced(x, y, penalty, marginals=marginals, p=p, max_steps=10, **given)
    a, b, columns = given["x_weights"], given["y_weights"], given["slices"].T
    if marginals == "shared":
        a_pot, b_pot, value = ot.unbalanced_sliced_ot(x, y, penalty, a, b, p=p, projections=columns)
    elif isinstance(penalty, tuple) and math.inf in penalty:
        # POT adds the divergences of all slices together here: slice by slice it is right.
        one = [
            ot.uot_1d((x @ c)[:, None], (y @ c)[:, None], penalty, a, b, p=p, returnCost="total")
            for c in columns.T
        ]
        a_pot, b_pot = (torch.stack([f[i].squeeze() for f in one]) for i in (0, 1))
        value = torch.stack([f[2].squeeze() for f in one]).mean()
    else:
        value, log = ot.sliced_unbalanced_ot(
            x, y, penalty, a, b, p=p, projections=columns, log=True
        )
        a_pot, b_pot = log["a_reweighted"].T, log["b_reweighted"].T
    assert_close(ours.value, value)
    assert_close(ours.x_marginal, a_pot)
    assert_close(ours.y_marginal, b_pot)


def test_pot_adds_the_divergences_of_all_slices_where_one_marginal_is_kept():
    """The defect that the test above works around, in one line: twice the same slice, not twice the value."""
    x, y, given = problem(d=1)
    a, b = given["x_weights"], given["y_weights"]
    one, two = (
        float(
            ot.sliced_unbalanced_ot(
                x, y, (math.inf, 1.0), a, b, projections=torch.ones(1, k).double()
            )
        )
        for k in (1, 2)
    )
    assert two > 1.01 * one
    ours = [
        sw.unbalanced(
            x,
            y,
            (math.inf, 1.0),
            max_steps=10,
            x_weights=a,
            y_weights=b,
            slices=torch.ones(k, 1).double(),
        )
        for k in (1, 2)
    ]
    assert_close(ours[0].value, ours[1].value)


@pytest.mark.parametrize("marginals", MARGINALS)
def test_large_penalties_give_the_balanced_distance(marginals):
    x, y, given = problem()
    slices = given["slices"]
    balanced = sw.sliced_wasserstein(x, y, slices=slices, objective="power")
    kept = sw.unbalanced(x, y, math.inf, marginals=marginals, slices=slices)
    assert_close(kept.value, balanced)
    far = [
        float(sw.unbalanced(x, y, rho, marginals=marginals, slices=slices).value - balanced)
        for rho in (1e2, 1e4, 1e6)
    ]
    assert abs(far[2]) < 1e-5 < abs(far[0])
    assert abs(far[0]) > abs(far[1]) > abs(far[2])


@pytest.mark.parametrize("marginals", MARGINALS)
def test_the_gap_bounds_what_more_steps_gain(marginals):
    x, y, given = problem()
    few, some, many = (
        sw.unbalanced(x, y, 1.0, marginals=marginals, max_steps=k, **given) for k in (10, 50, 1000)
    )
    assert few.gap > some.gap > many.gap >= 0
    for found in (few, some):
        assert many.value <= found.value + 1e-12
        assert found.value - found.gap <= many.value
    assert many.gap < 1e-3 * many.value


@pytest.mark.parametrize("marginals", MARGINALS)
def test_equal_sets_cost_nothing(marginals):
    x, _, given = problem()
    found = sw.unbalanced(x, x, 1.0, marginals=marginals, slices=given["slices"])
    assert found.value.abs() < 1e-12
    assert_close(found.mass.max(), torch.ones(()).double())


@pytest.mark.parametrize("marginals", MARGINALS)
def test_gradients_to_samples_are_those_of_the_marginals_held(marginals):
    x, y, given = problem()
    inputs = [t.requires_grad_() for t in (x, y)]
    found = sw.unbalanced(*inputs, 1.0, marginals=marginals, max_steps=10, **given)
    ours = torch.autograd.grad(found.value, inputs)
    expected = 0.0
    for k, slices in enumerate(given["slices"].unsqueeze(1)):
        at = k if marginals == "per_slice" else ...
        shares = [t[at] / t[at].sum() for t in (found.x_marginal, found.y_marginal)]
        how = {"slices": slices, "x_weights": shares[0], "y_weights": shares[1]}
        cost = sw.sliced_wasserstein(*inputs, objective="power", **how)
        expected = expected + found.mass[at] * cost / 7
    for mine, other in zip(ours, torch.autograd.grad(expected, inputs), strict=True):
        assert_close(mine, other)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        ot.unbalanced_sliced_ot(*inputs, 1.0, n_projections=5)  # POT takes no such inputs


@pytest.mark.slow
@pytest.mark.parametrize("marginals", MARGINALS)
def test_gradients_to_weights_by_finite_differences(marginals):
    """At the minimum, which 4,000 steps reach up to a gap of some 1e-7."""
    x, y, given = problem(6, 5, d=2)

    def value(a):
        how = given | {"x_weights": a}
        return sw.unbalanced(x, y, (0.5, 2.0), marginals=marginals, max_steps=4000, **how).value

    a = given["x_weights"].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(a), a)
    step = 2e-3
    for place in (0, 3):
        moved = []
        for sign in (1, -1):
            changed = a.detach().clone()
            changed[place] += sign * step
            moved.append(float(value(changed)))
        slope = (moved[0] - moved[1]) / (2 * step)
        assert float(gradient[place]) == pytest.approx(slope, rel=2e-2, abs=5e-3)


@pytest.mark.parametrize("marginals", MARGINALS)
def test_a_batch_is_a_loop(marginals):
    x, y, given = problem()
    many = torch.stack([x, 1.5 * x])
    together = sw.unbalanced(many, y, 1.0, marginals=marginals, **given)
    for i in range(2):
        alone = sw.unbalanced(many[i], y, 1.0, marginals=marginals, **given)
        assert_close(together.value[i], alone.value)
        assert_close(together.x_marginal[i], alone.x_marginal)
        assert_close(together.gap[i], alone.gap, rtol=1e-8)


def test_outliers_are_left_behind():
    x, y, given = problem(40, 40)
    x[0] = 100.0
    found = sw.unbalanced(x, y, 1.0, marginals="shared", slices=given["slices"])
    assert found.x_marginal[0] < 1e-6
    assert found.x_marginal[1:].min() > 1e-4
    balanced = sw.sliced_wasserstein(x, y, slices=given["slices"], objective="power")
    assert found.value < 0.1 * balanced


@pytest.mark.parametrize("kind", ["weights", "equal", "same", "absent"])
def test_potentials_are_feasible_and_tight(kind, monkeypatch):
    generator = torch.Generator().manual_seed(3)
    u, v = (torch.rand(3, k, generator=generator, dtype=torch.float64) for k in (6, 6))
    v = u.clone() if kind == "same" else v
    a, b = (torch.rand(6, generator=generator, dtype=torch.float64) for _ in range(2))
    if kind in ("equal", "same"):
        a, b = torch.ones(6).double(), torch.ones(6).double()
    if kind == "absent":
        a[2] = b[4] = 0
    (us, uo), (vs, vo) = u.sort(dim=-1), v.sort(dim=-1)
    found = []
    for plain in (False, True):
        if plain:
            monkeypatch.setattr(one_dim, "line_loops", lambda *tensors: None)
        f, g, cost = potentials_on_lines(us, vs, (uo, vo), a, b, p=2)
        costs = (u.unsqueeze(-1) - v.unsqueeze(-2)).square()
        assert (f.unsqueeze(-1) + g.unsqueeze(-2) <= costs + 1e-12).all()
        dual = f @ (a / a.sum()) + g @ (b / b.sum())
        assert (dual - cost).abs().max() < 1e-12
        if kind == "same":
            assert f.abs().max() == 0
        found.append((f, g, cost))
    for fast, slow in zip(*found, strict=True):
        assert (fast - slow).abs().max() < 1e-12


def test_mistakes_are_named():
    x, y, given = problem()
    weights = {"x_weights": given["x_weights"], "y_weights": given["y_weights"]}
    with pytest.raises(ValueError, match="weights of one sum, or a finite penalty"):
        sw.unbalanced(x, y, math.inf, **weights)
    with pytest.raises(ValueError, match="penalty"):
        sw.unbalanced(x, y, -1.0)
    with pytest.raises(ValueError, match="one number, or one for each marginal"):
        sw.unbalanced(x, y, (1.0, 2.0, 3.0))
    with pytest.raises(ValueError, match="marginals"):
        sw.unbalanced(x, y, marginals="both")


def test_arrays_come_back_as_arrays():
    x, y, _ = problem()
    found = sw.unbalanced(x.numpy(), y.numpy(), generator=0)
    assert isinstance(found.x_marginal, np.ndarray)
    assert found.value > 0


@pytest.mark.parametrize("marginals", ["per_slice", "shared"])
def test_a_tiny_penalty_gives_all_mass_up(marginals):
    x = torch.linspace(0, 1, 6, dtype=torch.float64).unsqueeze(-1).requires_grad_()
    y = torch.linspace(5, 6, 5, dtype=torch.float64).unsqueeze(-1)
    found = sw.unbalanced(x, y, 1e-4, marginals=marginals, generator=0)
    assert "value 0.0002" in repr(found)  # no warning about its gradient
    assert float(found.value.detach()) == pytest.approx(2e-4)
    assert float(found.mass.max()) < 1e-12
    assert torch.autograd.grad(found.value, x)[0].isfinite().all()


def test_masses_are_checked_in_every_element_of_a_batch():
    x = torch.rand(2, 4, 3)
    weights = torch.tensor([[0.25] * 4, [0.5] * 4])
    with pytest.raises(ValueError, match="sum to 2 and"):
        sw.unbalanced(x, x, math.inf, x_weights=weights)
    with pytest.raises(ValueError, match="x_weights sum to 0"):
        sw.unbalanced(x, x, x_weights=weights - weights[:1])
    with pytest.raises(ValueError, match="NaN"):
        sw.unbalanced(x * math.nan, x)


def test_penalties_of_any_kind_of_number():
    x, y = torch.rand(4, 2), torch.rand(4, 2)
    wanted = sw.unbalanced(x, y, 2.0, generator=0).value
    for penalty in (np.float32(2), torch.tensor(2.0), np.array([2.0, 2.0])):
        assert sw.unbalanced(x, y, penalty, generator=0).value == wanted
    with pytest.raises(ValueError, match="above 0"):
        sw.unbalanced(x, y, 0)
