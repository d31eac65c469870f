"""How flows end, and what they say of it."""

from __future__ import annotations

import pickle
import sys
import warnings

import pytest
import torch

import slicewise as sw
from benchmarks.steps.arrivals import KINDS, judged, problem, spread_of
from benchmarks.steps.flows import ELEVEN
from slicewise.flows import default_steps
from slicewise.flows.cooling import Cooling
from slicewise.flows.stopping import Scales
from slicewise.problem import Problem
from slicewise.steps import pull_of
from tests.flows.samples import PURE, clouds
from tests.tolerances import assert_close


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("kind", KINDS)
def test_everything_arrives_by_a_short_way(kind, d, dtype):
    """In small; `make bench-steps` has ten seeds, up to 10,000 samples and 50 dimensions."""
    x, y = (t.to(dtype) for t in problem(kind, 200, d, 4))
    found = sw.flow(x, y, seeds=0)
    assert found.status == "arrived"
    assert found.converged
    assert judged(found.particles, y) <= 1e-3 * spread_of(y)
    assert found.n_steps <= 100
    if found.by == "assignment":  # sliced steps go their own way
        moved = float((found.particles.double() - x.double()).square().sum(dim=-1).mean())
        assert moved <= 1.1 * float(sw.wasserstein(x, y)) ** 2


@pytest.mark.parametrize("variant", ELEVEN)
def test_every_variant_arrives_by_a_short_way(variant):
    x, y = problem("mixtures", 150, 5, 3)
    found = sw.flow(x, y, variant, seeds=0)
    assert found.status == "arrived"
    moved = float((found.particles - x).square().sum(dim=-1).mean())
    assert moved <= 1.1 * float(sw.wasserstein(x, y)) ** 2


def test_assigned_particles_are_the_targets_to_the_last_bit():
    """Also after a reduction, whose frame is far from the samples because of one of them."""
    x, y = (t.float() for t in problem("outlier", 100, 8, 0))
    x[:, 5:], y[:, 5:] = 0.1, 0.1
    recording = sw.Recording(particles_at=range(0, 200))
    found = sw.flow(x, y, seeds=[0, 1], recording=recording)
    assert found.by == ["assignment", "assignment"]
    for made in found.particles:
        assert sorted(made.tolist()) == sorted(y.tolist())
    last = int(found.n_steps[0])
    # Where sliced steps have brought them; then the end.
    assert not found.history.particles[last][0].equal(found.particles[0])
    assert found.history.particles[last + 1][0].equal(found.particles[0])


@pytest.mark.parametrize("outlier", [1e4, 1e6])
def test_an_outlier_does_not_make_an_arrival(outlier):
    """The tolerance once was relative to the largest coordinate: this arrived with W_2 = 0.067 left."""
    g = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.float64):
        x, y = torch.randn(2, 300, 3, generator=g).to(dtype)
        y[0] = outlier
        found = sw.flow(x, y, seeds=0, stopping=PURE)
        assert found.status == "arrived"
        others = (found.particles.double() - y[0].double()).norm(dim=-1) > outlier / 2
        assert int(others.sum()) == 299
        assert sw.wasserstein(found.particles[others], y[1:]) < 1e-3


@pytest.mark.parametrize("change", ["plain", "shift", "scale", "outlier"])
def test_the_spread_is_that_of_the_bulk(change):
    x, y = clouds(1, 200, 3)
    plain = float(Scales.of(Problem(x, y)).spread)
    assert plain == pytest.approx(spread_of(y[0]), rel=1e-6)
    z, factor = y.clone(), 1.0
    if change == "shift":
        z += 1e5
    elif change == "scale":
        z, factor = 1e-20 * z, 1e-20
    elif change == "outlier":
        z[0, 0] = 1e9
    assert float(Scales.of(Problem(x, z)).spread) == pytest.approx(factor * plain, rel=0.05)


def test_the_spread_of_targets_that_are_mostly_one_point():
    x = torch.randn(1, 20, 2, generator=torch.Generator().manual_seed(0)).double()
    y = torch.zeros(1, 20, 2).double()
    assert Scales.of(Problem(x, y)).spread > 0.1  # of the way there
    y[0, 0] = 1
    assert Scales.of(Problem(x, y)).spread == pytest.approx(2**0.5 / 20)
    assert Scales.of(Problem(0 * x, 0 * y)).spread == 1
    assert sw.flow(x[0], y[0], seeds=0).status == "arrived"


