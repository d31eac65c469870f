"""Methods of color transfer, each a function of two images."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from slicewise.color import transfer

Array = np.ndarray[Any, Any]
Way = Callable[[Array, Array], Array]
_POT_SAMPLES = 1000


def ours(source: Array, target: Array, **options: Any) -> Array:
    """slicewise, with a fixed seed."""
    return np.asarray(transfer(source, target, generator=0, progress_bar=False, **options))


def histograms(source: Array, target: Array) -> Array:
    """scikit-image: each channel gets the target's histogram."""
    from skimage.exposure import match_histograms

    return np.asarray(match_histograms(source, target, channel_axis=-1))


def hm_mvgd_hm(source: Array, target: Array) -> Array:
    """color-matcher's default: histograms, then the linear map, then histograms."""
    from color_matcher import ColorMatcher

    pair = {"src": source.astype(float), "ref": target.astype(float)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about covariances that are singular
        return _eight_bits(ColorMatcher().transfer(**pair, method="hm-mvgd-hm") / 255)


def reinhard(source: Array, target: Array) -> Array:
    """Reinhard's statistics: mean and deviation of each channel of CIELAB."""
    from skimage.color import lab2rgb, rgb2lab

    x, y = rgb2lab(source), rgb2lab(target)
    scale = y.std((0, 1)) / np.maximum(x.std((0, 1)), 1e-9)
    moved = (x - x.mean((0, 1))) * scale + y.mean((0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of colors that no screen shows
        return _eight_bits(lab2rgb(moved))


def pot(kind: str) -> Way:
    """POT's domain adaptation of colors: fitted to samples, carried to all pixels by nearest samples."""

    def way(source: Array, target: Array) -> Array:
        import ot

        makers = {
            "EMD": lambda: ot.da.EMDTransport(),
            "Sinkhorn": lambda: ot.da.SinkhornTransport(reg_e=1e-1),
            "linear": lambda: ot.da.LinearTransport(),
        }
        rng = np.random.default_rng(0)
        pixels = [image.reshape(-1, 3) / 255 for image in (source, target)]
        samples = pixels  # the linear map takes all pixels: it has their moments only
        if kind != "linear":
            samples = [p[rng.integers(0, len(p), _POT_SAMPLES)] for p in pixels]
        fitted = makers[kind]().fit(Xs=samples[0], Xt=samples[1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            moved = fitted.transform(Xs=pixels[0], batch_size=4096)
        return _eight_bits(moved).reshape(source.shape)

    return way


def _eight_bits(colors: Array) -> Array:
    return np.round(255 * np.clip(colors, 0, 1)).astype(np.uint8)


WAYS: dict[str, Way] = {
    "natural": ours,
    "exact": functools.partial(ours, look="exact"),
    "bounded linear": functools.partial(ours, look="linear"),
    "exact, palette": functools.partial(ours, look="exact", palette=256),
    "match_histograms": histograms,
    "hm-mvgd-hm": hm_mvgd_hm,
    "Reinhard": reinhard,
    "linear": pot("linear"),
    "POT EMD": pot("EMD"),
    "POT Sinkhorn": pot("Sinkhorn"),
}
if find_spec("color_matcher") is None:
    del WAYS["hm-mvgd-hm"]
# Those that every pair is tried with, and that contact sheets show.
SHOWN = tuple(
    name
    for name in ("natural", "exact", "match_histograms", "hm-mvgd-hm", "Reinhard", "linear")
    if name in WAYS
)


def photographs() -> dict[str, Array]:
    """Return the photographs of scikit-image and scikit-learn."""
    from skimage import data
    from sklearn.datasets import load_sample_image

    names = ("astronaut", "coffee", "chelsea", "rocket", "retina", "hubble_deep_field")
    found = {name: np.asarray(getattr(data, name)()[:, :, :3]) for name in names}
    for name in ("china", "flower"):
        found[name] = np.asarray(load_sample_image(f"{name}.jpg"))
    found["camera"] = np.repeat(data.camera()[:, :, None], 3, axis=2)
    return found


def photographs_of(folder: Path) -> dict[str, Array]:
    """Return the photographs of a folder, by their names without ending."""
    from slicewise.lab.images.files import READ, read_picture
    from slicewise.lab.images.frames import as_rgb

    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in READ)
    return {path.stem: as_rgb(read_picture(path, reduce=True).pixels)[:, :, :3] for path in paths}
