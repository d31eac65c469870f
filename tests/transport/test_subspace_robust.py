"""The largest slice and its bound; subspace-robust Wasserstein; detours: against grids, limits, closed forms."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import ot
import pytest
import torch
from scipy.optimize import linear_sum_assignment

import slicewise as sw
from tests.command_line import accepted
from tests.tolerances import assert_close


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def clouds(kind, n=40, m=40, d=2, seed=0):
    generator = seeded(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    y = torch.randn(m, d, generator=generator, dtype=torch.float64)
    if kind == "moved":
        return x, y + 1
    if kind == "stretched":
        return x, y * torch.tensor([3.0] + [1.0] * (d - 1)).double()
    return x, y.exp()


THOROUGH = {"search": 100, "restarts": 10, "n_steps": 60}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["moved", "stretched", "exponential"])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_the_largest_slice_is_that_of_a_grid_and_below_its_bound(kind, p):
    x, y = clouds(kind, m=30)
    angles = torch.linspace(0, math.pi, 20_001, dtype=torch.float64)
    grid = torch.stack([angles.cos(), angles.sin()], dim=-1)
    best = sw.evaluate(x, y, slices=grid, p=p).costs.max() ** (1 / p)
    found = sw.evaluate(x, y, "maxsw", p=p, generator=seeded(), **THOROUGH)
    assert best * (1 - 1e-9) <= found.value <= best * (1 + 1e-6)
    assert found.bound >= found.value * (1 - 1e-9)
    power = sw.evaluate(x, y, "maxsw", p=p, objective="power", generator=seeded(), **THOROUGH)
    assert_close(power.bound, found.bound**p)


@pytest.mark.parametrize("p", [1.5, 2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_bound_from_a_poor_slice_is_still_one(p, weighted):
    """From any start, n ≠ m, weights and a batch: above whatever a thorough search finds."""
    x, y = clouds("exponential", n=13, m=9, d=5)
    x = torch.stack([x, 2 * x])
    weights = {}
    if weighted:
        raw = torch.rand(2, 13, dtype=torch.float64, generator=seeded())
        raw[:, 3] = 0
        x[:, 3] = 1e6  # absent
        weights = {"x_weights": raw / raw.sum(-1, keepdim=True)}
    poor = sw.evaluate(x, y, "sw", n_slices=1, p=p, generator=seeded(), **weights)
    best = sw.evaluate(x, y, "maxsw", p=p, generator=seeded(), **THOROUGH, **weights)
    assert poor.bound.shape == (2,)
    assert (poor.bound >= best.value * (1 - 1e-9)).all()
    assert (best.bound >= best.value * (1 - 1e-9)).all()


def test_a_bound_that_is_met_is_a_proof():
    """Sets that differ most along one axis: value and bound agree, and no direction can be better."""
    for d in (3, 30):
        x, y = clouds("stretched", n=150, m=120, d=d)
        found = sw.evaluate(x, y, "maxsw", generator=seeded(), **THOROUGH)
        assert_close(found.bound, found.value, rtol=1e-5)


def test_a_search_finds_what_one_climb_misses():
    """Two directions that differ, one a little more: a climb ends in either, a search in the better."""
    x = torch.randn(300, 6, dtype=torch.float64, generator=seeded())
    y = torch.randn(300, 6, dtype=torch.float64, generator=seeded(1))
    y[:, 0] *= 3
    y[:, 1] *= 2.9
    single = torch.stack(
        [sw.sliced_wasserstein(x, y, "maxsw", generator=seeded(i)) for i in range(20)]
    )
    best = torch.stack(
        [sw.sliced_wasserstein(x, y, "maxsw", generator=seeded(i), **THOROUGH) for i in range(5)]
    )
    assert single.min() < 0.98 * best.max()
    assert_close(best, best.max().expand(5), rtol=1e-6)


def test_the_bound_of_a_frame():
    """The mean of two orthonormal slices, by a grid of frames of the plane and by Ky Fan's theorem."""
    x, y = clouds("exponential", d=4)
    found = sw.evaluate(x, y, "maxksw", n_slices=2, n_steps=100, generator=seeded())
    assert found.value <= found.bound <= sw.evaluate(x, y, "maxsw", **THOROUGH).bound
    frames = torch.linalg.qr(torch.randn(2000, 4, 2, dtype=torch.float64)).Q.mT
    costs = sw.evaluate(x.expand(2000, -1, -1), y, slices=frames).power
    assert costs.max() <= found.bound**2


