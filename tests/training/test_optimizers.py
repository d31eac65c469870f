"""Many networks as one: each does what it would do by itself, whoever is beside it."""

from __future__ import annotations

import math

import pytest
import torch

from slicewise.lab.experiments.flows import ELEVEN
from slicewise.training.networks import Generator, Stack, Translator
from slicewise.training.optimizers import StackedOptimizer, clip
from slicewise.training.training import train

TARGET = torch.randn(120, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64) + 1


def generator(seed):
    return Generator(6, noise=3, hidden=(16, 16), generator=seed).double()


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: Generator(5, noise=3, hidden=(7, 9), generator=seed),
        lambda seed: Generator(5, noise=3, hidden=(7,), activation="tanh", generator=seed),
        lambda seed: Translator(3, hidden=(7, 7), generator=seed),
    ],
)
def test_a_stack_makes_what_each_makes(make):
    some = [make(seed) for seed in range(4)]
    stack = Stack(some)
    x = torch.randn(4, 11, 3)
    for i, network in enumerate(some):
        assert torch.allclose(stack(x)[i], network(x[i]), atol=1e-6)
        alone = stack.one(i)
        assert type(alone) is type(network)
        assert all(
            p.equal(q) for p, q in zip(alone.parameters(), network.parameters(), strict=True)
        )
    assert torch.allclose(stack(x[0])[2], some[2](x[0]), atol=1e-6)


def test_one_of_a_stack_is_a_network_of_its_kind():
    """Also where the class has a constructor and attributes of its own; the stack has no parameters of it."""

    class Named(Generator):
        def __init__(self, name):
            super().__init__(5, noise=3, hidden=(7,), generator=0)
            self.name = name

    stack = Stack([Named("first"), Named("second")]).double()
    alone = stack.one(1)
    assert type(alone) is Named
    assert alone.name == "first"  # what is not stacked is that of the first
    assert next(alone.parameters()).dtype == torch.float64
    assert {name.split(".")[0] for name, _ in stack.named_parameters()} == {"weights", "biases"}
    with torch.no_grad():
        next(alone.parameters()).zero_()
    assert next(stack.one(1).parameters()).any()


def test_only_networks_of_one_shape_make_a_stack():
    with pytest.raises(ValueError, match="network 1 is 8 → 4 → 6, relu, the first 8 → 5 → 6, relu"):
        Stack([Generator(6, hidden=(5,)), Generator(6, hidden=(4,))])
    with pytest.raises(ValueError, match="no networks"):
        Stack([])


def test_optimizers_are_those_of_torch():
    kinds = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.01),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    }
    stack = Stack([generator(0)] * 3)
    parameters = list(stack.parameters())
    copies = [[p[i].detach().clone().requires_grad_() for p in parameters] for i in range(3)]
    ours = StackedOptimizer(parameters, 0.01, list(kinds))
    theirs = [make(p) for make, p in zip(kinds.values(), copies, strict=True)]
    draw = torch.Generator().manual_seed(1)
    for _ in range(4):
        for i, p in enumerate(parameters):
            p.grad = torch.randn(p.shape, generator=draw, dtype=p.dtype)
            for run, copy in enumerate(copies):
                copy[i].grad = p.grad[run].clone()
        ours.step()
        for optimizer in theirs:
            optimizer.step()
    for run, copy in enumerate(copies):
        for p, q in zip(parameters, copy, strict=True):
            assert torch.allclose(p[run], q, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("scale", ["classic", "displacement"])
@pytest.mark.parametrize("variant", ELEVEN)
def test_a_stack_is_a_loop(variant, scale):
    """Several rates and seeds as one batch: the same weights as one by one."""
    rates, seeds = [0.05, 0.02, 0.05], [3, 3, 4]
    how = {"scale": scale, "max_steps": 6, "batch": 32, "progress_bar": False}
    stack = Stack([generator(seed) for seed in seeds])
    together = train(stack, TARGET, variant, lr=rates, seeds=seeds, **how)
    assert together.losses.shape == (6, 3)
    for i, (rate, seed) in enumerate(zip(rates, seeds, strict=True)):
        alone = train(generator(seed), TARGET, variant, lr=rate, seeds=seed, **how)
        assert torch.allclose(together.losses[:, i], alone.losses, rtol=1e-5)
        for p, q in zip(stack.one(i).parameters(), alone.network.parameters(), strict=True):
            assert torch.allclose(p, q, atol=1e-6)


def test_a_network_that_diverges_stands_still_and_harms_nobody():
    stack = Stack([generator(0)] * 3)
    found = train(
        stack,
        TARGET,
        scale="classic",
        lr=[0.1, 1e6, 0.1],
        seeds=0,
        max_steps=40,
        batch=32,
        progress_bar=False,
    )
    assert found.status == ["out of steps", "diverged", "out of steps"]
    assert found.diverged == [False, True, False]
    assert all(p.isfinite().all() for p in stack.parameters())
    alone = train(
        generator(0),
        TARGET,
        scale="classic",
        lr=0.1,
        seeds=0,
        max_steps=40,
        batch=32,
        progress_bar=False,
    )
    for i in (0, 2):
        for p, q in zip(stack.one(i).parameters(), alone.network.parameters(), strict=True):
            assert torch.allclose(p, q, atol=1e-6)


def test_a_stack_of_which_all_diverged_stops():
    stack = Stack([generator(0)] * 2)
    found = train(
        stack,
        TARGET,
        scale="classic",
        lr=[1e7, 1e8],
        max_steps=500,
        batch=32,
        progress_bar=False,
        seeds=0,
    )
    assert found.status == ["diverged"] * 2
    assert found.n_steps < 500


def test_gradients_are_clipped_run_by_run():
    draw = torch.Generator().manual_seed(0)
    gradients = [torch.randn(3, 4, 5, generator=draw), torch.randn(3, 1, 5, generator=draw)]
    gradients[0][1] *= 1e-3
    gradients[1][1] *= 1e-3
    one = [[g[i].clone() for g in gradients] for i in range(3)]
    clip(gradients, 0.5, stacked=True)
    for i, mine in enumerate(one):
        parameters = [torch.nn.Parameter(g) for g in mine]
        for p in parameters:
            p.grad = p.detach().clone()
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        for g, p in zip(gradients, parameters, strict=True):
            assert torch.allclose(g[i], p.grad)
    length = math.sqrt(sum(g[1].square().sum().item() for g in gradients))
    assert length < 0.1  # one that is short stays as it is


def test_what_a_stacked_optimiser_refuses():
    stack = Stack([generator(0)] * 2)
    with pytest.raises(ValueError, match="kind of optimizer"):
        StackedOptimizer(stack.parameters(), 0.1, "lion")
    with pytest.raises(ValueError, match="3 kinds of optimizer for 2 networks"):
        StackedOptimizer(stack.parameters(), 0.1, ["sgd"] * 3)
    with pytest.raises(ValueError, match="finite rates"):
        StackedOptimizer(stack.parameters(), [0.1, math.nan])
