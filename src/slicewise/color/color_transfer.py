"""Color transfer: a map of colors that is fitted once and applied to any image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slicewise.color.apply import apply_field
from slicewise.color.field import SIDE, fit_field, keep_lightness, look_up
from slicewise.color.images import (
    Image,
    PixelSampler,
    join_image,
    kmeans_palette,
    mask_weights,
    split_image,
)
from slicewise.color.linear import bounded_transport, linear_field, linear_transport
from slicewise.color.map_files import load_map, save_map
from slicewise.color.natural import Judge, better, follow_target
from slicewise.color.spaces import SPACES
from slicewise.color.threads import torch_on_one_thread
from slicewise.flows import Recording, Stopping, flow
from slicewise.sampling import draw_seeds
from slicewise.support import check_choice, check_count, own_device, renamed_arguments
from slicewise.support import progress_bar as show_progress
from slicewise.variants import Recipe, Variant

LOOKS = ("natural", "exact", "linear")
# The space of a look if none is given: Oklab keeps hues together where the map is steep, and only `exact` is.
_SPACES = {"natural": "srgb", "exact": "oklab", "linear": "srgb"}
# Pixels flow in rounds: each draws new pixels and starts from where the map of the last round takes them. For `exact` a
# third round still brings the palettes closer, a fourth does not (docs/log.md).
_ROUNDS = {"natural": 2, "exact": 3}
# `natural` starts from the linear map, which is half of the way.
_STEPS = {"natural": 50, "exact": 150}
_EXACT_SMOOTHNESS = 1.0
_EXACT_CORRECTIONS = 2  # rounds of `exact` of this kind
_CORRECTIONS = 5  # rounds of `natural`, at most, that start from the pixels as they are shown
_LEAST_GAIN = 4.0  # levels of 255 by which such a round must be better for another to follow
_FIRST_SMOOTHNESS = 30.0  # of the first of two rounds of `natural`
_PALETTE_PIXELS = 20_000
_MOMENT_PIXELS = 2**15
_LEAST_SPREAD = 1e-3  # variance assumed of a target of one color, or nearly
_PARAMETERS = ("variant", "look", "space", "palette", "smoothness", "n_pixels", "generator")

_renamed = renamed_arguments(seed="generator", bar="progress_bar")


class _Moves(NamedTuple):
    """Where some colors of the source went."""

    colors: Tensor  # (n, 3)
    moves: Tensor  # (n, 3)
    weights: Tensor  # (n,)
    spread: float  # the variance of the target's colors


@_renamed
class ColorTransfer:
    """A map that carries the colors of one image, or of several, to those of another.

    Pixels flow down a sliced distance to pixels of the target, with computed steps. A smooth field of displacements is
    fitted to where they went; it can be applied to any image. Use `transfer` if the map is needed only once.

    Args:
        variant: The sliced distance, one with linear slices: a name of `VARIANTS`, a `Variant` or a `Recipe`.
        look: "linear" is the linear optimal-transport map with bounded gains: safe, and only roughly the target's
            colors. "natural" starts from it and follows the target as far as the image at hand shows no seams, hue
            jumps, grain, halos or blotched skin beyond those of a linear map. "exact" brings the palettes as close as a
            smooth map can, at the risk of such artifacts.
        space: Color space in which colors are compared: "srgb" (as stored), "oklab" or "cielab" (perceptual), "linear"
            (light). None is "oklab" for the look "exact", and "srgb" for the others.
        palette: None flows pixels. A number flows k-means palettes of that many colors, weighted by the pixels each
            stands for: faster and less exact. Needs scikit-learn (the extra `lab`).
        smoothness: How much the map is smoothed, towards the linear map ("natural") or towards no change ("exact").
            None chooses it by the image ("natural"), or is 1 ("exact"). 1 brings the palettes close, 100 is gentle.
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
        look: str = "natural",
        space: str | None = None,
        palette: int | None = None,
        smoothness: float | None = None,
        n_pixels: int = 3000,
        generator: int | torch.Generator | None = None,
    ) -> None:
        check_choice("look", look, LOOKS)
        if space is not None:
            check_choice("space", space, SPACES)
        check_count("palette", palette)
        check_count("n_pixels", n_pixels)
        if generator is not None and not isinstance(generator, torch.Generator):
            check_count("generator", generator, at_least=0)
            if generator >= 2**62:
                raise ValueError(f"generator = {generator}: give a whole number below 2^62")
            generator = int(generator)
        if smoothness is not None and not 0 < smoothness < math.inf:
            raise ValueError(f"smoothness = {smoothness}: give a positive number, or None")
        self.variant = variant
        self.look = look
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
    @own_device
    def fit(
        self,
        source: Image | Sequence[Image],
        target: Image,
        *,
        mask: Image | None = None,
        target_mask: Image | None = None,
        progress_bar: bool | None = False,
    ) -> ColorTransfer:
        """Fit the map that carries the colors of `source` to those of `target`.

        Args:
            source: An image, or several that share one map; each counts as much as the others, whatever its size.
                Images are arrays or tensors (H, W), or (H, W, C) with 1 to 4 channels: gray or RGB, and perhaps alpha;
                uint8, uint16, or floating-point numbers in [0, 1]. Transparent pixels do not count.
            target: An image.
            mask: Which pixels of the source count, (H, W), from 0 to 1 (255 for uint8).
            target_mask: Which pixels of the target count.
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
            for images, name, chosen in (
                (sources, "source", mask),
                ([target], "target", target_mask),
            )
        )
        with torch_on_one_thread():
            self.field_ = self._fit(source_pixels, target_pixels, seed, progress_bar).float()
        return self

    @property
    def _gradual(self) -> bool:
        """Whether a sky changes its color gradually, at the cost of some colors of the target."""
        return self.look == "natural"

    def _fit(
        self, source: PixelSampler, target: PixelSampler, seed: int, progress_bar: bool | None
    ) -> Tensor:
        """Return the field (S, S, S, 3) of this look."""
        space = self.space or _SPACES[self.look]
        base = torch.zeros(SIDE, SIDE, SIDE, 3, dtype=torch.float64)
        x, y = source.spread(_MOMENT_PIXELS), target.spread(_MOMENT_PIXELS)
        if self.look != "exact":
            base = linear_field(bounded_transport(x, y, space), space)
        if self.look == "linear":
            return base
        generator = torch.Generator().manual_seed(seed)
        smoothness = self.smoothness or (
            _EXACT_SMOOTHNESS if self.look == "exact" else _FIRST_SMOOTHNESS
        )
        field, rounds = base, 1 if self.palette is not None else _ROUNDS[self.look]
        judged = self.look == "natural" and self.smoothness is None
        corrected = self.look == "exact" and self.palette is None
        enter = SPACES[space].enter

        def fit(smoothness: float, start: Tensor) -> Tensor:
            beyond = found.moves - look_up(base, found.colors)
            return base + fit_field(
                found.colors,
                beyond,
                found.weights,
                smoothness=smoothness * found.spread,
                start=start - base,
            )

        with show_progress(rounds + (judged or corrected), progress_bar, "fit") as tick:
            for done in range(1, rounds + 1):
                found = self._flow(field, source, target, generator, space)
                if done < rounds or not judged:
                    field = fit(smoothness, field)
                tick(done, "")
            if judged or corrected:
                linear = linear_field(linear_transport(enter(x), enter(y)), space)
                judge = Judge(source.copies, linear, y, gradual=self._gradual)
            if corrected:
                for _ in range(_EXACT_CORRECTIONS):
                    found = self._flow(field, source, target, generator, space, judge)
                    field = fit(smoothness, field)
                tick(rounds + 1, "")
            if judged:
                best = follow_target(base, fit, judge)
                # What the local maps hold back is asked for again, from where they left the pixels of the copies.
                # One such round is enough for most images; one that is all grain gains by several.
                judge.keep_order(best.field)
                for _ in range(_CORRECTIONS if self.palette is None else 0):
                    found = self._flow(best.field, source, target, generator, space, judge)
                    field = fit(best.smoothness, best.field)
                    best, before = better(best, field, best.smoothness, judge), best
                    if not before.cost - best.cost > _LEAST_GAIN:  # also where all was refused
                        break
                field = best.field
                tick(rounds + 1, "")
        return field

    def _flow(
        self,
        field: Tensor,
        source: PixelSampler,
        target: PixelSampler,
        generator: torch.Generator,
        space: str,
        judge: Judge | None = None,
    ) -> _Moves:
        """Let pixels flow to the target from where the field takes them, or from where a judge sees them."""
        enter, leave = SPACES[space]
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
        start, before = (x + look_up(field, x)).clamp(0, 1), x
        if judge is not None:
            x, start = judge.shown(field, places)
            before = start - look_up(field, x)  # what they miss is added to what the field does
        found = flow(
            enter(start),
            enter(y),
            self.variant,
            max_steps=_STEPS[self.look],
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
        return _Moves(x, leave(found.particles) - before, weights, spread)

    @_renamed
    @own_device
    def transform(
        self,
        image: Image,
        *,
        strength: float = 1.0,
        keep_luminance: bool = False,
        mask: Image | None = None,
        progress_bar: bool | None = False,
    ) -> Any:
        """Apply the fitted map to an image.

        Args:
            image: As in `fit`.
            strength: How far colors move, from 0 (the image itself, bit for bit) to 1.
            keep_luminance: Whether every color keeps its lightness (L of CIELAB), so that only hue and chroma change.
            mask: How much each pixel moves, (H, W), from 0 to 1 (255 for uint8).
            progress_bar: Show a progress bar; None shows one on a terminal.

        Returns:
            The image with its colors moved: an array for an array, a tensor for a tensor, of the same dtype and size.
            Alpha is kept; a gray image becomes RGB.

        Raises:
            ValueError: If nothing was fitted, or an argument is out of range.
        """
        field = self._fitted(keep_luminance)
        _check_strength(strength)
        parts = split_image(image, "image")
        share = None if mask is None else mask_weights(mask, parts, "image")
        moved = apply_field(
            field,
            parts,
            strength,
            share,
            progress_bar,
            gradual=self._gradual,
        )
        moved = join_image(moved, parts.alpha)
        return torch.from_numpy(moved).to(image.device) if isinstance(image, Tensor) else moved

    def fit_transform(
        self,
        source: Image,
        target: Image,
        *,
        strength: float = 1.0,
        keep_luminance: bool = False,
        mask: Image | None = None,
        target_mask: Image | None = None,
    ) -> Any:
        """Fit the map to one source image and apply it to that image; see `fit` and `transform`."""
        _check_strength(strength)
        return self.fit(source, target, mask=mask, target_mask=target_mask).transform(
            source, strength=strength, keep_luminance=keep_luminance, mask=mask
        )

    def _fitted(self, keep_luminance: bool) -> Tensor:
        if self.field_ is None:
            raise ValueError("nothing is fitted yet: call fit(source, target) first")
        return keep_lightness(self.field_) if keep_luminance else self.field_

    def save(
        self,
        path: str | Path,
        *,
        strength: float = 1.0,
        keep_luminance: bool = False,
        size: int = SIDE,
    ) -> None:
        """Write the fitted map to a file.

        Args:
            path: Ends in .npz or .safetensors, or in .cube, a look-up table for other programs; `load` reads all three.
            strength: As in `transform`, for .cube only: the other files hold the whole map.
            keep_luminance: As in `transform`, for .cube only.
            size: Nodes along an edge of a .cube table: 33, or 65 where a program wants it finer.

        Raises:
            ValueError: If nothing was fitted, the ending is another, or an option is not for it.
        """
        _check_strength(strength)
        check_count("size", size, at_least=2)
        field = self._fitted(keep_luminance)
        about = self.get_params()
        generator = about.pop("generator")
        about["seed"] = generator if isinstance(generator, int) else None
        if Path(path).suffix.lower() != ".cube" and (strength, keep_luminance) != (1, False):
            raise ValueError(
                f"{Path(path).name} holds the whole map: give strength and keep_luminance to transform, or a name in .cube"
            )
        save_map(Path(path), strength * field, {**about, "variant": str(self.variant)}, size)

    @classmethod
    def load(cls, path: str | Path) -> ColorTransfer:
        """Read a map that `save` wrote, or the look-up table of another program.

        Args:
            path: A .npz or .safetensors file, or a .cube file with a table of three dimensions.

        Returns:
            A fitted `ColorTransfer`, ready to `transform`.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If it holds no map.
        """
        field, about = load_map(Path(path))
        if "seed" in about:
            about["generator"] = about["seed"]
        about.setdefault("look", "exact")  # the only one when looks had no names
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
    look: str = "natural",
    strength: float = 1.0,
    keep_luminance: bool = False,
    space: str | None = None,
    palette: int | None = None,
    smoothness: float | None = None,
    n_pixels: int = 3000,
    mask: Image | None = None,
    target_mask: Image | None = None,
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
        look: "natural", "exact" or "linear".
        strength: How far colors move, from 0 to 1.
        keep_luminance: Whether every color keeps its lightness.
        space: Color space in which colors are compared: "srgb", "oklab", "cielab" or "linear"; None goes by the look.
        palette: None flows pixels; a number flows k-means palettes of that many colors.
        smoothness: How much the map is smoothed; None goes by the look, and for "natural" by the image.
        n_pixels: Number of pixels that flow in each round.
        mask: How much each pixel of the source counts and moves, (H, W), from 0 to 1.
        target_mask: Which pixels of the target count.
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
        look=look,
        space=space,
        palette=palette,
        smoothness=smoothness,
        n_pixels=n_pixels,
        generator=generator,
    ).fit(source, target, mask=mask, target_mask=target_mask, progress_bar=progress_bar)
    images = [source] if isinstance(source, (np.ndarray, Tensor)) else source
    moved = [
        fitted.transform(
            image,
            strength=strength,
            keep_luminance=keep_luminance,
            mask=mask,
            progress_bar=progress_bar,
        )
        for image in images
    ]
    return moved[0] if isinstance(source, (np.ndarray, Tensor)) else moved


def match_colors(
    image: Image,
    reference: Image,
    *,
    look: str = "natural",
    strength: float = 1.0,
    keep_luminance: bool = False,
    channel_axis: int = -1,
) -> Any:
    """Give an image the colors of a reference, called as scikit-image's `match_histograms`.

    It is `transfer` with a fixed seed: equal images give equal results.

    Args:
        image: An array or tensor (H, W, 3), uint8, uint16, or floating-point numbers in [0, 1].
        reference: An image with the wanted colors, of any size.
        look: "natural", "exact" or "linear".
        strength: How far colors move, from 0 to 1.
        keep_luminance: Whether every color keeps its lightness.
        channel_axis: The axis of both images that has the channels.

    Returns:
        The image with its colors moved, of the same kind, dtype and shape.

    Raises:
        ValueError: If an image is of another kind, or an argument is out of range.

    Example:
        >>> image = np.full((3, 4, 4), 0.5)
        >>> match_colors(image, np.full((3, 2, 2), 0.25), channel_axis=0).round(3).max().item()
        0.25
    """

    def last(one: Image) -> Image:
        return (
            one.movedim(channel_axis, -1)
            if isinstance(one, Tensor)
            else np.moveaxis(one, channel_axis, -1)
        )

    moved = transfer(
        last(image),
        last(reference),
        look=look,
        strength=strength,
        keep_luminance=keep_luminance,
        generator=0,
        progress_bar=False,
    )
    return (
        moved.movedim(-1, channel_axis)
        if isinstance(moved, Tensor)
        else np.moveaxis(moved, -1, channel_axis)
    )


def _check_strength(strength: float) -> None:
    """Checked before a fit as well, which takes seconds."""
    if not 0 <= strength <= 1:
        raise ValueError(f"strength = {strength}: give a number from 0 to 1")