def test_no_bound_along_curves():
    found = sw.evaluate(*clouds("moved"), "maxgsw", function="circular")
    with pytest.raises(ValueError, match="curves"):
        _ = found.bound
    poly = sw.evaluate(*clouds("moved"), "maxgsw", n_steps=50, restarts=5)
    assert poly.bound >= poly.value


def test_the_command_prints_the_bound(tmp_path, capsys):
    x, y = clouds("stretched")
    np.save(tmp_path / "a.npy", x.numpy())
    np.save(tmp_path / "b.npy", y.numpy())
    words = ("distance", str(tmp_path / "a.npy"), str(tmp_path / "b.npy"), "-v")
    said = json.loads(accepted(capsys, *words, "maxsw", "-O", "search=50", "--json"))
    assert said["value"] <= said["at_most"] * (1 + 1e-9)
    assert "an upper bound" in accepted(capsys, *words, "maxsw")
    best = json.loads(accepted(capsys, *words, "maxsw", "-O", "search=50", "--exact", "--json"))
    assert best["value"] == said["value"]
    assert best["value"] * (1 - 1e-9) <= best["at_most"] <= said["at_most"]
    assert json.loads(accepted(capsys, *words, "sw", "--json"))["at_most"] is None


# Subspace-robust Wasserstein.


def transport_cost(x, y, omega):
    gaps = x[:, None] - y[None]
    costs = np.einsum("ijk,kl,ijl->ij", gaps, omega, gaps)
    return costs[linear_sum_assignment(costs)].mean()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["moved", "stretched", "exponential"])
def test_subspace_robust_is_the_saddle_of_a_grid(kind):
    """In the plane Ω = ½ + r (cos 2φ, sin 2φ; sin 2φ, −cos 2φ), 0 ≤ r ≤ ½, is all there is."""
    x, y = clouds(kind, n=15, m=15)
    best = 0.0
    for r in np.linspace(0, 0.5, 11):
        for phi in np.linspace(0, math.pi, 60, endpoint=False):
            c, s = math.cos(2 * phi), math.sin(2 * phi)
            omega = np.eye(2) / 2 + r * np.array([[c, s], [s, -c]])
            best = max(best, transport_cost(x.numpy(), y.numpy(), omega))
    found = sw.subspace_robust_wasserstein(x, y, 1, tolerance=1e-4, max_steps=2000)
    assert found.lower <= found.value <= found.upper
    assert math.sqrt(best) <= found.upper
    assert_close(found.value, torch.tensor(math.sqrt(best)), rtol=3e-3)
    assert_close(found.plan.sum(-1), torch.full((15,), 1 / 15, dtype=torch.float64))
    values = torch.linalg.eigvalsh(found.metric)
    assert values.min() > -1e-9
    assert values.max() < 1 + 1e-9
    assert_close(values.sum(), torch.tensor(1.0).double())


def test_subspace_robust_between_max_sliced_and_exact():
    x, y = clouds("exponential", n=25, m=20, d=4)
    exact = sw.wasserstein(x, y)
    values = [sw.subspace_robust_wasserstein(x, y, k, tolerance=1e-3) for k in (1, 2, 3, 4)]
    assert_close(values[3].value, exact)
    for k, (less, more) in enumerate(itertools.pairwise(values), start=1):
        assert less.lower <= more.upper
        assert more.lower**2 <= less.upper**2 * (k + 1) / k
    largest = sw.sliced_wasserstein(x, y, "maxsw", **THOROUGH)
    assert largest <= values[0].upper
    assert (values[0].upper / values[0].lower) ** 2 < 1.02


