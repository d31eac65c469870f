"""A flow that was stopped continues as if it had not been."""

from __future__ import annotations

import pytest
import torch

import slicewise as sw
from slicewise.flows import movers
from slicewise.flows.movers import MomentumMover
from tests.flows.samples import clouds, toys
from tests.tolerances import assert_close

NO_TOLERANCE = sw.Stopping(tolerance=None)


@pytest.mark.parametrize("variant", ["sw", "dsw", "maxsw"])
def test_going_on_is_never_having_stopped(variant):
    x, y = clouds(2, 15, 3)
    settings = {"seeds": [1, 2], "stopping": NO_TOLERANCE}
    whole = sw.flow(x, y, variant, max_steps=12, **settings)
    half = sw.flow(x, y, variant, max_steps=5, **settings)
    rest = sw.flow(x, y, variant, max_steps=12, resume=half.state, **settings)
    assert torch.equal(rest.particles, whole.particles)
    assert torch.equal(rest.history.loss, whole.history.loss)
    assert torch.equal(rest.n_steps, whole.n_steps)


def test_drawn_seeds_are_kept_when_going_on():
    x, y = clouds(15, 3)
    half = sw.flow(x, y, max_steps=5, stopping=NO_TOLERANCE)
    rest = sw.flow(x, y, max_steps=9, stopping=NO_TOLERANCE, resume=half.state)
    whole = sw.flow(x, y, max_steps=9, stopping=NO_TOLERANCE, seeds=half.seeds)
    assert torch.equal(rest.particles, whole.particles)


