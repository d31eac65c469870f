"""Autoencoders with a prior, trained by a loop written out: reconstruction and a sliced distance, added."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import slicewise as sw
from benchmarks.networks import rules
from benchmarks.networks.samples import samples
from benchmarks.networks.settings import Setting
from benchmarks.networks.training import Extent
from slicewise.sampling import Randomness, uniform
from slicewise.training import Layers, Stack, StackedOptimizer

SIDES = ("adam", "computed")
Halves = tuple[Layers, Layers] | tuple[Stack, Stack]


def halves(setting: Setting, seed: int) -> tuple[Layers, Layers]:
    """Encoder and decoder of a setting, with the initial weights of a seed."""
    source = torch.Generator().manual_seed(100 + seed)
    how: dict[str, Any] = {
        "activation": setting.activation,
        "norm": setting.norm,
        "generator": source,
    }
    sizes = setting.sizes
    return Layers(sizes, **how), Layers(sizes[::-1], output=setting.output, **how)


class Loss:
    """Mean squared error of the reconstruction and weighted SW_2² between codes and a normal prior."""

    def __init__(self, setting: Setting, seed: int) -> None:
        assert setting.prior_weight is not None
        self.weight = setting.prior_weight * setting.scale**2
        self._distance = sw.SlicedWasserstein(
            setting.variant,
            n_slices=setting.n_slices,
            objective="power",
            scale="classic",
            reduction="sum",
            generator=seed,
        )

    def __call__(self, both: Halves, rows: Tensor, prior: Tensor) -> Tensor:
        """The loss of one autoencoder, or the sum of all in a stack."""
        codes = both[0](rows)
        error = (both[1](codes) - rows).square().mean(dim=(-2, -1)).sum()
        loss: Tensor = error + self.weight * self._distance(codes, prior)
        return loss


class Judge:
    """The root of the held-out loss, divided by the scale of the data."""

    def __init__(self, setting: Setting, rows: Tensor, extent: Extent) -> None:
        self._rows, self._scale, self._weight = rows, setting.scale, Loss(setting, 0).weight
        generator = torch.Generator().manual_seed(11)
        code = setting.sizes[-1]
        self._prior = torch.randn(len(rows), code, generator=generator).to(rows.device)
        rng = Randomness(generator, rows.device)
        self._slices = uniform((extent.judging_slices, code), rng, torch.float32)

    @torch.no_grad()
    def __call__(self, both: tuple[Layers, Layers]) -> float:
        """Judge one autoencoder in evaluation mode; infinite if what it makes is not finite."""
        encoder, decoder = both[0].eval(), both[1].eval()
        codes = encoder(self._rows)
        made = decoder(codes)
        if not bool(codes.isfinite().all() & made.isfinite().all()):
            return math.inf
        error = (made - self._rows).square().mean()
        distance = sw.sliced_wasserstein(codes, self._prior, slices=self._slices, objective="power")
        return math.sqrt((error + self._weight * distance).item()) / self._scale


def batches(
    target: Tensor, setting: Setting, seed: int, steps: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of the data (B, d) and samples of the prior (B, code) of each step."""
    generator = torch.Generator(target.device).manual_seed(seed)
    device, shape = target.device, (setting.batch, setting.sizes[-1])
    for _ in range(steps):
        rows = torch.randint(len(target), (setting.batch,), generator=generator, device=device)
        yield target[rows], torch.randn(shape, generator=generator, device=device)


def run(
    setting: Setting,
    side: str,
    device: torch.device,
    extent: Extent,
    digits: Path | None = None,
) -> dict[str, Any]:
    """Train one side of a setting and judge it, as `training.run` does."""
    given = samples(setting, device, digits, held_out=extent.held_out)
    judge = Judge(setting, given.held_out, extent)
    found: dict[str, Any] = {}
    for steps in extent.steps:
        begun = time.perf_counter()
        if side == "adam":
            found[str(steps)] = _searched(setting, given.target, judge, steps, extent)
        else:
            found[str(steps)] = [
                _computed(setting, given.target, judge, steps, seed) for seed in extent.seeds
            ]
        found[f"seconds {steps}"] = time.perf_counter() - begun
    if side == "adam":
        found["start"] = [
            judge((e.to(device), d.to(device)))
            for e, d in (halves(setting, seed) for seed in extent.seeds)
        ]
    return found


def _computed(
    setting: Setting, target: Tensor, judge: Callable[..., float], steps: int, seed: int
) -> float:
    """Train one autoencoder by computed steps, as a user would write it."""
    encoder, decoder = (half.to(target.device) for half in halves(setting, seed))
    loss = Loss(setting, seed)
    step = rules.computed_steps([*encoder.parameters(), *decoder.parameters()], steps)
    for rows, prior in batches(target, setting, seed, steps):
        step(lambda rows=rows, prior=prior: loss((encoder, decoder), rows, prior))  # type: ignore[misc]
    return judge((encoder, decoder))


def _searched(
    setting: Setting, target: Tensor, judge: Callable[..., float], steps: int, extent: Extent
) -> list[list[float]]:
    """Train by Adam, all rates and seeds as one stack, each as `torch.optim.Adam` would move it alone."""
    n_rates, k = len(extent.rates), len(extent.seeds)
    start = [halves(setting, seed) for seed in extent.seeds] * n_rates
    encoder, decoder = (Stack(list(some)).to(target.device) for some in zip(*start, strict=True))
    rates = [rate for rate in extent.rates for _ in extent.seeds]
    optimizer = StackedOptimizer([*encoder.parameters(), *decoder.parameters()], rates, "adam")
    step, loss = rules.plain_steps(optimizer), Loss(setting, extent.seeds[0])
    drawn = zip(*(batches(target, setting, seed, steps) for seed in extent.seeds), strict=True)
    for each in drawn:
        rows, prior = (torch.stack(some).repeat(n_rates, 1, 1) for some in zip(*each, strict=True))
        step(lambda rows=rows, prior=prior: loss((encoder, decoder), rows, prior))  # type: ignore[misc]
    alive = optimizer.alive.tolist()
    judged = [
        judge((encoder.one(i), decoder.one(i))) if alive[i] else math.inf for i in range(len(alive))
    ]
    return [judged[i : i + k] for i in range(0, len(judged), k)]
