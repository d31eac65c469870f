"""Each relative against a slow loop from its definition; only the raw random numbers are shared."""

from __future__ import annotations

import itertools
import logging
import math

import numpy as np
import pytest
import torch
from scipy import special, stats

import slicewise as sw
from slicewise.parts import moments
from slicewise.parts.slicers import Quasi
from slicewise.problem import WeightingPart
from slicewise.problem.problem import Problem
from slicewise.sampling import point_sets
from slicewise.sampling.generators import Randomness
from tests import oracles
from tests.tolerances import assert_close

N, M, D = 11, 8, 3
CPU = torch.device("cpu")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def draw_unit(generator, *shape):
    raw = torch.randn(shape, generator=generator).double().numpy()
    return raw / np.linalg.norm(raw, axis=-1, keepdims=True)


@pytest.fixture
def pair():
    return torch.randn(N, D, dtype=torch.float64), torch.randn(M, D, dtype=torch.float64) + 1


def slow(pair, function, slices, p=2):
    """W_p^p of what a defining function makes of the samples, slice by slice."""
    x, y = (t.numpy() for t in pair)
    return np.array(
        [
            oracles.cost_on_line(
                np.array([function(row, theta) for row in x]),
                np.array([function(row, theta) for row in y]),
                p,
            )
            for theta in slices
        ]
    )


def polynomial(degree):
    def value(x, theta):
        chosen = itertools.combinations_with_replacement(range(len(x)), degree)
        return sum(t * math.prod(x[i] for i in some) for t, some in zip(theta, chosen, strict=True))

    return value


def circle(x, theta, radius=2.0):
    return math.dist(x, radius * theta)


def network(x, theta, width=5):
    d, z = len(x), theta * math.sqrt(len(theta))
    out = 0.0
    for h in range(width):
        inner = z[h * d : (h + 1) * d] @ x / math.sqrt(d) + z[width * d + h] / math.sqrt(d)
        out += z[width * (d + 1) + h] * max(inner, 0.01 * inner)
    return out / math.sqrt(width)


