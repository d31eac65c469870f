"""Methods of color transfer, each a function of two images."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from slicewise.color import transfer

Array = np.ndarray[Any, Any]
Way = Callable[[Array, Array], Array]
_POT_SAMPLES = 1000


def histograms(source: Array, target: Array) -> Array:
    """scikit-image: each channel gets the target's histogram."""
    from skimage.exposure import match_histograms

    return np.asarray(match_histograms(source, target, channel_axis=-1))


def reinhard(source: Array, target: Array) -> Array:
    """Reinhard's statistics: mean and deviation of each channel of CIELAB."""
    from skimage.color import lab2rgb, rgb2lab

    x, y = rgb2lab(source), rgb2lab(target)
    scale = y.std((0, 1)) / np.maximum(x.std((0, 1)), 1e-9)
    moved = (x - x.mean((0, 1))) * scale + y.mean((0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of colors that no screen shows
        return np.round(255 * np.clip(lab2rgb(moved), 0, 1)).astype(np.uint8)


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
        x, y = (p[rng.integers(0, len(p), _POT_SAMPLES)] for p in pixels)
        fitted = makers[kind]().fit(Xs=x, Xt=y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            moved = fitted.transform(Xs=pixels[0], batch_size=4096)
        return np.round(255 * np.clip(moved, 0, 1)).astype(np.uint8).reshape(source.shape)

    return way


WAYS: dict[str, Way] = {
    "slicewise": lambda s, t: np.asarray(transfer(s, t, generator=0, progress_bar=False)),
    "slicewise, gentle": lambda s, t: np.asarray(
        transfer(s, t, smoothness=10, generator=0, progress_bar=False)
    ),
    "slicewise, palette": lambda s, t: np.asarray(
        transfer(s, t, palette=256, generator=0, progress_bar=False)
    ),
    "slicewise, srgb": lambda s, t: np.asarray(
        transfer(s, t, space="srgb", generator=0, progress_bar=False)
    ),
    "match_histograms": histograms,
    "Reinhard": reinhard,
    "POT EMD": pot("EMD"),
    "POT Sinkhorn": pot("Sinkhorn"),
    "POT linear": pot("linear"),
}


def photographs(folder: Path | None = None) -> dict[str, Array]:
    """Return the photographs of scikit-image and scikit-learn, and those of a folder."""
    from skimage import data
    from sklearn.datasets import load_sample_image

    names = ("astronaut", "coffee", "chelsea", "rocket", "retina", "hubble_deep_field")
    found = {name: np.asarray(getattr(data, name)()[:, :, :3]) for name in names}
    for name in ("china", "flower"):
        found[name] = np.asarray(load_sample_image(f"{name}.jpg"))
    found["camera"] = np.repeat(data.camera()[:, :, None], 3, axis=2)
    if folder is not None:
        from slicewise.lab.images.files import read_picture

        for path in sorted(folder.glob("*.png")):
            found[path.stem] = read_picture(path).pixels[:, :, :3]
    return found
