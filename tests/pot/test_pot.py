"""`slicewise.pot` against POT: the same calls, values, logs and errors; and the defects that it does not repeat.

POT's own tests are run against it by `make pot-tests SOURCE=folder`.
"""

from __future__ import annotations

import inspect
import math

import numpy as np
import ot
import pytest
import torch

import slicewise.pot as ours
from slicewise.pot import arrays
from tests.tolerances import assert_close

RNG = np.random.RandomState(0)
X, Y = RNG.randn(30, 3), RNG.randn(20, 3) + 0.5
A, B = (w / w.sum() for w in (RNG.rand(30), RNG.rand(20)))
U, V = (t / np.linalg.norm(t, axis=1, keepdims=True) for t in (X, Y))

SHARED = [
    "sliced_wasserstein_distance",
    "max_sliced_wasserstein_distance",
    "sliced_wasserstein_sphere",
    "sliced_wasserstein_sphere_unif",
    "linear_sliced_wasserstein_sphere",
    "sliced_plans",
    "min_sliced_transport_plan",
    "expected_sliced_plan",
    "get_random_projections",
    "get_projections_sphere",
    "projection_sphere_to_circle",
]


def same(mine, theirs, rtol=1e-9):
    assert_close(torch.as_tensor(np.asarray(mine)), torch.as_tensor(np.asarray(theirs)), rtol=rtol)


@pytest.mark.parametrize("name", SHARED)
def test_arguments_are_pots_in_order_and_default(name):
    mine = list(inspect.signature(getattr(ours, name)).parameters.values())
    theirs = list(inspect.signature(getattr(ot.sliced, name)).parameters.values())
    assert [(p.name, p.default) for p in mine[: len(theirs)]] == [
        (p.name, p.default) for p in theirs
    ]


@pytest.mark.parametrize("name", ["sliced_unbalanced_ot", "unbalanced_sliced_ot"])
def test_arguments_of_unbalanced_functions_are_pots(name):
    mine, theirs = (inspect.signature(getattr(m, name)).parameters for m in (ours, ot.unbalanced))
    assert [(p.name, p.default) for p in mine.values()] == [
        (p.name, p.default) for p in theirs.values()
    ]


@pytest.mark.parametrize("as_torch", [False, True])
@pytest.mark.parametrize("name", ["sliced_wasserstein_distance", "max_sliced_wasserstein_distance"])
def test_distances_of_a_seed_are_pots(name, as_torch):
    inputs = [torch.from_numpy(t) if as_torch else t for t in (X, Y, A, B)]
    for more in ({}, {"p": 1}, {"p": 1.5}):
        mine, log = getattr(ours, name)(*inputs, 10, seed=3, log=True, **more)
        theirs, wanted = getattr(ot, name)(*inputs, 10, seed=3, log=True, **more)
        same(mine, theirs)
        same(log["projections"], wanted["projections"])
        same(log["projected_emds"], wanted["projected_emds"])
        assert type(mine) is type(theirs)
        assert getattr(ours, name)(*inputs, 10, seed=3, **more) == pytest.approx(float(theirs))


@pytest.mark.parametrize("p", [1, 2])
def test_spheres_of_a_seed_are_pots(p):
    for more in ({}, {"a": A, "b": B}):
        mine, log = ours.sliced_wasserstein_sphere(U, V, n_projections=20, p=p, seed=3, log=True, **more)  # fmt: skip
        theirs, wanted = ot.sliced_wasserstein_sphere(U, V, n_projections=20, p=p, seed=3, log=True, **more)  # fmt: skip
        same(log["projections"], wanted["projections"])
        same(mine, theirs, rtol=1e-5)
    same(
        ours.sliced_wasserstein_sphere_unif(U, seed=3), ot.sliced_wasserstein_sphere_unif(U, seed=3)
    )


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "cityblock", "minkowski"])
@pytest.mark.parametrize("dense", [True, False])
def test_permutation_plans_are_pots(metric, dense):
    """Between sets of one size without weights, where POT's costs are right."""
    y = np.concatenate([Y, Y[:10] * 1.5])
    how = {"n_projections": 12, "seed": 3, "metric": metric, "p": 3, "dense": dense}
    for name in ("min_sliced_transport_plan", "expected_sliced_plan"):
        mine, theirs = (getattr(m, name)(X, y, **how) for m in (ours, ot))
        plans = [t[0] if dense else t[0].toarray() for t in (mine, theirs)]
        same(plans[0], plans[1])
        same(mine[1], theirs[1])
    mine, theirs = (m.sliced_plans(X, y, metric=metric, p=3, n_projections=4, seed=3) for m in (ours, ot.sliced))  # fmt: skip
    same(mine[1], theirs[1])
    for one, other in zip(mine[0], theirs[0], strict=True):
        assert (one.rows == other.rows).all()
        assert (one.cols == other.cols).all()