FUNCTIONS = {
    "poly 3": (polynomial(3), math.comb(D + 2, 3), {"degree": 3}),
    "poly 5": (polynomial(5), math.comb(D + 4, 5), {"degree": 5}),
    "circular": (circle, D, {"function": "circular"}),
    "neural": (network, 5 * (D + 2), {"function": "neural", "width": 5}),
    "linear": (lambda x, theta: x @ theta, D, {"function": "linear"}),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("p", [1, 2])
def test_gsw(pair, kind, p):
    function, size, options = FUNCTIONS[kind]
    slices = draw_unit(seeded(), 6, size)
    found = sw.evaluate(*pair, "gsw", n_slices=6, p=p, generator=seeded(), **options)
    costs = slow(pair, function, slices, p)
    assert_close(found.costs, torch.tensor(costs))
    assert_close(found.value, torch.tensor(costs.mean() ** (1 / p)))


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_gradients_of_gsw(pair, kind):
    """Finite differences of the slow loop, in a few coordinates."""
    function, size, options = FUNCTIONS[kind]
    slices = draw_unit(seeded(), 4, size)
    x, y = pair
    _, gradient = sw.value_and_grad(
        x, y, "gsw", n_slices=4, objective="power", generator=seeded(), **options
    )
    for i, j in ((0, 0), (5, 2)):
        nudged = []
        for sign in (1, -1):
            moved = x.clone()
            moved[i, j] += sign * 1e-6
            nudged.append(slow((moved, y), function, slices).mean())
        assert abs(gradient[i, j] - (nudged[0] - nudged[1]) / 2e-6) < 1e-5 * gradient.abs().max()


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_maxgsw(pair, kind):
    """Two ascents by the unit gradient, which finite differences of the slow loop give."""
    function, size, options = FUNCTIONS[kind]
    (theta,) = draw_unit(seeded(), 1, size)
    for _ in range(2):
        slope = [
            slow(pair, function, [theta + 1e-6 * e, theta - 1e-6 * e]) @ [1, -1]
            for e in np.eye(size)
        ]
        theta = oracles.unit(theta + oracles.unit(np.array(slope)))
    found = sw.evaluate(*pair, "maxgsw", n_steps=3, generator=seeded(), **options)
    assert np.abs(found.slices.numpy() - theta).max() < 1e-6
    assert_close(found.power, torch.tensor(slow(pair, function, [theta])[0]), rtol=1e-5)


@pytest.mark.parametrize("activation", ["linear", "leaky_relu"])
def test_asw(pair, activation):
    """A layer, torch's own Adam, and a plain sort, fresh slices at each step."""
    x, y = pair[0][:M], pair[1]
    generator = seeded()
    layer = torch.nn.Linear(D, D, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            draw = torch.rand(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_((2 * draw - 1) / math.sqrt(D))
    adam = torch.optim.Adam(layer.parameters(), lr=1e-2, betas=(0.5, 0.999))

    def lift(samples):
        out = layer(samples)
        if activation == "leaky_relu":
            out = torch.nn.functional.leaky_relu(out, 0.01)
        return torch.cat([samples, out], dim=1)

    def mean_cost(slices):
        gaps = (lift(x) @ slices.T).sort(0).values - (lift(y) @ slices.T).sort(0).values
        return gaps.square().mean()

    for _ in range(4):
        slices = torch.tensor(draw_unit(generator, 20, 2 * D))
        norms = lift(x).norm(dim=1).mean() + lift(y).norm(dim=1).mean()
        adam.zero_grad()
        (0.3 * norms - mean_cost(slices).sqrt()).backward()
        adam.step()
    expected = mean_cost(torch.tensor(draw_unit(generator, 20, 2 * D))).sqrt()
    options = {"n_slices": 20, "n_steps": 4, "penalty": 0.3, "inner_lr": 1e-2}
    found = sw.sliced_wasserstein(x, y, "asw", generator=seeded(), activation=activation, **options)
    assert_close(found, expected, rtol=1e-8)


def test_asw_learns_on_in_a_module_and_starts_cold_elsewhere(pair):
    loss = sw.SlicedWasserstein("asw", inner_lr=0.05, penalty=0.0)
    values = [float(loss(*pair, generator=seeded(i))) for i in range(10)]
    assert values[-1] > 1.5 * values[0]  # with nothing to keep it small it grows
    again = sw.SlicedWasserstein("asw", inner_lr=0.05, penalty=0.0)
    again.load_state_dict(loss.state_dict())
    assert_close(again(*pair, generator=seeded(9)), loss(*pair, generator=seeded(9)))
    loss.reset()
    assert float(loss(*pair, generator=seeded(0))) == values[0]
    with pytest.warns(UserWarning, match="starts anew"):
        loss(pair[0][:, :2], pair[1][:, :2])


def test_asw_learns_within_a_flow(pair):
    found = sw.flow(pair[0], pair[1][:, :D], "asw", lr=1.0, max_steps=5, seeds=0)
    assert int(found.state["groups"][0]["state"]["slicer_step"].max()) == 25


@pytest.mark.parametrize("n", [7, 50])
def test_points_on_the_sphere(pair, n):
    for kind in ("spiral", "equal_area", "coulomb"):
        found = sw.evaluate(*pair, "qsw", n_slices=n, points=kind)
        costs = slow(pair, lambda x, theta: x @ theta, found.slices.numpy())
        assert_close(found.costs, torch.tensor(costs))
        if kind == "spiral":
            for row, theta in enumerate(found.slices.numpy(), start=1):
                z = 1 - (2 * row - 1) / n
                angle, radius = 1.8 * math.sqrt(n) * math.acos(z), math.sqrt(1 - z * z)
                expected = (radius * math.cos(angle), radius * math.sin(angle), z)
                assert np.abs(theta - expected).max() < 1e-12
    with pytest.warns(UserWarning, match="balance properties"):  # of 7 and 50 points, no power of 2
        square = stats.qmc.Sobol(2, scramble=False).random(n)
    z, angle = 1 - 2 * square[:, 1], 2 * math.pi * square[:, 0]
    radius = 2 * np.sqrt(square[:, 1] - square[:, 1] ** 2)
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1)
    assert np.abs(point_sets.equal_area(n).numpy() - expected).max() < 1e-6  # torch draws 30 bits


@pytest.mark.parametrize(("n", "least"), [(2, 0.5), (4, 3.674234614), (12, 49.165253058)])
def test_charges_find_the_known_minima(n, least):
    """Thomson's problem: two poles, a tetrahedron, an icosahedron."""
    charges = point_sets.coulomb(n)
    energy = (1 / torch.pdist(charges)).sum()
    assert least - 1e-9 <= energy < least * 1.001


def test_sobol_slices_are_a_quantile_of_a_net():
    """Each coordinate of the points behind them falls once into each of n cells: a net, and not by chance."""
    raw = special.ndtr(point_sets.sobol(64, 5).numpy())
    for column in raw.T:
        assert sorted((column * 64).astype(int)) == list(range(64))
    with pytest.raises(ValueError, match="points='sobol'"):
        sw.sliced_wasserstein(torch.randn(4, 5), torch.randn(4, 5), "qsw", points="spiral")


@pytest.mark.parametrize("points", ["sobol", "spiral", "equal_area", "coulomb"])
def test_rqsw_is_unbiased_and_better_than_chance(points):
    """A set and itself moved by Δ have SW_2² = |Δ|² / 3; here with variances that differ, by quadrature."""
    x = torch.randn(40, 3, dtype=torch.float64)
    y = x * torch.tensor([2.0, 1.0, 0.5]).double() + 1
    truth = float(sw.evaluate(x, y, "qsw", n_slices=20_000, points="spiral").power)
    many = x.expand(400, 40, 3)
    found, plain = (
        sw.evaluate(many, y, name, n_slices=32, generator=seeded(), **options).power
        for name, options in (("rqsw", {"points": points}), ("sw", {}))
    )
    assert abs(found.mean() - truth) < 4 * found.std() / math.sqrt(400)
    assert found.std() < plain.std() / 2


@pytest.mark.parametrize("name", ["lcvsw", "ucvsw"])
@pytest.mark.parametrize("weighted", [False, True])
def test_control_variates(pair, name, weighted):
    a, b = (torch.rand(n, dtype=torch.float64) for n in (N, M))
    a, b = (a / a.sum(), b / b.sum()) if weighted else (None, None)
    x, y = (t.numpy() for t in pair)
    qa, qb = (
        np.full(n, 1 / n) if w is None else w.numpy() for w, n in zip((a, b), (N, M), strict=True)
    )
    slices = draw_unit(seeded(), 12, D)
    costs, variates = [], []
    x_mean, y_mean = qa @ x, qb @ y
    for theta in slices:
        costs.append(oracles.slice_cost(x, y, theta, 2, qa, qb))
        c = (theta @ (x_mean - y_mean)) ** 2
        if name == "ucvsw":
            c += qa @ ((x - x_mean) @ theta) ** 2 + qb @ ((y - y_mean) @ theta) ** 2
        variates.append(c)
    expected = ((x_mean - y_mean) ** 2).sum() / D
    if name == "ucvsw":
        expected += (qa @ ((x - x_mean) ** 2).sum(1) + qb @ ((y - y_mean) ** 2).sum(1)) / D
    costs, variates = np.array(costs), np.array(variates)
    covariance = ((costs - costs.mean()) * (variates - expected)).mean()
    alpha = covariance / ((variates - expected) ** 2).mean()
    estimate = costs.mean() - alpha * (variates.mean() - expected)
    found = sw.evaluate(
        *pair, name, n_slices=12, x_weights=a, y_weights=b, generator=seeded(), objective="power"
    )
    assert_close(found.value, torch.tensor(estimate))
    assert_close(found.weights.sum(), torch.tensor(1.0).double())
    assert found.stderr < sw.evaluate(*pair, "sw", n_slices=12, generator=seeded()).stderr


@pytest.mark.parametrize("name", ["lcvsw", "ucvsw"])
def test_gradients_of_control_variates(pair, name):
    """Through the weights, by finite differences; held, the control variate of the gradient itself."""
    x, y = pair
    slices = torch.tensor(draw_unit(seeded(), 9, D))
    _, whole = sw.value_and_grad(x, y, name, slices=slices, objective="power")
    for i, j in ((0, 0), (5, 2)):
        moved = torch.stack([x, x])
        moved[:, i, j] += torch.tensor([1e-6, -1e-6])
        values = sw.sliced_wasserstein(moved, y, name, slices=slices, objective="power")
        assert abs(whole[i, j] - (values[0] - values[1]) / 2e-6) < 1e-6
    _, held = sw.value_and_grad(x, y, name, slices=slices, objective="power", hold_weights=True)
    found = sw.evaluate(x, y, name, slices=slices)
    each = [sw.value_and_grad(x, y, slices=s[None], objective="power")[1] for s in slices]
    assert_close(held, (found.weights[:, None, None] * torch.stack(each)).sum(0))
    assert not torch.allclose(held, whole)


def test_a_negative_estimate_has_root_zero_and_no_gradient():
    class Negative(WeightingPart):
        sums_to_one = False

        def __call__(self, costs, slices, problem):
            return torch.full_like(costs, -1.0)

    weighting = sw.Recipe(Quasi(3), Negative())
    x = torch.randn(5, 3).requires_grad_()
    found = sw.evaluate(x, torch.randn(4, 3) + 2, weighting)
    assert found.power < 0
    assert found.value == 0
    assert torch.autograd.grad(found.value, x)[0].abs().max() == 0
    value, gradient = sw.value_and_grad(x, torch.randn(4, 3) + 2, weighting)
    assert value == 0
    assert gradient.abs().max() == 0


@pytest.mark.parametrize("p", [1, 2, 3])
def test_gaussian_slices(pair, p):
    raw = torch.randn(30, D, generator=seeded()).double().numpy() / math.sqrt(D)
    found = sw.evaluate(*pair, "gaussiansw", n_slices=30, p=p, generator=seeded())
    costs = slow(pair, lambda x, theta: x @ theta, raw, p)
    assert_close(found.costs, torch.tensor(costs))
    many = sw.evaluate(*pair, "gaussiansw", n_slices=40_000, p=p, generator=seeded())
    uniform = sw.evaluate(*pair, "sw", n_slices=40_000, p=p, generator=seeded(1))
    factor = (2 / D) ** (p / 2) * math.gamma((D + p) / 2) / math.gamma(D / 2)
    error = math.hypot(float(many.stderr), factor * float(uniform.stderr))
    assert abs(many.power - factor * uniform.power) < 4 * error
    assert factor == pytest.approx(1.0) if p == 2 else abs(factor - 1) > 0.05


def test_moment_approximation(pair, caplog):
    x, y = (t.numpy() for t in pair)
    spread = [math.sqrt(((s - s.mean(0)) ** 2).sum() / len(s) / D) for s in (x, y)]
    expected = ((x.mean(0) - y.mean(0)) ** 2).sum() / D + (spread[0] - spread[1]) ** 2
    moments._say.cache_clear()
    with caplog.at_level(logging.WARNING, logger="slicewise"):
        found = sw.evaluate(*pair, "momentsw", objective="power")
    assert_close(found.value, torch.tensor(expected))
    assert "effective dimensions" in caplog.text
    assert "use 'sw'" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="slicewise"):
        sw.evaluate(*pair, "momentsw", objective="power")  # said once
        sw.evaluate(pair[0] + 1, pair[1] * 2, "momentsw", check=False)
    assert caplog.text == ""


def test_the_moment_approximation_holds_where_it_is_silent(caplog):
    """At d = 200 it is within 3 % of SW for normal clouds; embedded from the plane it is silent on nothing."""
    moments._say.cache_clear()
    x, y = torch.randn(600, 200).double(), 1.5 * torch.randn(600, 200).double() + 0.3
    with caplog.at_level(logging.WARNING, logger="slicewise"):
        quick = sw.sliced_wasserstein(x, y, "momentsw")
    assert caplog.text == ""
    assert abs(quick / sw.sliced_wasserstein(x, y, n_slices=2000) - 1) < 0.03
    plane = torch.linalg.qr(torch.randn(200, 2).double()).Q.mT
    x = torch.randn(600, 2).double() @ plane
    ring = torch.nn.functional.normalize(torch.randn(600, 2).double(), dim=-1) * 2**0.5 @ plane
    with caplog.at_level(logging.WARNING, logger="slicewise"):
        quick = sw.sliced_wasserstein(x, ring, "momentsw")
    assert "about 2 effective dimensions" in caplog.text
    assert quick < 0.5 * sw.sliced_wasserstein(x, ring, n_slices=2000)
    caplog.clear()
    heavy = x * torch.randn(600, 1).double().exp() ** 2
    with caplog.at_level(logging.WARNING, logger="slicewise"):
        sw.sliced_wasserstein(heavy, x, "momentsw")
    assert "norms that differ" in caplog.text


def test_effective_dimensions_of_a_cloud():
    for d in (3, 30):
        dimensions, differ = moments.normality(torch.randn(4000, d))
        assert abs(dimensions - d) < 0.15 * d
        expected = float(np.abs(stats.chi2(d).rvs(10**5, random_state=0) / d - 1).mean())
        assert abs(differ - expected) < 0.05 * expected


def energies_of(costs):
    return np.exp(costs) / np.exp(costs).sum()


def test_sirebsw(pair):
    generator = seeded()
    slices = draw_unit(generator, 40, D)
    weights = energies_of(slow(pair, lambda x, theta: x @ theta, slices))
    levels = torch.rand(40, generator=generator, dtype=torch.float64).numpy()
    kept = slices[np.searchsorted(np.cumsum(weights), levels, side="right")]
    found = sw.evaluate(*pair, "sirebsw", n_slices=40, generator=seeded())
    assert np.abs(found.slices.numpy() - kept).max() < 1e-12
    costs = slow(pair, lambda x, theta: x @ theta, kept)
    assert_close(found.power, torch.tensor(costs.mean()))


def test_imhebsw(pair):
    """Two chains of fifteen, accepted by hand."""
    generator = seeded()
    chain = [draw_unit(generator, 2, D)]
    accepted = 0
    for _ in range(14):
        proposed = draw_unit(generator, 2, D)
        levels = torch.rand(2, generator=generator, dtype=torch.float64).numpy()
        here, there = (slow(pair, lambda x, t: x @ t, s) for s in (chain[-1], proposed))
        take = levels < np.exp(there - here)
        accepted += take.sum()
        chain.append(np.where(take[:, None], proposed, chain[-1]))
    assert 0 < accepted < 28
    found = sw.evaluate(*pair, "imhebsw", n_slices=30, n_steps=15, generator=seeded())
    assert np.abs(found.slices.numpy() - np.stack(chain, axis=1).reshape(30, D)).max() < 1e-12
    assert_close(found.costs, torch.tensor(slow(pair, lambda x, t: x @ t, found.slices.numpy())))


@pytest.mark.parametrize("name", ["sirebsw", "imhebsw", "rmhebsw"])
def test_samplers_reach_the_energy_law(pair, name):
    """Their means are those of weighted uniform slices; the law is sharp enough to tell it from the uniform one."""
    truth = sw.evaluate(*pair, "ebsw", n_slices=200_000, temperature=0.3, generator=seeded())
    options = (
        {"n_slices": 400}
        if name == "sirebsw"
        else {"n_slices": 100, "n_steps": 300, "burn_in": 200}
    )
    many = pair[0].expand(200, N, D)
    found = sw.evaluate(many, pair[1], name, temperature=0.3, generator=seeded(), **options).power
    error = math.hypot(float(found.std()) / math.sqrt(200), float(truth.stderr))
    # Of resampled slices the bias is of order 1/L of their spread: a fiftieth of the way between the laws is more.
    uniform = sw.evaluate(*pair, "sw", n_slices=100_000, generator=seeded()).power
    slack = 0.02 * (truth.power - uniform)
    assert abs(found.mean() - truth.power) < 4 * error + slack
    assert truth.power - uniform > 20 * error


@pytest.mark.parametrize("energy", ["exp", "poly"])
def test_gradient_of_drawn_slices_is_that_of_their_law(pair, energy):
    x, y = pair
    found = sw.evaluate(x, y, "sirebsw", n_slices=25, energy=energy, generator=seeded())
    costs = found.costs.numpy()
    each = torch.stack(
        [sw.value_and_grad(x, y, slices=s[None], objective="power")[1] for s in found.slices]
    )
    slope = 1.0 if energy == "exp" else 2 / costs
    coefficients = (1 + slope * (costs - costs.mean())) / 25
    _, gradient = sw.value_and_grad(
        x, y, "sirebsw", n_slices=25, energy=energy, objective="power", generator=seeded()
    )
    assert_close(gradient, (torch.tensor(coefficients)[:, None, None] * each).sum(0))
    _, held = sw.value_and_grad(
        x,
        y,
        "sirebsw",
        n_slices=25,
        energy=energy,
        hold_weights=True,
        objective="power",
        generator=seeded(),
    )
    assert_close(held, each.mean(0))


def test_options_that_cannot_be():
    x, y = torch.randn(5, 3), torch.randn(5, 3)
    for words, options in (
        ("odd", {"degree": 2}),
        ("radius", {"function": "circular", "radius": 0.0}),
        ("function = 'cubic'", {"function": "cubic"}),
        ("one slice", {"variant": "maxgsw", "n_slices": 3}),
    ):
        with pytest.raises(ValueError, match=words):
            sw.sliced_wasserstein(x, y, **{"variant": "gsw", **options})
    with pytest.raises(ValueError, match="monomials"):
        sw.sliced_wasserstein(torch.randn(2, 300), torch.randn(2, 300), "gsw")
    with pytest.raises(ValueError, match="before any lift"):
        sw.sliced_wasserstein(x, sw.Target(y), "gsw")
    with pytest.raises(ValueError, match="both learn"):
        sw.Recipe(sw.VARIANTS["dsw"]().slicer, lift=sw.VARIANTS["asw"]().lift)
    fixed = Quasi(4, "coulomb")(Problem(x, y), Randomness(None, CPU))
    assert fixed.shape == (4, 3)
