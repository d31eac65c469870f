"""The two sets of samples of a command: from files, or a toy target."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slicewise.lab import names
from slicewise.lab.data import SAMPLE_SUFFIXES, find_file, printable, visible
from slicewise.lab.errors import UserError
from slicewise.support import check_choice, check_count

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from slicewise.lab.data import Samples

# Exact distances between 3,000 samples a side take some 20 s; their time grows as n³.
EXACT_PAIRS = 3_000**2
# The toy target of a command without files.
TOY, TOY_SIZE, TOY_DIMENSIONS = "swiss", 300, 2
# A toy target is rotated by a d × d matrix.
MOST_DIMENSIONS, MOST_NUMBERS = 10_000, 10**8


@dataclass(frozen=True, eq=False)
class SamplePair:
    """Two sets of samples, their names and weights."""

    x: Tensor  # (n, d)
    y: Tensor  # (m, d)
    x_name: str
    y_name: str
    x_weights: Tensor | None = None  # (n,)
    y_weights: Tensor | None = None  # (m,)
    colors: bool = False  # whether both are pixels of color images

    def to(self, dtype: str, device: str) -> SamplePair:
        """Return the same samples on a device, in a precision; both are options of a command."""
        import torch

        from slicewise.lab.study import choose_device

        device = choose_device(device)
        kind = torch.float64 if dtype == "float64" else torch.float32
        x, y, a, b = (
            None if t is None else t.to(device, kind)
            for t in (self.x, self.y, self.x_weights, self.y_weights)
        )
        assert x is not None
        assert y is not None
        for name, samples in ((self.x_name, x), (self.y_name, y)):
            if not bool(torch.isfinite(samples).all()):
                raise UserError(f"{name} has numbers too large for {dtype}: scale it down")
        return SamplePair(x, y, self.x_name, self.y_name, a, b, self.colors)


def check_seed(seed: int) -> None:
    """Check that a generator takes this seed."""
    if not 0 <= seed < 2**62:
        raise UserError(f"--seed {seed}: give a whole number from 0 to 2^62 - 1")


def check_samples(files: list[str], *, seed: int, dtype: str, samples: int | None) -> None:
    """Check what can be known of files of samples, and of options about them, before they are read.

    Raises:
        UserError: a file cannot be read, or an option has a wrong value.
    """
    check_seed(seed)
    check_choice("--dtype", dtype, names.DTYPES)
    check_count("--samples", samples)
    for file in files:
        find_file(file, SAMPLE_SUFFIXES)


def check_pair_or_toy(
    files: list[str],
    *,
    toy_name: str | None,
    n: int | None,
    d: int | None,
    seed: int,
    dtype: str,
    samples: int | None,
    flatten: bool,
) -> None:
    """Check options about two files, or about a toy target if no file is given, as `check_samples` does.

    Raises:
        UserError: as `check_samples`; or options of files and of a toy target are given together.
    """
    check_samples(files, seed=seed, dtype=dtype, samples=samples)
    if len(files) == 1:
        raise UserError(
            "only one file is given: give both SOURCE and TARGET, or neither for a toy target"
        )
    if files:
        if toy_name is not None or n is not None or d is not None:
            raise UserError(
                "--toy, --n and --d are for toy targets, but files are given: leave them out"
            )
        return
    if samples is not None or flatten:
        raise UserError("--samples and --flatten are for files: use --n for a toy target")
    check_choice("--toy", TOY if toy_name is None else toy_name, names.TOYS)
    n, d = TOY_SIZE if n is None else n, TOY_DIMENSIONS if d is None else d
    check_count("--n", n)
    check_count("--d", d, at_least=2)
    if d > MOST_DIMENSIONS or n * d > MOST_NUMBERS:
        raise UserError(
            f"--n {n} and --d {d} are too large for a toy target: give d up to {MOST_DIMENSIONS}, n d up to {MOST_NUMBERS}"
        )


def read_pair(
    first: str,
    second: str,
    *,
    generator: torch.Generator,
    flatten: bool = False,
    header: str = "auto",
    samples: int | None = None,
    x_weights: str | None = None,
    y_weights: str | None = None,
) -> SamplePair:
    """Read the samples of two files, or random subsets of them, with their weights.

    Raises:
        UserError: a file cannot be read, or the samples have different dimensions.
    """
    from slicewise.lab.data import read_samples

    how: dict[str, Any] = {"flatten": flatten, "header": header}
    x, y = (read_samples(source, **how) for source in (first, second))
    for one in (x, y):
        if one.header is not None:
            print(
                f"note: the first line of {visible(one.name)}, {visible(one.header)}, is taken for a header; --header no reads "
                f"it as a sample",
                file=sys.stderr,
            )
    if x.values.shape[1] != y.values.shape[1]:
        raise UserError(
            f"{x.name} holds samples of {x.values.shape[1]} dimensions and {y.name} of "
            f"{y.values.shape[1]}: give as many in both; is one of them transposed, or a gray image?"
        )
    (u, a), (v, b) = (
        _some(own, weights, samples, generator) for own, weights in ((x, x_weights), (y, y_weights))
    )
    names = (x.name, y.name) if x.name != y.name else (printable(first), printable(second))
    return SamplePair(u, v, *names, a, b, x.colors and y.colors)


def pair_or_toy(
    files: list[str],
    *,
    toy_name: str | None,
    n: int | None,
    d: int | None,
    seed: int,
    samples: int | None,
    flatten: bool,
    header: str = "auto",
) -> SamplePair:
    """Return the samples of two files, or those of a toy target if no file is given; `check_pair_or_toy` comes first."""
    from slicewise.lab.data import toy

    if files:
        first, second = files
        generator = generator_for(seed)
        how: dict[str, Any] = {"flatten": flatten, "header": header, "samples": samples}
        return read_pair(first, second, generator=generator, **how)
    pair = toy(toy_name or TOY, n or TOY_SIZE, d or TOY_DIMENSIONS, seed)
    return SamplePair(pair.x, pair.y, pair.x_name, pair.y_name)


def _some(
    own: Samples, weights: str | None, count: int | None, generator: torch.Generator
) -> tuple[Tensor, Tensor | None]:
    import torch

    from slicewise.lab.data import read_weights

    n = len(own.values)
    shares = None if weights is None else read_weights(weights, n)
    if count is None:
        return own.values, shares
    if count > n:
        raise UserError(f"--samples {count}: {own.name} has only {n}; give at most that")
    chosen = torch.randperm(n, generator=generator)[:count]
    if shares is not None:
        shares = shares[chosen]
        if not bool((shares > 0).any()):
            raise UserError(
                f"--samples {count} selected only samples of {own.name} with weight zero: take more"
            )
        shares = shares / shares.sum()
    return own.values[chosen], shares


@contextmanager
def explain_memory_errors() -> Iterator[None]:
    """Turn errors about memory into a UserError that says what to reduce."""
    import torch

    try:
        yield
    except (MemoryError, RuntimeError) as error:
        short = isinstance(error, (MemoryError, torch.OutOfMemoryError))
        if short or "can't allocate memory" in str(error):
            raise UserError(
                "there is not enough memory: give fewer --samples or --n-slices"
            ) from None
        raise


def generator_for(seed: int) -> torch.Generator:
    """Return the generator of everything random in a command."""
    import torch

    return torch.Generator().manual_seed(seed)