def test_costs_of_weighted_plans_are_those_of_the_plans():
    """POT's `sparse_ot_dist` looks masses up by sample instead of by pair."""
    ground = ot.dist(X, Y)
    plan, cost, log = ours.min_sliced_transport_plan(X, Y, A, B, n_projections=12, seed=3, log=True)
    same(cost, (plan * ground).sum())
    assert len(log) == 5
    assert cost >= ot.emd2(A, B, ground)
    theirs = ot.min_sliced_transport_plan(X, Y, A, B, projections=log["projections"])
    assert abs(theirs[1] - (theirs[0] * ground).sum()) > 0.01 * cost
    mean, cost, log = ours.expected_sliced_plan(X, Y, A, B, n_projections=12, seed=3, beta=2.0, log=True)  # fmt: skip
    same(cost, (mean * ground).sum())
    assert set(log) == {"projections", "costs", "G", "weights"}


def test_unbalanced_functions_are_pots():
    x, y, a, b = (torch.from_numpy(t) for t in (X, Y, A, B))
    mine, log = ours.sliced_unbalanced_ot(x, y, 1.0, a, b, 10, seed=3, log=True)
    theirs, wanted = ot.sliced_unbalanced_ot(x, y, 1.0, a, b, 10, seed=3, log=True)
    same(mine, theirs)
    assert log.keys() == wanted.keys()
    for key in log:
        same(log[key], wanted[key])
    mine, theirs = (m.unbalanced_sliced_ot(x, y, 1.0, a, b, 10, seed=3, log=True) for m in (ours, ot))  # fmt: skip
    for one, other in zip(mine[:3], theirs[:3], strict=True):
        same(one, other)
    for key in theirs[3]:
        same(mine[3][key], theirs[3][key])
    u, v = x[:, :2].contiguous(), y[:, :2].contiguous()
    for kind in ("linear", "total"):
        mine, theirs = (m.uot_1d(u, v, 1.0, a, b, returnCost=kind) for m in (ours, ot))
        for one, other in zip(mine, theirs, strict=True):
            same(one, other)
    with pytest.raises(AssertionError, match=r"slicewise\.unbalanced"):
        ours.sliced_unbalanced_ot(X, Y, 1.0)


def test_given_circles_may_be_any_number():
    """POT fails unless there are 50."""
    pairs = ours.get_projections_sphere(3, 7, seed=0)
    assert ours.sliced_wasserstein_sphere(U, V, projections=pairs) > 0
    with pytest.raises(ValueError, match="reshape"):
        ot.sliced_wasserstein_sphere(U, V, projections=pairs)


def test_linear_distance_to_the_uniform_law():
    """POT raises AttributeError, though it documents X_t=None."""
    value = ours.linear_sliced_wasserstein_sphere(U, seed=0)
    same(value, ours.sliced_wasserstein_sphere_unif(U, seed=0))
    with pytest.raises(AttributeError):
        ot.linear_sliced_wasserstein_sphere(U, seed=0)


def test_weights_against_the_uniform_law_stay_with_their_samples():
    """POT sorts positions without their weights: splitting a sample in two changes its value."""
    twice, halved = np.concatenate([U, U]), np.concatenate([A, A]) / 2
    same(
        ours.sliced_wasserstein_sphere_unif(twice, halved, seed=0),
        ours.sliced_wasserstein_sphere_unif(U, A, seed=0),
    )
    value, split = (
        ot.sliced_wasserstein_sphere_unif(t, w, seed=0) for t, w in ((U, A), (twice, halved))
    )
    assert abs(value - split) > 1e-3 * value


def test_gradients_are_finite_where_sets_agree():
    """POT's are NaN: the root has no derivative at zero."""
    for module, finite in ((ours, True), (ot, False)):
        x = torch.from_numpy(X).requires_grad_()
        value = module.sliced_wasserstein_distance(x, x.detach().clone(), seed=0)
        assert bool(torch.autograd.grad(value, x)[0].isfinite().all()) == finite
    u = torch.from_numpy(U).requires_grad_()
    value = ours.sliced_wasserstein_sphere(u, u.detach().clone(), seed=0)
    assert torch.autograd.grad(value, u)[0].isfinite().all()