def test_an_interrupt_leaves_a_checkpoint(tmp_path, monkeypatch):
    x, y = clouds(15, 3)
    file = tmp_path / "flow.pt"
    whole = sw.flow(x, y, "orthosw", max_steps=20, seeds=1, stopping=NO_TOLERANCE)
    advance = movers.RuleMover.advance

    def interrupted(self, problem, seeds, t, *rest):
        if t == 7:
            raise KeyboardInterrupt
        return advance(self, problem, seeds, t, *rest)

    monkeypatch.setattr(movers.RuleMover, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sw.flow(
            x,
            y,
            "orthosw",
            max_steps=20,
            seeds=1,
            stopping=NO_TOLERANCE,
            recording=sw.Recording(checkpoint=file),
        )
    monkeypatch.undo()
    assert file.exists()
    rest = sw.flow(
        x,
        y,
        "orthosw",
        max_steps=20,
        seeds=1,
        stopping=NO_TOLERANCE,
        recording=sw.Recording(checkpoint=file),
    )
    assert torch.equal(rest.particles, whole.particles)
    assert len(rest.history.loss) == 20
    assert [p.name for p in tmp_path.iterdir()] == ["flow.pt"]


def test_a_state_of_something_else_is_refused(tmp_path):
    x, y = clouds(15, 3)
    state = sw.flow(x, y, max_steps=3, seeds=1, stopping=NO_TOLERANCE).state
    for other in (
        {"x": x + 1},
        {"variant": "orthosw"},
        {"seeds": 2},
        {"lr": 1.0},
        {"stopping": sw.Stopping(w2=1.0, assign=False)},
    ):
        arguments = {"x": x, "y": y, "variant": "sw", "seeds": 1, **other}
        with pytest.raises(ValueError, match="other samples or settings"):
            sw.flow(**{"stopping": NO_TOLERANCE} | arguments, max_steps=5, resume=state)
    bases = [torch.linalg.qr(torch.randn(3, 2, dtype=torch.float64)).Q for _ in range(2)]
    how = {"seeds": 1, "stopping": NO_TOLERANCE}
    state = sw.flow(x, y, "phisw", basis=bases[0], max_steps=3, **how).state
    sw.flow(x, y, "phisw", basis=bases[0].clone(), max_steps=4, resume=state, **how)
    with pytest.raises(ValueError, match="other samples or settings"):
        sw.flow(x, y, "phisw", basis=bases[1], max_steps=4, resume=state, **how)
    with pytest.raises(ValueError, match=r"resume=found\.state"):
        sw.flow(x, y, resume=sw.flow(x, y, max_steps=1, stopping=NO_TOLERANCE))
    wrong = tmp_path / "wrong.pt"
    wrong.write_text("not a state")
    with pytest.raises(ValueError, match="remove the file to start anew"):
        sw.flow(x, y, recording=sw.Recording(checkpoint=wrong))
    with pytest.raises(ValueError, match="is a folder"):
        sw.flow(x, y, recording=sw.Recording(checkpoint=tmp_path))


@pytest.mark.parametrize("threads", [1, 2])
def test_going_on_in_reduced_dimensions(threads):
    """The frame is part of the state: another machine, or number of threads, may decompose otherwise."""
    x, y = toys("swiss", 60, 40, [1])
    before = torch.get_num_threads()
    whole = sw.flow(x, y, seeds=[1], max_steps=20, stopping=NO_TOLERANCE)
    state = sw.flow(x, y, seeds=[1], max_steps=9, stopping=NO_TOLERANCE).state
    try:
        torch.set_num_threads(threads)
        rest = sw.flow(x, y, seeds=[1], max_steps=20, stopping=NO_TOLERANCE, resume=state)
        still = sw.flow(x, y, seeds=[1], max_steps=9, stopping=NO_TOLERANCE, resume=state)
    finally:
        torch.set_num_threads(before)
    assert_close(rest.particles, whole.particles)
    assert still.n_steps == 9
    flipped = {**state, "groups": [{**state["groups"][0]}]}
    flipped["groups"][0]["basis"] = -state["groups"][0]["basis"]
    flipped["groups"][0]["particles"] = -state["groups"][0]["particles"]
    flipped["groups"][0]["state"] = {
        **state["groups"][0]["state"],
        "lookahead": -state["groups"][0]["state"]["lookahead"],
    }
    turned = sw.flow(x, y, seeds=[1], max_steps=9, stopping=NO_TOLERANCE, resume=flipped)
    assert_close(turned.particles, still.particles)


def test_going_on_after_some_have_ended():
    x, y = clouds(20, 3)
    settings = {"lr": torch.tensor([1.0, 1e4, 2.0]).double(), "seeds": 0}
    whole = sw.flow(x, y, max_steps=60, **settings)
    state = sw.flow(x, y, max_steps=40, **settings).state
    rest = sw.flow(x, y, max_steps=60, resume=state, **settings)
    assert torch.equal(rest.particles, whole.particles)
    assert rest.status == whole.status
    assert torch.equal(rest.n_steps, whole.n_steps)


def test_an_interrupt_in_the_middle_of_a_step(tmp_path, monkeypatch):
    """Two groups of different rank; the second is interrupted when the first has already moved."""
    flat = clouds(12, 2)
    x, y = (
        torch.stack([torch.nn.functional.pad(flat[i], (0, 3)), clouds(12, 5, seed=1)[i]])
        for i in (0, 1)
    )
    settings = {"seeds": [1, 2], "max_steps": 15, "stopping": NO_TOLERANCE}
    whole = sw.flow(x, y, **settings)
    advance, file = MomentumMover.advance, tmp_path / "flow.pt"

    def interrupted(self, problem, seeds, t, *rest):
        if t == 6 and problem.d == 5:
            raise KeyboardInterrupt
        return advance(self, problem, seeds, t, *rest)

    monkeypatch.setattr(MomentumMover, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sw.flow(x, y, recording=sw.Recording(checkpoint=file), **settings)
    monkeypatch.undo()
    rest = sw.flow(x, y, recording=sw.Recording(checkpoint=file), **settings)
    assert torch.equal(rest.particles, whole.particles)
    assert torch.equal(rest.history.loss, whole.history.loss)


def test_a_file_that_cannot_be_continued_is_left_as_it_is(tmp_path):
    x, y = clouds(15, 3)
    file = tmp_path / "flow.pt"
    how = {
        "max_steps": 3,
        "recording": sw.Recording(checkpoint=file),
        "stopping": NO_TOLERANCE,
    }
    sw.flow(x, y, seeds=1, **how)
    before = file.read_bytes()
    for other in ({"seeds": 2}, {"seeds": 1, "lr": 1.0}, {"seeds": 1, "n_slices": 9}):
        with pytest.raises(ValueError, match="belongs to another flow"):
            sw.flow(x, y, **other, **how)
        assert file.read_bytes() == before
    torch.save(
        sw.flow(x, y, seeds=1, max_steps=3, stopping=NO_TOLERANCE).state, file
    )  # as slicewise 0.1 wrote it
    before = file.read_bytes()
    with pytest.raises(
        ValueError, match=r"written by slicewise 0\.1: finish the run with that version"
    ):
        sw.flow(x, y, seeds=1, **how)
    assert file.read_bytes() == before


def test_a_file_brings_its_seeds_and_its_history(tmp_path):
    x, y = clouds(2, 15, 3)
    recording = sw.Recording(checkpoint=tmp_path / "flow.pt", w2_at=[0, 3, 8], particles_at=[2, 8])
    how = {"stopping": NO_TOLERANCE, "recording": recording}
    half = sw.flow(x, y, max_steps=5, **how)
    rest = sw.flow(x, y, max_steps=9, **how)
    whole = sw.flow(
        x,
        y,
        max_steps=9,
        seeds=half.seeds,
        stopping=NO_TOLERANCE,
        recording=sw.Recording(w2_at=[0, 3, 8], particles_at=[2, 8]),
    )
    assert torch.equal(rest.seeds, half.seeds)
    assert torch.equal(rest.particles, whole.particles)
    for name in ("loss", "step", "w2", "particles"):
        assert torch.equal(getattr(rest.history, name), getattr(whole.history, name)), name


def test_the_file_of_another_flow_is_left_alone_whatever_is_resumed(tmp_path):
    x, y = torch.randn(2, 20, 3, dtype=torch.float64)
    recording = sw.Recording(checkpoint=tmp_path / "a.pt")
    sw.flow(x, y, seeds=0, max_steps=3, recording=recording, stopping=NO_TOLERANCE)
    before = (tmp_path / "a.pt").read_bytes()
    other = sw.flow(x, y, "ebsw", seeds=0, max_steps=3, stopping=NO_TOLERANCE)
    for how in (
        {"variant": "ebsw", "resume": other.state},
        {"generator": 5},
        {"seeds": [1, 2]},
    ):
        with pytest.raises(ValueError, match=r"another|other"):
            sw.flow(x, y, max_steps=5, recording=recording, **how | {"stopping": NO_TOLERANCE})
        assert (tmp_path / "a.pt").read_bytes() == before
    several = sw.Recording(checkpoint=tmp_path / "b.pt")
    sw.flow(x, y, seeds=[0, 1, 2], max_steps=3, recording=several, stopping=NO_TOLERANCE)
    with pytest.raises(ValueError, match=r"checkpoint = .*another|checkpoint = .*other"):
        sw.flow(x.expand(2, 20, 3), y, max_steps=5, recording=several, stopping=NO_TOLERANCE)
