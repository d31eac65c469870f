"""Trainings on a CUDA device: whole steps as one graph, the same numbers as by hand and as on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import slicewise as sw
from slicewise.lab.experiments.flows import ELEVEN
from slicewise.optim import Walker
from slicewise.training.networks import Generator, Stack, Translator
from slicewise.training.training import train

pytestmark = pytest.mark.gpu
TARGET = torch.randn(300, 12, generator=torch.Generator().manual_seed(7), dtype=torch.float64) + 1
HOW = {"batch": 64, "progress_bar": False, "max_steps": 90}


def generator(seed=0):
    return Generator(12, noise=4, hidden=(32, 32), generator=seed).double().cuda()


@pytest.mark.parametrize("scale", ["classic", "displacement"])
@pytest.mark.parametrize("variant", ELEVEN)
def test_a_graph_makes_the_steps_that_are_made_by_hand(variant, scale):
    found = [
        train(generator(), TARGET, variant, scale=scale, lr=0.01, graph=graph, **HOW)
        for graph in (False, True)
    ]
    assert found[0].losses[20:].isfinite().all()
    # Ascents amplify rounding from step to step: early steps agree to the digits, late ones in what they come to.
    early = torch.stack([one.losses[:30] for one in found])
    assert torch.allclose(early[0], early[1], rtol=1e-4)
    ends = [one.losses[-20:].mean() for one in found]
    assert ends[0] == pytest.approx(ends[1].item(), rel=0.05)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_optimisers_with_all_that_can_be_asked_for(optimizer):
    how = {"optimizer": optimizer, "lr": 0.01, "decay": "cosine", "clip": 1.0, "ema": 0.9, **HOW}
    by_hand, by_graph = (train(generator(), TARGET, graph=g, **how) for g in (False, True))
    assert torch.allclose(by_hand.losses, by_graph.losses, rtol=1e-6)
    for p, q in zip(
        by_hand.ema_network.parameters(), by_graph.ema_network.parameters(), strict=True
    ):
        assert torch.allclose(p, q, atol=1e-8)


@pytest.mark.parametrize("variant", ["sw", "ebsw", "rpsw", "maxsw", "dsw"])
@pytest.mark.parametrize("stacked", [False, True])
def test_computed_lengths_by_graph_are_those_by_hand(variant, stacked):
    """Steps are measured at the same places, and what is learned of lengths goes on from graph to graph."""

    def network():
        return Stack([generator(0), generator(1)]) if stacked else generator()

    def nudged(some):
        with torch.no_grad():
            for parameter in some.parameters():
                parameter.mul_(1 + 1e-13)
        return some

    how = {**HOW, "max_steps": Walker.LATER + 6 * 16, "seeds": [0, 1] if stacked else 0}
    by_hand, by_graph = (
        train(network(), TARGET, variant, graph=g, **how).losses for g in (False, True)
    )
    # Ascents amplify rounding (test_train.py shows it without a graph): how far weights that are off by 1e-13 get apart
    # says how far a graph may be off, up to each step.
    other = train(nudged(network()), TARGET, variant, graph=False, **how).losses
    apart = (other / by_hand - 1).abs().cummax(dim=0).values
    assert ((by_graph / by_hand - 1).abs() <= 1e-5 + 100 * apart).all()
    with torch.no_grad():
        drawn = torch.randn(300, 4, dtype=torch.float64, device="cuda")
        untrained = sw.SlicedWasserstein(n_slices=500)(generator()(drawn), TARGET.cuda())
    assert by_graph[-10:].mean() < 0.5 * untrained


def test_a_stack_by_graph_is_a_loop_by_hand():
    rates, seeds = [0.1, 0.03, 0.1, 1e7], [0, 0, 1, 1]
    stack = Stack([generator(seed) for seed in seeds])
    together = train(stack, TARGET, lr=rates, seeds=seeds, graph=True, **HOW)
    assert together.status == ["out of steps"] * 3 + ["diverged"]
    for i in range(3):
        alone = train(generator(seeds[i]), TARGET, lr=rates[i], seeds=seeds[i], graph=False, **HOW)
        assert torch.allclose(together.losses[:, i], alone.losses, rtol=1e-6)


def test_batch_normalization_by_graph_is_that_by_hand():
    """Outputs, weights and running statistics of each network of a stack."""

    def stack():
        some = [
            Generator(12, noise=4, hidden=(32, 32), norm="batch", output="tanh", generator=seed)
            for seed in (0, 1)
        ]
        return Stack(some).double().cuda()

    by_hand, by_graph = (
        train(stack(), TARGET, seeds=[0, 1], optimizer="adam", lr=1e-3, graph=graph, **HOW)
        for graph in (False, True)
    )
    assert torch.allclose(by_hand.losses, by_graph.losses, rtol=1e-6)
    there = by_graph.network.state_dict()
    for key, tensor in by_hand.network.state_dict().items():
        assert torch.allclose(tensor, there[key], atol=1e-8)


def test_the_device_does_not_matter():
    """Batches, noise and slices are the same; in double precision so are the weights."""
    here = train(generator().cpu(), TARGET, lr=0.1, **HOW)
    there = train(generator(), TARGET, lr=0.1, **HOW)
    assert torch.allclose(here.losses, there.losses, rtol=1e-4)  # normal numbers are rounded singly


def test_translation_and_few_rows():
    source = torch.randn(40, 12, dtype=torch.float64)
    network = Translator(12, hidden=(32,), generator=0).double().cuda()
    found = train(network, TARGET, source=source, lr=0.1, graph=True, **HOW)
    assert found.notes
    assert found.losses[-10:].mean() < found.losses[:3].mean()


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_less_precision_learns_as_much(precision):
    network = Generator(12, noise=4, hidden=(32, 32), generator=0).cuda()
    plain = Generator(12, noise=4, hidden=(32, 32), generator=0).cuda()
    before = torch.get_float32_matmul_precision()
    fast = train(network, TARGET.float(), lr=0.1, precision=precision, **HOW)
    exact = train(plain, TARGET.float(), lr=0.1, **HOW)
    assert torch.get_float32_matmul_precision() == before
    assert fast.losses[-20:].mean() == pytest.approx(exact.losses[-20:].mean().item(), rel=0.1)


def test_resumed_on_a_device(tmp_path):
    pytest.importorskip("safetensors")
    file = tmp_path / "run.pt"
    train(generator(), TARGET, lr=0.1, checkpoint=file, **{**HOW, "max_steps": 70})
    resumed = train(generator(), TARGET, lr=0.1, checkpoint=file, **HOW)
    whole = train(generator(), TARGET, lr=0.1, **HOW)
    assert torch.allclose(resumed.losses, whole.losses, rtol=1e-6)


def test_losses_are_those_of_the_distance():
    found = train(generator(), TARGET, scale="classic", lr=0.0, objective="power", **HOW)
    network = generator()
    with torch.no_grad():
        made = network(torch.randn(300, 4, dtype=torch.float64, device="cuda"))
    plain = sw.sliced_wasserstein(made, TARGET.cuda(), n_slices=5000, objective="power")
    assert found.losses.mean() == pytest.approx(plain.item(), rel=0.15)


class Looking(torch.nn.Module):
    """A network whose steps wait for the host: no graph can hold them."""

    def __init__(self):
        super().__init__()
        self.inner = generator()

    def forward(self, z):
        return self.inner(z) * (2.0 if z.sum().item() > 1e9 else 1.0)


LOOKING = """
import torch, pytest
from tests.training.test_gpu import HOW, TARGET, Looking, generator
from slicewise.training import train
with pytest.raises(RuntimeError, match="cannot be captured as a CUDA graph .*give graph=False"):
    train(Looking(), TARGET, source=4, lr=0.1, graph=True, **HOW)
by_hand = train(Looking(), TARGET, source=4, lr=0.1, graph=False, **HOW)
plain = train(generator(), TARGET, lr=0.1, graph=True, **HOW)
assert torch.allclose(by_hand.losses, plain.losses, rtol=1e-6)
"""


def test_steps_that_cannot_be_captured_are_refused_and_the_process_goes_on():
    """In a process of its own: were it left unusable, the tests after this one would fail in its stead."""
    found = subprocess.run(
        [sys.executable, "-c", LOOKING],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
