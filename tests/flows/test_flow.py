"""Flows converge without a rate, a batch equals its parts, seeds decide, and wrong arguments are named."""

from __future__ import annotations

import inspect

import pytest
import torch

import slicewise as sw
from benchmarks.steps.flows import ELEVEN, two_blobs
from slicewise.lab.data.toys import TOYS
from slicewise.support import Status
from tests.flows.samples import FIXED, PURE, clouds, toys
from tests.tolerances import assert_close


@pytest.mark.parametrize("d", [2, 50])
@pytest.mark.parametrize("name", TOYS)
def test_toys_without_a_rate(name, d):
    """In small; `make bench-steps` counts ten seeds of each, at d = 100 too."""
    x, y = toys(name, 300, d, (901, 902, 903))
    found = sw.flow(x, y, seeds=[901, 902, 903], stopping=sw.Stopping(w2=1e-3, assign=False))
    assert found.converged.all()
    assert (found.w2 <= 1e-3).all()
    assert found.n_steps.median() <= (80 if name == "knot" else 60)
    assert (found.dimensions == 2).all()


@pytest.mark.parametrize("d", [pytest.param(2, marks=pytest.mark.slow), 50])
@pytest.mark.parametrize("name", ["swiss", "8gaussians"])
@pytest.mark.parametrize("variant", ELEVEN)
def test_every_variant_without_a_rate(variant, name, d):
    seeds = (911, 912, 913)
    x, y = toys(name, 150, d, seeds)
    found = sw.flow(x, y, variant, seeds=seeds, stopping=sw.Stopping(w2=1e-2, assign=False))
    assert found.converged.all(), found.w2
    assert (found.w2 <= 1e-2).all()


@pytest.mark.slow
@pytest.mark.parametrize("d", [3, 4])
@pytest.mark.parametrize("variant", ["maxsw", "maxksw", "ksw", "imsw"])
def test_few_slices_in_more_dimensions(variant, d):
    """An escape undoes what few slices a step have slowly reached: there are none here."""
    g = torch.Generator().manual_seed(d)
    x, y = (torch.randn(3, 40, d, generator=g, dtype=torch.float64) for _ in range(2))
    y = 3 * y + 1
    start = sw.wasserstein(x, y)
    found = sw.flow(x, y, variant, seeds=[1, 2, 3], max_steps=1500, stopping=FIXED)
    assert (found.w2 < 0.05 * start).all()


@pytest.mark.slow
@pytest.mark.parametrize(("k", "limit"), [(4, 184), (5, 310), (10, 508)])
def test_full_rank_clouds(k, limit):
    x, y = (
        torch.stack(side) for side in zip(*(two_blobs(k, seed) for seed in (1, 2, 3)), strict=True)
    )
    found = sw.flow(x, y, seeds=[1, 2, 3], stopping=sw.Stopping(w2=1e-3, assign=False))
    assert found.converged.all()
    assert found.n_steps.median() <= limit


@pytest.mark.parametrize("variant", ["ksw", "vdsw", "orthosw", "phisw"])
def test_the_other_variants_too(variant):
    x, y = toys("8gaussians", 100, 10, (1, 2))
    assert sw.flow(
        x, y, variant, seeds=[1, 2], stopping=sw.Stopping(w2=1e-2, assign=False)
    ).converged.all()


@pytest.mark.parametrize("p", [1, 1.5, 3])
def test_other_orders(p):
    x, y = toys("swiss", 100, 2, (1, 2))
    found = sw.flow(x, y, p=p, seeds=[1, 2], max_steps=400, stopping=FIXED)
    start = sw.wasserstein(x, y)
    assert (found.w2 < 0.05 * start).all()


@pytest.mark.parametrize("objective", ["power", "root", "mean_root"])
def test_objectives(objective):
    x, y = clouds(30, 2)
    start = sw.sliced_wasserstein(x, y, objective=objective, n_slices=500)
    found = sw.flow(x, y, objective=objective, seeds=0, reduce=False, stopping=PURE)
    assert found.w2 < 1e-6
    # mean_root lies below the root, by how much W varies from slice to slice.
    assert float(found.history.loss[0]) == pytest.approx(float(start), rel=0.25)
    given_rate = sw.flow(x, y, lr=0.5, objective=objective, max_steps=300, seeds=0)
    assert given_rate.w2 < 0.5 * sw.wasserstein(x, y)