def test_seeds_leave_other_draws_alone():
    """POT's `seed=` reseeds a generator that later calls without a seed go on with."""
    torch.manual_seed(5)
    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    first = ours.sliced_wasserstein_distance(x, y)
    torch.manual_seed(5)
    ours.sliced_wasserstein_distance(x, y, seed=1)
    assert ours.sliced_wasserstein_distance(x, y) == first
    np.random.seed(5)
    first = ours.sliced_wasserstein_distance(X, Y)
    np.random.seed(5)
    assert ours.sliced_wasserstein_distance(X, Y) == first


@pytest.mark.parametrize("as_torch", [False, True])
def test_every_kind_of_seed(as_torch):
    inputs = [torch.from_numpy(t) if as_torch else t for t in (X, Y)]
    for make in (
        lambda: 7,
        lambda: np.random.RandomState(7),
        lambda: np.random.default_rng(7),
        lambda: torch.Generator().manual_seed(7),
    ):
        one, again = (float(ours.sliced_wasserstein_distance(*inputs, seed=make())) for _ in "ab")
        assert one == again
    same(
        ours.get_random_projections(5, 4, np.random.RandomState(7)),
        ot.sliced.get_random_projections(5, 4, np.random.RandomState(7)),
    )


def test_unfit_weights_and_orders_are_named():
    """POT takes both, and returns numbers that mean nothing."""
    with pytest.raises(ValueError, match="sums to 30"):
        ours.sliced_wasserstein_distance(X, Y, np.ones(30))
    with pytest.raises(ValueError, match="p = inf"):
        ours.sliced_wasserstein_distance(X, Y, p=math.inf)
    with pytest.raises(ValueError, match="same type/backend"):
        ours.sliced_wasserstein_distance(X, torch.from_numpy(Y))
    with pytest.raises(ValueError, match="not on the sphere"):
        ours.sliced_wasserstein_sphere(X, V)
    with pytest.raises(AssertionError, match="metric"):
        ours.sliced_plans(X, Y, metric="mahalanobis", n_projections=3)


@pytest.mark.parametrize("sampling", ["uniform", "qsw", "rqsw", "uniortho"])
def test_other_samplings_of_slices(sampling):
    found, log = ours.sliced_wasserstein_distance(X, Y, n_projections=200, seed=0, log=True, sampling_slices=sampling)  # fmt: skip
    columns = log["projections"]
    same((columns**2).sum(0), np.ones(200))
    many = ours.sliced_wasserstein_distance(X, Y, n_projections=5000, seed=1)
    assert found == pytest.approx(many, rel=0.1)
    if sampling == "uniortho":
        same(columns[:, :3].T @ columns[:, :3], np.eye(3))
    with pytest.raises(ValueError, match="sampling_slices"):
        ours.sliced_wasserstein_distance(X, Y, sampling_slices="sobol")
    if sampling in ("qsw", "rqsw"):
        with pytest.raises(ValueError, match="d = 2"):
            ours.sliced_wasserstein_distance(X[:, :2], Y[:, :2], sampling_slices=sampling)


def test_spirals_orthogonal_blocks_and_rotations():
    same(ours.get_projections_spiral(3, 9), ours.get_projections_spiral(3, 9, seed=4))
    assert not np.allclose(ours.get_projections_spiral(3, 9), ours.get_projections_spiral(3, 9, seed=4, randomized=True))  # fmt: skip
    blocks = ours.get_projections_orthogonal(4, 6, seed=0)
    same(blocks[:, :4].T @ blocks[:, :4], np.eye(4))
    turns = ours.get_random_rotations(4, 5, seed=0)
    same(np.linalg.det(turns), np.ones(5))
    same(turns @ turns.transpose(0, 2, 1), np.stack([np.eye(4)] * 5))


def test_stereographic_distance():
    value, log = ours.stereographic_sliced_wasserstein_sphere(U, V, seed=0, log=True)
    assert value > 0
    assert log["projections"].shape == (2, 50)
    same(ours.stereographic_sliced_wasserstein_sphere(U, U, seed=0) + 1, np.float64(1))
    # Averaged over many rotations it does not depend on the axes: over 400, to some percent.
    turn = ours.get_random_rotations(3, 1, seed=9)[0]
    many = [
        ours.stereographic_sliced_wasserstein_sphere(
            s @ turn.T if t else s, u @ turn.T if t else u, seed=1, n_rotations=400
        )
        for t in (0, 1)
        for s, u in [(U, V)]
    ]
    assert many[0] == pytest.approx(many[1], rel=0.05)


