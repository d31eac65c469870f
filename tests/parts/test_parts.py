"""Each part against a closed form or a loop written here from its definition."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch
from scipy import stats

import slicewise as sw
from slicewise.parts import (
    control_variates,
    learned,
    lifts,
    moments,
    moves,
    slicers,
    spheres,
    weightings,
)
from slicewise.problem.problem import Problem
from slicewise.problem.schedules import Anneal
from slicewise.sampling import sphere
from slicewise.sampling.generators import Randomness
from tests import oracles
from tests.tolerances import assert_close


def rng(seed=0):
    return Randomness(torch.Generator().manual_seed(seed), torch.device("cpu"))


def make_problem(n=12, m=9, d=4, **fields):
    return Problem(
        torch.randn(n, d, dtype=torch.float64), torch.randn(m, d, dtype=torch.float64) + 1, **fields
    )


def unit_slices(n=6, d=4):
    return sphere.uniform((n, d), rng(3))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("rate", [None, 0.1])
def test_ascend_is_one_gradient_step(p, rate):
    problem, slices = make_problem(p=p), unit_slices()
    found = moves.Ascend(rate)(slices, problem, rng())
    for got, start in zip(found.numpy(), slices.numpy(), strict=True):
        slow = oracles.climb(start, problem.x.numpy(), problem.y.numpy(), p, rate)
        assert np.abs(got - oracles.unit(slow)).max() < 1e-12


def test_coupled_ascend_shares_one_root():
    """Published: J = (mean over slices of the summed cost)^(1/p), differentiated by finite differences."""
    problem, slices = make_problem(n=7, m=7), unit_slices()
    x, y = problem.x.numpy(), problem.y.numpy()

    def objective(theta):
        return math.sqrt(np.mean([7 * oracles.slice_cost(x, y, t) for t in theta]))

    raised = moves.Ascend(0.1, coupled=True).raised(slices, problem, rng()).numpy()
    theta = slices.numpy()
    for index in np.ndindex(*theta.shape):
        up, down = theta.copy(), theta.copy()
        up[index] += 1e-6
        down[index] -= 1e-6
        slope = (objective(up) - objective(down)) / 2e-6
        assert abs(raised[index] - theta[index] - 0.1 * slope) < 1e-8


def test_ascend_through_a_spread_climbs_the_mean_cost_of_its_draws():
    problem, start = make_problem(), unit_slices(1)
    spread = moves.Spread(20.0, copies=8)
    climb = moves.Ascend(through=spread)
    _, gradient = climb._costs_through(start, problem, rng(5))

    def objective(location):  # |ε|^p · mean cost of draws around ε / |ε|
        length = location.norm()
        return length**2 * problem.costs(spread(location / length, problem, rng(5))).mean()

    for axis in range(4):
        probe = torch.zeros(1, 4, dtype=torch.float64)
        probe[0, axis] = 1e-6
        slope = (objective(start + probe) - objective(start - probe)) / 2e-6
        assert abs(slope - gradient[0, axis]) < 1e-6


def test_a_fixed_rate_through_a_spread_moves_along_the_sphere_only():
    problem, start = make_problem(), unit_slices(1)
    climb = moves.Ascend(0.1, through=moves.Spread(20.0, copies=8))
    step = climb.raised(start, problem, rng(5)) - start
    assert step.norm() > 1e-3
    assert abs((step * start).sum()) < 1e-12 * step.norm()


def test_equal_samples_leave_a_climbing_slice_where_it_is():
    x = torch.randn(5, 3, dtype=torch.float64)
    slices = unit_slices(4, 3)
    for climb in (moves.Ascend(), moves.Ascend(0.1), moves.Ascend(0.1, coupled=True)):
        assert_close(climb(slices, Problem(x, x), rng()), slices)


def test_frames_stay_orthonormal_while_they_climb():
    problem = make_problem()
    frame = sphere.orthonormal((3, 4), rng())
    for _ in range(5):
        frame = moves.Ascend(frame=True)(frame, problem, rng())
        assert (frame @ frame.mT - torch.eye(3)).abs().max() < 1e-12


def test_best_keeps_the_dearest_slice():
    problem, slices = make_problem(), unit_slices(20)
    best = moves.Best()(slices, problem, rng())
    costs = [oracles.slice_cost(problem.x.numpy(), problem.y.numpy(), t) for t in slices.numpy()]
    assert best.equal(slices[[int(np.argmax(costs))]])


def test_copies_stay_beside_the_slice_they_come_from():
    slices = unit_slices(3)
    drawn = moves.Spread(1e8, copies=4)(slices, make_problem(), rng())
    assert (drawn - slices.repeat_interleave(4, dim=0)).abs().max() < 1e-3


def test_random_paths_join_samples_of_the_two_sets():
    problem = make_problem(n=3, m=2)
    found = slicers.RandomPath(6000)(problem, rng()).numpy()
    pairs = [(i, j) for i in range(3) for j in range(2)]
    ways = np.array([oracles.unit((problem.x[i] - problem.y[j]).numpy()) for i, j in pairs])
    gaps = np.abs(found[:, None] - ways).max(-1)
    assert gaps.min(1).max() < 1e-12
    counts = np.bincount(gaps.argmin(1), minlength=6)
    assert stats.chisquare(counts).pvalue > 1e-3  # pairs are drawn evenly, independently


def test_random_paths_follow_sample_weights():
    problem = make_problem(n=3, m=1, x_weights=torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64))
    found = slicers.RandomPath(4000)(problem, rng()).numpy()
    ways = np.array([oracles.unit((problem.x[i] - problem.y[0]).numpy()) for i in range(3)])
    counts = np.bincount(np.abs(found[:, None] - ways).max(-1).argmin(1), minlength=3)
    assert counts[1] == 0
    assert abs(counts[0] - 2000) < 4 * math.sqrt(1000)


def test_random_paths_between_equal_samples_are_uniform():
    x = torch.ones(4, 3, dtype=torch.float64)
    found = slicers.RandomPath(3000)(Problem(x, x.clone()), rng())
    assert (found.square().mean(0) - 1 / 3).abs().max() < 4 * math.sqrt(0.09 / 3000)


def test_burn_in_and_thinning_keep_what_they_say():
    problem = make_problem()
    whole = slicers.Trace(slicers.Uniform(2), moves.Orthogonal(), 10)(problem, rng())
    some = slicers.Trace(slicers.Uniform(2), moves.Orthogonal(), 10, burn_in=3, thin=2)
    kept = some(problem, rng()).reshape(2, 4, 4)
    assert kept.equal(whole.reshape(2, 10, 4)[:, 3::2])


@pytest.mark.parametrize(
    ("kind", "f"), [("exp", np.exp), ("identity", lambda c: c), ("poly", np.square)]
)
def test_energy_weights_follow_their_energy(kind, f):
    problem, slices = make_problem(), unit_slices()
    costs = problem.costs(slices)
    expected = f(costs.numpy()) / f(costs.numpy()).sum()
    assert_close(weightings.Energy(kind)(costs, slices, problem), torch.tensor(expected))


def test_energy_survives_huge_costs():
    costs = torch.tensor([1e4, 2e4])
    assert weightings.Energy()(costs, None, None).tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["exp", "identity", "poly"])
def test_energies_of_equal_samples_are_equal(kind):
    costs = torch.zeros(4, requires_grad=True)
    weights = weightings.Energy(kind)(costs, None, None)
    assert weights.tolist() == [0.25] * 4
    (weights * costs).sum().backward()
    assert costs.grad.isfinite().all()


def test_slices_orthogonal_to_the_subspace_weigh_nothing():
    basis = torch.eye(4, dtype=torch.float64)[:, :1]
    slices = torch.eye(4, dtype=torch.float64)
    weights = weightings.Aligned(basis)(torch.ones(4), slices, make_problem())
    assert weights.tolist() == [0.25, 0, 0, 0]


def test_annealing_is_the_published_schedule():
    """κ_s = κ_1 ω + κ_2 (1 − ω), ω = ((S − 1 − s) / (S − 1))^β."""
    steps, start, stop, beta = 500, 100.0, 1.0, 10
    for s in (0, 17, 250, 499):
        share = ((steps - 1 - s) / (steps - 1)) ** beta
        expected = start * share + stop * (1 - share)
        assert math.isclose(Anneal(start)(s / (steps - 1)), expected)


def test_a_schedule_reaches_the_draw():
    """At the start kappa = 1e9 leaves paths as they are; at the end kappa = 1e-9 forgets them."""
    x, y = torch.zeros(5, 3), torch.eye(3)[:1].expand(5, 3)
    early = sw.evaluate(x, y, "rpsw", kappa=Anneal(1e9, 1e-9), progress=0.0).slices
    late = sw.evaluate(x, y, "rpsw", kappa=Anneal(1e9, 1e-9), progress=1.0).slices
    assert early[:, 0].abs().min() > 0.99
    assert late[:, 0].abs().mean() < 0.7


def test_functions_are_parts_too():
    def axes(problem, rng):
        return torch.eye(problem.d, dtype=problem.x.dtype).expand(*problem.batch, -1, -1)

    def first_only(costs, slices, problem):
        return torch.nn.functional.one_hot(torch.tensor(0), costs.shape[-1]).to(costs)

    x, y = torch.zeros(3, 2), torch.tensor([[3.0, 4.0]]).expand(3, 2)
    found = sw.evaluate(x, y, sw.Recipe(axes, first_only))
    assert found.value == 3
    assert found.stderr.isnan()  # a plain function does not say whether its slices are independent


@pytest.mark.parametrize("name", sw.VARIANTS)
def test_recipes_print_as_the_call_that_makes_them_and_pickle(name):
    recipe = sw.VARIANTS[name]()
    files = (slicers, moves, weightings, learned, lifts, spheres, moments, control_variates)
    names = {k: v for file in files for k, v in vars(file).items()} | {"Recipe": sw.Recipe}
    again = eval(repr(recipe), names)
    assert repr(again) == repr(recipe)
    assert repr(pickle.loads(pickle.dumps(recipe))) == repr(recipe)
    assert pickle.loads(pickle.dumps(sw.VARIANTS[name])) is sw.VARIANTS[name]
    if name != "phisw":
        assert again == recipe == sw.VARIANTS[name]()


def test_the_general_weighting_prints_and_pickles_too():
    general = weightings.Phi(weightings.slice_cost, weightings.Peak(0.5))
    assert pickle.loads(pickle.dumps(general)) == general
    assert "Peak(0.5)" in repr(general)


@pytest.mark.parametrize("p", [2.0, 8.0])
@pytest.mark.parametrize("scale", [1e-15, 1.0, 255.0, 1e12])
def test_a_unit_step_is_the_same_in_any_unit(p, scale):
    """In single precision the gradient's square would leave the range at 1e10, or at 255 for p = 8."""
    if scale**p > 1e37 or scale**p < 1e-37:
        pytest.skip("the costs themselves leave single precision")
    problem, slices = make_problem(p=p), unit_slices().float()
    scaled = Problem(scale * problem.x.float(), scale * problem.y.float(), p)
    plain = Problem(problem.x.float(), problem.y.float(), p)
    climb = moves.Ascend()
    assert_close(climb(slices, scaled, rng()), climb(slices, plain, rng()))
