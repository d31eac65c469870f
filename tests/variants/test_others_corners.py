"""Corners of the relatives, where a fresh reading looked: derivatives, scales, sizes, compilers, metrics, floors."""

from __future__ import annotations

import json
import logging
import math

import numpy as np
import pytest
import torch

import slicewise as sw
from slicewise.lab.cli import main
from slicewise.parts import moments
from tests.command_line import accepted, refused
from tests.support.test_torch_modes import needs_no_strictness
from tests.tolerances import assert_close

N, M, D = 6, 5, 3
RELATIVES = [
    n for n, one in sw.VARIANTS.items() if one.build.__module__ == "slicewise.variants.others"
]
# What can be differentiated along given slices. Energies' samplers cannot: theirs is the gradient of a law.
DIFFERENTIABLE = [
    ("gsw", {"degree": 3}),
    ("gsw", {"function": "circular"}),
    ("gsw", {"function": "neural", "width": 4}),
    ("asw", {"n_steps": 0}),  # the layer at its first weights, which a seed holds
    ("asw", {"n_steps": 0, "activation": "leaky_relu"}),
    ("lcvsw", {}),
    ("ucvsw", {"n_slices": 5}),
    ("ucvsw", {"n_slices": 2}),  # fewer slices than dimensions: another way
    ("momentsw", {"check": False}),
]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pair(dtype=torch.float64):
    x = torch.randn(N, D, generator=seeded(1), dtype=torch.float64)
    y = torch.randn(M, D, generator=seeded(2), dtype=torch.float64) + 0.5
    return x.to(dtype), y.to(dtype)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), DIFFERENTIABLE, ids=str)
@pytest.mark.parametrize("p", [2, 3])
def test_first_and_second_derivatives(name, options, p):
    """In both sets and in both weights, by finite differences."""
    if p not in ((2,) if name == "momentsw" else (2, 3)):
        return
    slices = sw.evaluate(*pair(), name, generator=seeded(), **options).slices[:5]
    options = {k: v for k, v in options.items() if k != "n_slices"}
    weights = [torch.rand(n, generator=seeded(n), dtype=torch.float64) + 0.1 for n in (N, M)]

    def value(x, y, a, b):
        given = {"x_weights": a / a.sum(), "y_weights": b / b.sum(), "slices": slices, "p": p}
        return sw.sliced_wasserstein(
            x, y, name, objective="power", generator=seeded(), **given, **options
        )

    inputs = [t.clone().requires_grad_() for t in (*pair(), *weights)]
    assert torch.autograd.gradcheck(value, inputs, rtol=1e-4, atol=1e-7)
    assert torch.autograd.gradgradcheck(value, inputs, rtol=1e-4, atol=1e-6)


def test_a_sample_at_the_centre_of_a_circle_has_a_gradient():
    slices = torch.eye(D, dtype=torch.float64)
    x = (2.0 * slices).requires_grad_()  # at the centres of radius 2
    value = sw.sliced_wasserstein(x, pair()[1], "gsw", function="circular", slices=slices)
    (gradient,) = torch.autograd.grad(value, x, create_graph=True)
    assert gradient.isfinite().all()
    assert torch.autograd.grad(gradient.square().sum(), x)[0].isfinite().all()


@pytest.mark.slow
@needs_no_strictness
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gsw", {}),
        ("gsw", {"function": "circular"}),
        ("gsw", {"function": "neural"}),
        ("lcvsw", {}),
        ("ucvsw", {}),
        ("gaussiansw", {}),
        ("momentsw", {}),
        ("sirebsw", {}),
    ],
    ids=str,
)
def test_compiles_whole(name, options):
    """Draws and all."""
    torch._dynamo.reset()
    loss = sw.SlicedWasserstein(name, **options)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    found = []
    for function in (loss, compiled):
        x, y = (t.requires_grad_() for t in pair(torch.float32))
        torch.manual_seed(0)
        value = function(x, y)
        found.append((value, *torch.autograd.grad(value, (x, y))))
    for eager, fused in zip(*found, strict=True):
        assert_close(fused, eager)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("name", ["gaussiansw", "lcvsw", "momentsw", "rqsw"])
def test_scales_take_the_embedding_out(name, p):
    """The same samples in R^3 and in a subspace of R^12, by many slices: one value by either scale."""
    if name == "momentsw" and p != 2:
        return
    x, y = pair()
    basis = torch.linalg.qr(torch.randn(12, D, generator=seeded(4), dtype=torch.float64)).Q
    many = {"check": False} if name == "momentsw" else {"n_slices": 20_000}
    for scale in ("gaussian", "subspace"):
        values = []
        for samples in ((x, y), (x @ basis.mT, y @ basis.mT)):
            loss = sw.SlicedWasserstein(name, p=p, scale=scale, subspace_dim=D, **many)
            values.append(loss(*samples, generator=seeded()))
        assert_close(values[1], values[0], rtol=1e-9 if name == "momentsw" else 0.05)
    plain = sw.SlicedWasserstein(name, p=p, **many)
    embedded = plain(x @ basis.mT, y @ basis.mT, generator=seeded())
    assert embedded < 0.6 * plain(x, y, generator=seeded())


def test_curves_have_no_scale_and_lifts_no_move():
    for scale in ("gaussian", "subspace"):
        with pytest.raises(ValueError, match="use scale='classic'"):
            sw.SlicedWasserstein("gsw", function="circular", scale=scale)
    with pytest.raises(ValueError, match="not linear in the samples"):
        sw.SlicedWasserstein("momentsw", scale="displacement")
    for name in ("gsw", "maxgsw", "asw", "momentsw"):
        with pytest.raises(ValueError, match=r"lr='auto' with .* use a variant with linear slices"):
            sw.flow(*pair(), name)


