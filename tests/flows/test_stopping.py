"""When runs end, and how."""

from __future__ import annotations

import pytest
import torch

import slicewise as sw
from slicewise.flows.loop import StepPlan, StepPlanner
from tests.flows.samples import PURE, STUCK_SEED, clouds, toys
from tests.tolerances import assert_close

NO_TOLERANCE = sw.Stopping(tolerance=None)


def test_to_rounding_and_no_further():
    x, y = clouds(40, 3)
    found = sw.flow(x, y, seeds=0, stopping=PURE)
    assert found.converged
    assert found.w2 < 1e-8
    single = sw.flow(x.float(), y.float(), seeds=0, stopping=PURE)
    assert single.converged
    assert single.particles.dtype == torch.float32
    assert single.w2 < 1e-5


def test_neighbours_that_end_early_or_diverge_change_nothing():
    x, y = clouds(20, 3)
    rates = torch.tensor([1.0, 1e4, 2.0]).double()
    together = sw.flow(x, y, lr=rates, seeds=0, max_steps=100)
    assert together.diverged.tolist() == [False, True, False]
    assert together.n_steps.tolist()[0::2] == [100, 100]
    assert together.n_steps[1] < 100
    assert together.particles.isfinite().all()
    assert together.w2[1] == torch.inf
    assert torch.isnan(together.history.loss[-1, 1])
    for i in (0, 2):
        alone = sw.flow(x, y, lr=float(rates[i]), seeds=0, max_steps=100)
        assert_close(together.particles[i], alone.particles)


@pytest.mark.slow
@pytest.mark.parametrize("variant", sorted(sw.VARIANTS))
def test_no_rate_gives_nan(variant):
    x, y = clouds(12, 3)
    rates = 10.0 ** torch.arange(-6, 4).double()
    for objective in ("power", "root"):
        found = sw.flow(x, y, variant, lr=rates, max_steps=30, seeds=0, objective=objective)
        assert found.particles.isfinite().all()
        assert found.w2[~found.diverged].isfinite().all()


@pytest.mark.parametrize("variant", ["sw", "maxsw", "rpsw", "dsw"])
def test_nowhere_to_go(variant):
    x = torch.randn(6, 3, dtype=torch.float64)
    for samples in (x, torch.ones(6, 3, dtype=torch.float64), x[:1]):
        found = sw.flow(samples, samples, variant, seeds=0, stopping=PURE)
        assert found.converged
        assert_close(found.particles, samples)
        assert found.n_steps <= 2


@pytest.mark.slow
@pytest.mark.parametrize("convention", ["mean", "reference"])
@pytest.mark.parametrize("objective", ["power", "root"])
def test_exact_stops_know_every_convention(objective, convention):
    x, y = clouds(40, 3)
    goal = 1e-2 * float(sw.wasserstein(x, y))
    how = {"objective": objective, "convention": convention, "seeds": 0}
    counts = [
        sw.flow(c * x, c * y, stopping=sw.Stopping(w2=goal * c, assign=False), **how).n_steps.item()
        for c in (2.0**-20, 1.0, 2.0**20)
    ]
    assert counts[0] == counts[1] == counts[2] < 100
    by_rate = {"mean": {"power": 20.0, "root": 1.0}, "reference": {"power": 1.25e-2, "root": 4e-3}}
    rate = by_rate[convention][objective]
    found = sw.flow(
        x,
        y,
        lr=rate,
        stopping=sw.Stopping(w2=goal, assign=False),
        max_steps=2000,
        recording=sw.Recording(w2_at=range(2001)),
        **how,
    )
    assert found.converged
    first = int((found.history.w2 <= goal).double().argmax())
    assert found.n_steps == first


@pytest.mark.parametrize("p", [1, 3])
def test_exact_stops_in_any_unit_for_other_orders(p):
    x, y = toys("swiss", 60, 2, [1])
    goal = 0.05 * float(sw.wasserstein(x, y))
    counts = [
        sw.flow(
            c * x, c * y, p=p, seeds=[1], stopping=sw.Stopping(w2=goal * c, assign=False)
        ).n_steps.item()
        for c in (2.0**-20, 1.0, 2.0**20)
    ]
    assert counts[0] == counts[1] == counts[2] < 1000


