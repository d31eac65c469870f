"""Color transfer: a map of colors that is fitted once and applied to any image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.color.apply import apply_field
from slicewise.color.field import SIDE, fit_field, look_up
from slicewise.color.images import Image, PixelSampler, kmeans_palette, mask_weights, split_image
from slicewise.color.map_files import load_map, save_map
from slicewise.color.spaces import SPACES
from slicewise.color.threads import one_thread
from slicewise.flows import Recording, Stopping, flow
from slicewise.sampling import draw_seeds
from slicewise.support import check_choice, check_count, renamed_arguments
from slicewise.support import progress_bar as show_progress
from slicewise.variants import Recipe, Variant

# Pixels flow in rounds: each draws new pixels and starts from where the map of the last round takes them. A third round
# still brings the palettes closer, a fourth does not (docs/log.md).
_ROUNDS, _STEPS = 3, 150
_PALETTE_PIXELS = 20_000
_LEAST_SPREAD = 1e-3  # variance assumed of a target of one color, or nearly
_PARAMETERS = ("variant", "space", "palette", "smoothness", "n_pixels", "generator")

_renamed = renamed_arguments(seed="generator", bar="progress_bar")


@_renamed
class ColorTransfer:
    """A map that carries the colors of one image, or of several, to those of another.

    Pixels flow down a sliced distance to pixels of the target, with computed steps. A smooth field of displacements is
    fitted to where they went; it can be applied to any image. Use `transfer` if the map is needed only once.

    Args:
        variant: The sliced distance, one with linear slices: a name of `VARIANTS`, a `Variant` or a `Recipe`.
        space: Color space in which colors are compared: "oklab" (perceptual), "srgb" (as stored) or "linear" (light).
        palette: None flows pixels. A number flows k-means palettes of that many colors, weighted by the pixels each
            stands for: faster and less exact. Needs scikit-learn (the extra `lab`).
        smoothness: How much the map is smoothed. 1 brings the palettes close; 10 is gentler and less close.
        n_pixels: Number of pixels that flow in each of three rounds.
        generator: Source of all that is drawn: an int (a seed below 2^62), a `torch.Generator`, or None for torch's
            global generator. An int gives the same map at each `fit`.

    Attributes:
        field_: The fitted displacements (S, S, S, 3) at the nodes of a grid over [0, 1]³; None before `fit`.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> source = np.full((4, 4, 3), 100, np.uint8)
        >>> target = np.full((2, 5, 3), (200, 50, 0), np.uint8)
        >>> moved = ColorTransfer(generator=0).fit(source, target).transform(source)
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
        generator: int | torch.Generator | None = None,
    ) -> None:
        check_choice("space", space, SPACES)
        check_count("palette", palette)
        check_count("n_pixels", n_pixels)
        if generator is not None and not isinstance(generator, torch.Generator):
            check_count("generator", generator, at_least=0)
            if generator >= 2**62:
                raise ValueError(f"generator = {generator}: give a whole number below 2^62")
            generator = int(generator)
        if not 0 < smoothness < math.inf:
            raise ValueError(f"smoothness = {smoothness}: give a positive number, 1 as a rule")
        self.variant = variant
        self.space = space
        self.palette = palette
        self.smoothness = smoothness
        self.n_pixels = n_pixels
        self.generator = generator
        self.field_: Tensor | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments it was made with, as scikit-learn's `clone` asks for them."""
        return {name: getattr(self, name) for name in _PARAMETERS}

    @_renamed
    def fit(
        self,
        source: Image | Sequence[Image],
        target: Image,
        *,
        mask: Image | None = None,
        progress_bar: bool | None = False,
    ) -> ColorTransfer:
        """Fit the map that carries the colors of `source` to those of `target`.

        Args:
            source: An image, or several that share one map; each counts as much as the others, whatever its size.
                Images are arrays or tensors (H, W), or (H, W, C) with 1 to 4 channels: gray or RGB, and perhaps alpha;
                uint8, uint16, or floating-point numbers in [0, 1]. Transparent pixels do not count.
            target: An image.
            mask: Which pixels of the source count, (H, W), from 0 to 1 (255 for uint8).
            progress_bar: Show a progress bar; None shows one on a terminal.

        Returns:
            Itself.

        Raises:
            ValueError: If an image or the mask is of another kind, or shows no color.
        """
        seed = self.generator
        if seed is None or isinstance(seed, torch.Generator):
            seed = int(draw_seeds(1, seed))
        # What is neither an image nor several is refused by `split_image`.
        sources = source if isinstance(source, Sequence) else [source]
        # Both sides draw the same numbers: an image and itself then give the same pixels.
        source_pixels, target_pixels = (
            PixelSampler(images, name, torch.Generator().manual_seed(seed), chosen, progress_bar)
            for images, name, chosen in ((sources, "source", mask), ([target], "target", None))
        )
        field = torch.zeros(SIDE, SIDE, SIDE, 3, dtype=torch.float64)
        generator = torch.Generator().manual_seed(seed)
        rounds = 1 if self.palette is not None else _ROUNDS
        with one_thread(), show_progress(rounds, progress_bar, "fit") as tick:
            for done in range(rounds):
                field = self._round(field, source_pixels, target_pixels, generator)
                tick(done + 1, "")
        self.field_ = field.float()
        return self

    def _round(
        self,
        field: Tensor,
        source: PixelSampler,
        target: PixelSampler,
        generator: torch.Generator,
    ) -> Tensor:
        """Let pixels flow to the target from where the field takes them; return the field fitted to that."""
        enter, leave = SPACES[self.space]
        n = self.n_pixels if self.palette is None else _PALETTE_PIXELS
        jitter = torch.rand(n, generator=generator, dtype=torch.float64)
        seed = int(torch.randint(2**62, (1,), generator=generator))
        places = (torch.arange(n, dtype=torch.float64) + jitter) / n
        x, y = source.take(places), target.take(places)  # (n, 3)
        # In proportion to the target's variance: else a narrow palette would be missed by more of its spread.
        spread = max(float(y.var(0, correction=0).sum()), _LEAST_SPREAD)
        x_weights = y_weights = None
        if self.palette is not None:
            x, x_weights = kmeans_palette(enter(x), self.palette, seed)
            y, y_weights = kmeans_palette(enter(y), self.palette, seed)
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
            # A fixed number of sliced steps, as the smoothness was chosen for.
            stopping=Stopping(tolerance=None),
            recording=Recording(progress_bar=False),
        )
        weights = (
            torch.full((len(x),), 1 / len(x), dtype=x.dtype) if x_weights is None else x_weights
        )
        moves = leave(found.particles) - x
        return fit_field(x, moves, weights, smoothness=self.smoothness * spread, start=field)

    @_renamed
    def transform(
        self,
        image: Image,
        *,
        strength: float = 1.0,
        mask: Image | None = None,
        progress_bar: bool | None = False,
    ) -> Any:
        """Apply the fitted map to an image.

        Args:
            image: As in `fit`.
            strength: How far colors move, from 0 (the image itself, bit for bit) to 1.
            mask: How much each pixel moves, (H, W), from 0 to 1 (255 for uint8).
            progress_bar: Show a progress bar; None shows one on a terminal.

        Returns:
            The image with its colors moved: an array for an array, a tensor for a tensor, of the same dtype and size.
            Alpha is kept; a gray image becomes RGB.

        Raises:
            ValueError: If nothing was fitted, or an argument is out of range.
        """
        if self.field_ is None:
            raise ValueError("nothing is fitted yet: call fit(source, target) first")
        _check_strength(strength)
        parts = split_image(image, "image")
        share = None if mask is None else mask_weights(mask, parts, "image")
        with one_thread():
            moved = apply_field(self.field_, parts, strength, share, progress_bar)
        if parts.alpha is not None:
            moved = np.concatenate([moved, parts.alpha], axis=2)
        return torch.from_numpy(moved).to(image.device) if isinstance(image, Tensor) else moved

    def fit_transform(
        self, source: Image, target: Image, *, strength: float = 1.0, mask: Image | None = None
    ) -> Any:
        """Fit the map to one source image and apply it to that image; see `fit` and `transform`."""
        _check_strength(strength)
        return self.fit(source, target, mask=mask).transform(source, strength=strength, mask=mask)

    def save(self, path: str | Path) -> None:
        """Write the fitted map to a file.

        Args:
            path: Ends in .npz or .safetensors, which `load` reads, or in .cube, a look-up table for other programs.

        Raises:
            ValueError: If nothing was fitted, or the ending is another.
        """
        if self.field_ is None:
            raise ValueError("nothing is fitted yet: call fit(source, target) first")
        about = self.get_params()
        generator = about.pop("generator")
        about["seed"] = generator if isinstance(generator, int) else None
        save_map(Path(path), self.field_, {**about, "variant": str(self.variant)})

    @classmethod
    def load(cls, path: str | Path) -> ColorTransfer:
        """Read a map that `save` wrote.

        Args:
            path: A .npz or .safetensors file.

        Returns:
            A fitted `ColorTransfer`, ready to `transform`.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If it holds no map.
        """
        field, about = load_map(Path(path))
        if "seed" in about:
            about["generator"] = about["seed"]
        known = {name: about[name] for name in _PARAMETERS if name in about}
        try:
            fitted = cls(**known)
        except (TypeError, ValueError) as wrong:
            raise ValueError(f"{path} is a map of unknown options: {wrong}; save it anew") from None
        fitted.field_ = field
        return fitted


