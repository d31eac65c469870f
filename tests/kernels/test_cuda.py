"""Kernels on a CUDA device: each says what the plain version says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slicewise.flows.stepping import largest
from slicewise.kernels import matcher
from slicewise.parts.learned import PushForward
from slicewise.parts.moves import Ascend
from slicewise.parts.slicers import RandomPath
from slicewise.problem.problem import Problem
from slicewise.sampling import sphere
from slicewise.sampling.generators import Randomness
from slicewise.sampling.philox import Counted, numbers
from slicewise.transport.backproject import descend
from slicewise.transport.one_dim import Wanted
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
