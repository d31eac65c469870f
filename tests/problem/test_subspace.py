"""The paper's identities, to rounding where they are exact, to standard errors where they are laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import betaln, gammaln

import slicewise as sw
from slicewise.parts import slicers, weightings
from slicewise.problem.problem import Problem
from slicewise.sampling import sphere
from slicewise.sampling.generators import Randomness
from tests import oracles
from tests.tolerances import assert_close

D, K = 20, 3


def rng(seed=0):
    return Randomness(torch.Generator().manual_seed(seed), torch.device("cpu"))


@pytest.fixture
def embedded():
    """The same samples in R^k and, rotated and moved, in R^d."""
    basis = sphere.orthonormal((K, D), rng()).mT  # (d, k)
    x, y = torch.randn(15, K).double(), torch.randn(11, K).double() + 1
    offset = torch.randn(D).double()
    return x, y, x @ basis.mT + offset, y @ basis.mT + offset, basis


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_a_slice_is_downweighted_by_its_part_in_the_subspace(embedded, p):
    """w_d(θ) = ‖Uᵀθ‖^p w_k(Uᵀθ / ‖Uᵀθ‖), for values and for gradients in x."""
    x, y, x_d, y_d, basis = embedded
    slices = sphere.uniform((40, D), rng(1))
    inside = slices @ basis
    r = inside.norm(dim=-1)
    x, x_d = x.requires_grad_(), x_d.requires_grad_()
    outer = sw.evaluate(x_d, y_d, p=p, slices=slices).costs
    inner = sw.evaluate(x, y, p=p, slices=inside / r[:, None]).costs
    assert_close(outer, r**p * inner)
    weights = torch.randn(40).double()
    (in_d,) = torch.autograd.grad((weights * outer).sum(), x_d)
    (in_k,) = torch.autograd.grad((weights * r**p * inner).sum(), x)
    assert_close(in_d @ basis, in_k)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("given", [True, False])
def test_phi_weighted_in_d_is_sw_in_k(embedded, p, given):
    x, y, x_d, y_d, basis = embedded
    slices = sphere.uniform((40, D), rng(1))
    inside = slices @ basis
    options = {"basis": basis} if given else {}
    outer = sw.sliced_wasserstein(x_d, y_d, "phisw", p=p, slices=slices, **options)
    inner = sw.sliced_wasserstein(x, y, p=p, slices=inside / inside.norm(dim=-1, keepdim=True))
    assert_close(outer, inner)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_exact_distance_is_that_of_the_subspace(embedded, p):
    x, y, x_d, y_d, _ = embedded
    assert_close(sw.wasserstein(x_d, y_d, p=p), sw.wasserstein(x, y, p=p))


def test_reduction_is_exact_and_comes_back(embedded):
    x, y, x_d, y_d, basis = embedded
    found = sw.effective_subspace(x_d, y_d)
    assert found.k == K
    assert found.basis.shape == (D, K)
    assert_close(found.basis @ found.basis.mT, basis @ basis.mT)
    assert_close(found.embed(found.reduce(x_d)), x_d)
    assert_close(sw.wasserstein(found.reduce(x_d), found.reduce(y_d)), sw.wasserstein(x, y))


def test_subspace_by_variance_and_with_noise(embedded):
    _, _, x_d, y_d, _ = embedded
    noisy = x_d + 1e-3 * torch.randn_like(x_d)
    assert sw.effective_subspace(noisy, y_d).k > K
    assert sw.effective_subspace(noisy, y_d, variance=0.99).k <= K
    spectrum = sw.effective_subspace(noisy, y_d).spectrum
    assert (spectrum.diff() <= 0).all()
    # variances along principal directions add up to the pooled variance
    pooled = (noisy.var(0, correction=0) + y_d.var(0, correction=0)) / 2
    between = (noisy.mean(0) - y_d.mean(0)).square() / 4
    assert_close(spectrum.square().sum(), (pooled + between).sum())


def test_subspace_of_a_batch_of_unequal_ranks(embedded):
    _, _, x_d, y_d, _ = embedded
    line = torch.linspace(0, 1, 15).double()[:, None] * torch.ones(D).double()
    found = sw.effective_subspace(torch.stack([x_d, line]), torch.stack([y_d, line[:11]]))
    assert found.ranks.tolist() == [K, 1]
    assert found.basis[1, :, 1:].abs().max() == 0
    assert_close(found.embed(found.reduce(line))[1], line)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [0.0, 10.0])
@pytest.mark.parametrize("n", [20, 1000])
def test_rounding_is_not_taken_for_a_direction(dtype, offset, n):
    basis = sphere.orthonormal((2, 50), rng())
    x, y = ((torch.randn(n, 2).double() @ basis + offset).to(dtype) for _ in range(2))
    assert sw.effective_subspace(x, y).k == 2
    value = sw.sliced_wasserstein(x, y, "phisw", slices=sphere.uniform((50, 50), rng()))
    exact = sw.sliced_wasserstein(
        x.double(), y.double(), "phisw", slices=sphere.uniform((50, 50), rng()), basis=basis.mT
    )
    tolerance = {torch.float64: 1e-9, torch.float32: 1e-3}.get(dtype, 0.3)
    assert_close(value.double(), exact, rtol=tolerance)
    loss = sw.SlicedWasserstein(scale="subspace")
    loss(x, y)
    assert loss.subspace_dim == 2


def test_many_samples_do_not_hide_a_narrow_direction():
    x = torch.randn(1_000_000, 3) * torch.tensor([1.0, 0.1, 0.02])
    assert sw.effective_subspace(x, x[:100] + 1).k == 3


def test_subspace_ignores_padding(embedded):
    _, _, x_d, y_d, _ = embedded
    x, weights = sw.pad([x_d, torch.randn(30, D).double()])
    x = x + (weights == 0)[..., None] * 100 * torch.randn(D).double()
    assert sw.effective_subspace(x[0], y_d, x_weights=weights[0]).k == K


@pytest.mark.parametrize(("batch", "d"), [(8, 784), (16, 784), (64, 50)])
def test_rank_of_a_centred_minibatch(batch, d):
    found = sw.effective_subspace(torch.randn(batch, d).double(), torch.randn(batch, d).double())
    assert found.k == min(2 * batch - 1, d)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize("d", [1, 2, 7, 150, 250, 10_000, 1_000_000])
def test_gaussian_constants(d, p):
    """Against the mean of a chi variable by SciPy, and a recurrence that needs no gamma function."""
    ours = sw.gaussian_constant(d, p=p)
    assert math.isclose(
        ours, 2 ** (p / 2) * math.exp(gammaln((d + p) / 2) - gammaln(d / 2)), rel_tol=1e-8
    )
    assert math.isclose(sw.gaussian_constant(d + 2, p=p), ours * (d + p) / d, rel_tol=1e-13)


def test_gaussian_constant_of_even_order_is_exact_in_a_million_dimensions():
    d = 1_000_000
    assert sw.gaussian_constant(d, p=2) == d
    assert math.isclose(sw.gaussian_constant(d, p=4), d * (d + 2), rel_tol=1e-14)
    assert math.isclose(
        sw.gaussian_constant(d, p=1), math.sqrt(d - 0.5 + 1 / (8 * d)), rel_tol=1e-13
    )


def beta_moment(a, b, power):
    return math.exp(betaln(a + power, b) - betaln(a, b))


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(("d", "k"), [(10, 2), (100, 10), (1000, 2)])
def test_scaling_factor_is_the_mean_of_a_beta_law(d, k, p):
    """‖Uᵀθ‖² ~ Beta(k/2, (d−k)/2): mean and variance of the empirical factor within 4 standard errors."""
    mean = beta_moment(k / 2, (d - k) / 2, p / 2)
    variance = beta_moment(k / 2, (d - k) / 2, p) - mean**2
    assert math.isclose(sw.essf(d, k, p=p), mean, rel_tol=1e-9)
    runs, n_slices = 200, 50
    slices = sphere.uniform((runs, n_slices, d), rng(2), torch.float32).double()
    found = sw.empirical_essf(slices, torch.eye(d).double()[:, :k], p=p)
    assert found.shape == (runs,)
    assert abs(found.mean() - mean) < 4 * math.sqrt(variance / runs / n_slices)
    # The spread of a sample variance: kurtosis of a mean of 50 is close to a normal's.
    expected = variance / n_slices
    assert abs(found.var() - expected) < 4 * expected * math.sqrt(2 / (runs - 1)) * 1.2


def test_sw_in_d_is_the_factor_times_sw_in_k(embedded):
    x, y, x_d, y_d, _ = embedded
    outer = sw.evaluate(x_d, y_d, n_slices=20_000)
    inner = sw.evaluate(x, y, n_slices=20_000)
    factor = sw.essf(D, K)
    error = math.hypot(outer.stderr, factor * inner.stderr)
    assert abs(outer.power - factor * inner.power) < 4 * error


def generic(x, y, slices, phi, rho, p=2):
    """The paper's formula, spelled out: mean over slices of ρ(φ(θ)) · W_p^p."""
    total = 0.0
    costs = np.array([oracles.slice_cost(x.numpy(), y.numpy(), t, p) for t in slices.numpy()])
    for theta, cost in zip(slices.numpy(), costs, strict=True):
        total += rho(phi(theta, cost), costs) * cost / len(costs)
    return total


