"""Each variant against a slow loop from its definition; only the raw random numbers are shared."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

import slicewise as sw
from slicewise.variants.presets import PRESETS
from tests import oracles
from tests.tolerances import assert_close

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
    """Without a climb the location is the start; its draws are of the stated law."""
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


# Published settings, as published: chains × steps for the Markov family, T for ascents, κ, slice rate.
PUBLISHED = {
    "paper": {
        "sw": "Uniform(50)", "maxsw": "Repeat(Ascend(rate=0.1), 9)", "dsw": "PushForward(50, 10)",
        "maxksw": "Then(Frame(2), Repeat(Ascend(rate=0.1, frame=True), 9))",
        "imsw": "Trace(Uniform(2), Ascend(rate=0.1), 10)",
        "vimsw": "Trace(Uniform(2), InTurn(Ascend(rate=0.1), Spread(50.0)), 10)",
        "omsw": "Trace(Uniform(2), Orthogonal(), 10)", "rmsw": "Trace(Uniform(2), Spread(50.0), 10)",
        "ebsw": "Recipe(Uniform(50), weighting=Energy())",
        "rpsw": "Then(RandomPath(50), Spread(50.0, law='power_spherical'))",
        "ebrpsw": "Then(RandomPath(50), Spread(50.0, law='power_spherical')), weighting=Energy()",
        "vdsw": "Repeat(Ascend(rate=0.1, through=Spread(50.0, copies=50)), 9), Spread(50.0, copies=50)",
    },
    "flow_script": {
        "sw": "Uniform(30)", "maxsw": "Repeat(Ascend(rate=0.1), 29)",
        "dsw": "PushForward(1000, 10, penalty=10.0, lr=0.005, betas=(0.999, 0.999), redraw=True)",
        "maxksw": "Then(Frame(2), Repeat(Ascend(rate=0.1, frame=True), 14))",
        "imsw": "Trace(Uniform(2), Ascend(rate=0.1), 5)",
        "vimsw": "Trace(Uniform(2), InTurn(Ascend(rate=0.1), Spread(50.0)), 5)",
        "omsw": "Trace(Uniform(5), Orthogonal(), 2)", "rmsw": "Trace(Uniform(2), Spread(50.0), 5)",
        "ebsw": "Recipe(Uniform(10), weighting=Energy())",
        "rpsw": "Spread(Anneal(100.0), law='power_spherical')",
        "ebrpsw": "Then(RandomPath(10), Spread(Anneal(50.0), law='power_spherical'))",
        "vdsw": "Repeat(Ascend(rate=0.1, through=Spread(10.0, law='power_spherical', copies=5)), 1)",
    },
    "color_script": {
        "sw": "Uniform(45)", "maxsw": "Repeat(Ascend(rate=0.1), 44)",
        "maxksw": "Then(Frame(3), Repeat(Ascend(rate=0.1, frame=True), 14))",
        "imsw": "Trace(Uniform(3), Ascend(rate=0.1), 5)",
        "vimsw": "Trace(Uniform(3), InTurn(Ascend(rate=0.1), Spread(50.0)), 5)",
        "omsw": "Trace(Uniform(3), Orthogonal(), 5)", "rmsw": "Trace(Uniform(3), Spread(50.0), 5)",
        "ebsw": "Recipe(Uniform(100), weighting=Energy())",
        "vdsw": "Repeat(Ascend(rate=0.1, through=Spread(10.0, copies=50)), 1)",
    },
    "dg": {
        "sw": "Uniform(1000)", "maxsw": "Repeat(Ascend(rate=0.01), 9)", "dsw": "PushForward(1000, 10)",
        "maxksw": "Ascend(rate=0.01, frame=True), 9)", "imsw": "Ascend(rate=0.01), 10)",
        "vimsw": "InTurn(Ascend(rate=0.01), Spread(50.0)), 10)",
        "omsw": "Trace(Uniform(1000), Orthogonal(), 10)", "rmsw": "Trace(Uniform(1000), Spread(50.0), 10)",
        "ebsw": "Energy(kind='poly', detach=True)",
        "rpsw": "Then(RandomPath(10000), Spread(Anneal(100.0), law='power_spherical'))",
        "ebrpsw": "Then(RandomPath(10000), Spread(Anneal(100.0), law='power_spherical'))",
        "vdsw": "Repeat(Ascend(rate=0.1, through=Spread(50.0, copies=10)), 99)",
    },
}  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", sw.VARIANTS)
def test_presets_are_the_published_settings(pair, preset, name):
    recipe = sw.VARIANTS[name](defaults=preset)
    assert PUBLISHED[preset].keys() == PRESETS[preset].keys()
    if name in PUBLISHED[preset]:
        assert PUBLISHED[preset][name] in repr(recipe)
    else:
        assert recipe.slicer == sw.VARIANTS[name]().slicer
    assert sw.evaluate(*pair, recipe).value.isfinite()


def test_options_override_presets_and_presets_override_conventions():
    chosen = sw.VARIANTS["maxsw"](defaults="dg", convention="reference")
    assert "rate=0.01" in repr(chosen)
    assert "rate=0.5" in repr(sw.VARIANTS["maxsw"](defaults="dg", ascent_step=0.5))
    assert "rate=0.1" in repr(sw.VARIANTS["maxsw"](convention="reference"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("maxksw", "Ascend(rate=0.1, coupled=True, frame=True)"),
        ("imsw", "AliasedTrace(Uniform(5), Ascend(rate=0.1, coupled=True), 10)"),
        ("vimsw", "after=Spread(50.0, legacy=True)"),
        ("rmsw", "Spread(50.0, legacy=True)"),
        ("vdsw", "Spread(50.0, copies=50, legacy=True)"),
    ],
)
def test_legacy_is_the_published_algorithm(pair, name, words):
    assert words in repr(sw.VARIANTS[name](legacy=True))
    assert sw.evaluate(*pair, name, legacy=True).value.isfinite()
    for d in (1, 2):  # where the sampler's formulas divide by nothing
        if d > 1 or name != "maxksw":
            assert sw.evaluate(pair[0][:, :d], pair[1][:, :d], name, legacy=True).value.isfinite()


def test_legacy_chains_spread_by_the_approximate_law():
    """At d = 512, κ = 50 the published sampler's mean cosine is −0.437 instead of +0.097."""
    x, y = torch.randn(4, 512), torch.randn(4, 512)
    for legacy, expected in ((True, -0.437), (False, 0.097)):
        chains = sw.evaluate(x, y, "rmsw", n_slices=500, legacy=legacy).slices.reshape(50, 10, 512)
        cosines = (chains[:, 1:] * chains[:, :-1]).sum(-1)
        assert abs(cosines.mean() - expected) < 4 * cosines.std() / math.sqrt(450) + 1e-3


