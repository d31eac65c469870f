"""Flows: converge without a rate, equal their parts, remember nothing they should not, stop and go on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from benchmarks.steps.flows import ELEVEN, two_blobs
from slicewise.flows import movers
from slicewise.flows.loop import Pace, Stride
from slicewise.flows.movers import Accelerated
from slicewise.flows.restarts import Escapes
from slicewise.flows.result import Flow
from slicewise.flows.stopping import Status
from slicewise.lab.data.image_sets import digit
from slicewise.lab.data.toys import TOYS, toy
from tests.tolerances import assert_close

STUCK_SEED = 14  # of a swiss roll; one in fifty is like it


def clouds(*shape, seed=0, offset=1.0):
    g = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(*shape, generator=g, dtype=torch.float64) for _ in range(2))
    return x, 0.5 * y + offset


def toys(name, n, d, seeds):
    pairs = [toy(name, n, d, seed) for seed in seeds]
    return torch.stack([p.x for p in pairs]), torch.stack([p.y for p in pairs])


# Converges.


@pytest.mark.parametrize("d", [2, 50])
@pytest.mark.parametrize("name", TOYS)
def test_toys_without_a_rate(name, d):
    """In small; `make bench-steps` counts ten seeds of each, at d = 100 too."""
    x, y = toys(name, 300, d, (901, 902, 903))
    found = sw.flow(x, y, seeds=[901, 902, 903], stop_w2=1e-3)
    assert found.converged.all()
    assert (found.w2 <= 1e-3).all()
    assert found.steps.median() <= (80 if name == "knot" else 60)
    assert (found.ranks == 2).all()


@pytest.mark.parametrize("d", [pytest.param(2, marks=pytest.mark.slow), 50])
@pytest.mark.parametrize("name", ["swiss", "8gaussians"])
@pytest.mark.parametrize("variant", ELEVEN)
def test_every_variant_without_a_rate(variant, name, d):
    seeds = (911, 912, 913)
    x, y = toys(name, 150, d, seeds)
    found = sw.flow(x, y, variant, seeds=seeds, stop_w2=1e-2)
    assert found.converged.all(), found.w2
    assert (found.w2 <= 1e-2).all()


@pytest.mark.parametrize("d", [3, 4])
@pytest.mark.parametrize("variant", ["maxsw", "maxksw", "ksw", "imsw"])
def test_few_slices_in_more_dimensions(variant, d):
    """An escape undoes what few slices a step have slowly reached: there are none here."""
    g = torch.Generator().manual_seed(d)
    x, y = (torch.randn(3, 40, d, generator=g, dtype=torch.float64) for _ in range(2))
    y = 3 * y + 1
    start = sw.wasserstein(x, y)
    found = sw.flow(x, y, variant, seeds=[1, 2, 3], steps=1500)
    assert (found.w2 < 0.05 * start).all()


@pytest.mark.parametrize(("k", "limit"), [(4, 184), (5, 310), (10, 508)])
def test_full_rank_clouds(k, limit):
    x, y = (
        torch.stack(side) for side in zip(*(two_blobs(k, seed) for seed in (1, 2, 3)), strict=True)
    )
    found = sw.flow(x, y, seeds=[1, 2, 3], stop_w2=1e-3)
    assert found.converged.all()
    assert found.steps.median() <= limit


def test_images_of_digits_in_their_own_dimensions():
    """Zeros to ones: the same end in 19 dimensions as in 784, in far less work."""
    x, y = (torch.from_numpy(digit(value).first(10)) for value in (0, 1))
    goal = 1e-3 * float(sw.wasserstein(x, y))
    reduced = sw.flow(x, y, seeds=1, stop_w2=goal)
    ambient = sw.flow(x, y, seeds=1, stop_w2=goal, reduce=False, n_slices=200, steps=3000)
    assert reduced.converged
    assert ambient.converged
    assert reduced.ranks == 19
    assert 5 * reduced.steps < ambient.steps


@pytest.mark.parametrize("variant", ["ksw", "vdsw", "orthosw", "phisw"])
def test_the_other_variants_too(variant):
    x, y = toys("8gaussians", 100, 10, (1, 2))
    assert sw.flow(x, y, variant, seeds=[1, 2], stop_w2=1e-2).converged.all()


def test_to_rounding_and_no_further():
    x, y = clouds(40, 3)
    found = sw.flow(x, y, seeds=0)
    assert found.converged
    assert found.w2 < 1e-8
    single = sw.flow(x.float(), y.float(), seeds=0)
    assert single.converged
    assert single.particles.dtype == torch.float32
    assert single.w2 < 1e-5


@pytest.mark.parametrize("p", [1, 1.5, 3])
def test_other_orders(p):
    x, y = toys("swiss", 100, 2, (1, 2))
    found = sw.flow(x, y, p=p, seeds=[1, 2], steps=400)
    start = sw.wasserstein(x, y)
    assert (found.w2 < 0.05 * start).all()


@pytest.mark.parametrize("objective", ["power", "root", "mean_root"])
def test_objectives(objective):
    x, y = clouds(30, 2)
    start = sw.sliced_wasserstein(x, y, power=objective == "power", n_slices=500)
    found = sw.flow(x, y, objective=objective, seeds=0, reduce=False)
    assert found.w2 < 1e-6
    # mean_root lies below the root, by how much W varies from slice to slice.
    assert float(found.trace.loss[0]) == pytest.approx(float(start), rel=0.25)
    given_rate = sw.flow(x, y, lr=0.5, objective=objective, steps=300, seeds=0)
    assert given_rate.w2 < 0.5 * sw.wasserstein(x, y)


def test_unequal_sizes_and_weights_settle():
    x, y = clouds(60, 2)
    weights = torch.rand(40, dtype=torch.float64) + 0.1
    weights = weights / weights.sum()
    slices = sw.Target(y[:40], n_slices=200).slices
    for extra in ({}, {"y_weights": weights}):
        found = sw.flow(x, y[:40], seeds=0, steps=200, **extra)
        known = {"slices": slices, "power": True, **extra}
        before = sw.sliced_wasserstein(x, y[:40], **known)
        assert sw.sliced_wasserstein(found.particles, y[:40], **known) < 2e-3 * before
        assert found.status == Status.FINISHED


def test_escape_from_a_dead_end(monkeypatch):
    """A swiss roll whose particles get stuck near W_2 = 0.02, and stay there without escapes."""
    x, y = toys("swiss", 300, 2, [STUCK_SEED])
    found = sw.flow(x, y, seeds=[STUCK_SEED], stop_w2=1e-3)
    assert found.converged.all()
    monkeypatch.setattr("slicewise.flows.settings.escapes_for", lambda k: None)
    stays = sw.flow(x, y, seeds=[STUCK_SEED], stop_w2=1e-3, steps=int(found.steps))
    assert not stays.converged.any()
    assert (stays.w2 > 0.01).all()


def test_only_a_loss_at_rest_is_heated():
    """Two runs whose losses do not halve: one rests, one falls. Both escape, one of them hot, not the first time."""
    escapes = Escapes(patience=10)
    state = escapes.start(torch.ones(2, dtype=torch.float64))
    hot = [[], []]
    for t in range(80):
        loss = torch.tensor([1.0, 0.985**t], dtype=torch.float64)
        was = state["escaping"] > 0
        state = {**state, **escapes.watch(loss, state)}
        for i in torch.nonzero(~was & (state["escaping"] > 0)).flatten().tolist():
            hot[i].append(float(state["hot"][i]))
            assert escapes.heat(loss, state)[i] == 1 + state["hot"][i]
    assert hot == [[0, 1], [0, 0, 0]]
    assert state["escape"][0] > 20  # longer for the one at rest alone
    assert state["escape"][1] == 20


def test_what_is_far_above_its_rest_is_not_heated_further():
    """A run rests at 1 and escapes hot; on other slices its loss rises. Far above 1 it takes plain steps until it sank."""
    escapes = Escapes(patience=10)
    rest = torch.ones(1, dtype=torch.float64)
    state = escapes.start(rest)
    while not bool(state["hot"].any()):
        state = {**state, **escapes.watch(rest, state)}
    assert state["rest"] == 1
    heats = []
    for loss in (rest, 10 * rest, 17 * rest, 1e6 * rest, 10 * rest):
        heats.append(float(escapes.heat(loss, state)))
        state = {**state, **escapes.watch(loss, state)}
    assert heats[:2] == [2, 2 - 1 / 40]
    assert heats[2:4] == [1, 1]
    assert heats[4] == 2 - 4 / 40


# A batch is its parts.


def test_rates_and_seeds_are_a_batch():
    """The rates of a sweep and their seeds in one call equal separate calls, run for run."""
    x, y = clouds(30, 3, seed=4)
    rates, seeds = 15 * torch.tensor([[0.05], [0.2], [0.5], [1.0]]).double(), [7, 8, 9]
    together = sw.flow(x, y, lr=rates, seeds=seeds, steps=200)
    assert together.particles.shape == (4, 3, 30, 3)
    for i, rate in enumerate(rates.flatten().tolist()):
        for j, seed in enumerate(seeds):
            alone = sw.flow(x, y, lr=rate, seeds=seed, steps=200)
            assert (together.particles[i, j] - alone.particles).abs().max() < 1e-9
            assert_close(together.trace.loss[:, i, j], alone.trace.loss, rtol=1e-6)


@pytest.mark.parametrize("variant", ELEVEN)
def test_a_batch_is_a_loop_for_computed_steps(variant):
    x, y = clouds(3, 20, 4, seed=1)
    # Ascents amplify rounding, by up to 5 a step: two steps for them, not nine.
    options = {"n_steps": 3} if "ascent_step" in sw.VARIANTS[variant].options else {}
    together = sw.flow(x, y, variant, seeds=[3, 4, 5], steps=4, **options)
    for i in range(3):
        alone = sw.flow(x[i], y[i], variant, seeds=3 + i, steps=4, **options)
        assert_close(together.particles[i], alone.particles, rtol=1e-9)


def test_neighbours_that_end_early_or_diverge_change_nothing():
    x, y = clouds(20, 3)
    rates = torch.tensor([1.0, 1e4, 2.0]).double()
    together = sw.flow(x, y, lr=rates, seeds=0, steps=100)
    assert together.diverged.tolist() == [False, True, False]
    assert together.steps.tolist()[0::2] == [100, 100]
    assert together.steps[1] < 100
    assert together.particles.isfinite().all()
    assert together.w2[1] == torch.inf
    assert torch.isnan(together.trace.loss[-1, 1])
    for i in (0, 2):
        alone = sw.flow(x, y, lr=float(rates[i]), seeds=0, steps=100)
        assert_close(together.particles[i], alone.particles)


def test_ranks_do_not_mix():
    """Runs of different rank in one batch are worked in their own dimensions."""
    flat = clouds(20, 2)
    x = torch.stack([torch.nn.functional.pad(flat[0], (0, 3)), clouds(20, 5, seed=1)[0]])
    y = torch.stack([torch.nn.functional.pad(flat[1], (0, 3)), clouds(20, 5, seed=1)[1]])
    together = sw.flow(x, y, seeds=[1, 2], steps=30)
    assert together.ranks.tolist() == [2, 5]
    for i in range(2):
        alone = sw.flow(x[i], y[i], seeds=i + 1, steps=30)
        assert_close(together.particles[i], alone.particles)


def test_seeds_decide_and_nothing_else():
    x, y = clouds(15, 3)
    one = sw.flow(x, y, "rpsw", seeds=3, steps=5)
    torch.manual_seed(99)
    assert torch.equal(one.particles, sw.flow(x, y, "rpsw", seeds=3, steps=5).particles)
    assert not torch.equal(one.particles, sw.flow(x, y, "rpsw", seeds=4, steps=5).particles)
    torch.manual_seed(1)
    first = sw.flow(x, y, steps=5)
    torch.manual_seed(1)
    assert torch.equal(first.particles, sw.flow(x, y, steps=5).particles)
    by_generator = [
        sw.flow(x, y, steps=5, generator=torch.Generator().manual_seed(2)) for _ in "12"
    ]
    assert torch.equal(by_generator[0].particles, by_generator[1].particles)
    again = sw.flow(x, y, steps=5, seeds=first.seeds)
    assert torch.equal(first.particles, again.particles)


def test_the_best_rate_is_computed():
    """Fixed rates at, below and above a*: none is much better than the Cauchy step."""
    x, y = clouds(64, 10, seed=3)
    best = sw.steps.rate_of_step(sw.steps.best_step(50, 10), n=64)
    rates = best * torch.tensor([0.25, 0.5, 0.71, 1.0, 1.41]).double()
    fixed = sw.flow(x, y, lr=rates, seeds=1, steps=1500, stop_w2=1e-3)
    computed = sw.flow(x, y, step="cauchy", reduce=False, seeds=1, steps=1500, stop_w2=1e-3)
    assert computed.converged
    assert computed.steps <= 2 * fixed.steps[fixed.converged].min()


# Exact reduction.


def test_reduction_is_exact_and_reported():
    x, y = toys("swiss", 60, 40, [1])
    reduced, ambient = (sw.flow(x, y, seeds=[1], stop_w2=1e-3, reduce=r) for r in (True, False))
    assert reduced.ranks.item() == 2
    assert ambient.ranks.item() == 40
    assert reduced.steps < ambient.steps
    # Particles stay in the plane of the data, to rounding.
    plane = sw.effective_subspace(x[0], y[0])
    inside = plane.lift(plane.reduce(reduced.particles[0]))
    assert_close(reduced.particles[0], inside)
    assert sw.flow(x, y, lr=1.0, steps=1, reduce=True).ranks.item() == 2


@given(
    log_scale=st.floats(-3, 3),
    offset=st.floats(-100, 100),
    n=st.integers(20, 60),
    d=st.integers(1, 6),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_units_offsets_and_rotations_do_not_matter(log_scale, offset, n, d, seed):
    x, y = clouds(n, d, seed=seed)
    g = torch.Generator().manual_seed(seed)
    turn = torch.linalg.qr(torch.randn(d, d, generator=g, dtype=torch.float64)).Q
    scale = 10**log_scale
    start = float(sw.wasserstein(x, y))
    plain = sw.flow(x, y, seeds=seed, stop_w2=1e-3 * start)
    assert plain.converged
    moved = sw.flow(
        scale * (x @ turn) + offset,
        scale * (y @ turn) + offset,
        seeds=seed,
        stop_w2=1e-3 * start * scale,
    )
    assert moved.converged
    assert float(moved.w2) <= 1e-3 * start * scale
    same_axes = sw.flow(
        scale * x + offset, scale * y + offset, seeds=seed, stop_w2=1e-3 * start * scale
    )
    assert same_axes.steps == plain.steps


LONG = ("maxsw", "maxksw", "vimsw")  # their flows take seconds, a dozen times
HOMOGENEOUS = [v for v in ELEVEN if "homogeneous" in sw.VARIANTS[v].laws]


@pytest.mark.parametrize(
    "variant",
    [pytest.param(v, marks=pytest.mark.slow) if v in LONG else v for v in HOMOGENEOUS],
)
@given(
    log_scale=st.floats(-3, 3),
    offset=st.floats(-100, 100),
    n=st.integers(15, 40),
    seed=st.integers(0, 99),
)
@settings(max_examples=3, deadline=None, derandomize=True)
def test_units_do_not_matter_to_homogeneous_variants(variant, log_scale, offset, n, seed):
    """Same relative W_2, and as many steps; ascents amplify rounding, so theirs are counted at powers of two."""
    x, y = clouds(n, 3, seed=seed)
    goal = 1e-2 * float(sw.wasserstein(x, y))
    scale, ascends = 10**log_scale, "ascent_step" in sw.VARIANTS[variant].options
    plain = sw.flow(x, y, variant, seeds=seed, stop_w2=goal)
    moved = sw.flow(
        scale * x + offset, scale * y + offset, variant, seeds=seed, stop_w2=goal * scale
    )
    assert plain.converged
    assert moved.converged
    assert moved.w2 <= goal * scale
    if not ascends:
        assert moved.steps == plain.steps
    else:
        power = 2.0 ** round(3 * log_scale)
        same = sw.flow(power * x, power * y, variant, seeds=seed, stop_w2=goal * power)
        assert same.steps == plain.steps


@pytest.mark.parametrize("variant", sorted(sw.VARIANTS))
def test_no_rate_gives_nan(variant):
    x, y = clouds(12, 3)
    rates = 10.0 ** torch.arange(-6, 4).double()
    for objective in ("power", "root"):
        found = sw.flow(x, y, variant, lr=rates, steps=30, seeds=0, objective=objective)
        assert found.particles.isfinite().all()
        assert found.w2[~found.diverged].isfinite().all()


# Weights, padding, degenerate samples.


def test_padding_changes_nothing():
    sets = [clouds(n, 2, seed=n)[0] for n in (12, 9)]
    y = clouds(10, 2)[1]
    padded, weights = sw.pad(sets)
    padded[1, 9:] = 1e7  # absent samples may lie anywhere
    together = sw.flow(padded, y, x_weights=weights, seeds=[1, 2], steps=20)
    assert torch.equal(together.particles[1, 9:], padded[1, 9:])
    for i, x in enumerate(sets):
        equal = torch.full((len(x),), 1 / len(x), dtype=torch.float64)
        alone = sw.flow(x, y, x_weights=equal, seeds=i + 1, steps=20)
        assert_close(together.particles[i, : len(x)], alone.particles, rtol=1e-8)


@pytest.mark.parametrize("variant", ["sw", "maxsw", "rpsw", "dsw"])
def test_nowhere_to_go(variant):
    x = torch.randn(6, 3, dtype=torch.float64)
    for samples in (x, torch.ones(6, 3, dtype=torch.float64), x[:1]):
        found = sw.flow(samples, samples, variant, seeds=0)
        assert found.converged
        assert_close(found.particles, samples)
        assert found.steps <= 2


def test_a_single_sample_on_a_line():
    found = sw.flow(torch.zeros(1, 1), torch.ones(1, 1))
    assert_close(found.particles, torch.ones(1, 1))


# What is left behind; stop and go on.


def test_trace():
    x, y = clouds(2, 15, 3)
    found = sw.flow(
        x, y, seeds=[1, 2], steps=10, tolerance=None, w2_at=[0, 5, 10], particles_at=[0, 10]
    )
    trace = found.trace
    assert trace.loss.shape == trace.step.shape == trace.seconds.shape == (10, 2)
    assert (trace.seconds.diff(dim=0) > 0).all()
    assert trace.w2.shape == (3, 2)
    assert trace.particles.shape == (2, 2, 15, 3)
    assert_close(trace.particles[0], x)
    assert_close(trace.particles[1], found.particles)
    assert_close(trace.w2[0], sw.wasserstein(x, y))
    assert_close(trace.w2[2], found.w2)
    assert "worked in 3 of 3 dimensions" in repr(found)
    ended = sw.flow(x, y, seeds=[1, 2], w2_at=[900])
    assert ended.converged.all()
    assert_close(ended.trace.w2[0] + 1, ended.w2 + 1)


@pytest.mark.parametrize("variant", ["sw", "dsw", "maxsw"])
def test_going_on_is_never_having_stopped(variant):
    x, y = clouds(2, 15, 3)
    settings = {"seeds": [1, 2], "tolerance": None}
    whole = sw.flow(x, y, variant, steps=12, **settings)
    half = sw.flow(x, y, variant, steps=5, **settings)
    rest = sw.flow(x, y, variant, steps=12, resume=half.state, **settings)
    assert torch.equal(rest.particles, whole.particles)
    assert torch.equal(rest.trace.loss, whole.trace.loss)
    assert torch.equal(rest.steps, whole.steps)


def test_drawn_seeds_are_kept_when_going_on():
    x, y = clouds(15, 3)
    half = sw.flow(x, y, steps=5, tolerance=None)
    rest = sw.flow(x, y, steps=9, tolerance=None, resume=half.state)
    whole = sw.flow(x, y, steps=9, tolerance=None, seeds=half.seeds)
    assert torch.equal(rest.particles, whole.particles)


def test_an_interrupt_leaves_a_checkpoint(tmp_path, monkeypatch):
    x, y = clouds(15, 3)
    file = tmp_path / "flow.pt"
    whole = sw.flow(x, y, "orthosw", steps=20, seeds=1, tolerance=None)
    advance = movers.Computed.advance

    def interrupted(self, problem, seeds, t, *rest):
        if t == 7:
            raise KeyboardInterrupt
        return advance(self, problem, seeds, t, *rest)

    monkeypatch.setattr(movers.Computed, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sw.flow(x, y, "orthosw", steps=20, seeds=1, tolerance=None, checkpoint=file)
    monkeypatch.undo()
    assert file.exists()
    rest = sw.flow(x, y, "orthosw", steps=20, seeds=1, tolerance=None, checkpoint=file)
    assert torch.equal(rest.particles, whole.particles)
    assert len(rest.trace.loss) == 20
    assert [p.name for p in tmp_path.iterdir()] == ["flow.pt"]


def test_a_state_of_something_else_is_refused(tmp_path):
    x, y = clouds(15, 3)
    state = sw.flow(x, y, steps=3, seeds=1).state
    for other in (
        {"x": x + 1},
        {"variant": "orthosw"},
        {"seeds": 2},
        {"lr": 1.0},
        {"stop_w2": 1.0},
    ):
        arguments = {"x": x, "y": y, "variant": "sw", "seeds": 1, **other}
        with pytest.raises(ValueError, match="other samples or settings"):
            sw.flow(**arguments, steps=5, resume=state)
    bases = [torch.linalg.qr(torch.randn(3, 2, dtype=torch.float64)).Q for _ in range(2)]
    state = sw.flow(x, y, "phisw", basis=bases[0], steps=3, seeds=1).state
    sw.flow(x, y, "phisw", basis=bases[0].clone(), steps=4, seeds=1, resume=state)
    with pytest.raises(ValueError, match="other samples or settings"):
        sw.flow(x, y, "phisw", basis=bases[1], steps=4, seeds=1, resume=state)
    with pytest.raises(ValueError, match=r"resume=found\.state"):
        sw.flow(x, y, resume=sw.flow(x, y, steps=1))
    wrong = tmp_path / "wrong.pt"
    wrong.write_text("not a state")
    with pytest.raises(ValueError, match="remove the file to start anew"):
        sw.flow(x, y, checkpoint=wrong)
    with pytest.raises(ValueError, match="is a folder"):
        sw.flow(x, y, checkpoint=tmp_path)


@pytest.mark.parametrize("threads", [1, 2])
def test_going_on_in_reduced_dimensions(threads):
    """The frame is part of the state: another machine, or number of threads, may decompose otherwise."""
    x, y = toys("swiss", 60, 40, [1])
    before = torch.get_num_threads()
    whole = sw.flow(x, y, seeds=[1], steps=20, tolerance=None)
    state = sw.flow(x, y, seeds=[1], steps=9, tolerance=None).state
    try:
        torch.set_num_threads(threads)
        rest = sw.flow(x, y, seeds=[1], steps=20, tolerance=None, resume=state)
        still = sw.flow(x, y, seeds=[1], steps=9, tolerance=None, resume=state)
    finally:
        torch.set_num_threads(before)
    assert_close(rest.particles, whole.particles)
    assert still.steps == 9
    flipped = {**state, "groups": [{**state["groups"][0]}]}
    flipped["groups"][0]["basis"] = -state["groups"][0]["basis"]
    flipped["groups"][0]["particles"] = -state["groups"][0]["particles"]
    flipped["groups"][0]["state"] = {
        **state["groups"][0]["state"],
        "ahead": -state["groups"][0]["state"]["ahead"],
    }
    turned = sw.flow(x, y, seeds=[1], steps=9, tolerance=None, resume=flipped)
    assert_close(turned.particles, still.particles)


def test_going_on_after_some_have_ended():
    x, y = clouds(20, 3)
    settings = {"lr": torch.tensor([1.0, 1e4, 2.0]).double(), "seeds": 0}
    whole = sw.flow(x, y, steps=60, **settings)
    state = sw.flow(x, y, steps=40, **settings).state
    rest = sw.flow(x, y, steps=60, resume=state, **settings)
    assert torch.equal(rest.particles, whole.particles)
    assert torch.equal(rest.status, whole.status)
    assert torch.equal(rest.steps, whole.steps)


def test_an_interrupt_in_the_middle_of_a_step(tmp_path, monkeypatch):
    """Two groups of different rank; the second is interrupted when the first has already moved."""
    flat = clouds(12, 2)
    x, y = (
        torch.stack([torch.nn.functional.pad(flat[i], (0, 3)), clouds(12, 5, seed=1)[i]])
        for i in (0, 1)
    )
    settings = {"seeds": [1, 2], "steps": 15, "tolerance": None}
    whole = sw.flow(x, y, **settings)
    advance, file = Accelerated.advance, tmp_path / "flow.pt"

    def interrupted(self, problem, seeds, t, *rest):
        if t == 6 and problem.d == 5:
            raise KeyboardInterrupt
        return advance(self, problem, seeds, t, *rest)

    monkeypatch.setattr(Accelerated, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sw.flow(x, y, checkpoint=file, **settings)
    monkeypatch.undo()
    rest = sw.flow(x, y, checkpoint=file, **settings)
    assert torch.equal(rest.particles, whole.particles)
    assert torch.equal(rest.trace.loss, whole.trace.loss)


@pytest.mark.parametrize("convention", ["mean", "reference"])
@pytest.mark.parametrize("objective", ["power", "root"])
def test_exact_stops_know_every_convention(objective, convention):
    x, y = clouds(40, 3)
    goal = 1e-2 * float(sw.wasserstein(x, y))
    how = {"objective": objective, "convention": convention, "seeds": 0}
    counts = [
        sw.flow(c * x, c * y, stop_w2=goal * c, **how).steps.item()
        for c in (2.0**-20, 1.0, 2.0**20)
    ]
    assert counts[0] == counts[1] == counts[2] < 100
    by_rate = {"mean": {"power": 20.0, "root": 1.0}, "reference": {"power": 1.25e-2, "root": 4e-3}}
    rate = by_rate[convention][objective]
    found = sw.flow(x, y, lr=rate, stop_w2=goal, steps=2000, w2_at=range(2001), **how)
    assert found.converged
    first = int((found.trace.w2 <= goal).double().argmax())
    assert found.steps == first


@pytest.mark.parametrize("p", [1, 3])
def test_exact_stops_in_any_unit_for_other_orders(p):
    x, y = toys("swiss", 60, 2, [1])
    goal = 0.05 * float(sw.wasserstein(x, y))
    counts = [
        sw.flow(c * x, c * y, p=p, seeds=[1], stop_w2=goal * c).steps.item()
        for c in (2.0**-20, 1.0, 2.0**20)
    ]
    assert counts[0] == counts[1] == counts[2] < 1000


def test_variants_that_cannot_work_in_so_few_dimensions_stay_where_they_are():
    line = torch.randn(2, 20, 1, dtype=torch.float64) @ torch.randn(1, 5, dtype=torch.float64)
    for variant in ("maxksw", "ksw", "omsw"):
        found = sw.flow(line[0], line[1], variant, seeds=0, steps=5)
        assert found.ranks == 5
    assert sw.flow(line[0], line[1], "sw", seeds=0, steps=5).ranks == 1
    basis = torch.linalg.qr(torch.randn(5, 2, dtype=torch.float64)).Q
    assert sw.flow(line[0], line[1], "phisw", basis=basis, seeds=0, steps=5).ranks == 5
    with pytest.raises(ValueError, match="in the data's own 1 dimensions"):
        sw.flow(line[0], line[1], "ksw", reduce=True)


def test_tiny_samples_in_single_precision():
    x, y = clouds(30, 2)
    for scale in (1e-30, 1e-15, 1e15):
        small = (scale * x).float(), (scale * y).float()
        found = sw.flow(*small, seeds=0)
        assert found.converged
        assert found.w2 < 1e-4 * sw.wasserstein(*small)


def test_generators_seed_their_runs():
    x, y = clouds(2, 10, 2)
    own = [torch.Generator().manual_seed(s) for s in (1, 2)]
    together = sw.flow(x, y, generator=own, steps=3)
    alone = sw.flow(x[1], y[1], generator=[torch.Generator().manual_seed(2)], steps=3)
    assert_close(together.particles[1], alone.particles)
    with pytest.raises(ValueError, match=r"give a torch\.Generator"):
        sw.flow(x, y, generator=42)
    with pytest.raises(ValueError, match="for 2 runs"):
        sw.flow(x, y, generator=own[:1])


def test_a_trace_has_its_shape_whatever_happens():
    x, y = clouds(15, 2)
    half = sw.flow(x, y, steps=5, seeds=1, tolerance=None)
    rest = sw.flow(
        x, y, steps=9, seeds=1, tolerance=None, w2_at=torch.tensor([2, 7, 99]), resume=half.state
    )
    assert rest.trace.w2.shape == (3,)
    assert rest.trace.w2.isnan().tolist() == [True, False, True]
    lost = sw.flow(x, y, lr=1e20, steps=3, w2_at=[0, 3], seeds=1)
    assert lost.diverged
    assert lost.trace.w2[1] == torch.inf


def test_the_callers_samples_are_not_touched():
    x, y = clouds(2, 12, 3)
    before = x.clone(), y.clone()
    found = sw.flow(x, y, seeds=1, finish="assign", steps=30)
    assert torch.equal(x, before[0])
    assert torch.equal(y, before[1])
    y.zero_()
    assert_close(found.w2, sw.wasserstein(found.particles, before[1]))


def test_assign_is_a_solvers_finish():
    x, y = toys("swiss", 300, 2, [STUCK_SEED])
    found = sw.flow(x, y, seeds=[STUCK_SEED], finish="assign")
    assert found.status.item() == Status.ASSIGNED
    assert found.w2 < 1e-12
    assert "assigned" in repr(found)
    assert found.assigned
    assert not found.converged
    other = sw.flow(*clouds(20, 3), p=1, seeds=0, finish="assign", tolerance=None, steps=900)
    assert other.assigned


def test_bar_on_request(capsys):
    x, y = clouds(10, 2)
    sw.flow(x, y, seeds=0, steps=3, bar=True)
    assert "3/3" in capsys.readouterr().err
    sw.flow(x, y, seeds=0, steps=3)
    assert capsys.readouterr().err == ""


def test_zero_steps():
    x, y = clouds(10, 2)
    found = sw.flow(x, y, steps=0)
    assert isinstance(found, Flow)
    assert_close(found.particles, x)
    assert found.trace.loss.shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"lr": "fast"}, "lr = 'fast': give 'auto', a number"),
        ({"slices": torch.eye(2)}, "no argument 'slices': it draws its own"),
        ({"power": True}, "no argument 'power': say objective"),
        ({"log": True}, "no argument 'log': .* `trace`"),
        ({"lr": -1.0}, "positive, finite rates"),
        ({"lr": []}, "positive, finite rates"),
        ({"lr": True}, "positive, finite rates"),
        ({"lr": torch.tensor([1.0, torch.nan])}, "positive, finite rates"),
        ({"steps": -1}, "steps = -1"),
        ({"objective": "square"}, "choose from power, root, mean_root"),
        ({"finish": "jump"}, "choose from assign"),
        ({"finish": "assign", "lr": 1.0}, "needs lr='auto'"),
        ({"finish": "assign", "y": torch.randn(9, 2)}, "equal numbers"),
        ({"reduce": "yes"}, "True, False or 'auto'"),
        ({"share": 0.0}, "share = 0.0"),
        ({"step": "trace", "lr": 1.0}, "give lr='auto'"),
        ({"seeds": [1, 2, 3], "lr": torch.ones(2)}, "do not fit together"),
        ({"seeds": 0.5}, "whole numbers"),
        ({"seeds": "one"}, "seeds = 'one'"),
        ({"seeds": 2**70}, "whole numbers below 2"),
        ({"w2_at": 5}, "w2_at = 5: give a list"),
        ({"w2_at": [-1]}, "w2_at"),
        ({"w2_at": "last"}, "w2_at = 'last': give a list"),
        ({"w2_at": [None]}, r"w2_at = \[None\]: give a list"),
        ({"particles_at": [torch.nan]}, r"particles_at = \[nan\]: give a list"),
        ({"particles_at": [0.5]}, "particles_at"),
        ({"lr": [0.1, "fast"]}, "lr = "),
        ({"variant": "swx"}, "did you mean"),
        ({"y": torch.full((10, 2), torch.nan)}, "NaN or infinite"),
        ({"tolerance": -1.0}, "tolerance = -1.0"),
        ({"tolerance": "1e-3"}, "tolerance = 1e-3"),
        ({"lr": None}, "lr = None"),
        ({"steps": None}, "steps = None"),
        ({"seed": 1}, "did you mean 'seeds'"),
        ({"learning_rate": 1.0}, "did you mean 'lr'"),
        ({"n_projections": 9}, "did you mean 'n_slices'"),
        ({"n_steps": 9}, "did you mean 'steps'"),
        ({"max_iter": 9}, "did you mean 'steps'"),
        ({"tol": 0.1}, "did you mean 'tolerance'"),
        ({"temperature": 1.0}, "option of variant 'sw' = 'temperature'"),
        ({"step": -1.0}, "positive, finite step"),
        ({"share": 0.5, "lr": 1.0}, "about computed steps"),
        ({"objective": "mean_root", "variant": "ebsw"}, "follow the costs"),
        ({"y": sw.Target(torch.randn(10, 2))}, "give target.y"),
        ({"stop_w2": 0.0}, "stop_w2 = 0.0"),
    ],
)
def test_errors_speak(arguments, words):
    given = {"x": torch.randn(10, 2), "y": torch.randn(10, 2), **arguments}
    with pytest.raises(ValueError, match=words):
        sw.flow(**given)


def test_rates_may_be_a_list_or_an_array():
    x, y = clouds(10, 2)
    wanted = sw.flow(x, y, lr=torch.tensor([1.0, 2.0]), seeds=1, steps=3).particles
    for rates in ([1.0, 2.0], np.array([1.0, 2.0])):
        assert torch.equal(sw.flow(x, y, lr=rates, seeds=1, steps=3).particles, wanted)
    assert torch.equal(sw.flow(x, y, lr=np.float32(1), seeds=1, steps=3).particles, wanted[0])


# Steps made without looking, as on a device.


def unseen(length):
    """A pace at which one looks only after so many steps."""

    def next_stride(self, groups, step, steps):
        return Stride(min(length, steps - step), 0)

    return next_stride


@pytest.mark.parametrize(
    ("variant", "options"),
    [
        ("sw", {}),
        ("sw", {"stop_w2": 0.05}),
        ("sw", {"finish": "assign"}),
        ("ebsw", {"stop_w2": 0.3}),
        ("dsw", {}),
        ("sw", {"lr": torch.tensor([3.0, 1e3, 1e30, 10.0]), "stop_w2": 0.1}),
        ("sw", {"lr": torch.tensor([3.0, 1e10, 1e30, 1e9]), "objective": "root"}),
        ("maxsw", {"lr": torch.tensor([3.0, 1e10, 1e30, 10.0]), "objective": "mean_root"}),
    ],
)
def test_when_one_looks_does_not_matter(variant, options, monkeypatch):
    x, y = clouds(4, 20, 3)
    at = {"w2_at": range(0, 70, 6), "particles_at": range(0, 70, 11)}
    whole = {"steps": 60, "seeds": [1, 2, 3, 4], **at, **options}
    step_by_step = sw.flow(x, y, variant, **whole)
    for length in (7, 16, 100):
        with monkeypatch.context() as patch:
            patch.setattr(Pace, "next", unseen(length))
            found = sw.flow(x, y, variant, **whole)
        assert found.status.equal(step_by_step.status)
        assert found.steps.equal(step_by_step.steps)
        assert found.particles.equal(step_by_step.particles)
        for name in ("loss", "step", "w2", "particles"):
            ours, theirs = (getattr(f.trace, name) for f in (found, step_by_step))
            assert ours.shape == theirs.shape
            assert torch.equal(ours.nan_to_num(-1), theirs.nan_to_num(-1)), name


def test_draws_say_their_shape():
    def careless(problem, rng):
        return rng.normal(5, problem.d)

    x, y = clouds(2, 20, 3)
    with pytest.raises(ValueError, match=r"give the batch first, \(2, ...\)"):
        sw.flow(x, y, sw.Recipe(careless), lr=1.0, steps=1, seeds=[1, 2])