def test_the_generic_formula_recovers_sw_ebsw_and_maxsw(embedded):
    x, y, *_ = embedded
    slices = sphere.uniform((30, K), rng(3))
    found = {n: sw.evaluate(x, y, n, slices=slices).power for n in ("sw", "ebsw")}
    plain = generic(x, y, slices, lambda t, c: 1.0, lambda r, _: r)
    energy = generic(x, y, slices, lambda t, c: c, lambda r, cs: np.exp(r) / np.exp(cs).mean())
    assert_close(found["sw"], torch.tensor(plain))
    assert_close(found["ebsw"], torch.tensor(energy))
    # The same through the library's own φ-weighting.
    for phi, rho, expected in (
        (weightings.slice_cost, torch.ones_like, plain),
        (weightings.slice_cost, weightings.Peak(1.0), energy),
    ):
        recipe = sw.Recipe(slicers.Uniform(1), weightings.Phi(phi, rho))
        assert_close(sw.evaluate(x, y, recipe, slices=slices).power, torch.tensor(expected))
    # MaxSW: all weight goes to the dearest slice as the temperature falls.
    dearest = sw.evaluate(x, y, slices=slices).costs.max()
    gaps = []
    for temperature in (1.0, 0.1, 0.01, 1e-4):
        recipe = sw.Recipe(
            slicers.Uniform(1), weightings.Phi(weightings.slice_cost, weightings.Peak(temperature))
        )
        gaps.append((dearest - sw.evaluate(x, y, recipe, slices=slices).power).item())
    assert gaps == sorted(gaps, reverse=True)
    assert abs(gaps[-1]) < 1e-9


