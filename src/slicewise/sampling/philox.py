"""Random numbers by counting: each is a function of a seed, a step and its place, on any device."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from slicewise.sampling.generators import Randomness
from slicewise.support import DeviceDraws, registered

_MASK = 2**64 - 1
# What a saved state was drawn with: another way to draw is another flow.
DRAWS = "philox 4x64, 23-bit radii"


class Counted(Randomness):
    """The draws of a batch of runs at one step, or of each at its own (steps as a tensor).

    Those of a run depend on its seed and the step alone: `distinct` are the seeds, `which` each run's.

    The numbers are those of NumPy's Philox, keyed by (seed, purpose) and counting from (step, draw). A
    CUDA device makes the same ones itself (normal numbers up to single-precision rounding), so that a
    run on another device sees the same slices.
    """

    def __init__(
        self, seeds: Tensor, which: Tensor, distinct: list[int], step: int | Tensor, purpose: int
    ) -> None:
        super().__init__(None, which.device)
        self._which, self._purpose = which, purpose
        self._draws = 0  # of this step, so far
        self._device_draws = _on_device(seeds, step, purpose)
        if self._device_draws is None:
            steps = step.tolist() if isinstance(step, Tensor) else step
            each = [steps] * len(distinct) if isinstance(steps, int) else steps
            self._streams = list(zip(distinct, each, strict=True))

    @property
    def fused(self) -> DeviceDraws | None:
        """Whole laws drawn in one go, where the device can."""
        return self._device_draws

    def _draw(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        if self._device_draws is not None:
            return self._device_draws.numbers(kind, shape)
        if shape[0] != len(self._which):
            raise ValueError(
                f"a draw of shape {shape} for {len(self._which)} runs: give the batch first, "
                f"({len(self._which)}, ...)"
            )
        inner = shape[1:]
        count = math.prod(inner)
        each = [
            torch.from_numpy(numbers(kind, count, seed, self._purpose, step, self._draws))
            for seed, step in self._streams
        ]
        self._draws += 1
        drawn = each[0] if len(each) == 1 else torch.stack(each)
        drawn = drawn.reshape(-1, *inner)
        if self.device.type != "cpu":
            drawn = drawn.to(self.device)
        if len(each) == 1:
            # Copied, too: callers may write into what they draw.
            return drawn.repeat(shape[0], *(1,) * len(inner)) if shape[0] > 1 else drawn
        return drawn[self._which]


def numbers(kind: str, count: int, seed: int, purpose: int, step: int, draw: int) -> np.ndarray:
    """The first numbers of a draw: "normal" ones in float32, or "uniform" ones in [0, 1), float64."""
    key = np.array([seed & _MASK, purpose], dtype=np.uint64)
    start = np.array([0, step, draw, 0], dtype=np.uint64)
    stream = np.random.Philox(key=key, counter=start)
    if kind == "uniform":
        return (stream.random_raw(count) >> np.uint64(11)) * 2.0**-53
    return _normals(stream.random_raw((count + 1) // 2))[:count]


def _normals(words: np.ndarray) -> np.ndarray:
    """Two normal numbers of each word: a radius of its upper half, an angle of its lower."""
    # 23 bits, so that a level is exact and never 1: a radius of 0 would be a direction of no length.
    upper, lower = (words >> np.uint64(41)), (words & np.uint64(0xFFFFFFFF))
    level = upper.astype(np.float32) * np.float32(2**-23) + np.float32(2**-24)  # of (0, 1)
    radius = np.sqrt(np.float32(-2) * np.log(level))
    angle = lower.astype(np.float32) * np.float32(2**-31 * np.pi)
    pairs = np.empty((len(words), 2), dtype=np.float32)
    np.multiply(radius, np.cos(angle), out=pairs[:, 0])
    np.multiply(radius, np.sin(angle), out=pairs[:, 1])
    return pairs.reshape(-1)


def _on_device(seeds: Tensor, step: int | Tensor, purpose: int) -> DeviceDraws | None:
    backend = registered()
    return None if backend is None or not seeds.is_cuda else backend.draws(seeds, step, purpose)
