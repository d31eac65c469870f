"""Real point sets that ship inside installed packages."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Pair:
    """Two sets of samples and what to call them."""

    name: str
    x: Tensor  # (n, d)
    y: Tensor  # (m, d)
    x_name: str
    y_name: str


def photographs(n: int = 1000, seed: int = 0) -> Pair:
    """Colours of random pixels of two photographs that come with scikit-learn: (n, 3) in [0, 1]."""
    from sklearn.datasets import load_sample_image

    generator = torch.Generator().manual_seed(seed)
    sets = []
    for name in ("china.jpg", "flower.jpg"):
        pixels = torch.tensor(load_sample_image(name)).reshape(-1, 3)
        chosen = torch.randperm(len(pixels), generator=generator)[:n]
        sets.append(pixels[chosen].double() / 255)
    return Pair("colours of two photographs", sets[0], sets[1], "temple", "flower")


def digits() -> Pair:
    """Handwritten zeros and ones, 8 × 8 pixels, that come with scikit-learn: (n, 64) in [0, 1]."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    sets = [torch.from_numpy(images[labels == label]).double() / 16 for label in (0, 1)]
    return Pair("handwritten digits", sets[0], sets[1], "zeros", "ones")