def test_the_generic_formula_recovers_rpsw():
    """Uniform slices weighted by the path density = path slices weighted equally, by quadrature.

    On the circle 20,000 equispaced directions integrate both sides to rounding: the density is
    (1 + cos)^κ over its mean, and a path slice is a path turned by an angle of that density.
    """
    x, y, kappa = torch.randn(4, 2).double(), torch.randn(3, 2).double() + 1, 5.0
    angle = torch.arange(20_000).double() / 20_000 * 2 * math.pi
    circle = torch.stack([angle.cos(), angle.sin()], dim=-1)
    recipe = sw.Recipe(
        slicers.Uniform(1), weightings.Phi(weightings.PathDensity(kappa), lambda r: r)
    )
    weighted = sw.evaluate(x, y, recipe, slices=circle).power
    turn = (1 + angle.cos()) ** kappa
    turn = (turn / turn.sum()).numpy()
    total = 0.0
    for i in range(4):
        for j in range(3):
            path = (x[i] - y[j]).numpy()
            start = math.atan2(path[1], path[0])
            slices = torch.stack([(angle + start).cos(), (angle + start).sin()], dim=-1)
            total += (sw.evaluate(x, y, slices=slices).costs.numpy() * turn).sum() / 12
    assert_close(weighted, torch.tensor(total), rtol=1e-6)
    drawn = sw.evaluate(x, y, "rpsw", n_slices=20_000, kappa=kappa)
    assert abs(drawn.power - total) < 4 * drawn.stderr


