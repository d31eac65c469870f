"""Each variant against a slow loop from its definition; only the raw random numbers are shared."""

from __future__ import annotations

import math

import numpy as np
import oracles
import pytest
import torch
from scipy import stats
from tolerances import assert_close

import slicewise as sw
from slicewise.presets import PRESETS

N, M, D = 11, 8, 4


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def draw_unit(generator, *shape):
    """What a uniform slicer draws: float32 normals, normalised in float64."""
    raw = torch.randn(shape, generator=generator).double().numpy()
    return raw / np.linalg.norm(raw, axis=-1, keepdims=True)


@pytest.fixture
def pair():
    return torch.randn(N, D, dtype=torch.float64), torch.randn(M, D, dtype=torch.float64) + 1


def slow_costs(pair, slices, p=2):
    x, y = (t.numpy() for t in pair)
    return np.array([oracles.slice_cost(x, y, theta, p) for theta in slices])


def check(pair, slices, weights=None, p=2, **call):
    """The library's value, costs and slices are those of the loop."""
    found = sw.evaluate(*pair, generator=seeded(), p=p, **call)
    if slices is None:
        slices = found.slices.numpy()
    costs = slow_costs(pair, slices, p)
    weights = np.full(len(costs), 1 / len(costs)) if weights is None else weights(costs)
    assert np.abs(found.slices.numpy() - slices).max() < 1e-9
    assert_close(found.costs, torch.tensor(costs))
    assert_close(found.value, torch.tensor((weights * costs).sum() ** (1 / p)))
    return found


@pytest.mark.parametrize("p", [1, 2, 3])
def test_sw(pair, p):
    check(pair, draw_unit(seeded(), 50, D), p=p, variant="sw")


def test_orthosw_and_ksw(pair):
    found = check(pair, None, variant="orthosw", n_slices=10)
    assert (found.slices[:4] @ found.slices[:4].T - torch.eye(4)).abs().max() < 1e-12
    found = check(pair, None, variant="ksw", n_slices=3)
    assert (found.slices @ found.slices.T - torch.eye(3)).abs().max() < 1e-12


@pytest.mark.parametrize("rate", [None, 0.1])
def test_maxsw(pair, rate):
    (theta,) = draw_unit(seeded(), 1, D)
    x, y = (t.numpy() for t in pair)
    for _ in range(9):
        theta = oracles.unit(oracles.climb(theta, x, y, rate=rate))
    check(pair, theta[None], variant="maxsw", ascent_step=rate)


def test_maxsw_restarts_keep_the_best(pair):
    starts = draw_unit(seeded(), 5, D)
    x, y = (t.numpy() for t in pair)
    ends = []
    for theta in starts:
        for _ in range(2):
            theta = oracles.unit(oracles.climb(theta, x, y))
        ends.append(theta)
    best = ends[int(np.argmax(slow_costs(pair, ends)))]
    check(pair, best[None], variant="maxsw", n_steps=3, restarts=5)


def test_maxksw(pair):
    frame = oracles.gram_schmidt(torch.randn(2, D, generator=seeded()).double().numpy())
    x, y = (t.numpy() for t in pair)
    for _ in range(9):
        frame = oracles.gram_schmidt([oracles.climb(theta, x, y) for theta in frame])
    check(pair, frame, variant="maxksw")


def test_imsw(pair):
    chains = draw_unit(seeded(), 5, D)
    x, y = (t.numpy() for t in pair)
    slices = []
    for theta in chains:
        for _ in range(10):
            slices.append(theta)
            theta = oracles.unit(oracles.climb(theta, x, y))
    found = check(pair, np.array(slices), variant="imsw")
    assert (torch.linalg.vector_norm(found.slices, dim=-1) - 1).abs().max() < 1e-12


def test_omsw(pair):
    """Each next slice is a normal draw less its part along the last one."""
    generator = seeded()
    chain = [draw_unit(generator, 5, D)]
    for _ in range(9):
        raw = torch.randn(5, D, generator=generator).double().numpy()
        raw -= (raw * chain[-1]).sum(-1, keepdims=True) * chain[-1]
        chain.append(raw / np.linalg.norm(raw, axis=-1, keepdims=True))
    slices = np.stack(chain, axis=1)
    assert np.abs((slices[:, 1:] * slices[:, :-1]).sum(-1)).max() < 1e-12
    check(pair, slices.reshape(50, D), variant="omsw")


