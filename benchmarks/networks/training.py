"""Generators and translators of a setting: all rates and seeds of Adam as one stack, and ours beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import slicewise as sw
from benchmarks.networks import rules
from benchmarks.networks.samples import HELD_OUT, Samples, samples
from benchmarks.networks.settings import NOISE, Setting
from slicewise.sampling import Randomness, uniform
from slicewise.training import Generator, Layers, Stack, Training, Translator

# What a setting is trained by; each is kept on its own. The last is left out unless asked for: Adam at the same rates
# with the shrinking that ours has, which tells what the length and what the shrinking is worth.
SIDES = ("adam", "computed", "displacement", "decayed")
SEARCHES = ("adam", "decayed")


@dataclass(frozen=True)
class Extent:
    """How much is trained and judged."""

    steps: tuple[int, ...] = (300, 2000)
    seeds: tuple[int, ...] = (0, 1, 2)
    rates: tuple[float, ...] = rules.RATES
    held_out: int = HELD_OUT
    judging_slices: int = 1000


QUICK = Extent((20, 60), (0, 1), (1e-3, 1e-2, 1e-1), 512, 100)


def network(setting: Setting, seed: int) -> Layers:
    """The network of a setting, with the initial weights of a seed."""
    hidden = setting.sizes[1:-1]
    if setting.task == "translator":
        return Translator(
            setting.d,
            hidden=hidden,
            activation=setting.activation,
            norm=setting.norm,
            generator=100 + seed,
        )
    return Generator(
        setting.d,
        noise=NOISE,
        hidden=hidden,
        activation=setting.activation,
        output=setting.output,
        norm=setting.norm,
        generator=100 + seed,
    )


class Judge:
    """Held-out SW_2 along fixed slices, divided by the scale of the data."""

    def __init__(self, setting: Setting, given: Samples, extent: Extent) -> None:
        self._real, self._scale = given.held_out, setting.scale
        device = given.held_out.device
        generator = torch.Generator().manual_seed(11)
        rng = Randomness(generator, device)
        self._slices = uniform((extent.judging_slices, setting.d), rng, torch.float32)
        self._input = given.source_held_out
        if self._input is None:
            noise = torch.randn(extent.held_out, NOISE, generator=generator)
            self._input = noise.to(device)

    @torch.no_grad()
    def __call__(self, stack: Stack) -> list[float]:
        """Judge each network of a stack in evaluation mode."""
        assert self._input is not None
        stack.eval()
        found = [self.distance(made) for made in stack(self._input)]
        stack.train()
        return found

    def distance(self, made: Tensor) -> float:
        """Judge samples; infinite if they are not finite."""
        if not bool(made.isfinite().all()):
            return math.inf
        return sw.sliced_wasserstein(made, self._real, slices=self._slices).item() / self._scale


def run(
    setting: Setting,
    side: str,
    device: torch.device,
    extent: Extent,
    digits: Path | None = None,
) -> dict[str, Any]:
    """Train one side of a setting, and judge it after each number of steps.

    Returns:
        For each number of steps, a distance for each seed, or for Adam for each rate a list of them; infinite for a
        network that diverged. And the distances of the first network before training and of fresh samples.
    """
    given = samples(setting, device, digits, held_out=extent.held_out)
    judge = Judge(setting, given, extent)
    start = [network(setting, seed) for seed in extent.seeds]
    rates = extent.rates if side in SEARCHES else (0.0,)
    found: dict[str, Any] = {}
    if side == "adam":
        assert given.again is not None
        found |= {"floor": judge.distance(given.again), "start": judge(Stack(start).to(device))}
    for steps in extent.steps:
        stack = Stack([one for _ in rates for one in start]).to(device)
        how: dict[str, Any] = {
            "source": given.source,
            "max_steps": steps,
            "batch": setting.batch,
            "n_slices": setting.n_slices,
            "seeds": [seed for _ in rates for seed in extent.seeds],
            "precision": "tf32" if device.type == "cuda" else "float32",
            "progress_bar": False,
        }
        trained = _trained(side, stack, given.target, setting.variant, rates, extent, how)
        judged = [
            math.inf if gone else distance
            for gone, distance in zip(_gone(trained), judge(stack), strict=True)
        ]
        k = len(extent.seeds)
        by_rate = [judged[i : i + k] for i in range(0, len(judged), k)]
        found[str(steps)] = by_rate if side in SEARCHES else by_rate[0]
        found[f"seconds {steps}"] = trained.seconds
    return found


def _trained(
    side: str,
    stack: Stack,
    target: Tensor,
    variant: str,
    rates: tuple[float, ...],
    extent: Extent,
    how: dict[str, Any],
) -> Training:
    if side in SEARCHES:
        each = [rate for rate in rates for _ in extent.seeds]
        decay = "linear" if side == "decayed" else None
        return rules.searched(stack, target, variant, each, decay=decay, **how)
    rule = rules.computed if side == "computed" else rules.displaced
    return rule(stack, target, variant, **how)


def _gone(trained: Training) -> list[bool]:
    diverged = trained.diverged
    assert isinstance(diverged, list)
    return diverged
