"""Networks with an output activation and batch normalization: as torch's own, alone and in a stack."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call, jvp

from slicewise.training.networks import Generator, Layers, Stack, Translator
from slicewise.training.training import train

MAKERS = {
    "sigmoid output": lambda s: Generator(5, noise=3, hidden=(7, 9), output="sigmoid", generator=s),
    "norm": lambda s: Generator(5, noise=3, hidden=(7, 9), norm="batch", generator=s),
    "norm, tanh output": lambda s: Layers(
        (3, 6, 6, 5), activation="tanh", norm="batch", output="tanh", generator=s
    ),
    "residual with norm": lambda s: Translator(3, hidden=(7, 7), norm="batch", generator=s),
    "sigmoid within": lambda s: Layers((3, 8, 5), activation="sigmoid", generator=s),
}
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


def torchs(network):
    """The same network of torch's modules, with the same weights."""
    parts = []
    for i, layer in enumerate(network.layers):
        copied = nn.Linear(layer.in_features, layer.out_features).double()
        copied.load_state_dict(layer.state_dict())
        parts.append(copied)
        if i < len(network.layers) - 1:
            if network.norm == "batch":
                parts.append(nn.BatchNorm1d(layer.out_features).double())
                parts[-1].load_state_dict(network.norms[i].state_dict(), strict=False)
            parts.append(ACTIVATIONS[network.activation]())
    if network.output is not None:
        parts.append(ACTIVATIONS[network.output]())
    return nn.Sequential(*parts)


