"""Directions: unit, seeded, and of the law they claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from slicewise.parts import legacy
from slicewise.sampling import sphere
from slicewise.sampling.generators import Randomness
from tests import oracles

CPU = torch.device("cpu")
# Mean cosines by kappa and dimension: von Mises–Fisher, power-spherical.
MEAN_COSINES = {
    (2, 1): (0.446, 0.500), (2, 10): (0.949, 0.909), (2, 50): (0.990, 0.980), (2, 100): (0.995, 0.990),
    (3, 1): (0.313, 0.333), (3, 10): (0.900, 0.833), (3, 50): (0.980, 0.962), (3, 100): (0.990, 0.980),
    (50, 1): (0.020, 0.020), (50, 10): (0.193, 0.170), (50, 50): (0.621, 0.505), (50, 100): (0.784, 0.671),
    (512, 1): (0.002, 0.002), (512, 10): (0.020, 0.019), (512, 50): (0.097, 0.089), (512, 100): (0.188, 0.164),
}  # fmt: skip


def rng(seed=0):
    return Randomness(torch.Generator().manual_seed(seed), CPU)


def assert_unit(directions):
    norms = torch.linalg.vector_norm(directions, dim=-1)
    eps = torch.finfo(directions.dtype).eps
    assert (norms - 1).abs().max() < 8 * eps * math.sqrt(directions.shape[-1])


def cosines(draw, d, kappa, n, seed=0):
    mean = torch.zeros(n, d, dtype=torch.float64)
    mean[:, 0] = 1
    drawn = draw(mean, kappa, rng(seed))
    assert_unit(drawn)
    return (drawn * mean).sum(-1).numpy()


@pytest.mark.parametrize(("d", "kappa"), MEAN_COSINES)
@pytest.mark.parametrize("law", ["vmf", "ps"])
def test_mean_cosine(d, kappa, law):
    draw = sphere.von_mises_fisher if law == "vmf" else sphere.power_spherical
    found = cosines(draw, d, kappa, n=4000)
    stderr = found.std() / math.sqrt(len(found))
    exact = oracles.vmf_mean_cosine(d, kappa) if law == "vmf" else kappa / (kappa + d - 1)
    assert abs(found.mean() - exact) < 4 * stderr
    assert abs(found.mean() - MEAN_COSINES[d, kappa][law == "ps"]) < 4 * stderr + 5e-4


@pytest.mark.parametrize(("d", "kappa"), [(2, 50), (3, 1), (4, 10), (50, 50), (512, 50)])
@pytest.mark.parametrize("law", ["vmf", "ps"])
def test_whole_law_of_the_cosine(d, kappa, law):
    """Kolmogorov–Smirnov against the density, integrated numerically; seeds are fixed."""
    if law == "vmf":
        draw, log_density = sphere.von_mises_fisher, lambda t: kappa * t
    else:
        draw, log_density = sphere.power_spherical, lambda t: kappa * np.log1p(t)
    if d == 2:  # the density of the cosine has poles at ±1: look at the angle instead
        found = np.arccos(np.clip(cosines(draw, d, kappa, n=5000), -1, 1))
        grid = np.linspace(0, np.pi, 100_001)
        f = np.exp(log_density(np.cos(grid[:-1])) - log_density(np.array(1.0)))
        cdf = np.concatenate([[0], np.cumsum(f)])
        test = stats.kstest(found, lambda q: np.interp(q, grid, cdf / cdf[-1]))
    else:
        test = stats.kstest(cosines(draw, d, kappa, n=5000), oracles.cosine_cdf(log_density, d))
    assert test.pvalue > 1e-3


@pytest.mark.parametrize("law", [sphere.von_mises_fisher, sphere.power_spherical])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("d", [2, 3, 50])
def test_means_on_an_axis_are_nothing_special(law, sign, d):
    mean = torch.zeros(2000, d, dtype=torch.float64)
    mean[:, 0] = sign
    drawn = law(mean, 20.0, rng())
    assert_unit(drawn)
    around = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64)).Q
    turned = law(mean @ around, 20.0, rng(1))
    a, b = (drawn * mean).sum(-1), (turned * (mean @ around)).sum(-1)
    assert abs(a.mean() - b.mean()) < 4 * math.sqrt((a.var() + b.var()).item() / 2000)


def test_a_line_has_two_directions_only():
    plus = torch.ones(3, 1)
    assert sphere.von_mises_fisher(plus, 5.0, rng()).equal(plus)
    assert sphere.power_spherical(plus, 5.0, rng()).equal(plus)


@pytest.mark.parametrize("a", [0.25, 0.5, 1.0, 2.5, 300.0])
def test_gamma_law(a):
    drawn = rng().gamma(a, 5000).numpy()
    assert stats.kstest(drawn, stats.gamma(a).cdf).pvalue > 1e-3


def test_published_vmf_sampler_drifts_as_reported():
    """Measured in the published code at kappa = 50: +0.335 at d = 100 and −0.437 at d = 512."""
    for d, reported in ((10, 0.913), (50, 0.599), (100, 0.335), (512, -0.437)):
        found = cosines(legacy.von_mises_fisher, d, 50.0, n=4000)
        assert abs(found.mean() - reported) < 4 * found.std() / math.sqrt(4000) + 1e-3


@pytest.mark.parametrize("d", [1, 2, 3, 50])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_has_no_preferred_direction(d, dtype):
    drawn = sphere.uniform((4000, d), rng(), dtype)
    assert drawn.dtype == dtype
    assert_unit(drawn)
    second = (drawn.mT @ drawn / 4000).double()
    # Var of a product of two coordinates is below 3 / d²; the largest of d² of them within 5 sd.
    assert (second - torch.eye(d) / d).abs().max() < 5 * math.sqrt(3 / 4000) / d


@pytest.mark.parametrize(("n", "d"), [(2, 5), (5, 5), (12, 5), (3, 1)])
def test_orthonormal_frames_are_stacked(n, d):
    drawn = sphere.orthonormal((3, n, d), rng())
    assert drawn.shape == (3, n, d)
    for start in range(0, n, d):
        frame = drawn[:, start : start + d]
        gram = frame @ frame.mT
        assert (gram - torch.eye(frame.shape[1])).abs().max() < 1e-12


def test_orthonormal_frames_are_haar():
    """First entries of Haar frames have mean 0 and variance 1/d; QR without signs would not."""
    first = sphere.orthonormal((4000, 3, 3), rng())[:, 0, 0]
    assert abs(first.mean()) < 4 * math.sqrt(1 / 3 / 4000)
    assert abs(first.var() - 1 / 3) < 4 * math.sqrt(0.1 / 4000)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 10])
def test_low_discrepancy_beats_independent_draws(d):
    """Mean of (θ·e)² over 64 rows is 1/d; spread over rotations is below that of uniform rows."""
    shape = (200, 64, d)
    drawn = sphere.low_discrepancy(shape, rng())
    assert_unit(drawn)
    even = drawn[..., 0].square().mean(-1)
    loose = sphere.uniform(shape, rng(1))[..., 0].square().mean(-1)
    assert abs(even.mean() - 1 / d) < 4 * even.std() / math.sqrt(200) + 1e-12
    if d > 1:
        assert even.std() < 0.8 * loose.std()


def test_orthogonal_draws_are_orthogonal_and_uniform():
    base = sphere.uniform((4000, 3), rng())
    drawn = sphere.orthogonal_to(base, rng(1))
    assert_unit(drawn)
    assert (drawn * base).sum(-1).abs().max() < 1e-14


def test_normalise_survives_zero_huge_and_tiny_rows():
    rows = torch.tensor([[0.0, 0.0], [3e30, 4e30], [3e-38, 4e-38]])
    assert sphere.normalize(rows)[0].tolist() == [1, 0]
    assert torch.allclose(sphere.normalize(rows)[1:], torch.tensor([0.6, 0.8]))


def test_every_dtype_sees_the_same_directions():
    single = sphere.uniform((5, 4), rng(), torch.float32)
    double = sphere.uniform((5, 4), rng(), torch.float64)
    assert (single - double).abs().max() < 1e-6


def test_draws_are_differentiable_in_their_mean():
    """The mean of many draws moves with the mean direction: its derivative is the mean cosine."""
    mean = sphere.uniform((1, 3), rng()).requires_grad_()
    side = sphere.orthogonal_to(mean.detach(), rng(5))
    for law, cosine in (
        (sphere.von_mises_fisher, oracles.vmf_mean_cosine(3, 10)),
        (sphere.power_spherical, 10 / 12),
    ):
        slopes = []
        for seed in range(20):
            drawn = law(mean.expand(1000, 3), 10.0, rng(seed)).mean(0)
            (slope,) = torch.autograd.grad((drawn * side).sum(), mean)
            slopes.append((slope * side).sum().item())
        assert abs(np.mean(slopes) - cosine) < 4 * np.std(slopes, ddof=1) / math.sqrt(20)


def test_one_generator_for_each_run():
    runs = [torch.Generator().manual_seed(s) for s in (1, 2, 3)]
    together = sphere.uniform((3, 4, 5), Randomness(runs, CPU, (3,)))
    alone = sphere.uniform((4, 5), rng(2))
    assert together[1].equal(alone)