def test_out_of_steps_says_what_is_left_and_what_to_do():
    x, y = clouds(60, 10)
    with pytest.warns(sw.NotArrivedWarning) as told:
        found = sw.flow(x, y, seeds=0, max_steps=3)
    assert len(told) == 1
    words = str(told[0].message)
    assert told[0].filename == __file__
    assert words.startswith("the flow did not arrive: out of steps after 3; W_2 at most ")
    assert "resume=found.state and max_steps=6" in words
    assert found.status == "out of steps"
    assert found.by is None
    left = float(str(found).split("W_2 at most ")[1].split(" ")[0])
    assert float(found.w2) <= left * 1.06
    assert left <= 1.2 * float(found.w2)
    assert sw.flow(x, y, seeds=0, resume=found.state).status == "arrived"
    with pytest.warns(sw.NotArrivedWarning, match=r"start again with stopping=sw.Stopping\(ass"):
        sw.flow(x, y, seeds=0, max_steps=3, stopping=PURE)


def test_one_warning_for_a_batch():
    x, y = clouds(3, 40, 6)
    with pytest.warns(sw.NotArrivedWarning, match="^3 of 3 runs did not arrive: 3 out of") as told:
        found = sw.flow(x, y, seeds=[0, 1, 2], max_steps=4)
    assert len(told) == 1
    assert repr(found).startswith("Flow: 3 runs of 40 particles in 6 dimensions: 3 out of steps")
    assert "left in the furthest" in repr(found)