def test_tiny_samples_in_single_precision():
    x, y = clouds(30, 2)
    for scale in (1e-30, 1e-15, 1e15):
        small = (scale * x).float(), (scale * y).float()
        found = sw.flow(*small, seeds=0, stopping=PURE)
        assert found.converged
        assert found.w2 < 1e-4 * sw.wasserstein(*small)


def test_assign_is_a_solvers_finish():
    x, y = toys("swiss", 300, 2, [STUCK_SEED])
    found = sw.flow(x, y, seeds=[STUCK_SEED], stopping=sw.Stopping(assign=True))
    assert found.status == ["arrived"]
    assert found.w2 < 1e-12
    # Recorded at its last step, a run is where sliced steps have brought it.
    seen = sw.flow(
        x,
        y,
        seeds=[STUCK_SEED],
        stopping=sw.Stopping(assign=True),
        recording=sw.Recording(particles_at=[23]),
    )
    way = (seen.history.particles[0] - seen.particles).square().sum(dim=-1).mean().sqrt()
    assert found.jump == pytest.approx(float(way))
    assert found.jump >= sw.wasserstein(seen.history.particles[0, 0], y[0])
    said = f"arrived by assignment after 23 steps (W_2 at most {float(found.jump):.2g} before it)"
    assert repr(found).endswith(said)
    assert found.by == ["assignment"]
    assert found.assigned
    assert found.converged
    other = sw.flow(
        *clouds(20, 3),
        p=1,
        seeds=0,
        stopping=sw.Stopping(assign=True, tolerance=None),
        max_steps=900,
    )
    assert other.assigned


def unseen(length):
    """A pace at which one looks only after so many steps."""

    def next_stride(self, groups, step, steps):
        return StepPlan(min(length, steps - step), 0)

    return next_stride


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "options"),
    [
        ("sw", {}),
        ("sw", {"stopping": sw.Stopping(w2=0.05, assign=False)}),
        ("sw", {"stopping": sw.Stopping(assign=True)}),
        ("ebsw", {"stopping": sw.Stopping(w2=0.3, assign=False)}),
        ("dsw", {}),
        (
            "sw",
            {
                "lr": torch.tensor([3.0, 1e3, 1e30, 10.0]),
                "stopping": sw.Stopping(w2=0.1, assign=False),
            },
        ),
        ("sw", {"lr": torch.tensor([3.0, 1e10, 1e30, 1e9]), "objective": "root"}),
        ("maxsw", {"lr": torch.tensor([3.0, 1e10, 1e30, 10.0]), "objective": "mean_root"}),
    ],
)
def test_when_one_looks_does_not_matter(variant, options, monkeypatch):
    x, y = clouds(4, 20, 3)
    at = {"recording": sw.Recording(w2_at=range(0, 70, 6), particles_at=range(0, 70, 11))}
    whole = {"max_steps": 60, "seeds": [1, 2, 3, 4], **at, **options}
    step_by_step = sw.flow(x, y, variant, **whole)
    for length in (7, 16, 100):
        with monkeypatch.context() as patch:
            patch.setattr(StepPlanner, "next", unseen(length))
            found = sw.flow(x, y, variant, **whole)
        assert found.status == step_by_step.status
        assert found.n_steps.equal(step_by_step.n_steps)
        assert found.particles.equal(step_by_step.particles)
        for name in ("loss", "step", "w2", "particles"):
            ours, theirs = (getattr(f.history, name) for f in (found, step_by_step))
            assert ours.shape == theirs.shape
            assert torch.equal(ours.nan_to_num(-1), theirs.nan_to_num(-1)), name


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"w2": 0.0}, "w2 = 0.0: give a positive distance"),
        ({"w2": "small"}, "w2 = 'small'"),
        ({"tolerance": -1.0}, "tolerance = -1.0"),
        ({"tolerance": "1e-3"}, "tolerance = 1e-3"),
        ({"assign": "assign"}, "assign = 'assign': give True, False or 'auto'"),
    ],
)
def test_criteria_that_mean_nothing(options, words):
    with pytest.raises(ValueError, match=words):
        sw.Stopping(**options)
