"""How near the colors are to the target's, how much of the structure is kept, and what a viewer would dislike."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import torch

import slicewise as sw
from benchmarks.color.contenders import WAYS, Array
from slicewise.color import SourceRegions
from slicewise.color.artifacts import skin_colored
from slicewise.lab.images.frames import palette_w2

ARTIFACTS = (
    "seams", "steepness", "hue_jumps", "grain", "halos", "blotches", "reversals", "unevenness", "crushed", "clipped",
    "skin",
)  # fmt: skip
STATUS = Path("/proc/self/status")  # of Linux alone


def judged(source: Array, moved: Array, target: Array, *, repeats: int = 4) -> dict[str, float]:
    """Measure how near the colors are to the target's, and how much of the structure is kept."""
    from skimage.color import rgb2gray
    from skimage.filters import sobel
    from skimage.metrics import structural_similarity

    before, after = rgb2gray(source), rgb2gray(moved)
    edges = [sobel(gray).ravel() for gray in (before, after)]
    x, y = (
        torch.from_numpy(image.reshape(-1, 3)[::7].astype(np.float64)) for image in (moved, target)
    )
    generator = torch.Generator().manual_seed(0)
    return {
        "w2": palette_w2(moved, target, 1, repeats=repeats),
        "sw": float(sw.sliced_wasserstein(x, y, n_slices=200, generator=generator)),
        "ssim": float(structural_similarity(before, after, data_range=1.0)),
        "edges": float(np.corrcoef(*edges)[0, 1]) if edges[1].std() > 0 else 0.0,
    }


def disliked(source: Array, moved: Array) -> dict[str, float]:
    """Measure the artifacts of `slicewise.color.Artifacts`, and by how many degrees the hue of skin shifts.

    The shift is NaN where less than 2 % of the source have the color of skin.
    """
    before, after = (torch.from_numpy(one.astype(np.float32) / 255) for one in (source, moved))
    found = SourceRegions(before).compare(after)._asdict()
    return {**found, "skin": skin_shift(source, moved)}


def skin_shift(source: Array, moved: Array) -> float:
    """Return the mean shift of hue, in degrees, of pixels with the color of skin; NaN if there are few."""
    from skimage.color import rgb2lab

    before, after = (rgb2lab(one).reshape(-1, 3) for one in (source, moved))
    hue = _hue(before)
    skin = skin_colored(torch.from_numpy(before.T[None, :, :, None])).flatten().numpy()
    if skin.mean() < 0.02:
        return float("nan")
    shift = (_hue(after[skin]) - hue[skin] + 180) % 360 - 180
    return float(np.abs(shift).mean())


def _hue(lab: Array) -> Array:
    return np.degrees(np.arctan2(lab[:, 2], lab[:, 1])) % 360


def memory(name: str, source: Array, target: Array) -> float:
    """Return the bytes that a method needs beyond its images and libraries, in a separate process."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_peak, (name, source, target))


def _peak(name: str, source: Array, target: Array) -> float:
    WAYS[name](source[::8, ::8], target[::8, ::8])
    # Importing libraries takes more for a moment than most ways ever do: forget that peak. Linux alone can.
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    WAYS[name](source, target)
    return _status("VmHWM") - before


def _status(name: str) -> float:
    """Return the bytes of an entry of /proc/self/status."""
    (line,) = [one for one in STATUS.read_text().splitlines() if one.startswith(f"{name}:")]
    return 1024.0 * int(line.split()[1])