def test_unequal_sizes_and_weights_settle():
    x, y = clouds(60, 2)
    weights = torch.rand(40, dtype=torch.float64) + 0.1
    weights = weights / weights.sum()
    slices = sw.Target(y[:40], n_slices=200).slices
    for extra in ({}, {"y_weights": weights}):
        found = sw.flow(x, y[:40], seeds=0, **extra)
        known = {"slices": slices, "objective": "power", **extra}
        before = sw.sliced_wasserstein(x, y[:40], **known)
        assert sw.sliced_wasserstein(found.particles, y[:40], **known) < 2e-3 * before
        assert found.status == Status.MINIMUM_REACHED
        assert found.n_steps <= 400


def test_rates_and_seeds_are_a_batch():
    """The rates of a sweep and their seeds in one call equal separate calls, run for run."""
    x, y = clouds(30, 3, seed=4)
    rates, seeds = 15 * torch.tensor([[0.05], [0.2], [0.5], [1.0]]).double(), [7, 8, 9]
    together = sw.flow(x, y, lr=rates, seeds=seeds, max_steps=200)
    assert together.particles.shape == (4, 3, 30, 3)
    for i, rate in enumerate(rates.flatten().tolist()):
        for j, seed in enumerate(seeds):
            alone = sw.flow(x, y, lr=rate, seeds=seed, max_steps=200)
            assert (together.particles[i, j] - alone.particles).abs().max() < 1e-9
            assert_close(together.history.loss[:, i, j], alone.history.loss, rtol=1e-6)


@pytest.mark.parametrize("variant", ELEVEN)
def test_a_batch_is_a_loop_for_computed_steps(variant):
    x, y = clouds(3, 20, 4, seed=1)
    # Ascents amplify rounding, by up to 5 a step: two steps for them, not nine.
    options = {"n_steps": 3} if "ascent_step" in sw.VARIANTS[variant].options else {}
    together = sw.flow(x, y, variant, seeds=[3, 4, 5], max_steps=4, stopping=FIXED, **options)
    for i in range(3):
        alone = sw.flow(x[i], y[i], variant, seeds=3 + i, max_steps=4, stopping=FIXED, **options)
        assert_close(together.particles[i], alone.particles, rtol=1e-9)


def test_seeds_decide_and_nothing_else():
    x, y = clouds(15, 3)
    how = {"max_steps": 5, "stopping": FIXED}
    one = sw.flow(x, y, "rpsw", seeds=3, **how)
    torch.manual_seed(99)
    assert torch.equal(one.particles, sw.flow(x, y, "rpsw", seeds=3, **how).particles)
    assert not torch.equal(one.particles, sw.flow(x, y, "rpsw", seeds=4, **how).particles)
    torch.manual_seed(1)
    first = sw.flow(x, y, **how)
    torch.manual_seed(1)
    assert torch.equal(first.particles, sw.flow(x, y, **how).particles)
    by_generator = [sw.flow(x, y, **how, generator=torch.Generator().manual_seed(2)) for _ in "12"]
    assert torch.equal(by_generator[0].particles, by_generator[1].particles)
    again = sw.flow(x, y, **how, seeds=first.seeds)
    assert torch.equal(first.particles, again.particles)