def test_orderings_on_common_slices(embedded):
    x, y, *_ = embedded
    slices = sphere.uniform((30, K), rng(4))
    plain = sw.evaluate(x, y, slices=slices)
    energy = sw.evaluate(x, y, "ebsw", slices=slices, hold_weights=True)
    assert plain.power < energy.power < plain.costs.max()


def test_maxksw_is_at_most_maxsw_at_the_optimum(embedded):
    x, y, *_ = embedded
    best = sw.sliced_wasserstein(x, y, "maxsw", n_steps=200, restarts=20)
    for k in (1, 2, 3):
        frame = sw.sliced_wasserstein(x, y, "maxksw", n_slices=k, n_steps=200)
        assert frame <= best * (1 + 1e-9)


def test_maxsw_finds_the_one_direction_that_differs():
    """Two Diracs: the maximum is their distance, along the line that joins them."""
    x, y = torch.zeros(1, 50).double(), torch.randn(1, 50).double()
    assert_close(sw.sliced_wasserstein(x, y, "maxsw", n_steps=30), y.norm(), rtol=1e-6)


@pytest.mark.parametrize("hold_weights", [True, False])
def test_energy_gradient_is_the_closed_form(embedded, hold_weights):
    """Σ ω_l (1 + w_l − w̄) ∇w_l; with held weights Σ ω_l ∇w_l. And finite differences."""
    x, y, *_ = embedded
    slices = sphere.uniform((12, K), rng(5))
    x = x.requires_grad_()
    found = sw.evaluate(x, y, "ebsw", slices=slices, hold_weights=hold_weights)
    (gradient,) = torch.autograd.grad(found.power, x)
    costs = sw.evaluate(x, y, slices=slices).costs
    weights = costs.softmax(-1).detach()
    mean = (weights * costs).sum().detach()
    factor = weights if hold_weights else weights * (1 + costs.detach() - mean)
    (expected,) = torch.autograd.grad((factor * costs).sum(), x)
    assert_close(gradient, expected)
    if not hold_weights:
        probe = torch.randn_like(x) * 1e-6
        up, down = (sw.evaluate(x + s * probe, y, "ebsw", slices=slices).power for s in (1, -1))
        slope = ((up - down) / 2).item()
        assert math.isclose(slope, (gradient * probe).sum().item(), rel_tol=1e-4)


def test_rpsw_survives_duplicated_points():
    x = torch.ones(6, 4).double().requires_grad_()
    for name in ("rpsw", "ebrpsw"):
        found = sw.evaluate(x, torch.ones(5, 4).double(), name)
        assert found.slices.isfinite().all()
        assert torch.autograd.grad(found.value, x)[0].isfinite().all()


@pytest.mark.parametrize("p", [1, 2, 3])
def test_translated_sets_have_a_closed_form(p):
    """Y = X + v: every slice costs |θ·v|^p, so SW_p^p = ‖v‖^p C_1 / C_d."""
    x, shift = torch.randn(20, 6).double(), torch.randn(6).double()
    found = sw.evaluate(x, x + shift, p=p, n_slices=20_000)
    assert_close(found.costs, (found.slices @ shift).abs() ** p)
    exact = shift.norm() ** p * sw.essf(6, 1, p=p)
    assert abs(found.power - exact) < 4 * found.stderr


def test_gaussians_have_a_closed_form():
    """N(0, 1) and N(0, 4): every slice costs (2 − 1)² in the limit, by quantiles here."""
    levels = (torch.arange(2000).double() + 0.5) / 2000
    line = torch.special.ndtri(levels)[:, None]
    found = sw.sliced_wasserstein(line, 2 * line, objective="power")
    assert abs(found - line.square().mean()) < 1e-12
    assert abs(found - 1) < 2e-3  # the quantile rule's own error


def test_problem_is_public_for_parts_of_ones_own():
    problem = Problem(torch.zeros(3, 2), torch.ones(4, 2))
    assert problem.costs(torch.eye(2)).tolist() == [1, 1]
