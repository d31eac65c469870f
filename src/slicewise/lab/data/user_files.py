"""Samples from a user's files: arrays, tables of numbers, images."""

from __future__ import annotations

import array as compact
import collections
import csv
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from slicewise.lab.data.arrays import Array, read_array, read_with
from slicewise.lab.data.limits import check_bytes
from slicewise.lab.data.paths import (
    IMAGE_SUFFIXES,
    SAMPLE_SUFFIXES,
    TABLE_SUFFIXES,
    find_file,
    printable,
)
from slicewise.lab.data.pictures import with_image
from slicewise.lab.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

Header = Literal["auto", "yes", "no"]


@dataclass(frozen=True, eq=False)
class Samples:
    """A set of samples and its name."""

    name: str
    values: Tensor  # (n, d), float64, finite
    colors: bool = False  # pixels of a color image, in [0, 1]
    header: str | None = None  # the line of a table that was taken for one though it is numbers


def read_samples(source: str, *, flatten: bool = False, header: Header = "auto") -> Samples:
    """Read samples from a file, or from one array of an npz or safetensors file (`file.npz:name`).

    A vector (n,) is n samples of one dimension; an array (N, ...) of more than two dimensions is taken only with
    `flatten`, as N samples. Pixels of an image are samples in [0, 1], (n, 3), or (n, 1) of a gray one; transparent
    pixels are composed with white.

    The first line of a table is a header if it has no number, or is 0, 1, 2 … (pandas writes that for columns without
    names); `header` says so instead.
    """
    path, wanted = find_file(source, SAMPLE_SUFFIXES)
    suffix = path.suffix.lower()
    name = printable(path.name if wanted is None else f"{path.name}:{wanted}")
    if suffix in IMAGE_SUFFIXES:
        pixels = with_image(path, _pixels, bytes_per_pixel=48)  # three float64, and a copy
        return Samples(name, torch.from_numpy(pixels), colors=pixels.shape[1] == 3)
    if suffix in TABLE_SUFFIXES:
        array, skipped = read_with(path, "a table of numbers", lambda file: _table(file, header))
        return Samples(name, _as_samples(array, printable(source), flatten), header=skipped)
    array = read_array(path, wanted)
    return Samples(name, _as_samples(array, printable(source), flatten))


def read_weights(source: str, n: int) -> Tensor:
    """Read the weights (n,) of n samples from a file, divided by their sum."""
    values = read_samples(source).values
    shown = printable(source)
    if values.numel() != n or 1 not in values.shape:
        raise UserError(
            f"{shown} holds an array {tuple(values.shape)}, but there are {n} samples: give one weight "
            f"for each"
        )
    if bool((values < 0).any()):
        raise UserError(
            f"{shown} holds a weight of {values.min().item():g}: give weights of at least 0"
        )
    if not bool((values > 0).any()):
        raise UserError(f"{shown} holds zeros only: give some sample a positive weight")
    flat = values.flatten() / values.max()  # so that the sum of large weights cannot overflow
    return flat / flat.sum()


def _as_samples(array: Array, shown: str, flatten: bool) -> Tensor:
    if array.dtype.kind not in "biuf":
        raise UserError(f"{shown} holds {array.dtype}, not real numbers: convert it first")
    if array.ndim == 0:
        raise UserError(
            f"{shown} holds a single number: give an array (n, d), a sample in each row"
        )
    if array.size == 0:
        raise UserError(
            f"{shown} has shape {array.shape}, which holds no sample: give at least one"
        )
    if array.ndim > 2 and not flatten:
        raise UserError(
            f"{shown} has shape {array.shape}: samples are rows (n, d); reshape it, or use --flatten to "
            f"take each of its {len(array)} entries as one sample"
        )
    if array.dtype != np.float64:
        check_bytes(shown, array.nbytes + 8 * array.size)  # pixels of a byte become eight
    with np.errstate(over="ignore"):  # what is too large becomes infinite, which is told below
        rows = array.reshape(len(array), -1).astype(np.float64, copy=False)
    bad = ~np.isfinite(rows)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise UserError(
            f"{shown} has {bad.sum()} entries that are NaN or infinite, the first in row {row + 1}, "
            f"column {column + 1}: leave such samples out"
        )
    return torch.from_numpy(rows)