def test_the_best_rate_is_computed():
    """Fixed rates at, below and above a*: none is much better than the Cauchy step."""
    x, y = clouds(64, 10, seed=3)
    best = sw.steps.rate_of_step(sw.steps.best_step(50, 10), n=64)
    rates = best * torch.tensor([0.25, 0.5, 0.71, 1.0, 1.41]).double()
    fixed = sw.flow(
        x, y, lr=rates, seeds=1, max_steps=1500, stopping=sw.Stopping(w2=1e-3, assign=False)
    )
    computed = sw.flow(
        x,
        y,
        step_rule="cauchy",
        reduce=False,
        seeds=1,
        max_steps=1500,
        stopping=sw.Stopping(w2=1e-3, assign=False),
    )
    assert computed.converged
    assert computed.n_steps <= 2 * fixed.n_steps[fixed.converged].min()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"lr": "fast"}, "lr = 'fast': give 'auto', a number"),
        ({"slices": torch.eye(2)}, "no argument 'slices': it draws its own"),
        ({"log": True}, "no argument 'log': .* `history`"),
        ({"lr": -1.0}, "positive, finite rates"),
        ({"lr": []}, "positive, finite rates"),
        ({"lr": True}, "positive, finite rates"),
        ({"lr": torch.tensor([1.0, torch.nan])}, "positive, finite rates"),
        ({"max_steps": -1}, "max_steps = -1"),
        ({"objective": "square"}, "choose from power, root, mean_root"),
        ({"stopping": 0.1}, r"stopping = 0.1: give a Stopping, e.g. stopping=sw.Stopping\(w2="),
        ({"recording": [0, 5]}, r"recording = \[0, 5\]: give a Recording"),
        ({"stopping": sw.Stopping(assign=True), "lr": 1.0}, "needs lr='auto'"),
        ({"stopping": sw.Stopping(assign=True), "y": torch.randn(9, 2)}, "equal numbers"),
        ({"reduce": "yes"}, "True, False or 'auto'"),
        ({"step_factor": 0.0}, "step_factor = 0.0"),
        ({"step_rule": "trace", "lr": 1.0}, "give lr='auto'"),
        ({"seeds": [1, 2, 3], "lr": torch.ones(2)}, "do not fit together"),
        ({"seeds": 0.5}, "whole numbers"),
        ({"seeds": "one"}, "seeds = 'one'"),
        ({"seeds": 2**70}, "whole numbers below 2"),
        ({"lr": [0.1, "fast"]}, "lr = "),
        ({"variant": "swx"}, "did you mean"),
        ({"y": torch.full((10, 2), torch.nan)}, "NaN or infinite"),
        ({"lr": None}, "lr = None"),
        ({"max_steps": 2.5}, "max_steps = 2.5"),
        ({"seed": 1}, "did you mean 'seeds'"),
        ({"learning_rate": 1.0}, "did you mean 'lr'"),
        ({"n_projections": 9}, "did you mean 'n_slices'"),
        ({"n_steps": 9}, "did you mean 'max_steps'"),
        ({"max_iter": 9}, "did you mean 'max_steps'"),
        ({"loss": "root"}, "flow has no argument 'loss': it takes variant, lr, max_steps"),
        ({"projections": 1}, "it draws its own at every step"),
        ({"device": "cpu"}, "it runs where the samples are"),
        ({"tol": 0.1}, r"write stopping=sw.Stopping\(tolerance="),
        ({"temperature": 1.0}, "option of variant 'sw' = 'temperature'"),
        ({"step_rule": -1.0}, "step_rule = -1.0: give a finite number above 0"),
        ({"step_factor": 0.5, "lr": 1.0}, "multiplies computed steps"),
        ({"objective": "mean_root", "variant": "ebsw"}, "follow the costs"),
        ({"y": sw.Target(torch.randn(10, 2))}, "give target.y"),
    ],
)
def test_errors_speak(arguments, words):
    given = {"x": torch.randn(10, 2), "y": torch.randn(10, 2), **arguments}
    with pytest.raises(ValueError, match=words):
        sw.flow(**given)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("steps", "max_steps=..."),
        ("step", "step_rule=..."),
        ("share", "step_factor=..."),
        ("detach", "hold_weights=..."),
        ("at_least", "lower_bound=..."),
        ("power", "objective='power'"),
        ("stop_w2", "stopping=sw.Stopping(w2=...)"),
        ("tolerance", "stopping=sw.Stopping(tolerance=...)"),
        ("finish", "stopping=sw.Stopping(assign=True)"),
        ("w2_at", "recording=sw.Recording(w2_at=[...])"),
        ("particles_at", "recording=sw.Recording(particles_at=[...])"),
        ("checkpoint", "recording=sw.Recording(checkpoint='run.pt')"),
        ("bar", "recording=sw.Recording(progress_bar=True)"),
    ],
)
def test_arguments_of_before_name_those_of_now(old, new):
    with pytest.raises(ValueError, match=f"no argument '{old}'") as caught:
        sw.flow(torch.randn(10, 2), torch.randn(10, 2), **{old: 1})
    assert f"write {new}" in str(caught.value)
    argument = new.partition("=")[0]
    assert argument in inspect.signature(sw.flow).parameters