def vmf_pvalue(centres, drawn, kappa):
    law = oracles.cosine_cdf(lambda t: kappa * t, drawn.shape[-1])
    return stats.kstest((centres * drawn).sum(-1).ravel(), law).pvalue


def test_rmsw(pair):
    found = check(pair, None, variant="rmsw", n_slices=2000)
    chains = found.slices.numpy().reshape(200, 10, D)
    assert vmf_pvalue(chains[:, :-1], chains[:, 1:], 50) > 1e-3


def test_vimsw(pair):
    found = check(pair, None, variant="vimsw", n_slices=500)
    chains = found.slices.numpy().reshape(50, 10, D)
    x, y = (t.numpy() for t in pair)
    centres = [[oracles.unit(oracles.climb(t, x, y)) for t in chain[:-1]] for chain in chains]
    assert vmf_pvalue(np.array(centres), chains[:, 1:], 50) > 1e-3


@pytest.mark.parametrize("energy", ["exp", "identity", "poly"])
@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_ebsw(pair, energy, temperature):
    def weights(costs):
        f = {"exp": np.exp(costs / temperature), "identity": costs, "poly": costs**2}[energy]
        return f / f.sum()

    slices = draw_unit(seeded(), 50, D)
    check(pair, slices, weights, variant="ebsw", energy=energy, temperature=temperature)


def test_rpsw_and_ebrpsw(pair):
    found = check(pair, None, variant="rpsw", n_slices=3000)
    # Law: the density of each slice is the mean over all pairs; test its projection on one pair's way
    # by comparing the mean of θθᵀ with the mixture's second moment, E[t²] u uᵀ + (1 − E[t²])/(d−1) (1 − u uᵀ).
    x, y = (t.numpy() for t in pair)
    kappa = 50.0
    a, b = (D - 1) / 2 + kappa, (D - 1) / 2
    square = 4 * a * b / ((a + b) ** 2 * (a + b + 1)) + ((a - b) / (a + b)) ** 2
    expected = np.zeros((D, D))
    for i in range(N):
        for j in range(M):
            u = oracles.unit(x[i] - y[j])
            along = np.outer(u, u)
            expected += square * along + (1 - square) / (D - 1) * (np.eye(D) - along)
    expected /= N * M
    products = np.einsum("li,lj->lij", found.slices.numpy(), found.slices.numpy())
    stderr = products.std(0) / math.sqrt(3000)
    assert (np.abs(products.mean(0) - expected) < 4 * stderr).all()

    energy = check(pair, None, lambda c: np.exp(c) / np.exp(c).sum(), variant="ebrpsw")
    plain = sw.evaluate(*pair, "rpsw", generator=seeded())
    assert energy.slices.equal(plain.slices)


def test_phisw(pair):
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(D, 2)))[0]

    def weights(costs):
        return np.linalg.norm(slices @ basis, axis=1) ** -2 / len(costs)

    slices = draw_unit(seeded(), 50, D)
    check(pair, slices, weights, variant="phisw", basis=torch.tensor(basis))


def test_vdsw_with_no_spread_is_maxsw(pair):
    one = sw.evaluate(*pair, "maxsw", generator=seeded()).slices
    many = check(pair, None, variant="vdsw", n_slices=7, kappa=1e12)
    assert (many.slices - one).abs().max() < 1e-4


@pytest.mark.parametrize("law", ["vmf", "power_spherical"])
def test_vdsw_draws_around_one_location(pair, law):
    """One climb from the start by the slow gradient of the mean cost; then draws of the stated law."""
    found = check(pair, None, variant="vdsw", n_slices=2000, n_steps=1, kappa=30.0, law=law)
    (start,) = draw_unit(seeded(), 1, D)
    log = (lambda t: 30 * t) if law == "vmf" else (lambda t: 30 * np.log1p(t))
    cosines = found.slices.numpy() @ start
    assert stats.kstest(cosines, oracles.cosine_cdf(log, D)).pvalue > 1e-3


