"""The workloads that are timed, from a toy flow to a million points, and their targets."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Workload:
    """A gradient step in x: (batch, n, d) against (n, d), L fresh slices, p = 2, float32."""

    name: str
    what: str
    n: int
    d: int
    n_slices: int
    batch: int = 1
    repeats: int = 200
    slow_repeats: int = 20  # of peers that take a hundred times longer
    targets: tuple[tuple[str, float], ...] = ()  # at least so many times faster than a peer
    without: tuple[str, ...] = ()  # peers that would take minutes

    def samples(self, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Return x and y of different distributions, so that gradients are not noise."""
        generator = torch.Generator().manual_seed(seed)
        shape = (self.n, self.d) if self.batch == 1 else (self.batch, self.n, self.d)
        x = torch.randn(shape, generator=generator)
        y = 1.2 * torch.randn(self.n, self.d, generator=generator) + 0.3
        return x, y


WORKLOADS = (
    Workload("A2", "flow", 300, 2, 50, targets=(("POT", 10), ("torch sort", 5))),
    Workload("A50", "flow", 300, 50, 50, targets=(("POT", 10), ("torch sort", 5))),
    Workload("A100", "flow", 300, 100, 50, targets=(("POT", 10), ("torch sort", 5))),
    Workload("B", "sweep of 108 flows", 300, 2, 50, 108, 10, 3, targets=(("POT", 12),)),
    Workload("C784", "image flow", 50, 784, 50, targets=(("POT", 2.5),)),
    Workload("C12288", "image flow", 50, 12288, 50, repeats=40, targets=(("POT", 1.2),)),
    Workload("D", "color transfer", 3000, 3, 50, repeats=50, slow_repeats=8,
             targets=(("POT", 15), ("torch sort", 6))),
    Workload("E50", "training loss", 2048, 512, 50, repeats=40, slow_repeats=10, targets=(("POT", 5),)),
    Workload("E1000", "training loss", 2048, 512, 1000, repeats=5, slow_repeats=3, targets=(("POT", 10),)),
    Workload("F1e5", "large clouds", 100_000, 64, 100, repeats=3, slow_repeats=1, targets=(("POT", 30),)),
    Workload("F1e6", "large clouds", 1_000_000, 3, 50, repeats=2, slow_repeats=1,
             targets=(("torch sort", 8),), without=("POT", "OTT-JAX")),
)  # fmt: skip

# The NumPy fallback has targets of its own.
NUMPY_TARGETS = {"A2": 7.0, "A50": 7.0, "A100": 7.0, "D": 7.0}
# The loss and its `backward()`, at least so many times faster than POT's.
LOSS_TARGETS = {"A2": 15.0, "A100": 12.0, "D": 25.0, "E50": 6.0}
# A variant's loss and `backward()`, at most so many times its `value_and_grad`.
LOSS_OVER_FUNCTION = 1.5
# Extra memory that a million points may take, in bytes.
MEMORY_TARGET = 0.4e9
