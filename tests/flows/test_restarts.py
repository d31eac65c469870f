"""Runs that are stuck escape."""

from __future__ import annotations

import pytest
import torch

import slicewise as sw
from slicewise.flows.restarts import EscapeRule
from tests.flows.samples import STUCK_SEED, toys


def test_escape_from_a_dead_end(monkeypatch):
    """A swiss roll whose particles get stuck near W_2 = 0.02, and stay there without escapes."""
    x, y = toys("swiss", 300, 2, [STUCK_SEED])
    found = sw.flow(x, y, seeds=[STUCK_SEED], stopping=sw.Stopping(w2=1e-3, assign=False))
    assert found.converged.all()
    monkeypatch.setattr("slicewise.flows.settings.escape_rule", lambda k: None)
    with pytest.warns(sw.NotArrivedWarning, match="W_2 at most 0.02 left"):
        stays = sw.flow(
            x,
            y,
            seeds=[STUCK_SEED],
            stopping=sw.Stopping(w2=1e-3, assign=False),
            max_steps=int(found.n_steps),
        )
    assert not stays.converged.any()
    assert (stays.w2 > 0.01).all()


def test_only_a_loss_at_rest_is_heated():
    """Two runs whose losses do not halve: one rests, one falls. Both escape, one of them hot, not the first time."""
    escapes = EscapeRule(patience=10)
    state = escapes.start(torch.ones(2, dtype=torch.float64))
    hot = [[], []]
    for t in range(80):
        loss = torch.tensor([1.0, 0.985**t], dtype=torch.float64)
        was = state["escaping"] > 0
        state = {**state, **escapes.update(loss, state)}
        for i in torch.nonzero(~was & (state["escaping"] > 0)).flatten().tolist():
            hot[i].append(float(state["hot"][i]))
            assert escapes.step_factor(loss, state)[i] == 1 + state["hot"][i]
    assert hot == [[0, 1], [0, 0, 0]]
    assert state["escape"][0] > 20  # longer for the one at rest alone
    assert state["escape"][1] == 20


def test_what_is_far_above_its_rest_is_not_heated_further():
    """A run rests at 1 and escapes hot; on other slices its loss rises. Far above 1 it takes plain steps until it sank."""
    escapes = EscapeRule(patience=10)
    rest = torch.ones(1, dtype=torch.float64)
    state = escapes.start(rest)
    while not bool(state["hot"].any()):
        state = {**state, **escapes.update(rest, state)}
    assert state["rest"] == 1
    heats = []
    for loss in (rest, 10 * rest, 17 * rest, 1e6 * rest, 10 * rest):
        heats.append(float(escapes.step_factor(loss, state)))
        state = {**state, **escapes.update(loss, state)}
    assert heats[:2] == [2, 2 - 1 / 40]
    assert heats[2:4] == [1, 1]
    assert heats[4] == 2 - 4 / 40