def test_subspace_robust_batches_weights_and_gradients():
    x, y = clouds("moved", n=8, m=6, d=3)
    many = torch.stack([x, 2 * x])
    weights = torch.tensor([0.5, 0, 0.1, 0.1, 0.1, 0.1, 0.1, 0]).double()
    found = sw.subspace_robust_wasserstein(many, y, 2, x_weights=weights)
    kept = weights > 0
    for i in range(2):
        alone = sw.subspace_robust_wasserstein(many[i, kept], y, 2, x_weights=weights[kept])
        assert_close(found.value[i], alone.value)
        assert found.plan[i, ~kept].abs().max() == 0
    live = x.clone().requires_grad_()
    cost = sw.subspace_robust_wasserstein(live, y, 3).value  # W_2, whose gradient is known
    (gradient,) = torch.autograd.grad(cost, live)
    plan = torch.tensor(ot.emd(np.full(8, 1 / 8), np.full(6, 1 / 6), ot.dist(x.numpy(), y.numpy())))
    expected = (x / 8 - plan @ y) / cost.detach()
    assert_close(gradient, expected, rtol=1e-6)


@pytest.mark.parametrize("entropy", [0.05, 1.0])
def test_entropic_subspace_robust(entropy):
    """Its bounds enclose the best of many metrics, each solved by an independent loop of scalings."""
    x, y = clouds("stretched", n=12, m=12)
    found = sw.subspace_robust_wasserstein(x, y, 1, entropy=entropy, tolerance=2e-3)
    assert (found.upper / found.lower) ** 2 < 1.01

    angle, radius = np.meshgrid(np.linspace(0, math.pi, 24, endpoint=False), (0.3, 0.4, 0.5))
    turned = np.array(
        [[np.cos(2 * angle), np.sin(2 * angle)], [np.sin(2 * angle), -np.cos(2 * angle)]]
    )
    omegas = np.eye(2)[..., None, None] / 2 + radius * turned
    gaps = (x[:, None] - y[None]).numpy()
    costs = np.einsum("ijk,kl...,ijl->...ij", gaps, omegas, gaps)
    f, g = np.zeros(costs.shape[:-1]), np.zeros(costs.shape[:-1])
    for _ in range(3000):
        f = -entropy * np.log(np.exp((g[..., None, :] - costs) / entropy).mean(-1))
        g = -entropy * np.log(np.exp((f[..., None] - costs) / entropy).mean(-2))
    best = (f.mean(-1) + g.mean(-1)).max()
    assert best <= found.upper**2 * (1 + 1e-9)
    assert abs(best / float(found.value) ** 2 - 1) < 0.01
    with pytest.raises(ValueError, match="entropy = -1"):
        sw.subspace_robust_wasserstein(x, y, 1, entropy=-1)
    with pytest.raises(ValueError, match="k <= 2"):
        sw.subspace_robust_wasserstein(x, y, 3)


# Detours.


def test_knothe_is_the_limit_of_costs_that_count_the_rest_less():
    """Three projections, several samples to each: the plans of P + ε (1 − P) as ε → 0."""
    generator = np.random.default_rng(0)
    x = np.concatenate([np.repeat([[0.0], [1], [2]], 4, 0), generator.normal(size=(12, 2))], axis=1)
    y = np.concatenate([np.repeat([[5.0], [4], [6]], 3, 0), generator.normal(size=(9, 2))], axis=1)
    basis = torch.eye(3, 1).double()
    found = sw.subspace_detour(torch.tensor(x), torch.tensor(y), basis)
    gaps = (x[:, None] - y[None]) ** 2
    a, b = np.full(12, 1 / 12), np.full(9, 1 / 9)
    near = ot.emd(a, b, (gaps * [1, 1e-3, 1e-3]).sum(-1))
    expected = math.sqrt((near * gaps.sum(-1)).sum())
    assert_close(found.value, torch.tensor(expected, dtype=torch.float64))
    apart = sw.subspace_detour(torch.tensor(x), torch.tensor(y), basis, kind="independent")
    exact = sw.wasserstein(torch.tensor(x), torch.tensor(y))
    assert exact <= found.value * (1 + 1e-9)
    assert found.value < apart.value
    for plan in (found.plan, apart.plan):
        assert_close(plan.sum(-1), torch.full((12,), 1 / 12, dtype=torch.float64))
        assert_close(plan.sum(-2), torch.full((9,), 1 / 9, dtype=torch.float64))
    # Of the independent one, by hand: all of a projection's partners share alike.
    inside = ot.emd(a, b, gaps[..., 0])
    for i in range(12):
        for j in range(9):
            same_x, same_y = x[:, 0] == x[i, 0], y[:, 0] == y[j, 0]
            block = inside[np.ix_(same_x, same_y)].sum()
            assert abs(float(apart.plan[i, j]) - block / (same_x.sum() * same_y.sum())) < 1e-12


