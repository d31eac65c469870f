"""Samples of a face generator's style space with machine-made labels, and further ones from its mapping network."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from slicewise.lab.data import Array, find_file, printable, read_array, read_arrays
from slicewise.lab.errors import UserError

_STEM = "stylegan_ffhq_w512"
# The stored rows are w of draws with this seed, in order, and so are further rows.
_SEED = 2021
# The first rows were labeled by their pictures, all others by a linear score of w.
_LABELED_BY_PICTURE = 960


def read_stylegan(
    folder: Path, more: int
) -> tuple[Tensor, dict[str, Array], dict[str, Array], tuple[str, ...]]:
    """Return rows, labels, domains and notes of a folder with stylegan_ffhq_w512_part0.npz …, and `more` further rows."""
    found = folder.glob(f"{_STEM}_part*.npz")
    parts = sorted(found, key=lambda part: (len(part.name), part.name))  # 10 comes after 2
    if not parts:
        raise UserError(
            f"{printable(str(folder))} holds no latents: wanted are latents.npy, or {_STEM}_part0.npz …"
        )
    try:
        w = np.concatenate([read_array(find_file(str(part))[0], "w") for part in parts])
    except ValueError as wrong:
        raise UserError(f"the parts of {_STEM} do not fit together: {wrong}") from None
    if w.ndim != 2 or w.dtype.kind != "f" or not np.isfinite(w).all():
        raise UserError(f"{_STEM}: {w.dtype} {w.shape} with finite entries (N, d) is wanted")
    given = read_arrays(find_file(str(folder / f"{_STEM}_labels.npz"))[0])
    labels: dict[str, Array] = {}
    for name in ("gender", "age_group"):
        if name not in given or given[name].shape != (len(w),):
            shape = given[name].shape if name in given else "missing"
            raise UserError(
                f"{_STEM}_labels.npz: {name} is {shape}; wanted is one for each of {len(w)} rows"
            )
        labels[name] = given[name]
    notes: tuple[str, ...] = (
        "samples of a StyleGAN-type generator's style space W, not encodings of photographs by ALAE",
        "labels are a machine's guess about generated pictures; non-commercial use only",
    )
    if more:
        further = _drawn(len(w), more)
        labels = _labeled(w.astype(np.float32), further, labels, given)
        w = np.concatenate([w, further])
        notes += (
            f"{more:,} further rows, drawn by the same mapping network: to train on, and for domains also to hold out",
        )
    domains = {
        "male": labels["gender"] == 1,
        "female": labels["gender"] == 0,
        "adult": labels["age_group"] == 1,
        "child": labels["age_group"] == 0,
    }
    return torch.from_numpy(w.astype(np.float32)), labels, domains, notes


def _drawn(start: int, count: int) -> Array:
    """Return the rows that follow the first `start`, in float16 as the stored ones."""
    from slicewise.lab.latents.faces import mapped

    noise = np.random.default_rng(_SEED).standard_normal((start + count, 512)).astype(np.float32)
    return mapped(noise[start:]).astype(np.float16)


def _labeled(
    w: Array, further: Array, labels: dict[str, Array], given: dict[str, Array]
) -> dict[str, Array]:
    """Return labels of all rows; further ones get theirs by the thresholds of the stored ones."""
    missing = [name for name in ("gender_coef", "child_coef") if name not in given]
    if missing:
        raise UserError(
            f"{_STEM}_labels.npz has no {' and no '.join(missing)}: further rows cannot be labeled"
        )
    rest = slice(_LABELED_BY_PICTURE, None)
    sides = {}
    for name, coefficients in (("gender", "gender_coef"), ("age_group", "child_coef")):
        old, new = w[rest] @ given[coefficients], further.astype(np.float32) @ given[coefficients]
        label = labels[name][rest]
        # Each label is an interval of the score, with thresholds half way between neighbors.
        order = sorted(np.unique(label), key=lambda value: float(np.median(old[label == value])))
        cuts = [
            (old[label == low].max() + old[label == high].min()) / 2
            for low, high in itertools.pairwise(order)
        ]
        found = np.asarray(order, dtype=label.dtype)[np.searchsorted(cuts, new)]
        sides[name] = np.concatenate([labels[name], found])
    return sides