@pytest.mark.parametrize("redraw", [False, True])
def test_dsw(pair, redraw):
    """A linear layer, torch's own Adam, and a plain sort."""
    x, y = pair[0][:M], pair[1]
    generator = seeded()
    layer = torch.nn.Linear(D, D, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            draw = torch.rand(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_((2 * draw - 1) / math.sqrt(D))
    adam = torch.optim.Adam(layer.parameters(), lr=5e-3, betas=(0.5, 0.999))
    seeds = torch.tensor(draw_unit(generator, 20, D))

    def push():
        out = layer(seeds)
        return out / out.norm(dim=-1, keepdim=True)

    def mean_cost(slices):
        gaps = (x @ slices.T).sort(0).values - (y @ slices.T).sort(0).values
        return gaps.square().mean()

    for step in range(10):
        if redraw and step:
            seeds = torch.tensor(draw_unit(generator, 20, D))
        slices = push()
        objective = mean_cost(slices).sqrt() - 2.0 * (slices @ slices.T).abs().mean()
        adam.zero_grad()
        (-objective).backward()
        adam.step()
    options = {"n_slices": 20, "inner_lr": 5e-3, "penalty": 2.0, "redraw": redraw}
    found = sw.evaluate(x, y, "dsw", generator=seeded(), **options)
    assert_close(found.slices, push(), rtol=1e-8)
    assert_close(found.value, mean_cost(push()).sqrt(), rtol=1e-8)


@pytest.mark.parametrize("name", ["sw", "ebsw", "maxsw", "imsw"])
def test_reference_convention_sums_roots_and_multiplies(pair, name):
    """n · (Σ weights · n · cost)^(1/2), with energies and ascents of summed costs."""
    x, y = pair
    found = sw.evaluate(x, y, name, generator=seeded(), convention="reference")
    costs = N * slow_costs(pair, found.slices.numpy())
    weights = np.exp(costs - costs.max()) if name == "ebsw" else np.ones(len(costs))
    expected = N * math.sqrt((weights / weights.sum() * costs).sum())
    assert_close(found.value, torch.tensor(expected, dtype=torch.float64))
    if name == "maxsw":
        (theta,) = draw_unit(seeded(), 1, D)
        for _ in range(9):
            theta = oracles.unit(oracles.climb(theta, x.numpy(), y.numpy(), rate=0.1))
        assert np.abs(found.slices.numpy() - theta).max() < 1e-9


def test_published_chains_store_the_step_after_them():
    """The reported toy: n = 300, two chains of five, rate 0.1: stored norms 1.7 to 4.2 instead of 1."""
    x, y = torch.randn(300, 2, dtype=torch.float64), torch.randn(300, 2, dtype=torch.float64) + 2
    options = {"n_slices": 10, "n_steps": 5, "ascent_step": 0.1}
    found = sw.evaluate(x, y, "imsw", generator=seeded(), legacy=True, **options)
    chains = found.slices.reshape(2, 5, 2)
    theta = draw_unit(seeded(), 2, 2)
    for t in range(4):
        costs = np.array([300 * oracles.slice_cost(x.numpy(), y.numpy(), s) for s in theta])
        slopes = np.array([300 * oracles.slice_gradient(x.numpy(), y.numpy(), s) for s in theta])
        raised = theta + 0.1 * slopes / (2 * 2 * math.sqrt(costs.mean()))
        assert np.abs(chains[:, t].numpy() - raised).max() < 1e-9
        theta = raised / np.linalg.norm(raised, axis=-1, keepdims=True)
    assert np.abs(chains[:, 4].numpy() - theta).max() < 1e-9
    assert chains[:, :4].norm(dim=-1).min() > 1.2
    clean = sw.evaluate(x, y, "imsw", generator=seeded(), **options)
    assert found.value > 1.2 * clean.value
    spread = sw.evaluate(x, y, "vimsw", generator=seeded(), legacy=True, **options)
    assert spread.slices.norm(dim=-1).max() > 1.2


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", sw.VARIANTS)
def test_presets_run_and_are_overridden_by_name(pair, preset, name):
    recipe = sw.VARIANTS[name](defaults=preset)
    found = sw.evaluate(*pair, recipe)
    stated = PRESETS[preset].get(name, {})
    if "n_slices" in stated:
        assert found.costs.shape == (stated["n_slices"],)
    assert found.value.isfinite()
    if name != "maxsw":
        smaller = sw.VARIANTS[name](
            defaults=preset, **{**stated, "n_slices": stated.get("n_steps", 3)}
        )
        wanted = stated.get("n_steps", 3)
        if not name.startswith("max") and name != "ksw":
            assert sw.evaluate(*pair, smaller).costs.shape == (wanted,)
