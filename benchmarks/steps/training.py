"""Does one learning rate work in every setting? Many small generators, trained as one stack.

A generator R^8 → R^d learns a curved 10-dimensional manifold in R^d from minibatches, by a sliced distance
with fresh slices at every step. All rates, both scales of the loss and all optimizers of a setting are one
batch of networks that begin alike and see the same noise, data and slices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import slicewise as sw
from slicewise.distance import Scale
from slicewise.sampling import Randomness, uniform
from slicewise.training import Generator, Stack, StackedOptimizer

LATENT, HIDDEN, MANIFOLD = 8, 128, 10
SCALES: tuple[Scale, ...] = ("classic", "displacement")
# Rates to try, as powers of two: what is best lies inside, or the record says that it does not.
RATES = {
    ("sgd", "classic"): (-12, 11),
    ("sgd", "displacement"): (-8, 3),
    ("momentum", "classic"): (-16, 8),
    ("momentum", "displacement"): (-12, 0),
    ("adam", "classic"): (-16, -3),
    ("adam", "displacement"): (-16, -3),
}
# Judged on this many fresh samples of each side: exactly, and along slices.
_JUDGED = (512, 4096)


@dataclass(frozen=True)
class Setting:
    """Everything that determines a training but the rate."""

    variant: str
    d: int
    batch: int
    n_slices: int

    @property
    def name(self) -> str:
        return f"{self.variant}, d = {self.d}, batch {self.batch}, L = {self.n_slices}"


SETTINGS = [
    Setting(*choice)
    for choice in itertools.product(
        ("sw", "ebsw", "rpsw", "maxsw"), (16, 128, 512), (256, 2048), (10, 50, 200)
    )
    if choice[0] != "maxsw" or choice[3] == 10  # which has one slice, however many are asked for
]


@dataclass(frozen=True)
class Candidate:
    """One network of the batch."""

    optimizer: str
    scale: str
    rate: float


def candidates(optimizers: Iterable[str] = ("sgd", "momentum", "adam")) -> list[Candidate]:
    """Return all networks of one setting, sorted by scale."""
    return [
        Candidate(optimizer, scale, 2.0**power)
        for scale in SCALES
        for optimizer in optimizers
        for power in range(*RATES[optimizer, scale])
    ]


def networks(runs: int, d: int, generator: torch.Generator, device: torch.device) -> Stack:
    """Return R networks LATENT → HIDDEN → HIDDEN → d with tanh, of equal initial weights."""
    one = Generator(d, noise=LATENT, hidden=(HIDDEN, HIDDEN), activation="tanh")
    with torch.no_grad():
        for layer in one.layers:
            assert isinstance(layer, torch.nn.Linear)
            n_in, n_out = layer.in_features, layer.out_features
            layer.weight.copy_((torch.randn(n_in, n_out, generator=generator) / math.sqrt(n_in)).mT)
            layer.bias.zero_()
    return Stack.of(one, runs).to(device)


class Manifold:
    """A curved MANIFOLD-dimensional surface in R^d, coordinates of size about one."""

    def __init__(self, d: int, generator: torch.Generator, device: torch.device) -> None:
        self._bend = torch.randn(MANIFOLD, 64, generator=generator).to(device)
        self._lay = (torch.randn(64, d, generator=generator) / 8 * 1.5).to(device)

    def __call__(self, n: int, generator: torch.Generator) -> Tensor:
        u = torch.randn(n, MANIFOLD, generator=generator).to(self._bend.device)
        return torch.sin(u @ self._bend / 2) @ self._lay + 1


def train(
    setting: Setting, chosen: list[Candidate], *, steps: int, seed: int, device: torch.device
) -> list[dict[str, Any]]:
    """Train all networks and judge them; distances are infinite for those that diverged.

    `w2` is exact, on 512 fresh samples; `sw2` on 4096, whose own chance adds less to it.
    """
    generator = torch.Generator().manual_seed(seed)
    target = Manifold(setting.d, generator, device)
    made_by = networks(len(chosen), setting.d, generator, device)
    kinds = [candidate.optimizer for candidate in chosen]
    optimizers = StackedOptimizer(made_by.parameters(), [c.rate for c in chosen], kinds)
    n_slices = None if setting.variant == "maxsw" else setting.n_slices
    losses = [
        sw.SlicedWasserstein(setting.variant, n_slices=n_slices, scale=scale, reduction="sum")
        for scale in SCALES
    ]
    n_first = sum(c.scale == SCALES[0] for c in chosen)
    for t in range(steps):
        noise = torch.randn(setting.batch, LATENT, generator=generator).to(device)
        data = target(setting.batch, generator)
        made = made_by(noise)
        extra = _shared_slices(setting, seed, t, device)
        halves = (made[:n_first], made[n_first:])
        total = made.new_zeros(())
        for loss, part in zip(losses, halves, strict=True):
            if len(part):
                # One seed, one set of draws for both scales.
                draws = {} if extra else {"generator": torch.Generator().manual_seed(seed + t)}
                total = total + loss(part, data, **extra, **draws)
        optimizers.zero_grad()
        total.backward()
        optimizers.step()
    with torch.no_grad():
        noise = torch.randn(_JUDGED[1], LATENT, generator=generator).to(device)
        made, real = made_by(noise), target(_JUDGED[1], generator)
        rng = Randomness(generator, device)
        slices = uniform((500, setting.d), rng, torch.float32)
        sliced = torch.stack([sw.sliced_wasserstein(one, real, slices=slices) for one in made])
        exact = sw.wasserstein(made[:, : _JUDGED[0]], real[: _JUDGED[0]])
    alive = optimizers.alive.cpu()
    found = {"w2": exact, "sw2": sliced.cpu().double() * math.sqrt(setting.d)}
    kept = {name: torch.where(alive, t, math.inf).tolist() for name, t in found.items()}
    return [
        {
            "setting": setting.name,
            "optimiser": candidate.optimizer,
            "scale": candidate.scale,
            "rate": candidate.rate,
            "seed": seed,
            "w2": kept["w2"][i],
            "sw2": kept["sw2"][i],
        }
        for i, candidate in enumerate(chosen)
    ]


def _shared_slices(setting: Setting, seed: int, t: int, device: torch.device) -> dict[str, Any]:
    """Return uniform slices, the same for every network; nothing for variants that draw depending on samples."""
    if setting.variant not in ("sw", "ebsw"):
        return {}
    rng = Randomness(torch.Generator().manual_seed(2**31 + 10**4 * seed + t), device)
    return {"slices": uniform((setting.n_slices, setting.d), rng, torch.float32)}