def test_no_warning_where_nothing_was_asked_for():
    x, y = clouds(20, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.flow(x, y, seeds=0, max_steps=2, stopping=sw.Stopping(tolerance=None))
        sw.flow(x, y, seeds=0, max_steps=2, lr=1.0)
        sw.flow(x, y, "qsw", seeds=0, max_steps=2, lr=1.0)


def test_fixed_slices_are_told_before_the_first_step(monkeypatch):
    x, y = clouds(30, 6)
    known = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        monkeypatch.setattr(
            "slicewise.flows.loop.FlowLoop.run", lambda *_: known.extend(map(str, told))
        )
        sw.flow(x, y, "qsw", seeds=0)
    assert len(known) == 1
    assert "variant 'qsw' has the same slices at every step" in known[0]


def test_fixed_slices_are_not_helped_by_an_assignment_unless_asked_for():
    x, y = clouds(60, 6)
    with pytest.warns(sw.NotArrivedWarning) as told:
        found = sw.flow(x, y, "qsw", n_slices=5, seeds=0)
    assert found.status in ("out of steps", "stalled")
    assert len(told) == 1
    asked = sw.flow(x, y, "qsw", n_slices=5, seeds=0, stopping=sw.Stopping(assign=True))
    assert asked.by == "assignment"
    assert sw.flow(x, y, "rqsw", seeds=0).status == "arrived"


def test_at_rest_away_from_the_target_is_stalled(monkeypatch):
    """No slice asks a particle to move, but they are not where the targets are: stalled, or assigned."""
    from slicewise.flows import stopping

    monkeypatch.setattr(stopping, "_ULPS", 1e16)  # every step is examined as one that moves nobody
    monkeypatch.setattr(stopping.EndDetector, "_is_still", lambda *_: torch.tensor([True]))
    monkeypatch.setattr(stopping.EndDetector, "_has_arrived", lambda *_: False)
    x, y = clouds(30, 2)
    with pytest.warns(sw.NotArrivedWarning, match="stalled after 1 step; W_2 at most"):
        found = sw.flow(x, y, seeds=0, stopping=PURE)
    assert found.status == "stalled"
    assert not found.converged
    assert sw.flow(x, y, seeds=0).by == "assignment"


@pytest.mark.parametrize("outlier", [3e6, 1e7])
@pytest.mark.parametrize("n", [20, 60])
def test_an_outlier_that_hides_the_dimensions_of_the_others(n, outlier):
    """In float32 the samples seem to lie on one line, along which all but the outlier arrive at once."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, n, 3, generator=g)
    y = 0.5 * y + 2
    y[0] = outlier
    found = sw.flow(x, y, seeds=0)
    assert found.status == "arrived"
    bulk = (found.particles[found.particles.norm(dim=-1) < 100], y[1:])
    assert sw.wasserstein(*bulk) < 1e-3
    with pytest.warns(sw.NotArrivedWarning, match="did not arrive"):
        flat = sw.flow(x, y, seeds=0, max_steps=20, stopping=sw.Stopping(w2=1e-2, assign=False))
    assert flat.status != "arrived"


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-30, 1e30, 1e160])
def test_no_false_arrival_in_any_unit(scale):
    x, y = clouds(40, 3)
    found = sw.flow(scale * x, scale * y, seeds=0)
    assert found.status == "arrived"
    assert sw.wasserstein(found.particles / scale, y) < 1e-3


def test_an_assignment_without_a_tolerance():
    """A loss that is zero halves at every step, and must not be waited for."""
    x, y = clouds(10, 1)
    found = sw.flow(x, y, seeds=0, stopping=sw.Stopping(assign=True, tolerance=None))
    assert found.by == "assignment"
    assert found.n_steps < 100
    for wrong in (1, 0, "yes", None):
        with pytest.raises(ValueError, match="give True, False or 'auto'"):
            sw.Stopping(assign=wrong)


def test_a_minimum_is_reached_and_does_not_depend_on_the_budget():
    x, y = clouds(60, 3)
    short = sw.flow(x, y[:45], seeds=0, max_steps=900)
    long = sw.flow(x, y[:45], seeds=0, max_steps=5000)
    assert short.status == long.status == "minimum reached"
    assert short.by is None
    assert_close(short.particles, long.particles)
    assert (
        repr(short)
        == f"Flow: 60 particles in 3 dimensions, minimum reached after {short.n_steps} steps"
    )
    with pytest.warns(
        sw.NotArrivedWarning, match="did not reach a minimum: out of steps after 30; l"
    ):
        half = sw.flow(x, y[:45], seeds=0, max_steps=30)
    rest = sw.flow(x, y[:45], seeds=0, resume=half.state)
    assert_close(rest.particles, short.particles)


def test_at_a_minimum_more_steps_gain_nothing():
    x, y = problem("mixtures", 80, 3, 1)
    y = y[:50]
    found = sw.flow(x, y, seeds=0)
    more = sw.flow(x, y, seeds=0, max_steps=3000, stopping=sw.Stopping(tolerance=None))
    slices = sw.Target(y, n_slices=1000).slices
    ended, longer = (
        float(sw.sliced_wasserstein(f.particles, y, slices=slices, objective="power"))
        for f in (found, more)
    )
    assert found.n_steps < 1000
    assert ended <= 1.03 * longer


def test_cooling_shortens_at_rest_and_settles_when_noise_is_small():
    cooling = Cooling(patience=5)
    x = torch.zeros(2, 4, 2, dtype=torch.float64)
    y = torch.ones(2, 4, 2, dtype=torch.float64)
    state = cooling.start(torch.ones(2, dtype=torch.float64))
    shorts = []
    for t in range(35):
        # The first run rests; the second still falls by a tenth each step.
        scale = torch.tensor([1.0, 0.9**t], dtype=torch.float64)[:, None, None]
        pull = pull_of(Problem(x, scale * y), torch.eye(2).double(), torch.full((2,), 0.5).double())
        state = cooling.update(pull, torch.ones(2, dtype=torch.float64), state)
        shorts.append(state["short"].tolist())
    assert [s[1] for s in shorts] == [1] * 35
    assert shorts[-1][0] == pytest.approx((1 / 3) ** 5)
    assert shorts[3][0] == shorts[8][0] == 1  # one patience to compare with, one at rest
    assert state["settled"].tolist() == [1, 0]


def test_the_default_number_of_steps():
    assert default_steps(10_000, 50, matched=True) == 1000
    assert default_steps(300, 2, matched=False) == 1000 + 5 * 300 * 2
    assert default_steps(1000, 16, matched=False) == 1000 + 5 * 1000 * 5


def test_an_assigned_run_is_resumed_as_it_was(tmp_path):
    x, y = clouds(2, 60, 8)
    file = tmp_path / "flow.pt"
    recording = sw.Recording(checkpoint=file)
    whole = sw.flow(x, y, seeds=[1, 2], recording=recording)
    again = sw.flow(x, y, seeds=[1, 2], recording=recording)
    assert again.by == whole.by == ["assignment", "assignment"]
    assert again.particles.equal(whole.particles)
    copied = pickle.loads(pickle.dumps(whole))
    assert copied.status == whole.status
    assert str(copied) == str(whole)


def test_it_works_without_numba_and_scipy(monkeypatch):
    monkeypatch.setattr("slicewise.transport.matching.matching_loops", lambda: None)
    for name in ("numba", "scipy", "scipy.optimize", "scipy.spatial", "ot"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails
    x, y = problem("duplicates", 150, 10, 0)
    found = sw.flow(x, y, seeds=0, backend="numpy")
    assert found.by == "assignment"
    assert judged(found.particles, y) == 0


def test_arrays_and_lists():
    x, y = (t.numpy() for t in clouds(40, 5))
    found = sw.flow(x, y, seeds=0)
    assert found.status == "arrived"
    with pytest.warns(sw.NotArrivedWarning) as told:
        sw.flow(x.tolist(), y.tolist(), seeds=0, max_steps=1)
    assert told[0].filename == __file__
