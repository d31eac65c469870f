"""What a flow returns, and its history."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import slicewise as sw
from slicewise.flows.result import Flow
from slicewise.support import Status
from tests.flows.samples import clouds
from tests.tolerances import assert_close

NO_TOLERANCE = sw.Stopping(tolerance=None)


def test_trace():
    x, y = clouds(2, 15, 3)
    found = sw.flow(
        x,
        y,
        seeds=[1, 2],
        max_steps=10,
        stopping=NO_TOLERANCE,
        recording=sw.Recording(w2_at=[0, 5, 10], particles_at=[0, 10]),
    )
    trace = found.history
    assert trace.loss.shape == trace.step.shape == trace.seconds.shape == (10, 2)
    assert (trace.seconds.diff(dim=0) > 0).all()
    assert trace.w2.shape == (3, 2)
    assert trace.particles.shape == (2, 2, 15, 3)
    assert_close(trace.particles[0], x)
    assert_close(trace.particles[1], found.particles)
    assert_close(trace.w2[0], sw.wasserstein(x, y))
    assert_close(trace.w2[2], found.w2)
    assert repr(found).startswith(
        "Flow: 2 runs of 15 particles in 3 dimensions: 2 out of steps after 10; W_2 at most"
    )
    ended = sw.flow(x, y, seeds=[1, 2], recording=sw.Recording(w2_at=[900]))
    assert ended.converged.all()
    assert_close(ended.history.w2[0] + 1, ended.w2 + 1)


def test_a_trace_has_its_shape_whatever_happens():
    x, y = clouds(15, 2)
    half = sw.flow(x, y, max_steps=5, seeds=1, stopping=NO_TOLERANCE)
    rest = sw.flow(
        x,
        y,
        max_steps=9,
        seeds=1,
        stopping=NO_TOLERANCE,
        recording=sw.Recording(w2_at=torch.tensor([2, 7, 99])),
        resume=half.state,
    )
    assert rest.history.w2.shape == (3,)
    assert rest.history.w2.isnan().tolist() == [True, False, True]
    lost = sw.flow(x, y, lr=1e20, max_steps=3, recording=sw.Recording(w2_at=[0, 3]), seeds=1)
    assert lost.diverged
    assert lost.history.w2[1] == torch.inf


def test_the_callers_samples_are_not_touched():
    x, y = clouds(2, 12, 3)
    before = x.clone(), y.clone()
    found = sw.flow(x, y, seeds=1, stopping=sw.Stopping(assign=True), max_steps=30)
    assert torch.equal(x, before[0])
    assert torch.equal(y, before[1])
    y.zero_()
    assert_close(found.w2, sw.wasserstein(found.particles, before[1]))


def test_bar_on_request(capsys):
    x, y = clouds(10, 2)
    sw.flow(
        x, y, seeds=0, max_steps=3, stopping=NO_TOLERANCE, recording=sw.Recording(progress_bar=True)
    )
    assert "3/3" in capsys.readouterr().err
    sw.flow(x, y, seeds=0, max_steps=3, stopping=NO_TOLERANCE)
    assert capsys.readouterr().err == ""


def test_zero_steps():
    x, y = clouds(10, 2)
    found = sw.flow(x, y, max_steps=0, stopping=NO_TOLERANCE)
    assert isinstance(found, Flow)
    assert_close(found.particles, x)
    assert found.history.loss.shape == (0,)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"w2_at": 5}, "w2_at = 5: give a list"),
        ({"w2_at": [-1]}, "w2_at"),
        ({"w2_at": "last"}, "w2_at = 'last': give a list"),
        ({"w2_at": [None]}, r"w2_at = \[None\]: give a list"),
        ({"particles_at": [torch.nan]}, r"particles_at = \[nan\]: give a list"),
        ({"particles_at": [0.5]}, "particles_at"),
    ],
)
def test_recordings_that_mean_nothing(options, words):
    with pytest.raises(ValueError, match=words):
        sw.Recording(**options)


def test_status_in_words_in_the_shape_of_the_batch():
    x, y = clouds(20, 2)
    rates = torch.tensor([[1.0], [1e9]])
    found = sw.flow(x, y, lr=rates, seeds=[1, 2], max_steps=30)
    assert found.status == [["out of steps"] * 2, ["diverged"] * 2]
    assert repr(found).startswith(
        "Flow: 4 runs of 20 particles in 2 dimensions: 2 out of steps after 30, 2 diverged after"
    )
    one = sw.flow(x, y, seeds=0)
    assert one.status == Status.ARRIVED == "arrived"
    assert type(one.status) is str
    assert (
        repr(one)
        == f"Flow: 20 particles in 2 dimensions, arrived by {one.by} after {one.n_steps} steps"
    )


@pytest.mark.parametrize(
    ("old", "new"), [("trace", "history"), ("steps", "n_steps"), ("ranks", "dimensions")]
)
def test_attributes_of_before_name_those_of_now(old, new):
    found = sw.flow(*clouds(10, 2), max_steps=1, stopping=NO_TOLERANCE)
    assert hasattr(found, new)
    with pytest.raises(AttributeError, match=f"no attribute '{old}': it is called '{new}'"):
        getattr(found, old)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = found.nothing


def test_a_flow_can_be_copied_and_stored():
    found = sw.flow(*clouds(10, 2), max_steps=3, seeds=0, stopping=NO_TOLERANCE)
    for again in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert torch.equal(again.particles, found.particles)
        assert again.status == found.status