def test_a_detour_by_a_line_is_the_sort_along_it():
    x, y = (torch.randn(2, 9, 3, generator=seeded(i), dtype=torch.float64) for i in range(2))
    basis = torch.linalg.qr(torch.randn(3, 1, dtype=torch.float64)).Q
    for kind in ("knothe", "independent"):
        found = sw.subspace_detour(x, y, basis, kind=kind)
        for i in range(2):
            left, right = (x[i] @ basis[:, 0]).argsort(), (y[i] @ basis[:, 0]).argsort()
            expected = (x[i][left] - y[i][right]).square().sum(-1).mean().sqrt()
            assert_close(found.value[i], expected)
    with pytest.raises(ValueError, match="a column for each"):
        sw.subspace_detour(x, y, torch.eye(2).double())


def covariance(seed, d=4):
    root = torch.randn(d, d, generator=seeded(seed), dtype=torch.float64)
    return root @ root.mT + 0.1 * torch.eye(d).double()


def test_detours_of_normal_laws():
    """Monge–Knothe pushes one law on the other and is a limit of optimal maps; both are optimal inside."""
    a, b = covariance(0), covariance(1)
    basis = torch.linalg.qr(torch.randn(4, 2, generator=seeded(2), dtype=torch.float64)).Q
    means = torch.randn(2, 4, generator=seeded(3), dtype=torch.float64)
    knothe = sw.gaussian_detour(means[0], a, means[1], b, basis)
    assert_close(knothe.map @ a @ knothe.map.mT, b)
    # The optimal map for the metric Q = P + ε (1 − P): between laws stretched by √Q, and back.
    project = basis @ basis.mT
    for eps, rtol in ((1e-4, 3e-2), (1e-6, 3e-3)):
        stretch = project + math.sqrt(eps) * (torch.eye(4).double() - project)
        back = torch.linalg.inv(stretch)
        inner_a, inner_b = stretch @ a @ stretch, stretch @ b @ stretch
        values, vectors = torch.linalg.eigh(inner_a)
        half = vectors * values.sqrt() @ vectors.mT
        values, vectors = torch.linalg.eigh(half @ inner_b @ half)
        middle = vectors * values.clamp(min=0).sqrt() @ vectors.mT
        monge = torch.linalg.inv(half) @ middle @ torch.linalg.inv(half)
        assert_close(knothe.map, back @ monge @ stretch, rtol=rtol)
    independent = sw.gaussian_detour(means[0], a, means[1], b, basis, kind="independent")
    assert independent.map is None
    assert independent.value > knothe.value
    assert_close(basis.mT @ independent.cross @ basis, basis.mT @ knothe.cross @ basis)
    # Given what is inside, the rest of x says nothing of the rest of y.
    joint = torch.cat(
        [torch.cat([a, independent.cross], 1), torch.cat([independent.cross.mT, b], 1)], 0
    )
    rest = torch.linalg.qr(basis, mode="complete").Q[:, 2:]
    inside = torch.block_diag(basis, basis)
    outside = torch.block_diag(rest, rest)
    between = inside.mT @ joint @ inside
    left = outside.mT @ joint @ inside @ torch.linalg.pinv(between) @ inside.mT @ joint @ outside
    assert (outside.mT @ joint @ outside - left)[:2, 2:].abs().max() < 1e-9


def test_a_detour_by_everything_is_optimal():
    a, b = covariance(0), covariance(1)
    zero, everything = torch.zeros(4).double(), torch.eye(4).double()
    values, vectors = torch.linalg.eigh(a)
    half = vectors * values.sqrt() @ vectors.mT
    bures = (a + b).trace() - 2 * torch.linalg.eigvalsh(half @ b @ half).sqrt().sum()
    for kind in ("knothe", "independent"):
        found = sw.gaussian_detour(zero, a, zero, b, everything, kind=kind)
        assert_close(found.value, bures.sqrt())


