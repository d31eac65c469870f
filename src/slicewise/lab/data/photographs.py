"""Pairs of photographs for color transfer, from a user's folder or from installed packages."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slicewise.lab.data.arrays import Array
from slicewise.lab.data.image_sets import Images
from slicewise.lab.data.pictures import rgb_pixels
from slicewise.lab.errors import UserError

_SMALL = 160  # pixels, the longer side of a thumbnail
_DEFAULTS = (
    ("astronaut", "rocket"),
    ("coffee", "chelsea"),
    ("china.jpg", "flower.jpg"),
)


@dataclass(frozen=True, eq=False)
class PhotographPair:
    """Two photographs, (height, width, 3) in uint8, and their names."""

    name: str
    source: Array
    target: Array

    @functools.cached_property
    def digests(self) -> tuple[str, str]:
        """Hashes of the pixels, by which runs on these photographs are stored."""
        return Images("", self.source).digest, Images("", self.target).digest

    def palettes(self, n: int) -> tuple[Array, Array]:
        """Return n colors of each, (n, 3) from 0 to 255 in float64, found by k-means with a fixed seed."""
        return _palette(self, False, n), _palette(self, True, n)

    @functools.cached_property
    def small(self) -> tuple[Array, Array]:
        """Thumbnails of both; the target is padded with white to the size of the source."""
        from PIL import Image, ImageOps

        source, target = (Image.fromarray(side) for side in (self.source, self.target))
        source.thumbnail((_SMALL, _SMALL), Image.Resampling.LANCZOS)
        return np.asarray(source), np.asarray(ImageOps.pad(target, source.size, color="white"))


@functools.cache
def _palette(pair: PhotographPair, of_target: bool, n: int) -> Array:
    from sklearn.cluster import MiniBatchKMeans

    pixels = (pair.target if of_target else pair.source).reshape(-1, 3).astype(np.float64)
    distinct = len(np.unique(pixels, axis=0))
    if distinct < n:
        side = "target" if of_target else "source"
        raise UserError(
            f"the {side} of {pair.name} has {distinct} colors, {n} are wanted: give another photograph"
        )
    # As in the published scripts, but on larger batches: with batches of 100 some centers never move.
    found = MiniBatchKMeans(n, n_init=1, batch_size=4096, max_iter=20, random_state=0).fit(pixels)
    centers: Array = found.cluster_centers_
    return centers


@functools.cache
def photograph_pairs(folder: str | None = None) -> Sequence[PhotographPair]:
    """Return the pairs of a folder (set1_source.png, set1_target.png …), or three pairs of installed packages."""
    if folder is not None:
        return _of_folder(Path(folder))
    names = ((source.partition(".")[0], target.partition(".")[0]) for source, target in _DEFAULTS)
    return [
        PhotographPair(f"{a} to {b}", _inside(source), _inside(target))
        for (a, b), (source, target) in zip(names, _DEFAULTS, strict=True)
    ]


def _inside(name: str) -> Array:
    if name.endswith(".jpg"):
        from sklearn.datasets import load_sample_image

        return np.asarray(load_sample_image(name))
    import skimage.data

    return np.asarray(getattr(skimage.data, name)())[..., :3]


def _of_folder(folder: Path) -> Sequence[PhotographPair]:
    if not folder.is_dir():
        raise UserError(
            f"{folder} is no folder: give one of photographs set1_source.png, set1_target.png …"
        )
    sides: dict[int, dict[str, Path]] = {}
    for file in sorted(folder.iterdir()):
        found = re.match(r"set(\d+)_(source|target)", file.name)
        if found:
            sides.setdefault(int(found[1]), {})[found[2]] = file
    whole = [sides[number] for number in sorted(sides) if len(sides[number]) == 2]
    if not whole:
        raise UserError(
            f"{folder} holds no pair: wanted are photographs set1_source.png and set1_target.png, set2_source.png …"
        )
    made = []
    for files in whole:
        pictures = [rgb_pixels(files[side]) for side in ("source", "target")]
        made.append(PhotographPair(f"{files['source'].stem} to {files['target'].stem}", *pictures))
    return made