def test_vdsw_climbs_the_mean_cost_around_its_location(pair):
    """One climb, checked by the score: ∇ E w(θ) = κ E[w(θ) θ] along the sphere, and p E w across it."""
    kappa = 30.0
    (start,) = draw_unit(seeded(), 1, D)
    around = stats.vonmises_fisher(start, kappa, seed=1).rvs(4000)
    costs = slow_costs(pair, around)
    # Costs are centred: the part along the sphere has mean zero, so this only takes noise away.
    means = (costs - costs.mean())[:, None] * (around - np.outer(around @ start, start))
    gradient = kappa * means.mean(0) + 2 * costs.mean() * start
    expected = oracles.unit(start + oracles.unit(gradient))
    found = sw.evaluate(*pair, "vdsw", n_slices=4000, n_steps=2, kappa=kappa, generator=seeded())
    location = oracles.unit(found.slices.numpy().mean(0))
    error = kappa * means.std(0).max() / math.sqrt(4000) / np.linalg.norm(gradient)
    drawn = math.sqrt((1 - (found.slices.numpy() @ location).mean() ** 2) / 4000)
    assert np.linalg.norm(location - expected) < 4 * (error + drawn)
    assert np.linalg.norm(start - expected) > 6 * (error + drawn), "standing still must not pass"


def test_chains_of_any_length_have_a_default():
    for name in ("omsw", "rmsw", "imsw", "vimsw"):
        assert sw.VARIANTS[name](n_steps=7).slicer.start.n == 7
        assert sw.VARIANTS[name](n_steps=100).slicer.start.n == 1
        assert sw.VARIANTS[name](burn_in=5).slicer.start.n == 10


def test_an_evaluation_is_told_in_a_line():
    x, y = torch.zeros(4, 1), torch.full((4, 1), 3.0)
    said = "Evaluation(SW_2 3, 50 slices, Recipe(Uniform(50)))"
    assert repr(sw.evaluate(x, y)) == said
    assert "SW_2^2 9" in repr(sw.evaluate(x, y, objective="power"))
    assert "of shape (2,)" in repr(sw.evaluate(x.expand(2, 4, 1), y))


def test_a_variant_uncalled_is_taken_for_its_recipe(pair):
    named = sw.sliced_wasserstein(*pair, "ebsw", generator=seeded(), temperature=0.5)
    entry = sw.VARIANTS["ebsw"]
    assert sw.sliced_wasserstein(*pair, entry, generator=seeded(), temperature=0.5) == named