def _table(path: Path, header: Header) -> tuple[Array, str | None]:
    """Read numbers in lines, separated by commas, semicolons, tabs or spaces; # begins a comment.

    Returns:
        The numbers, and the first line if that was taken for a header though it is numbers.
    """
    shown = printable(str(path))
    # Lines are not kept: of a number of two bytes eight remain, while the array grows a few more.
    check_bytes(shown, 5 * path.stat().st_size)
    try:
        apart = _separator(path)
        rows = _cells(path, apart)
        first, second = next(rows, None), next(rows, None)
        skipped, has_header = None, False
        if first is not None and header != "no":
            words = first[1]
            # One number may well be data: a column that begins with 0.
            counted = len(words) > 1 and words == [str(i) for i in range(len(words))]
            counted = counted and second is not None
            has_header = header == "yes" or not any(map(_is_number, words)) or counted
            skipped = ",".join(words) if header == "auto" and counted else None
        read = [row for row in (None if has_header else first, second) if row is not None]
        if not read:
            raise UserError(f"{shown} holds no numbers: give a sample in each line")
        width, numbers = len(read[0][1]), compact.array("d")
        for number, cells in itertools.chain(read, rows):
            if len(cells) != width:
                raise UserError(
                    f"{shown}, line {number} has {len(cells)} columns where the first has {width}: give all as many"
                )
            try:
                numbers.extend(map(float, cells))
            except ValueError:
                raise UserError(f"{shown}, {_mistake(number, cells)}") from None
    except UnicodeDecodeError:
        raise UserError(f"{shown} is not UTF-8 text: save it as such") from None
    return np.frombuffer(numbers).reshape(-1, width), skipped


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are neither empty nor a comment, with their numbers."""
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.strip() and not line.lstrip().startswith("#"):
                yield number, line.removesuffix("\n").strip(" ")


def _separator(path: Path) -> str | None:
    """What separates numbers: found in the last line, which is numbers; a header may have commas in its words."""
    last = next(iter(collections.deque((line for _, line in _lines(path)), maxlen=1)), "")
    return next((s for s in ("\t", ";", ",") if s in last), None)


def _cells(path: Path, apart: str | None) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line, with its number; a quoted cell may go on in the next line, and is then no number."""
    if apart is None:
        yield from ((number, line.split()) for number, line in _lines(path))
        return
    at = 0

    def counted() -> Iterator[str]:
        nonlocal at
        for at, line in _lines(path):  # noqa: B007 (read below, for messages)
            yield f"{line}\n"

    for cells in csv.reader(counted(), delimiter=apart):
        yield at, [cell.strip(" ") for cell in cells]


def _mistake(number: int, cells: list[str]) -> str:
    column, cell = next((i, c) for i, c in enumerate(cells, start=1) if not _is_number(c))
    word = cell if len(cell) < 40 else f"{cell[:40]}…"
    return (
        f"line {number}, column {column}: {word!r} is no number; only the first line may be words"
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _pixels(image: Image.Image) -> Array:
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        return _deep(np.asarray(image, np.float64))
    gray = image.mode in ("1", "L", "LA", "La")
    if image.mode.endswith(("A", "a")) or "transparency" in image.info:
        clear = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)
    image = image.convert("L" if gray else "RGB")
    return np.asarray(image, np.float64).reshape(-1, len(image.getbands())) / 255


def _deep(pixels: Array) -> Array:
    """Scale pixels of more than 8 bits, taken to be of 16."""
    if not 0 <= pixels.min() <= pixels.max() <= 65535 or (pixels != np.round(pixels)).any():
        raise ValueError(
            "its pixels are not of 8 or 16 bits; save them as npy, scaled as you mean them"
        )
    return pixels.reshape(-1, 1) / 65535
