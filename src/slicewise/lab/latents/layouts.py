"""Read latents from a user's files, in one of a few layouts, or make them of digits of an installed package."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.lab.data import Array, find_file, printable, read_array, read_arrays
from slicewise.lab.errors import UserError
from slicewise.lab.latents.domains import (
    AGE_PAIR,
    GENDER_PAIR,
    by_age,
    by_gender,
    by_value,
)
from slicewise.lab.latents.sets import LEAST_ROWS, Latents
from slicewise.lab.names import ADULT, CHILD
from slicewise.support import check_count

# Names of the matrix in files of several arrays, in this order.
_MATRIX = ("latents", "w", "z", "x", "features", "embeddings")
# The public ALAE latents of FFHQ: how many rows there are, and how many of these, the first, are for training.
_ALAE_ROWS, _ALAE_TRAIN = 70_000, 60_000
_HELD = 2_048
_STYLEGAN = "stylegan_ffhq_w512"


@functools.cache
def load(
    path: str | None = None,
    *,
    labels: str | None = None,
    held_out: int | None = None,
    adult: float = ADULT,
    child: float = CHILD,
    more: int = 0,
) -> Latents:
    """Read latents from a folder or a file; without one, encode MNIST digits by a network trained in seconds.

    Args:
        path: a folder with latents.npy and perhaps gender.npy and age.npy (the layout of the public ALAE latents of FFHQ,
            70,000 × 512, the first 60,000 for training); a folder with stylegan_ffhq_w512_part0.npz …; or a matrix, npy, npz
            or safetensors (`file.npz:name` picks an array; others of its length are labels).
        labels: an npy, npz or safetensors file of further labels, one for each row.
        held_out: how many rows, the last ones, are never trained on. Default: what the layout says, else 2,048, and at most a
            fifth.
        adult, child: rows with an age above `adult` are adults, below `child` children; a negative age is unknown. Values
            other than the default are refused for latents without ages.
        more: how many further training rows are drawn by the mapping network of the package random-face; only for a
            folder of stylegan_ffhq_w512 files, which are from that network.

    Returns:
        The latents with their split, labels and domains; cached, so that each is read once per process.

    Raises:
        UserError: the files cannot be read, or options do not fit them.
    """
    check_count("held_out", held_out, at_least=2)
    check_count("more", more, at_least=0)
    where = None if path is None else Path(path)
    stylegan = where is not None and where.is_dir() and not (where / "latents.npy").exists()
    if more and not stylegan:
        raise UserError(
            f"more = {more}: further rows can be drawn only for a folder of {_STYLEGAN} files, from the same network"
        )
    other_ages = (adult, child) != (ADULT, CHILD)
    if where is None:
        if labels is not None or held_out is not None or other_ages:
            raise UserError(
                "labels, held_out, adult and child are for latents from a file: give their path, too"
            )
        from slicewise.lab.latents.digits import digits

        return digits()
    if stylegan:
        found_there = _stylegan(where, held_out, more)
        if labels is not None:
            raise UserError(
                f"labels are in the folder of {_STYLEGAN} files already: leave them out"
            )
        if other_ages:
            raise UserError(_no_ages(adult, child, f"a folder of {_STYLEGAN} files"))
        return found_there
    found, matrix = _files(str(path), where)
    shown = printable(str(path))
    rows = _rows(matrix, shown)
    if labels is not None:
        file, name = find_file(labels)
        further = read_arrays(file) if name is None else {name: read_array(file, name)}
        # Labels that were given come first, because studies take the first pairs.
        found = {**further, **{own: found[own] for own in found if own not in further}}
    if other_ages and "age" in found:
        found = {"age": found["age"], **found}
    given = {name: _column(array, name, len(rows), shown) for name, array in found.items()}
    if other_ages and "age" not in given:
        raise UserError(_no_ages(adult, child, shown))
    domains, pairs = _domains(given, adult, child)
    if other_ages and AGE_PAIR not in pairs:
        raise UserError(
            f"adult = {adult:g} and child = {child:g}: {shown} has hardly any row of one of the two; choose other ages"
        )
    alae = len(rows) == _ALAE_ROWS and held_out is None
    held = _ALAE_ROWS - _ALAE_TRAIN if alae else _held(len(rows), held_out, shown)
    return Latents(
        printable(where.name or shown),
        rows,
        np.arange(len(rows)) >= len(rows) - held,
        given,
        domains,
        pairs,
        tuple(_notes(alae, labels, (adult, child) if other_ages else None)),
        fixed_split=alae or held_out is not None,
    )


def _notes(alae: bool, labels: str | None, ages: tuple[float, float] | None) -> Iterator[str]:
    if alae:
        yield "the public split: the first 60,000 rows are for training"
    if labels is not None:
        yield f"labels from {printable(Path(labels).name)}"
    if ages is not None:
        yield f"ages above {ages[0]:g} are adults, below {ages[1]:g} children"


def _no_ages(adult: float, child: float, shown: str) -> str:
    return f"adult = {adult:g} and child = {child:g}: {shown} has no ages in years; leave these out, or give labels named age"


def _files(path: str, where: Path) -> tuple[dict[str, Array], Array]:
    """Return the labels by name, and the matrix."""
    if where.is_dir() or where.name == "latents.npy":
        folder = where if where.is_dir() else where.parent
        matrix = read_array(find_file(str(folder / "latents.npy"))[0], None)
        names = [name for name in ("gender", "age") if (folder / f"{name}.npy").exists()]
        return {n: read_array(find_file(str(folder / f"{n}.npy"))[0], None) for n in names}, matrix
    file, wanted = find_file(path)
    if wanted is not None:
        return {}, read_array(file, wanted)
    held = read_arrays(file)
    flat = [name for name, array in held.items() if array.ndim > 1]
    named = [name for name in _MATRIX if name in held]
    if len(held) == 1 or named or len(flat) == 1:
        chosen = next(iter(held)) if len(held) == 1 else (named or flat)[0]
        return {n: a for n, a in held.items() if n != chosen and a.ndim > 0}, held[chosen]
    listed = ", ".join(f"{printable(name)} {array.shape}" for name, array in held.items())
    raise UserError(
        f"{printable(path)} holds {listed or 'no array'}: name the matrix latents, or say which, as {file.name}:NAME"
    )


def _rows(matrix: Array, shown: str) -> Tensor:
    if matrix.dtype.kind not in "iuf":
        raise UserError(f"{shown} holds {matrix.dtype}, not real numbers: convert it first")
    if matrix.ndim != 2:
        raise UserError(
            f"{shown} has shape {matrix.shape}: latents are rows of a matrix (N, d); reshape it first"
        )
    if len(matrix) < LEAST_ROWS or matrix.shape[1] < 1:
        raise UserError(
            f"{shown} has shape {matrix.shape}: give at least {LEAST_ROWS} rows, a latent in each"
        )
    with np.errstate(
        over="ignore"
    ):  # numbers too large for float32 become infinite, which is reported below
        rows = np.ascontiguousarray(matrix, dtype=np.float32)
    good = np.isfinite(rows).all(axis=1)
    if not good.all():
        raise UserError(
            f"{shown} has {(~good).sum()} rows with NaN or infinite entries, the first is row {good.argmin() + 1}: leave "
            f"them out, and their labels"
        )
    return torch.from_numpy(rows)


def _column(array: Array, name: str, n: int, shown: str) -> Array:
    """Check labels, one for each row, (n,)."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (n,):
        raise UserError(
            f"labels {printable(name)!r} have shape {array.shape}, and {shown} has {n} rows: give one label for each row"
        )
    return array