@_renamed
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
    generator: int | torch.Generator | None = None,
    progress_bar: bool | None = None,
) -> Any:
    """Give an image, or several that share one map, the colors of another.

    To apply the same map to further images, or to save it, use `ColorTransfer`, which documents all arguments.

    Args:
        source: An image, or a list of images: arrays or tensors (H, W, 3), uint8, uint16, or floating-point numbers in
            [0, 1]. Gray and alpha are understood as well.
        target: An image.
        variant: The sliced distance, one with linear slices.
        strength: How far colors move, from 0 to 1.
        space: Color space in which colors are compared: "oklab", "srgb" or "linear".
        palette: None flows pixels; a number flows k-means palettes of that many colors.
        smoothness: How much the map is smoothed.
        n_pixels: Number of pixels that flow in each of three rounds.
        mask: How much each pixel of the source counts and moves, (H, W), from 0 to 1.
        generator: Source of all that is drawn: an int (a seed), a `torch.Generator`, or None for torch's global one.
        progress_bar: Show progress bars; None shows them on a terminal.

    Returns:
        The source with its colors moved, of the same kind, dtype and size; a list for several images.

    Raises:
        ValueError: If an image is of another kind, or an argument is out of range.

    Example:
        >>> image = torch.rand(8, 8, 3, generator=torch.Generator().manual_seed(0))
        >>> bool((transfer(image, image) - image).abs().max() < 1 / 255)
        True
    """
    _check_strength(strength)
    fitted = ColorTransfer(
        variant,
        space=space,
        palette=palette,
        smoothness=smoothness,
        n_pixels=n_pixels,
        generator=generator,
    ).fit(source, target, mask=mask, progress_bar=progress_bar)
    images = [source] if isinstance(source, (np.ndarray, Tensor)) else source
    moved = [
        fitted.transform(image, strength=strength, mask=mask, progress_bar=progress_bar)
        for image in images
    ]
    return moved[0] if isinstance(source, (np.ndarray, Tensor)) else moved


def _check_strength(strength: float) -> None:
    """Checked before a fit as well, which takes seconds."""
    if not 0 <= strength <= 1:
        raise ValueError(f"strength = {strength}: give a number from 0 to 1")