# Where a fresh reading looked.


@pytest.mark.parametrize("name", ["sw", "ebsw", "orthosw", "ksw", "maxksw"])
@pytest.mark.parametrize("d", [2, 30])
def test_a_bound_of_many_slices_is_above_their_mean(name, d):
    """Fifty slices are no frame of the plane: what bounds them is the largest slice, and not a share of the trace."""
    x, y = clouds("exponential", n=12, m=9, d=d)
    options = {"n_slices": 2} if name in ("ksw", "maxksw") else {}
    found = sw.evaluate(x, y, name, generator=seeded(), **options)
    assert found.value <= found.bound
    if not options:
        single = sw.evaluate(x, y, "maxsw", generator=seeded(), **THOROUGH)
        assert single.value <= found.bound * (1 + 1e-9)


@pytest.mark.parametrize("p", [2, *(pytest.param(p, marks=pytest.mark.slow) for p in (1, 3.5))])
def test_no_direction_of_small_sets_passes_the_bound(p):
    """Ties, weights, single samples, one dimension: 60 pairs against 2,000 directions each."""
    generator = seeded(int(10 * p))
    for trial in range(60):
        n, m, d = 1 + trial % 5, 1 + trial % 7, 1 + trial % 4
        x = torch.randn(n, d, generator=generator, dtype=torch.float64)
        y = torch.randn(m, d, generator=generator, dtype=torch.float64).exp()
        if trial % 3 == 0:
            x, y = x.round(), y.round()
        weights = {}
        if trial % 2:
            raw = torch.rand(n, generator=generator, dtype=torch.float64) + 0.01
            weights = {"x_weights": raw / raw.sum()}
        rays = torch.randn(2000, d, generator=generator, dtype=torch.float64)
        rays = torch.nn.functional.normalize(rays, dim=-1)
        most = sw.evaluate(x, y, slices=rays, p=p, **weights).costs.max() ** (1 / p)
        poor = sw.evaluate(x, y, n_slices=1, p=p, generator=generator, **weights)
        assert poor.bound >= most * (1 - 1e-9)


def test_far_from_the_origin_nothing_changes():
    """Squares of large coordinates would take the digits of small distances with them."""
    x, y = clouds("moved", n=12, m=9, d=3)
    basis = torch.eye(3, 1, dtype=torch.float64)

    def values(shift):
        robust = sw.subspace_robust_wasserstein(x + shift, y + shift, 1)
        detour = sw.subspace_detour(x + shift, y + shift, basis)
        return torch.stack([robust.value, robust.lower, robust.upper, detour.value])

    assert_close(values(1e6), values(0), rtol=1e-8)
    scaled = sw.subspace_robust_wasserstein(1e80 * x, 1e80 * y, 1).value
    assert_close(scaled, 1e80 * values(0)[0], rtol=1e-8)
    same = torch.ones(4, 3, dtype=torch.float64).requires_grad_()
    none = sw.subspace_robust_wasserstein(same, torch.ones(3, 3, dtype=torch.float64), 2)
    assert none.value == none.upper == 0
    assert torch.autograd.grad(none.value, same)[0].abs().max() == 0


def test_covariances_that_are_none():
    zero, one = torch.zeros(3).double(), torch.eye(3).double()
    flat = torch.diag(torch.tensor([1.0, 0.0, 1.0]).double())
    for words, covariance in (
        ("full rank", flat),
        ("full rank", -one),
        ("asymmetry 1", one + torch.eye(3).double().roll(1, 0).triu(1)),
        ("shape", one[:2, :2]),
    ):
        for name in ("x_covariance", "y_covariance"):
            given = {"x_covariance": one, "y_covariance": one, name: covariance}
            with pytest.raises(ValueError, match=f"{name}.*{words}"):
                sw.gaussian_detour(x_mean=zero, y_mean=zero, basis=one[:, :1], **given)