@pytest.mark.parametrize("size", [1e-120, 1.0, 1e120])
def test_normality_does_not_depend_on_size(size):
    samples = torch.randn(200, 30, generator=seeded(), dtype=torch.float64)
    expected = moments.normality(samples)
    for ours, wanted in zip(moments.normality(size * samples), expected, strict=True):
        assert_close(ours, wanted, rtol=1e-9)


def test_the_moment_approximation_is_silent_where_there_is_nothing_to_say(caplog):
    """Sets that are one point, and weights that ask for a gradient."""
    moments._say.cache_clear()
    ones = torch.ones(7, 3, dtype=torch.float64)
    with caplog.at_level(logging.WARNING, logger="slicewise"):
        assert_close(sw.sliced_wasserstein(ones, 3 * ones, "momentsw"), torch.tensor(2.0).double())
    assert caplog.text == ""
    x, y = pair()
    weights = torch.full((N,), 1 / N, dtype=torch.float64, requires_grad=True)
    sw.sliced_wasserstein(x, y, "momentsw", x_weights=weights).backward()
    assert weights.grad.isfinite().all()


@pytest.mark.parametrize("points", ["spiral", "equal_area", "coulomb"])
def test_even_points_of_few_and_too_many(points):
    """Also of one and two; each is on the sphere, and no two are one."""
    for n in (1, 2, 3, 100):
        rows = sw.evaluate(*pair(), "qsw", n_slices=n, points=points).slices
        assert_close(rows.norm(dim=-1), torch.ones(n, dtype=torch.float64))
        assert n == 1 or torch.pdist(rows).min() > 0.2 / math.sqrt(n)
    if points == "coulomb":
        with pytest.raises(ValueError, match="points='spiral'"):
            sw.sliced_wasserstein(*pair(), "qsw", n_slices=100_000, points=points)
    wide = torch.zeros(2, 30_000)
    with pytest.raises(ValueError, match="orthosw"):
        sw.sliced_wasserstein(wide, wide, "qsw")


def test_control_variates_are_right_in_the_mean():
    """The mean over 4,000 calls of 100 slices, against the truth: the error of α is of order 1/L."""
    x, y = pair()[0], pair()[1] + 1
    truth = sw.evaluate(x, y, "qsw", n_slices=50_000, points="spiral").power
    many = x.expand(4000, N, D)
    for name in ("lcvsw", "ucvsw"):
        found = sw.evaluate(many, y, name, n_slices=100, generator=seeded()).power
        plain = sw.evaluate(many, y, "sw", n_slices=100, generator=seeded()).power
        assert abs(found.mean() / truth - 1) < 0.01
        assert found.std() < 0.5 * plain.std()


def test_a_floor_holds_where_gradients_are_autograds():
    x, y = pair()[0].abs(), pair()[1] - 2
    for name in ("gsw", "lcvsw", "momentsw"):
        found = sw.flow(x, y, name, lr=0.5, max_steps=5, seeds=0, lower_bound=0.0)
        assert found.particles.min() >= 0
        free = sw.flow(x, y, name, lr=0.5, max_steps=5, seeds=0)
        assert free.particles.min() < 0


@pytest.mark.parametrize("name", ["gsw", "asw", "rqsw", "ucvsw", "momentsw", "imhebsw"])
def test_as_a_metric(name):
    """In two pieces, what it is at once; torchmetrics brings its own gradient mode."""
    pytest.importorskip("torchmetrics")
    from slicewise.metric.exact import SlicedWassersteinMetric

    x, y = pair()
    metric = SlicedWassersteinMetric(name, generator=3)
    metric.update(x[:2], y)
    metric.update(x=x[2:])
    assert_close(metric.compute(), sw.sliced_wasserstein(x, y, name, generator=seeded(3)))


@pytest.fixture
def files(tmp_path):
    for name, samples in zip("ab", pair(), strict=True):
        np.save(tmp_path / f"{name}.npy", samples.numpy())
    return str(tmp_path / "a.npy"), str(tmp_path / "b.npy")


@pytest.mark.slow
def test_every_relative_on_the_command_line(capsys, files, tmp_path):
    """A distance by each, the very number of the library; a flow by each, or a line that says why not."""
    for name in RELATIVES:
        one = sw.VARIANTS[name]
        told = json.loads(accepted(capsys, "distance", *files, "-v", name, "--json"))
        assert told["value"] == pytest.approx(
            float(sw.sliced_wasserstein(*pair(torch.float32), name, generator=seeded())), rel=1e-5
        )
        words = (
            "flow",
            *files,
            "-v",
            name,
            "--force",
            "--steps",
            "2",
            "--out",
            str(tmp_path / "f.gif"),
        )
        if name == "qsw":
            assert main(list(words)) == 0
            assert "the same slices at every step" in capsys.readouterr().err
        elif "linear" in one.properties:
            accepted(capsys, *words)
        else:
            assert "linear slices" in refused(capsys, *words)
            accepted(capsys, *words, "--lr", "0.01")


def test_no_slices_are_claimed_where_there_are_none(capsys, files):
    assert "(without slices)" in accepted(capsys, "distance", *files, "-v", "momentsw")
    told = json.loads(accepted(capsys, "distance", *files, "-v", "momentsw", "--json"))
    assert told["n_slices"] == 0