def perturbed(network, seed):
    """The network with weights, statistics and normalization that all differ from their initial values."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in network.state_dict().values():
            tensor += 0.1 * torch.rand(tensor.shape, generator=draw, dtype=tensor.dtype)
    return network


@pytest.mark.parametrize("name", MAKERS)
def test_a_network_computes_what_torchs_modules_compute(name):
    network = perturbed(MAKERS[name](0).double(), 1)
    plain = torchs(network)
    draw = torch.Generator().manual_seed(2)
    for mode in (True, True, False):
        network.train(mode)
        plain.train(mode)
        x = torch.randn(11, 3, generator=draw, dtype=torch.float64)
        made, expected = network(x), plain(x) + (x if network.residual else 0)
        torch.testing.assert_close(made, expected)
        found, wanted = (
            torch.autograd.grad(out.square().sum(), list(module.parameters()))
            for out, module in ((made, network), (expected, plain))
        )
        # torch's modules list each layer beside its normalization.
        assert sorted(g.norm().item() for g in found) == pytest.approx(
            sorted(g.norm().item() for g in wanted)
        )
    norms = [part for part in plain if isinstance(part, nn.BatchNorm1d)]
    for ours, theirs in zip(network.norms or [], norms, strict=True):
        torch.testing.assert_close(ours.running_mean, theirs.running_mean)
        torch.testing.assert_close(ours.running_var, theirs.running_var)


@pytest.mark.parametrize("name", MAKERS)
def test_a_stack_computes_what_its_networks_compute_alone(name):
    """Outputs, gradients and running statistics, in training and in evaluation mode."""
    alone = [perturbed(MAKERS[name](seed).double(), seed) for seed in range(3)]
    stack = Stack(alone)
    draw = torch.Generator().manual_seed(5)
    for mode in (True, True, False):
        stack.train(mode)
        x = torch.randn(3, 11, 3, generator=draw, dtype=torch.float64)
        made = stack(x)
        stack.zero_grad()
        made.square().sum().backward()
        for i, network in enumerate(alone):
            network.train(mode)
            expected = network(x[i])
            torch.testing.assert_close(made[i], expected)
            network.zero_grad()
            expected.square().sum().backward()
            copied = stack.one(i)
            assert copied.training == mode
            assert type(copied) is type(network)
            for key, tensor in network.state_dict().items():
                torch.testing.assert_close(copied.state_dict()[key], tensor)
            for j, layer in enumerate(network.layers):
                torch.testing.assert_close(stack.weights[j].grad[i].mT, layer.weight.grad)
                torch.testing.assert_close(stack.biases[j].grad[i, 0], layer.bias.grad)
            for norms, norm in zip(stack.norms or [], network.norms or [], strict=True):
                torch.testing.assert_close(norms.weight.grad[i, 0], norm.weight.grad)
                torch.testing.assert_close(norms.bias.grad[i, 0], norm.bias.grad)
    assert stack.training is False


# torch compiles its decompositions for forward mode by `torch.jit.script`, of which it warns itself.
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("stacked", [False, True])
def test_forward_mode_differentiates_batch_statistics_and_updates_none(stacked):
    network = MAKERS["norm, tanh output"](0).double()
    if stacked:
        network = Stack([network, MAKERS["norm, tanh output"](1).double()])
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(*([2] if stacked else []), 9, 3, generator=draw, dtype=torch.float64)
    network(x)
    weights = {k: p.detach() for k, p in network.named_parameters()}
    change = {k: torch.randn(p.shape, generator=draw, dtype=p.dtype) for k, p in weights.items()}
    before = {k: b.clone() for k, b in network.named_buffers()}
    made, moved = jvp(lambda p: functional_call(network, p, (x,)), (weights,), (change,))
    assert all(b.equal(before[k]) for k, b in network.named_buffers())
    h = 1e-6
    ahead, behind = (
        functional_call(network, {k: p + sign * h * change[k] for k, p in weights.items()}, (x,))
        for sign in (1, -1)
    )
    torch.testing.assert_close(moved, (ahead - behind) / (2 * h), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(made, network(x))
    assert not any(b.equal(before[k]) for k, b in network.named_buffers())


def test_training_keeps_the_statistics_of_its_steps_alone():
    """The call before the first step, which checks shapes, must not count."""
    target = torch.rand(60, 5, generator=torch.Generator().manual_seed(7)).double()
    # In double precision: a bias before batch normalization has rounding errors for gradients, which Adam magnifies.
    network = Generator(5, noise=3, hidden=(8,), norm="batch", output="sigmoid", generator=0)
    network = network.double()
    train(network, target, max_steps=0, batch=16, progress_bar=False)
    assert not network.norms[0].running_mean.any()
    stack = Stack([network, network])
    train(network, target, max_steps=6, batch=16, progress_bar=False, seeds=3)
    train(stack, target, max_steps=6, batch=16, progress_bar=False, seeds=[3, 4])
    assert network.norms[0].running_mean.any()
    for key, tensor in network.state_dict().items():
        torch.testing.assert_close(stack.one(0).state_dict()[key], tensor, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(stack.norms[0].running_mean[0], stack.norms[0].running_mean[1])


def test_samples_of_a_normalized_generator_have_the_mode_of_the_network():
    network = Generator(4, noise=3, hidden=(8,), norm="batch", generator=0).eval()
    assert network.sample(1).shape == (1, 4)
    assert network.sample(6)[:2].equal(network.sample(6)[:2])
    assert not network.norms[0].running_mean.any()


def test_without_the_options_a_network_is_what_it_was():
    network = Generator(2, noise=1, hidden=(2,), generator=0)
    assert "norm" not in repr(network)
    assert "norm" not in repr(Stack([network]))
    assert list(network.state_dict()) == [
        f"layers.{i}.{kind}" for i in (0, 1) for kind in ("weight", "bias")
    ]
    with_all = Generator(2, noise=1, hidden=(2,), norm="batch", output="tanh", generator=0)
    for key, tensor in network.state_dict().items():
        assert with_all.state_dict()[key].equal(tensor)
    assert with_all.extra_repr() == "1 → 2 → 2, relu, tanh output, batch norm"


def test_what_cannot_be_is_said():
    with pytest.raises(ValueError, match="output = 'relu'"):
        Generator(2, output="relu")
    with pytest.raises(ValueError, match="norm = 'layer'"):
        Generator(2, norm="layer")
    with pytest.raises(ValueError, match="leave output=None"):
        Layers((2, 3, 2), residual=True, output="tanh")
    with pytest.raises(ValueError, match="stack networks of one shape"):
        Stack([Generator(2, norm="batch"), Generator(2)])
    with pytest.raises(ValueError, match="stack networks of one shape"):
        Stack([Generator(2, output="tanh"), Generator(2, output="sigmoid")])
    with pytest.raises(ValueError, match="give at least two per network"):
        Generator(2, noise=3, hidden=(4,), norm="batch")(torch.zeros(1, 3))
