"""Samples of the grid: smooth versions of scikit-learn's digits, of any dimension and any number."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.networks.settings import Setting

_JITTER = 0.03
_SEED = 5
ROWS, HELD_OUT = 20_000, 4096


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows to train by and rows to judge by, independent draws of one law; in [0, scale]."""

    target: Tensor  # (ROWS, d)
    held_out: Tensor  # (HELD_OUT, d)
    source: Tensor | None = None  # (ROWS, d), of a translator
    source_held_out: Tensor | None = None
    again: Tensor | None = None  # (HELD_OUT, d): what a perfect network would make


@functools.cache
def digits(file: Path | None = None) -> tuple[Tensor, Tensor]:
    """All 1,797 images (N, 64) in [0, 1] and their labels (N,), of a file or of scikit-learn."""
    if file is not None:
        with np.load(file) as kept:
            return torch.from_numpy(kept["images"]), torch.from_numpy(kept["labels"])
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return torch.from_numpy(images / 16.0).float(), torch.from_numpy(labels).long()


class Law:
    """Digits of some classes with normal jitter, as samples of dimension d in [0, 1].

    Below 64 dimensions these are principal components, all divided by the largest range; above, random features
    through a sigmoid. Both are the same whichever classes are drawn.
    """

    def __init__(self, d: int, classes: range, file: Path | None = None) -> None:
        images, labels = digits(file)
        images = 0.1 + 0.8 * images  # room for the jitter
        self._images = images[(labels >= classes.start) & (labels < classes.stop)]
        generator = torch.Generator().manual_seed(_SEED)
        center = images.mean(dim=0)
        if d < 64:
            # In double precision, and with a sign that does not depend on the machine.
            axes = torch.linalg.svd((images - center).double(), full_matrices=False)[2][:d].float()
            largest = axes.gather(1, axes.abs().argmax(dim=1, keepdim=True))
            axes = axes * largest.sign()
            made = (images - center) @ axes.mT
            low, span = made.amin(dim=0), (made.amax(dim=0) - made.amin(dim=0)).max()
            # The ends stay free for the jitter.
            self._map = lambda x: 0.1 + 0.8 * (((x - center) @ axes.mT) - low) / span
        elif d == 64:
            self._map = lambda x: x
        else:
            spread = (images - center).square().mean().sqrt()
            mix = torch.randn(64, d, generator=generator) / 8
            shift = 0.5 * torch.randn(d, generator=generator)
            self._map = lambda x: torch.sigmoid(2 * ((x - center) / spread) @ mix + shift)

    def draw(self, n: int, seed: int) -> Tensor:
        """Draw n samples (n, d)."""
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randint(len(self._images), (n,), generator=generator)
        images = self._images[rows]
        jitter = _JITTER * torch.randn(images.shape, generator=generator)
        made: Tensor = self._map(images + jitter)
        return made.clamp(0, 1)


def samples(
    setting: Setting, device: torch.device, file: Path | None = None, *, held_out: int = HELD_OUT
) -> Samples:
    """Make the samples of a setting."""

    def drawn(law: Law, n: int, seed: int) -> Tensor:
        return (setting.scale * law.draw(n, seed)).to(device)

    if setting.task != "translator":
        law = Law(setting.d, range(10), file)
        found = [drawn(law, n, seed) for n, seed in ((ROWS, 1), (held_out, 2), (held_out, 3))]
        return Samples(found[0], found[1], again=found[2])
    low, high = Law(setting.d, range(5), file), Law(setting.d, range(5, 10), file)
    return Samples(
        drawn(high, ROWS, 1),
        drawn(high, held_out, 2),
        drawn(low, ROWS, 4),
        drawn(low, held_out, 5),
        drawn(high, held_out, 3),
    )
