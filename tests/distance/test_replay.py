"""Evaluations as graphs, without a device (see stand_ins)."""

from __future__ import annotations

import contextlib

import pytest
import torch

import slicewise as sw
from slicewise.distance import plan, replay
from slicewise.problem import SlicerPart
from tests.stand_ins import stand_in_for_graphs
from tests.tolerances import assert_close


@pytest.fixture
def graphs(monkeypatch):
    """CPU samples are taken for a device's; every third call of a kind is a graph."""
    stand_in_for_graphs(monkeypatch, replay)
    monkeypatch.setattr(torch.random, "fork_rng", forked)
    for name, answer in {
        "_cuda_getDevice": lambda: None,
        "_cuda_getCurrentRawStream": lambda index: 0,
        "_cuda_isCurrentStreamCapturing": lambda: False,
    }.items():
        monkeypatch.setattr(torch._C, name, answer, raising=False)
    monkeypatch.setattr(plan.Plan, "_suits_graph", lambda self, problem: self.ask.recipe.graph_safe)
    for module in ("evaluation", "loss"):
        monkeypatch.setattr(
            f"slicewise.distance.{module}.may_be_planned", lambda x, slices: slices is None
        )
    monkeypatch.setattr(plan, "_kept", plan._Kept())
    monkeypatch.setattr(replay, "_kept", replay._Kept())
    return replay._kept.graphs


@contextlib.contextmanager
def forked(devices=None):
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


def pair(batch=(2,), n=20):
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(*batch, n, 3, generator=generator, dtype=torch.float64) for _ in "xy")
    return x, 0.7 * y + 0.5


def five(call):
    """A call made five times with the same seed: twice as it is, then as a graph."""
    found = []
    for _ in range(5):
        torch.manual_seed(3)
        found.append(call())
    return found


@pytest.mark.parametrize("variant", sw.VARIANTS)
def test_a_seed_means_the_same_with_a_graph_and_without(variant, graphs):
    x, y = pair()

    def backward():
        live = x.clone().requires_grad_()
        value = sw.SlicedWasserstein(variant, reduction="none")(live, y)
        (value * torch.tensor([1.0, 3.0])).sum().backward()
        return value.detach(), live.grad

    for call in (lambda: sw.value_and_grad(x, y, variant), backward):
        found = five(call)
        for value, gradient in found[1:]:
            assert_close(value, found[0][0])
            assert_close(gradient, found[0][1])
    recipe = sw.VARIANTS[variant]()
    # What looks at numbers, or has its gradients from autograd, is left as it is.
    assert bool(graphs) == (variant != "phisw" and recipe.closed_form_gradient)


@pytest.mark.parametrize("share", ["one of a batch", "no batch"])
def test_one_x_against_many_y(share, graphs):
    """Its gradient adds up what each element of the batch weighs: nothing a graph could know."""
    x, y = pair()
    start = x[:1] if share == "one of a batch" else x[0]

    def call():
        live = start.clone().requires_grad_()
        (sw.sliced_wasserstein(live, y) * torch.tensor([1.0, 3.0])).sum().backward()
        return live.grad

    found = five(call)
    assert all(gradient.equal(found[0]) for gradient in found)
    values = five(lambda: sw.value_and_grad(start, y)[1])
    assert_close(values[-1], values[0])


def test_gradients_of_gradients(graphs):
    x, y = pair()
    loss = sw.SlicedWasserstein("ebsw")

    def call():
        live = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(loss(live, y), live, create_graph=True)
        return torch.autograd.grad(first.square().sum(), live)[0]

    found = five(call)
    assert graphs
    assert_close(found[-1], found[0])


def test_graphs_outlive_inference_mode(graphs):
    x, y = pair()
    with torch.inference_mode():
        five(lambda: sw.sliced_wasserstein(x, y))
    assert graphs
    live = x.clone().requires_grad_()
    sw.sliced_wasserstein(live, y).sum().backward()
    assert live.grad.isfinite().all()


def test_what_is_different_is_another_graph(graphs):
    x, y = pair()
    kinds = [
        {},
        {"objective": "power"},
        {"p": 1},
        {"n_slices": 7},
        {"variant": "ebsw"},
        {"variant": "ebsw", "temperature": 2.0},
        {"convention": "reference"},
    ]
    for options in kinds:
        found = five(lambda options=options: sw.value_and_grad(x, y, **options)[0])
        assert_close(found[-1], found[0])
    assert len(graphs) == len(kinds)
    five(lambda: sw.value_and_grad(x.float(), y.float()))
    five(lambda: sw.value_and_grad(x[:, :9], y[:, :9]))
    assert len(graphs) == len(kinds) + 2


