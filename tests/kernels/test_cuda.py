"""Kernels on a CUDA device: each says what the plain version says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slicewise.flows.stepping import largest
from slicewise.kernels import matcher
from slicewise.kernels.cuda.plan import BufferCopier, cauchy_sums
from slicewise.parts.learned import PushForward
from slicewise.parts.moves import Ascend
from slicewise.parts.slicers import RandomPath
from slicewise.problem.problem import Problem
from slicewise.sampling import sphere
from slicewise.sampling.generators import Randomness
from slicewise.sampling.philox import Counted, numbers
from slicewise.transport.backproject import descend
from slicewise.transport.one_dim import Match, Wanted
from slicewise.transport.sliced import Needs, pull_back, sorted_lines
from slicewise.transport.sliced import match_slices as plain
from tests.tolerances import assert_close

pytestmark = pytest.mark.gpu
CUDA = torch.device("cuda")
LEVELS = ["nvrtc", "torch-nvrtc", "triton"]


def by(level):
    return matcher(level, torch.device("cuda", 0))


def clouds(n, d, n_slices, *, batch=(), dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(*batch, n, d, generator=g, dtype=torch.float64)
    y = 0.7 * torch.randn(*batch, n, d, generator=g, dtype=torch.float64) + 0.3
    slices = torch.nn.functional.normalize(
        torch.randn(*batch, n_slices, d, generator=g, dtype=torch.float64), dim=-1
    )
    return tuple(t.to(dtype).cuda() for t in (x, y, slices))


def both(level, x, y, slices, **options):
    """What the level says, and what plain torch says in double precision."""
    wanted = options.pop("wanted", Wanted(True, True))
    found = by(level)(x, y, slices, wanted=wanted, **options)
    exact = plain(x.double(), y.double(), slices.double(), wanted=wanted, **options)
    return found, exact


@pytest.mark.parametrize(
    ("level", "p", "n"),
    [("nvrtc", p, n) for p in (1, 1.5, 2, 3) for n in (1, 2, 50, 63, 64, 65, 300, 1000, 1024)]
    + [(level, p, n) for level in LEVELS[1:] for p in (1, 2) for n in (1, 300)],
)
def test_costs_and_gradients(level, n, p):
    """Float64: to ten digits, in any size, projected here (d = 3) or by a product (d = 40)."""
    for d in (3, 40):
        found, exact = both(level, *clouds(n, d, 7), p=p)
        assert_close(found.cost, exact.cost)
        assert_close(found.u_grad, exact.u_grad)
        assert_close(found.v_grad, exact.v_grad)


@pytest.mark.parametrize(
    ("level", "p", "n"),
    [("nvrtc", p, n) for p in (1, 2) for n in (1, 17, 50, 300, 1024)]
    + [("torch-nvrtc", 2, 300), ("triton", 1, 50), ("triton", 2, 300), ("triton", 2, 1024)],
)
def test_single_precision(level, n, p):
    """Projections round, so that near ties may change places: values hold, gradients in the mean."""
    for d in (2, 60):
        found, exact = both(level, *clouds(n, d, 7, dtype=torch.float32), p=p)
        assert_close(found.cost.double(), exact.cost, rtol=1e-5)
        for ours, true in ((found.u_grad, exact.u_grad), (found.v_grad, exact.v_grad)):
            assert (ours.double() - true).norm() <= 2e-3 * true.norm()


@pytest.mark.parametrize(("level", "n"), [("nvrtc", 2048), ("nvrtc", 3000), ("torch-nvrtc", 4096)])
def test_the_longest_lines_of_a_block(level, n):
    found, exact = both(level, *clouds(n, 3, 5), p=2)
    assert_close(found.cost, exact.cost)
    assert_close(found.u_grad, exact.u_grad)
    found, exact = both(level, *clouds(n, 3, 5, dtype=torch.float32), p=2)
    assert_close(found.cost.double(), exact.cost, rtol=1e-5)


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize(("n", "d"), [(50, 784), (65, 1000), (7, 5000)])
def test_projections_in_parts(n, d, batch):
    x, y, slices = clouds(n, d, 50, batch=batch)
    for given in ((x, y, slices), (x[:1] if batch else x, y, slices)):
        found, exact = both("nvrtc", *given, p=2)
        assert_close(found.cost, exact.cost)
        assert_close(found.u_grad, exact.u_grad)
        assert_close(found.v_grad, exact.v_grad)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n_slices", [3, 600])
def test_batches_and_what_they_share(level, n_slices):
    """Samples, target and slices each with the batch or without; few lines and many."""
    x, y, slices = clouds(37, 5, n_slices, batch=(3,))
    for a, b, c in [(x, y, slices), (x, y[0], slices), (x[0], y, slices), (x, y, slices[0])]:
        found, exact = both(level, a, b, c, p=2)
        assert found.cost.shape == exact.cost.shape
        assert_close(found.cost, exact.cost)
        assert_close(found.u_grad, exact.u_grad)
        assert_close(found.v_grad, exact.v_grad)


@pytest.mark.parametrize("level", LEVELS)
def test_a_sorted_target(level):
    x, y, slices = clouds(130, 4, 6)
    known = (slices @ y.mT).sort(dim=-1).values
    found, exact = both(level, x, y, slices, p=2, y_sorted=known, wanted=Wanted(True, False))
    assert_close(found.cost, exact.cost)
    assert_close(found.u_grad, exact.u_grad)
    assert found.v_grad is None


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "kind", ["ties", "all equal", "an outlier", "two far clusters", "tiny", "huge", "integers"]
)
def test_hard_lines(level, dtype, kind):
    """Lines that fixed point cannot tell apart: the order is that of the numbers, ties in their order."""
    g = torch.Generator().manual_seed(3)
    line = torch.randn(2, 500, generator=g, dtype=torch.float64)
    if kind == "ties":
        line = (line * 3).round()
    elif kind == "all equal":
        line = torch.ones_like(line)
    elif kind == "an outlier":
        line[:, 7] = 1e9 if dtype == torch.float32 else 1e17
    elif kind == "two far clusters":
        line = line * 1e-3 + 1e5 * (line > 0)
    elif kind == "tiny":
        line = line * 1e-39 if dtype == torch.float32 else line * 1e-310
    elif kind == "huge":
        line = line * 1e18 if dtype == torch.float32 else line * 1e150
    elif kind == "integers":
        line = torch.randint(-40, 40, line.shape, generator=g).double()
    x, y = (one.to(dtype).unsqueeze(-1).cuda() for one in line)
    y = y.flip(0)
    slices = torch.ones(1, 1, dtype=dtype, device=CUDA)
    found = by(level)(x, y, slices, p=1)
    exact = plain(x, y, slices, p=1)  # in the same precision: no projection, so the same numbers
    assert_close(found.cost, exact.cost)
    assert found.u_grad.equal(exact.u_grad)
    assert found.v_grad.equal(exact.v_grad)


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_not_finite_stays_so(level):
    x, y, slices = clouds(100, 3, 4)
    for bad in (torch.nan, torch.inf, -torch.inf):
        x[5, 0] = bad
        assert not by(level)(x, y, slices, p=2).cost.isfinite().any()
    torch.cuda.synchronize()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [5000, 70_001])
def test_long_lines(dtype, n):
    found, exact = both("nvrtc", *clouds(n, 3, 4, dtype=dtype), p=2)
    assert_close(found.cost.double(), exact.cost, rtol=1e-6 if dtype == torch.float32 else None)
    apart = (found.u_grad.double() - exact.u_grad).norm() / exact.u_grad.norm()
    assert apart < (1e-3 if dtype == torch.float32 else 1e-10)


# Unequal sizes and sample weights: one block merges the quantiles of a line, or tiles of a long one do.


def weights(kind, n, *, batch=(), dtype=torch.float64, seed=0):
    """Sample weights that sum to one; "zeros" has absent samples, "heavy" one that outweighs all others."""
    if kind is None:
        return None
    g = torch.Generator().manual_seed(seed)
    found = torch.rand(*batch, n, generator=g, dtype=torch.float64) + 0.01
    if kind == "zeros":
        found[..., torch.rand(n, generator=g) < 0.4] = 0
        found[..., n // 2] = 1
    elif kind == "heavy":
        found[..., n // 3] = 1000.0 * n
    return (found / found.sum(dim=-1, keepdim=True)).to(dtype).cuda()


def unequal(n, m, d, n_slices, *, batch=(), dtype=torch.float64):
    x, y, slices = clouds(max(n, m), d, n_slices, batch=batch, dtype=dtype)
    return x[..., :n, :].contiguous(), y[..., :m, :].contiguous(), slices


def assert_matches(found, exact):
    """Float64 to ten digits; float32 as `test_single_precision`."""
    single = found.cost.dtype == torch.float32
    assert_close(found.cost.double(), exact.cost, rtol=1e-5 if single else None)
    for ours, true in ((found.u_grad, exact.u_grad), (found.v_grad, exact.v_grad)):
        assert (ours is None) == (true is None)
        if true is None:
            continue
        assert ours.shape == true.shape
        if single:
            assert (ours.double() - true).norm() <= 2e-3 * true.norm()
        else:
            assert_close(ours, true)


MASSES = [
    (None, None),
    ("rand", None),
    (None, "zeros"),
    ("zeros", "heavy"),
    ("heavy", "rand"),
]


@pytest.mark.parametrize("kinds", MASSES, ids=str)
@pytest.mark.parametrize(
    ("n", "m", "p"), [(700, 300, 2), (1, 5, 1), (65, 64, 1.5), (300, 300, 2), (50, 1000, 1)]
)
def test_merged_quantiles(n, m, p, kinds):
    x, y, slices = unequal(n, m, 3, 4)
    a, b = (weights(kind, size, seed=size) for kind, size in zip(kinds, (n, m), strict=True))
    assert_matches(*both("nvrtc", x, y, slices, x_weights=a, y_weights=b, p=p))


@pytest.mark.parametrize(("n", "m"), [(4096, 1), (2500, 4000), (1, 4096)])
@pytest.mark.parametrize("kinds", MASSES[::2], ids=str)
def test_merged_quantiles_of_the_longest_lines_of_a_block(n, m, kinds):
    for dtype in (torch.float32, torch.float64):
        x, y, slices = unequal(n, m, 3, 2, dtype=dtype)
        a, b = (weights(k, size, dtype=dtype) for k, size in zip(kinds, (n, m), strict=True))
        assert_matches(*both("nvrtc", x, y, slices, x_weights=a, y_weights=b, p=2))


@pytest.mark.parametrize("kinds", MASSES, ids=str)
@pytest.mark.parametrize(("n", "m"), [(5000, 4000), (5000, 5000), (100, 70001)])
def test_merged_quantiles_of_long_lines(n, m, kinds):
    for dtype in (torch.float32, torch.float64):
        x, y, slices = unequal(n, m, 3, 2, dtype=dtype)
        a, b = (weights(k, size, dtype=dtype) for k, size in zip(kinds, (n, m), strict=True))
        assert_matches(*both("nvrtc", x, y, slices, x_weights=a, y_weights=b, p=2))


@pytest.mark.parametrize("sizes", [(70, 50), (6000, 4100)])
def test_batches_of_weights_and_what_they_share(sizes):
    """Samples, slices and weights each with the batch or without."""
    n, m = sizes
    x, y, slices = unequal(n, m, 3, 2, batch=(3,))
    a, b = weights("rand", n, batch=(3,)), weights("zeros", m, batch=(3,))
    for given in [
        (x, y, slices, a, b),
        (x, y[0], slices[0], a, None),
        (x[0], y[0], slices[0], a, None),
        (x[0], y[0], slices[0], None, b),
        (x, y, slices, a[0], b[0]),
        (x, y[0], slices, None, None),
    ]:
        found = by("nvrtc")(*given, p=2)
        exact = plain(*given, p=2)
        assert found.cost.shape == exact.cost.shape
        assert_matches(found, exact)


@pytest.mark.parametrize("kind", [None, "zeros"])
@pytest.mark.parametrize(("n", "m"), [(130, 90), (90, 130), (130, 130), (4500, 90)])
def test_a_sorted_target_of_another_size(n, m, kind):
    x, y, slices = unequal(n, m, 4, 3)
    known = (slices @ y.mT).sort(dim=-1).values
    how = {"x_weights": weights(kind, n), "y_sorted": known, "wanted": Wanted(True, False)}
    assert_matches(*both("nvrtc", x, y, slices, p=2, **how))


@pytest.mark.parametrize("wanted", [Wanted(False, False), Wanted(True, False), Wanted(False, True)])
@pytest.mark.parametrize("n", [90, 4200])
def test_gradients_of_merged_quantiles_that_are_asked_for(n, wanted):
    x, y, slices = unequal(n, 40, 3, 3)
    for kind in (None, "rand"):
        how = {"x_weights": weights(kind, n), "y_weights": weights(kind, 40), "wanted": wanted}
        assert_matches(*both("nvrtc", x, y, slices, p=2, **how))


@pytest.mark.parametrize(("n", "m"), [(500, 300), (5000, 300)])
def test_merged_quantiles_of_ties(n, m):
    """Ties keep the order of the samples, on which their gradients depend."""
    g = torch.Generator().manual_seed(4)
    x, y = (torch.randint(-9, 9, (size, 1), generator=g).double().cuda() for size in (n, m))
    slices = torch.ones(1, 1, dtype=torch.float64, device=CUDA)
    for a, b in ((None, None), (weights("zeros", n), weights("heavy", m))):
        assert_matches(*both("nvrtc", x, y, slices, x_weights=a, y_weights=b, p=1))


@pytest.mark.parametrize("n", [200, 4500])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_absent_samples_may_lie_anywhere(n, dtype):
    x, y, slices = unequal(n, 90, 1, 1, dtype=dtype)
    slices = torch.ones_like(slices)
    a = weights("rand", n, dtype=dtype)
    a[[0, 17, n - 1]] = 0
    expected = by("nvrtc")(x, y, slices, a, p=2)
    for where in (torch.nan, torch.inf, -torch.inf, 1e30):
        x[[0, 17, n - 1]] = where
        found = by("nvrtc")(x, y, slices, a, p=2)
        assert_close(found.cost, expected.cost)
        assert_close(found.u_grad, expected.u_grad)
    x[3] = torch.nan  # present
    assert by("nvrtc")(x, y, slices, a, p=2).cost.isnan().all()
    assert by("nvrtc")(x, y, slices, p=2).cost.isnan().all()
    torch.cuda.synchronize()


@pytest.mark.parametrize(("n", "m"), [(700, 300), (5000, 9000)])
def test_merged_quantiles_are_the_same_in_every_run(n, m):
    x, y, slices = unequal(n, m, 3, 5, dtype=torch.float32)
    for a, b in ((None, None), (weights("heavy", n), weights("zeros", m))):
        first, second = (by("nvrtc")(x, y, slices, a, b, p=2) for _ in range(2))
        for one, other in zip(first[:3], second[:3], strict=True):
            assert one.equal(other)


@pytest.mark.parametrize("level", ["torch-nvrtc", "triton"])
def test_merged_quantiles_at_other_levels(level):
    x, y, slices = unequal(70, 50, 3, 4)
    a = weights("rand", 70)
    for how in ({}, {"x_weights": a}):
        assert_matches(*both(level, x, y, slices, p=2, **how))


def test_gradients_to_weights_stay_plain():
    x, y, slices = unequal(70, 50, 3, 4)
    a, b = weights("rand", 70), weights("zeros", 50)
    wanted = Wanted(True, True, True, True)
    found, exact = both("nvrtc", x, y, slices, x_weights=a, y_weights=b, p=2, wanted=wanted)
    assert_close(found.u_weights_grad, exact.u_weights_grad)
    assert_close(found.v_weights_grad, exact.v_weights_grad)


# What surrounds a captured call.


def test_copies_in_one_launch():
    sizes = [5, 16, 1000, 70_000, 4, 0]
    for offset in (0, 1, 4):
        given = [
            torch.randint(0, 255, (size + offset,), dtype=torch.uint8, device=CUDA)[offset:]
            for size in sizes
        ]
        copies = [torch.zeros_like(t) for t in given]
        numbers = torch.zeros(4, dtype=torch.int64, device=CUDA)
        BufferCopier(copies, numbers[:3])(given, [7, -1, 2**60])
        assert all(one.equal(other) for one, other in zip(copies, given, strict=True))
        assert numbers.tolist() == [7, -1, 2**60, 0]
        fresh = BufferCopier(given, None).fresh()
        assert all(one.equal(other) for one, other in zip(fresh, given, strict=True))


def plain_cauchy_sums(g, at, weights, masses):
    g, at = g.double(), at.double()
    q = masses.double().unsqueeze(-2) if isinstance(masses, torch.Tensor) else masses
    w = weights.double() if isinstance(weights, torch.Tensor) else weights
    above = (w * (q * g * at).sum(dim=-1)).sum(dim=-1)
    return above, (abs(w) * (q * at * at).sum(dim=-1)).sum(dim=-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 50, 100), (3, 7, 513), (2, 2, 20_000), (1, 1, 1)])
def test_the_sums_of_a_cauchy_step(shape, dtype):
    g, at = (torch.randn(shape, dtype=dtype, device=CUDA) for _ in range(2))
    sets, n_slices, n = shape
    tickets = torch.zeros(sets, dtype=torch.int32, device=CUDA)
    each, one = (torch.randn(k, n_slices, dtype=dtype, device=CUDA) for k in (sets, 1))
    for weight in (-0.3, each, one):
        for mass in (1 / n, torch.rand(sets, n, device=CUDA), torch.rand(1, n, device=CUDA)):
            found = cauchy_sums(g, at, weight, mass, tickets=tickets)
            again = cauchy_sums(g, at, weight, mass)
            for ours, same, true in zip(
                found, again, plain_cauchy_sums(g, at, weight, mass), strict=True
            ):
                assert ours.equal(same)
                # Relative to the terms, which cancel.
                scale = plain_cauchy_sums(at, at, abs(weight), mass)[0] + true.abs()
                assert ((ours - true).abs() <= 1e-10 * scale).all()
    assert tickets.eq(0).all()


# Random numbers.


def counted(step=5, purpose=0, seeds=(11, -3, 11)):
    seeds = torch.tensor(seeds)
    distinct, which = seeds.unique(return_inverse=True)
    on = (seeds.cuda(), which.cuda(), distinct.tolist(), step, purpose)
    off = (seeds, which, distinct.tolist(), step, purpose)
    return Counted(*on), Counted(*off)


def test_numbers_are_numpys():
    here, there = counted()
    uniform, normal = here.uniform(3, 7, 5), here.normal(3, 1001)
    exact = np.stack([numbers("uniform", 35, s, 0, 5, 0) for s in (11, -3, 11)])
    assert uniform.cpu().reshape(3, -1).numpy().tolist() == exact.tolist()
    there.uniform(3, 7, 5)
    assert_close(normal.cpu(), there.normal(3, 1001), rtol=1e-6)


@pytest.mark.parametrize("step", [0, 9])
@pytest.mark.parametrize("d", [1, 2, 3, 50, 300, 3000])
def test_directions(d, step):
    for dtype in (torch.float32, torch.float64):
        here, there = counted(step)
        drawn, exact = (sphere.uniform((3, 9, d), rng, dtype) for rng in (here, there))
        assert_close(drawn.cpu(), exact, rtol=2e-6)
        if d == 1:
            continue
        drawn, exact = (sphere.orthogonal_to(exact.to(rng.device), rng) for rng in (here, there))
        assert_close(drawn.cpu(), exact, rtol=1e-5)
        drawn, exact = (
            sphere.von_mises_fisher(exact.to(rng.device), 20.0, rng) for rng in (here, there)
        )
        assert_close(drawn.cpu(), exact, rtol=1e-5)


@pytest.mark.parametrize("d", [2, 3, 50, 300])
@pytest.mark.parametrize("kappa", [0.2, 50.0])
def test_power_spherical(d, kappa):
    for dtype in (torch.float32, torch.float64):
        here, there = counted()
        means = sphere.normalize(torch.randn(3, 9, d, dtype=dtype))
        drawn, exact = (
            sphere.power_spherical(means.to(rng.device), kappa, rng) for rng in (here, there)
        )
        assert_close(drawn.cpu(), exact, rtol=1e-5)
        drawn, exact = (sphere.uniform((3, 2, d), rng, dtype) for rng in (here, there))
        assert_close(drawn.cpu(), exact, rtol=1e-5)  # as many draws were used up


@pytest.mark.parametrize("d", [1, 2, 40, 2000])
@pytest.mark.parametrize("shared", [False, True])
def test_random_paths(d, shared):
    x, y = torch.randn(3, 20, d), torch.randn(3, 17, d)
    x[:, :, 0], y[:, :, 0] = 0, 1
    x[1] = y[1, 0]  # some paths lead nowhere
    y[1] = y[1, 0]
    if shared:
        y = y[1]
    here, there = counted()
    drawn, exact = (
        RandomPath(11)(Problem(x.to(rng.device), y.to(rng.device)), rng) for rng in (here, there)
    )
    assert_close(drawn.cpu(), exact, rtol=1e-5)


@pytest.mark.parametrize("rate", [None, 0.1])
@pytest.mark.parametrize("coupled", [False, True])
def test_ascents(rate, coupled):
    x, y, slices = clouds(30, 6, 5, batch=(2,))
    problem = Problem(x, y)
    ascend = Ascend(rate, coupled=coupled)
    costs, gradient = problem.costs_and_ascent(slices)
    plain_step = ascend._step(slices, problem, costs, gradient)
    assert_close(ascend.raised(slices, problem, Randomness(None, CUDA)), plain_step)
    found = ascend(slices, problem, Randomness(None, CUDA))
    assert_close(found, torch.nn.functional.normalize(plain_step, dim=-1))
    still = ascend(slices, Problem(x, x), Randomness(None, CUDA))
    assert_close(still, slices)


def test_learned_slices():
    x, y, _ = clouds(30, 6, 5, batch=(3,))
    slicer = PushForward(20, n_steps=3, lr=0.01)
    found = []
    for rng in counted():
        problem = Problem(x.to(rng.device), y.to(rng.device))
        slices, state = slicer.learn(problem, rng, slicer.cold(problem, rng))
        found.append([slices.cpu(), *(t.cpu() for t in state.values())])
    for ours, exact in zip(*found, strict=True):
        assert_close(ours.double(), exact.double(), rtol=1e-4)


@pytest.mark.parametrize("d", [3, 40])
def test_back_from_the_lines(d):
    x, y, slices = clouds(70, d, 9, batch=(4,))
    found = plain(x, y, slices, p=2)
    for factor in (0.3, torch.rand(4, 9, dtype=x.dtype, device=CUDA)):
        each = factor if isinstance(factor, float) else factor.unsqueeze(-1)
        truth = (each * found.u_grad).mT @ slices
        needs = Needs(x=True)
        assert_close(pull_back(found, x, y, slices, factor, needs).x, truth)
        shared = pull_back(found, x, y, slices[0], factor, needs).x
        assert_close(shared, (each * found.u_grad).mT @ slices[0])
        first = factor if isinstance(factor, float) else factor[0]
        one = pull_back(
            Match(*(t[0] for t in found[:3]), None, None), x[0], y[0], slices[0], first, needs
        )
        assert_close(one.x, truth[0])
        rates = torch.rand(4, dtype=x.dtype, device=CUDA)
        stepped, mean = descend(x, rates, found, slices, factor)
        assert_close(stepped, x - rates[:, None, None] * truth)
        assert_close(mean, found.cost.mean(dim=-1))


def test_sorted_lines():
    lines = torch.randn(5, 7, 333, device=CUDA)
    assert sorted_lines(lines).equal(lines.sort(dim=-1).values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_largest_number_of_each_run(dtype):
    x = torch.randn(5, 700, 300, dtype=dtype, device=CUDA)
    x[1, 3, 4], x[2, 6, 1], x[3, 699, 299] = -1e30, torch.nan, -torch.inf
    found = largest(x)
    truth = x.abs().amax(dim=(-2, -1))
    assert found[[0, 1, 4]].equal(truth[[0, 1, 4]])
    assert found[2].isnan()
    assert found[3].isinf()


def test_a_step_counted_on_the_device():
    here, _ = counted(5)
    there, _ = counted(torch.tensor(5, device=CUDA))
    assert here.normal(3, 40).equal(there.normal(3, 40))


@pytest.mark.parametrize("d", [1, 3, 200, 5000])
def test_normalise(d):
    vectors = torch.randn(6, d, dtype=torch.float64)
    vectors[0] = 0
    vectors[1] *= 1e-200
    vectors[2] *= 1e200
    assert_close(sphere.normalize(vectors.cuda()).cpu(), sphere.normalize(vectors))


@pytest.mark.parametrize(("size", "d"), [(1, 1), (2, 2), (3, 3), (2, 100), (50, 50), (120, 200)])
def test_orthonormalise(size, d):
    frames = torch.randn(4, size, d, dtype=torch.float64)
    found = sphere.orthonormalize(frames.cuda())
    assert_close(found.cpu(), sphere.orthonormalize(frames), rtol=1e-8)
    eye = torch.eye(size, dtype=torch.float64)
    assert_close((found @ found.mT).cpu(), eye.expand(4, -1, -1))


def test_frames_without_full_rank_are_completed():
    frames = torch.zeros(2, 3, 4, dtype=torch.float64)
    frames[0, :2] = torch.tensor([1.0, 1, 0, 0])
    found = sphere.orthonormalize(frames.cuda()).cpu()
    assert_close(found @ found.mT, torch.eye(3, dtype=torch.float64).expand(2, -1, -1))
    assert_close(found[0, 0], torch.tensor([1.0, 1, 0, 0], dtype=torch.float64) / 2**0.5)
