"""Lengths of steps on quadratics with noise, where everything is known: shares of t* against constant rates.

    python -m benchmarks.networks.quadratics benchmarks/results/lengths-quadratics.json

The direction is an average of gradients (momentum 0.9), as in Adam's direction without its division by sizes.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from slicewise.optim import half_decay
from slicewise.steps import BOUNDED, Share, StepLength
from slicewise.support import write_whole

CONDITIONS, NOISES, SEEDS = (1e2, 1e4, 1e6), (1e-3, 1e-2, 1e-1, 1.0), 3
STEPS = (300, 2000)
RATES = tuple(10 ** (power / 4) for power in range(-12, 8))
_N, _BETA = 60, 0.9


def linear_decay(progress: float) -> float:
    """The factor of lengths of the rule before: linear over the second half."""
    return min(1.0, 2 * (1 - progress))


# What is compared: shares of t*, and how lengths shrink.
RULES: dict[str, tuple[Share, Callable[[float], float]]] = {
    "t*, linear decrease": (Share(0.0), linear_decay),
    "t*, to a hundredth": (Share(0.0), half_decay),
    "1.9 t*, to a hundredth": (Share(0.0, 1.9, 0.0), half_decay),
    "ρ^½ t*, linear decrease": (Share(0.5), linear_decay),
    "ρ^½ t*, to a hundredth": (Share(0.5), half_decay),
    "the rule": (BOUNDED, half_decay),
    "ρ^¾ (1 + 0.9 ρ²) t*, to a hundredth": (Share(0.75, 1.9, 2.0), half_decay),
    "1.9 ρ^0.9 t*, to a hundredth": (Share(0.9, 1.9, 0.0), half_decay),
}


class Quadratics:
    """½ Σ_j λ_j x_j², eigenvalues λ spread evenly by their logarithms from 1 to 1/κ; gradients with noise of variance σ² λ."""

    def __init__(self, conditions: list[float], noises: list[float], seeds: list[int]) -> None:
        powers = torch.linspace(0, 1, _N, dtype=torch.float64)
        self._values = torch.stack([k**-powers for k in conditions])
        self._noises = torch.tensor(noises, dtype=torch.float64).unsqueeze(1)
        self._sources = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.x = self._drawn()

    def _drawn(self) -> Tensor:
        return torch.stack(
            [torch.randn(_N, generator=g, dtype=torch.float64) for g in self._sources]
        )

    def gradient(self) -> Tensor:
        """The gradient at x with fresh noise."""
        return self._values * self.x + self._noises * self._values.sqrt() * self._drawn()

    def curvature(self, along: Tensor) -> Tensor:
        """Along a direction."""
        return (self._values * along.square()).sum(dim=1)

    def root(self) -> Tensor:
        """The root of the loss, as distances are shown."""
        return (0.5 * self._values * self.x.square()).sum(dim=1).sqrt()


def cases() -> list[tuple[float, float, int]]:
    """All conditions, noises and seeds."""
    return [(k, noise, seed) for k in CONDITIONS for noise in NOISES for seed in range(SEEDS)]


def by_rule(share: Share, decay: Callable[[float], float], steps: int, given: Quadratics) -> Tensor:
    """What computed lengths leave of each quadratic."""
    runs = len(given.x)
    lengths = StepLength((runs,), given.x.device, share)
    first, along = torch.zeros_like(given.x), torch.zeros_like(given.x)
    for step in range(steps):
        gradient = given.gradient()
        if step:
            lengths.look_back(-(gradient * along).sum(dim=1))
        size = gradient.norm(dim=1)
        first = torch.lerp(gradient / size.unsqueeze(1), first, _BETA)
        along = -first / first.norm(dim=1, keepdim=True)
        lengths.observe(-(gradient * along).sum(dim=1), size)
        trial = lengths.trial(torch.full((runs,), 1e-3))
        lengths.measure(given.curvature(along), trial)
        length = lengths.length(decay(step / steps))
        given.x = given.x + length.double().unsqueeze(1) * along
    return given.root()


def by_rate(rate: float, steps: int, given: Quadratics) -> Tensor:
    """What steps of a constant rate leave of each quadratic; infinite where they diverge."""
    first = torch.zeros_like(given.x)
    for _ in range(steps):
        first = torch.lerp(given.gradient(), first, _BETA)
        given.x = given.x - rate * first
    root = given.root()
    return torch.where(root.isfinite(), root, torch.inf)


def measure(steps: int) -> dict[str, list[dict[str, float]]]:
    """For each rule and quadratic what it leaves, over what the best of all constant rates leaves; means of logarithms."""
    every = cases()
    columns = [list(column) for column in zip(*every, strict=True)]

    def over_seeds(left: Tensor) -> Tensor:
        return left.log().reshape(-1, SEEDS).mean(dim=1).exp()

    rates = torch.stack([over_seeds(by_rate(r, steps, Quadratics(*columns))) for r in RATES])
    best = rates.min(dim=0).values
    found = {}
    for name, (share, decay) in RULES.items():
        ratios = over_seeds(by_rule(share, decay, steps, Quadratics(*columns))) / best
        found[name] = [
            {"condition": k, "noise": noise, "over the best rate": round(ratio, 3)}
            for (k, noise, _), ratio in zip(every[::SEEDS], ratios.tolist(), strict=True)
        ]
    return found


def main(file: Path) -> None:
    """Measure all and write the record."""
    record = {str(steps): measure(steps) for steps in STEPS}
    for steps, rules in record.items():
        for name, rows in rules.items():
            ratios = sorted(row["over the best rate"] for row in rows)
            middle = math.sqrt(ratios[len(ratios) // 2 - 1] * ratios[len(ratios) // 2])
            print(f"{steps} steps, {name}: median {middle:.2f}, worst {ratios[-1]:.2f}")
    write_whole(file, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