def _held(n: int, asked: int | None, shown: str) -> int:
    if asked is None:
        return min(_HELD, n // 5)
    if asked > n - 2:
        raise UserError(f"{shown} has {n} rows, {asked} cannot be held out: hold out fewer")
    return asked


def _domains(
    labels: dict[str, Array], adult: float, child: float
) -> tuple[dict[str, Array], tuple[tuple[str, str], ...]]:
    domains: dict[str, Array] = {}
    pairs: list[tuple[str, str]] = []
    pair: tuple[str, str] | None
    for name, values in labels.items():
        if name == "gender":
            found, pair = by_gender(values), GENDER_PAIR
        elif name == "age":
            found, pair = by_age(values, adult, child), AGE_PAIR
        else:
            found, pair = by_value(name, values)
        domains.update(found)
        if pair is not None and all(side in found for side in pair):
            pairs.append(pair)
    return domains, tuple(pairs)


def _stylegan(folder: Path, held_out: int | None, more: int) -> Latents:
    from slicewise.lab.latents.stylegan import read_stylegan

    rows, labels, domains, notes = read_stylegan(folder, more)
    stored = len(rows) - more
    held = np.zeros(len(rows), dtype=bool)
    wanted = min(_HELD, stored // 3) if held_out is None else held_out
    count = _held(stored, wanted, printable(str(folder)))
    held[stored - count : stored] = True  # the same rows whether or not more are drawn
    pairs = tuple(p for p in (GENDER_PAIR, AGE_PAIR) if all(side in domains for side in p))
    from slicewise.lab.latents import faces

    decoding: dict[str, Any] = {"decoder": faces.decode}
    if (lacking := faces.missing()) is not None:
        decoding = {"undecoded": lacking}
    return Latents(
        _STYLEGAN, rows, held, labels, domains, pairs, notes, fixed_split=held_out is not None, **decoding
    )  # fmt: skip
