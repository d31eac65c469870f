"""A map of colours that is fitted once and used often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.color.apply import moved_by
from slicewise.color.field import SIDE, fit_field, look_up
from slicewise.color.images import Image, Pool, mask_of, palette_of, parts_of
from slicewise.color.map_files import load_map, save_map
from slicewise.color.spaces import SPACES
from slicewise.color.threads import one_thread
from slicewise.flows import Recording, flow
from slicewise.sampling import draw_seeds
from slicewise.support import check_choice, check_count, progress_bar
from slicewise.variants import Recipe, Variant

# Pixels flow in rounds: fresh ones, from where the map of the last round takes them. A third round still brings the
# palette nearer, a fourth no more (docs/log.md).
_ROUNDS, _STEPS = 3, 150
_PALETTE_PIXELS = 20_000
_LEAST_SPREAD = 1e-3  # of a target of one colour, or nearly
# What a map that is kept says of how it was fitted.
_KEPT = ("variant", "space", "palette", "smoothness", "n_pixels", "seed")


class ColorTransfer:
    """A map that carries the colours of one image, or of several, to those of another.

    Pixels flow down a sliced distance to pixels of the target, at computed steps. A smooth field of displacements is
    fitted to where they went, and any image can be moved by it: that of `fit`, or others in its style.

    Args:
        variant: the sliced distance, a name of `VARIANTS` or a recipe, whose slices are linear.
        space: where colours are compared: "oklab" (as seen), "srgb" (as stored) or "linear" (as light).
        palette: None flows pixels; a number flows k-means palettes of so many colours, weighted by the pixels they
            stand for (scikit-learn, in the extra `lab`). Quicker, less exact.
        smoothness: how much the map is smoothed. 1 brings palettes near; 10 is gentler, and less near.
        n_pixels: how many flow, in each of three rounds.
        seed: of all that is random. None draws one from torch's generator.

    >>> source = np.full((4, 4, 3), 100, np.uint8)
    >>> target = np.full((2, 5, 3), (200, 50, 0), np.uint8)
    >>> moved = ColorTransfer(seed=0).fit(source, target).transform(source)
    >>> moved.shape, moved[0, 0].tolist()
    ((4, 4, 3), [200, 50, 0])
    """

    def __init__(
        self,
        variant: str | Variant | Recipe = "sw",
        *,
        space: str = "oklab",
        palette: int | None = None,
        smoothness: float = 1.0,
        n_pixels: int = 3000,
        seed: int | None = None,
    ) -> None:
        check_choice("space", space, SPACES)
        check_count("palette", palette)
        check_count("n_pixels", n_pixels)
        check_count("seed", seed, at_least=0)
        if seed is not None and seed >= 2**62:
            raise ValueError(f"seed = {seed}: give a whole number below 2^62")
        if not 0 < smoothness < math.inf:
            raise ValueError(f"smoothness = {smoothness}: give a positive number, 1 as a rule")
        self.variant = variant
        self.space = space
        self.palette = palette
        self.smoothness = smoothness
        self.n_pixels = n_pixels
        self.seed = None if seed is None else int(seed)
        self.field_: Tensor | None = None  # (S, S, S, 3), displacements at nodes over [0, 1]³

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings it was made with, as scikit-learn's `clone` asks for them."""
        names = ("variant", "space", "palette", "smoothness", "n_pixels", "seed")
        return {name: getattr(self, name) for name in names}

    def fit(
        self,
        source: Image | Sequence[Image],
        target: Image,
        *,
        mask: Image | None = None,
        bar: bool | None = False,
    ) -> ColorTransfer:
        """Learn the map that takes the colours of `source` to those of `target`; returns itself.

        Images are (H, W, 3): uint8, uint16, or floating-point numbers in [0, 1]; grey and alpha are understood, and what
        is transparent does not count. Several sources get one map; large ones count no more than one another.
        With a mask only what it shows counts.
        """
        seed = int(draw_seeds(1, None)) if self.seed is None else self.seed
        # What is neither an image nor several is refused as an image.
        sources = source if isinstance(source, Sequence) else [source]
        # Both sides are drawn by the same numbers: an image and itself then have the same pixels.
        pools = [
            Pool(images, name, torch.Generator().manual_seed(seed), chosen, bar)
            for images, name, chosen in ((sources, "source", mask), ([target], "target", None))
        ]
        field = torch.zeros(SIDE, SIDE, SIDE, 3, dtype=torch.float64)
        generator = torch.Generator().manual_seed(seed)
        rounds = 1 if self.palette is not None else _ROUNDS
        with one_thread(), progress_bar(rounds, bar, "fit") as tick:
            for done in range(rounds):
                field = self._round(field, pools[0], pools[1], generator)
                tick(done + 1, "")
        self.field_ = field.float()
        return self

    def _round(
        self, field: Tensor, source: Pool, target: Pool, generator: torch.Generator
    ) -> Tensor:
        """One round: pixels, from where the field takes them, flow to the target; the field follows."""
        enter, leave = SPACES[self.space]
        n = self.n_pixels if self.palette is None else _PALETTE_PIXELS
        jitter = torch.rand(n, generator=generator, dtype=torch.float64)
        seed = int(torch.randint(2**62, (1,), generator=generator))
        places = (torch.arange(n, dtype=torch.float64) + jitter) / n
        x, y = source.take(places), target.take(places)  # (n, 3)
        # A narrow palette is missed by no larger share of its spread than a broad one.
        spread = max(float(y.var(0, correction=0).sum()), _LEAST_SPREAD)
        x_weights = y_weights = None
        if self.palette is not None:
            x, x_weights = palette_of(enter(x), self.palette, seed)
            y, y_weights = palette_of(enter(y), self.palette, seed)
            x, y = leave(x), leave(y)
        start = (x + look_up(field, x)).clamp(0, 1)
        found = flow(
            enter(start),
            enter(y),
            self.variant,
            max_steps=_STEPS,
            seeds=seed,
            x_weights=x_weights,
            y_weights=y_weights,
            recording=Recording(progress_bar=False),
        )
        weights = (
            torch.full((len(x),), 1 / len(x), dtype=x.dtype) if x_weights is None else x_weights
        )
        moves = leave(found.particles) - x
        return fit_field(x, moves, weights, smoothness=self.smoothness * spread, start=field)

    def transform(
        self,
        image: Image,
        *,
        strength: float = 1.0,
        mask: Image | None = None,
        bar: bool | None = False,
    ) -> Any:
        """The image with its colours moved: an array for an array, a tensor for a tensor, of the same dtype.

        Alpha stays; a grey image becomes a coloured one. `strength` 0 is the image as it was, bit for bit, 1 the whole
        way; `mask`, (H, W) from 0 to 1 (or 255 of uint8), says how much of it each pixel gets.
        """
        if self.field_ is None:
            raise ValueError("nothing is fitted yet: call fit(source, target) first")
        _check_strength(strength)
        parts = parts_of(image, "image")
        share = None if mask is None else mask_of(mask, parts, "image")
        with one_thread():
            moved = moved_by(self.field_, parts, strength, share, bar)
        if parts.alpha is not None:
            moved = np.concatenate([moved, parts.alpha], axis=2)
        return torch.from_numpy(moved).to(image.device) if isinstance(image, Tensor) else moved

    def fit_transform(
        self, source: Image, target: Image, *, strength: float = 1.0, mask: Image | None = None
    ) -> Any:
        """`fit`, then `transform` of the source."""
        _check_strength(strength)
        return self.fit(source, target, mask=mask).transform(source, strength=strength, mask=mask)

    def save(self, path: str | Path) -> None:
        """Write the fitted map to a .safetensors or .npz file, or as a look-up table for other programs: .cube."""
        if self.field_ is None:
            raise ValueError("nothing is fitted yet: call fit(source, target) first")
        about = {name: getattr(self, name) for name in _KEPT}
        save_map(Path(path), self.field_, {**about, "variant": str(self.variant)})

    @classmethod
    def load(cls, path: str | Path) -> ColorTransfer:
        """A map that `save` wrote, to `transform` with."""
        field, about = load_map(Path(path))
        known = {name: about[name] for name in _KEPT if name in about}
        try:
            fitted = cls(**known)
        except (TypeError, ValueError) as wrong:
            raise ValueError(f"{path} is a map of unknown options: {wrong}; save it anew") from None
        fitted.field_ = field
        return fitted