def test_scalers():
    x, y = X * [1.0, 100.0, 1e-3], Y * [1.0, 100.0, 1e-3]
    for norm in ("standard", "minmax", "l2"):
        mine = ours.DataScaler(norm).fit([x, y])
        theirs = ot.utils.DataScaler(norm).fit([x, y])
        same(mine.transform(x), theirs.transform(x))
        same(
            ours.sliced_wasserstein_distance(x, y, seed=0, scaler=mine),
            ot.sliced_wasserstein_distance(x, y, seed=0, scaler=theirs),
        )
    same(
        ours.sliced_wasserstein_distance(x, y, seed=0, scaler=lambda t: t / 10),
        ours.sliced_wasserstein_distance(x / 10, y / 10, seed=0),
    )
    with pytest.raises(ValueError, match="scaler must be"):
        ours.sliced_wasserstein_distance(x, y, scaler=42)
    with pytest.raises(RuntimeError, match="fit first"):
        ours.DataScaler().transform(x)
    with pytest.warns(RuntimeWarning, match="constant"):
        ours.DataScaler().fit(np.ones((4, 2)))


def test_arrays_of_other_libraries_pass_by_dlpack(monkeypatch):
    """A stand-in for JAX arrays, whose package is not installed here: in and out by DLPack."""

    class Array:
        def __init__(self, values):
            self.values = np.asarray(values)

        def __dlpack__(self, **given):
            return self.values.__dlpack__(**given)

        def __dlpack_device__(self):
            return self.values.__dlpack_device__()

    Array.__module__ = "jaxlib.stand_in"
    stand_in = type("jax.numpy", (), {"from_dlpack": staticmethod(lambda t: Array(t.numpy()))})
    monkeypatch.setitem(arrays.sys.modules, "jax", stand_in)
    monkeypatch.setattr(arrays.importlib, "import_module", lambda name: stand_in)
    found = ours.sliced_wasserstein_distance(Array(X), Array(Y), seed=3)
    assert isinstance(found, Array)
    same(found.values, ours.sliced_wasserstein_distance(X, Y, seed=3))


def test_lists_and_whole_numbers():
    value = ours.sliced_wasserstein_distance([[0, 0], [1, 1]], [[2, 2], [3, 3]], seed=0)
    assert value == pytest.approx(float(ot.sliced_wasserstein_distance(np.array([[0.0, 0], [1, 1]]), np.array([[2.0, 2], [3, 3]]), seed=0)))  # fmt: skip


def test_solvers_on_lines_and_circles_take_pots_positions():
    for own, theirs in (
        (ours.uot_1d, ot.unbalanced.uot_1d),
        (ours.wasserstein_circle, ot.wasserstein_circle),
    ):
        wanted, found = (inspect.signature(f).parameters.values() for f in (theirs, own))
        assert [(p.name, p.default) for p in found] == [(p.name, p.default) for p in wanted]


def test_an_unknown_cost_of_lines_is_refused():
    u = torch.rand(4)
    with pytest.raises(ValueError, match="returnCost"):
        ours.uot_1d(u, u, 1.0, returnCost="both")


@pytest.mark.parametrize("name", ["sliced_wasserstein_distance", "sliced_wasserstein_sphere"])
def test_arrays_of_two_precisions_meet_in_the_higher_one(name):
    x, y = (np.random.default_rng(s).normal(size=(6, 3)) for s in (0, 1))
    x, y = (t / np.linalg.norm(t, axis=1, keepdims=True) for t in (x, y))
    found = getattr(ours, name)(x.astype(np.float32), y, seed=0)
    assert found.dtype == np.float64
    assert found == pytest.approx(getattr(ot, name)(x, y, seed=0), rel=1e-5)


def test_lists_are_scaled_as_arrays_are():
    x, y = (np.random.default_rng(s).normal(size=(6, 3)) for s in (0, 1))
    scaler = ours.DataScaler().fit([x, y])
    wanted = ours.sliced_wasserstein_distance(x, y, seed=0, scaler=scaler)
    assert ours.sliced_wasserstein_distance(x.tolist(), y.tolist(), seed=0, scaler=scaler) == wanted


@pytest.mark.parametrize("log", [False, True])
def test_weights_against_the_uniform_law_are_checked(log):
    x = np.eye(3)
    for weights in (np.full(2, 0.5), np.array([1.5, -0.25, -0.25])):
        with pytest.raises(ValueError, match=r"a has"):
            ours.sliced_wasserstein_sphere_unif(x, weights, log=log)


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor])
def test_rotations_are_not_drawn_from_the_numbers_of_the_directions(make):
    x = make(np.eye(3))
    _, log = ours.stereographic_sliced_wasserstein_sphere(
        x, x, n_projections=4, n_rotations=1, seed=0, log=True
    )
    again = ours.get_random_rotations(3, 1, seed=0, type_as=x)
    assert not np.allclose(np.asarray(log["rotations"]), np.asarray(again))
