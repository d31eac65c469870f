"""Replayed flows, without a device (see stand_ins)."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

import slicewise as sw
from slicewise.flows import replay
from slicewise.flows.loop import StepPlan, StepPlanner
from tests.stand_ins import stand_in_for_graphs
from tests.tolerances import assert_close

STEPS = 61


@pytest.fixture
def graphs(monkeypatch):
    """Flows on the CPU as graphs of seven steps, looked at after one replay, then two, then four."""
    made = stand_in_for_graphs(monkeypatch, replay)

    def next_stride(self, groups, step, steps):
        left = steps - step
        replays = min(2 ** (step // 7), 4, left // 7)
        return StepPlan(7, replays, 4) if replays else StepPlan(left, 0)

    monkeypatch.setattr(StepPlanner, "next", next_stride)
    return made


def clouds(*shape, m=None):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(*shape, generator=generator, dtype=torch.float64)
    y = torch.randn(
        *shape[:-2], m or shape[-2], shape[-1], generator=generator, dtype=torch.float64
    )
    return x, 0.6 * y + 1


CASES = {
    "by a rate": ("sw", {"lr": 2.0}),
    "one target, shared seeds": ("sw", {"lr": torch.logspace(-1, 1, 6).double(), "seeds": 3}),
    "computed": ("sw", {"stopping": sw.Stopping(assign=False)}),
    "energies": ("ebsw", {"lr": 2.0}),
    "energies, computed": ("ebsw", {}),
    "learned": ("dsw", {}),
    "paths, a schedule": ("rpsw", {"kappa": sw.Anneal(60.0), "lr": 1.0}),
    "more of y": ("sw", {"m": 30, "stopping": sw.Stopping(tolerance=None)}),
    "a minimum": ("sw", {"m": 30, "max_steps": 500}),
    "arriving": ("sw", {"stopping": sw.Stopping(w2=0.5, assign=False)}),
    "assigned": ("sw", {"stopping": sw.Stopping(assign=True)}),
    "diverging": (
        "sw",
        {"lr": torch.tensor([1.0, 1e3, 1e30, 4.0]), "stopping": sw.Stopping(w2=1.0, assign=False)},
    ),
    "out and back": ("sw", {"lr": torch.tensor([1.0, 1e10, 1e30, 1e9]), "objective": "root"}),
}


def flow(case, **more):
    variant, options = CASES[case]
    options = dict(options)
    shared = case == "one target, shared seeds"
    x, y = clouds(*(() if shared else (4,)), 20, 3, m=options.pop("m", None))
    recording = sw.Recording(w2_at=range(0, STEPS + 3, 5), particles_at=range(0, STEPS, 9))
    known = {"seeds": [5, 6, 5, 7], "max_steps": STEPS, "recording": recording}
    return sw.flow(x, y, variant, **{**known, **options, **more})


# Before the fixture changes anything.
@pytest.fixture
def eager(request):
    return flow(request.node.callspec.params["case"])


@pytest.mark.parametrize("case", CASES)
def test_a_replayed_flow_is_the_eager_one(case, eager, graphs):
    replayed = flow(case)
    assert graphs
    assert replayed.status == eager.status
    assert replayed.n_steps.equal(eager.n_steps)
    assert_close(replayed.particles, eager.particles)
    for name in ("loss", "step", "w2", "particles"):
        ours, theirs = (getattr(f.history, name) for f in (replayed, eager))
        assert ours.shape == theirs.shape
        assert ours.isnan().equal(theirs.isnan())
        finite = theirs.isfinite()
        assert ours.isfinite().equal(finite)
        assert_close(ours[finite], theirs[finite])


@pytest.mark.parametrize("case", ["computed", "learned", "diverging"])
def test_going_on_from_a_replayed_flow(case, eager, graphs):
    # Runs of a given rate end where they are told to; others are expected to arrive.
    early = nullcontext() if case == "diverging" else pytest.warns(sw.NotArrivedWarning)
    with early:
        state = flow(case, max_steps=26).state
    rest = flow(case, resume=state)
    assert rest.status == eager.status
    assert_close(rest.particles, eager.particles)


def test_a_group_is_freed_at_once(monkeypatch):
    """Not by the garbage collector: it might free CUDA graphs while another is captured."""
    import gc
    import weakref

    from slicewise.flows import loop

    kept = []
    begin = loop.FlowLoop.run
    monkeypatch.setattr(
        loop.FlowLoop,
        "run",
        lambda self, *given: (kept.extend(map(weakref.ref, self.groups)), begin(self, *given)),
    )
    gc.disable()
    try:
        sw.flow(*clouds(20, 3), seeds=0)
        assert kept
        assert all(group() is None for group in kept)
    finally:
        gc.enable()