def test_only_so_many_are_kept(graphs, monkeypatch):
    monkeypatch.setattr(replay, "_KEPT", 3)
    for n in range(5, 12):
        five(lambda n=n: sw.value_and_grad(*pair(n=n)))
    assert len(graphs) == 3
    monkeypatch.setattr(replay, "_KEPT_LINES", 64 * 2 * 40)
    five(lambda: sw.value_and_grad(*pair(n=13)))
    assert sum(graph.lines for graph in graphs.values()) <= 64 * 2 * 40


def test_parts_of_a_callers_own_are_not_captured(graphs, monkeypatch):
    # As in a capture on a device, where no values can be read.
    monkeypatch.setattr("slicewise.distance.request.values_readable", lambda *tensors: False)

    def slicer(problem, rng):
        return sw.VARIANTS["sw"]().slicer(problem, rng)

    class Declared(SlicerPart):
        graph_safe = True

        def __call__(self, problem, rng):
            return slicer(problem, rng)

    five(lambda: sw.value_and_grad(*pair(), sw.Recipe(slicer)))
    assert not graphs
    recipe = sw.Recipe(Declared())
    five(lambda: sw.value_and_grad(*pair(), recipe))
    assert graphs


def test_weights_and_unequal_sizes_are_captured(graphs):
    x, y = pair()
    weights = torch.arange(20.0, dtype=torch.float64) / 190

    def call():
        live = x.clone().requires_grad_()
        value = sw.SlicedWasserstein(reduction="none")(live, y[:, :13], x_weights=weights)
        value.sum().backward()
        return value.detach(), live.grad

    found = five(call)
    assert len(graphs) == 1
    for value, gradient in found[1:]:
        assert_close(value, found[0][0])
        assert_close(gradient, found[0][1])


def test_weights_that_are_none_make_nan_of_a_captured_loss(graphs):
    """On a device nobody reads them: the first calls raise, a graph says it by its value."""
    x, y = pair()
    weights = torch.full((2, 20), 1 / 20, dtype=torch.float64)
    five(lambda: sw.value_and_grad(x, y, x_weights=weights))
    wrong = weights.clone()
    wrong[1, 0] = -1 / 20
    value, gradient = sw.value_and_grad(x, y, x_weights=wrong)
    assert value.isnan().tolist() == [False, True]
    assert gradient[0].isfinite().all()
    assert gradient[1].isnan().all()
    assert sw.value_and_grad(x, y, x_weights=2 * weights)[0].isnan().all()


def test_displacements_are_captured(graphs):
    x, y = pair()

    def call():
        live = x.clone().requires_grad_()
        sw.SlicedWasserstein("ebsw", scale="displacement")(live, y).backward()
        return live.grad

    found = five(call)
    assert len(graphs) == 1
    for gradient in found[1:]:
        assert_close(gradient, found[0])


def test_a_learned_slicer_learns_on_in_a_graph(graphs, monkeypatch):
    """Its state goes in and comes out: the module learns as without graphs, whose draws are the same."""
    x, y = pair()

    def learn(steps):
        torch.manual_seed(3)
        loss = sw.SlicedWasserstein("dsw", reduction="none")
        found = []
        for _ in range(steps):
            live = x.clone().requires_grad_()
            value = loss(live, y)
            value.sum().backward()
            found.append((value.detach(), live.grad))
        return found, loss.state_dict()

    captured, state = learn(6)
    assert len(graphs) == 1
    graphs.clear()
    monkeypatch.setattr(replay, "_CALLS_BEFORE", 100)
    eager, _ = learn(6)
    assert not graphs
    for ours, expected in zip(captured, eager, strict=True):
        assert_close(ours[0], expected[0])
        assert_close(ours[1], expected[1])
    assert int(state["slicer_step"][0]) == 6 * sw.VARIANTS["dsw"]().slicer.n_steps


def test_one_x_for_a_batch_of_weights(graphs):
    x, y = pair()
    weights = torch.full((2, 20), 1 / 20, dtype=torch.float64)
    found = five(lambda: sw.value_and_grad(x[0], y, y_weights=weights))
    assert graphs
    for value, gradient in found[1:]:
        assert_close(value, found[0][0])
        assert_close(gradient, found[0][1])