def transfer(
    source: Image | Sequence[Image],
    target: Image,
    variant: str | Variant | Recipe = "sw",
    *,
    strength: float = 1.0,
    space: str = "oklab",
    palette: int | None = None,
    smoothness: float = 1.0,
    n_pixels: int = 3000,
    mask: Image | None = None,
    seed: int | None = None,
    bar: bool | None = None,
) -> Any:
    """The source with the colours of the target: one image, or a list of images that share one map.

    Images are arrays or tensors (H, W, 3): uint8, uint16, or floating-point numbers in [0, 1]; what comes back has the
    size and dtype of the source. See `ColorTransfer` for the options, and to keep the map.

    >>> image = torch.rand(8, 8, 3, generator=torch.Generator().manual_seed(0))
    >>> bool((transfer(image, image) - image).abs().max() < 1 / 255)
    True
    """
    _check_strength(strength)
    fitted = ColorTransfer(
        variant, space=space, palette=palette, smoothness=smoothness, n_pixels=n_pixels, seed=seed
    ).fit(source, target, mask=mask, bar=bar)
    if isinstance(source, (np.ndarray, Tensor)):
        return fitted.transform(source, strength=strength, mask=mask, bar=bar)
    return [fitted.transform(image, strength=strength, mask=mask, bar=bar) for image in source]


def _check_strength(strength: float) -> None:
    """Also before a fit, which takes seconds."""
    if not 0 <= strength <= 1:
        raise ValueError(f"strength = {strength}: give a number from 0 to 1")
