"""Numbers on lines as counts in bins whose width grows with the number: exact to add up in any order, with a known error."""

from __future__ import annotations

import torch
from torch import Tensor

from slicewise.support import registered
from slicewise.transport import Wanted, match

# Numbers in units of a scale: bins have a relative width of 2^-10, from 2^-16 up; below lies one bin about zero.
MANTISSA_BITS, LEAST_EXPONENT, N_EXPONENTS = 10, -16, 48
BINS = N_EXPONENTS << MANTISSA_BITS  # of each sign
_OFFSET = (127 + LEAST_EXPONENT) << MANTISSA_BITS
_SHIFT = 23 - MANTISSA_BITS
# Rounding to single precision moves a number by this share at most, before it is counted.
_ROUNDING = 2.0**-23


class LineCounts:
    """How many of the numbers of each line lie in each bin.

    A bin is a sign, an exponent and the first bits of a mantissa of (number − center) / scale in single precision: no
    range has to be known, only about where a line lies. Counts are whole numbers. Adding them up, in whatever order and
    on however many machines, gives the same counts, and what is computed of them is the same to the last bit.

    Args:
        center: About the middle of each line, (L,).
        scale: About the spread of each line, (L,), above 0.

    >>> counts = LineCounts(torch.zeros(2), torch.ones(2))
    >>> counts.add(torch.randn(2, 1000)); counts.n, bool(counts.error(2).max() < 1e-3)
    (1000, True)
    """

    def __init__(self, center: Tensor, scale: Tensor) -> None:
        self.center, self.scale = center.double(), scale.double()
        self.counts = torch.zeros(len(center), 2 * BINS, dtype=torch.int64)

    @property
    def n(self) -> int:
        """How many numbers of each line were counted."""
        return int(self.counts[0].sum())

    def add(self, lines: Tensor) -> None:
        """Count numbers (L, n).

        Raises:
            ValueError: for numbers that are not finite, or 2^31 times as far from the center as the scale.
        """
        backend = registered()
        done = backend is not None and backend.count_lines(
            lines, self.center, self.scale, self.counts, _SHIFT, _OFFSET
        )
        if not done:
            plain_count(lines, self.center, self.scale, self.counts)
        if bool(self.counts[:, [0, 2 * BINS - 1]].any()):
            raise ValueError(
                "numbers are NaN, infinite, or 2^31 times as far out as the spread of the first rows: leave such rows out"
            )

    def merge(self, counts: Tensor) -> None:
        """Add the counts (L, 2 BINS) of other numbers on the same lines."""
        self.counts += counts.to(self.counts.dtype)

    def numbers(self, line: int) -> tuple[Tensor, Tensor]:
        """Return the centers of the bins of a line that are not empty, ascending, and their counts."""
        places = self.counts[line].nonzero().squeeze(-1)
        middles, _ = _bins()
        return self.center[line] + self.scale[line] * middles[places], self.counts[line, places]

    def error(self, p: float) -> Tensor:
        """Return a bound (L,) of W_p between the numbers of each line and the centers of their bins."""
        _, halves = _bins()
        shares = self.counts.double() / self.n
        return self.scale * (shares @ halves.pow(p)).pow(1 / p)


def costs_between(x: LineCounts, y: LineCounts, p: float) -> Tensor:
    """Return W_p^p between the counted numbers of each line, (L,), float64."""
    found = []
    for line in range(len(x.center)):
        (u, a), (v, b) = x.numbers(line), y.numbers(line)
        found.append(
            match(
                u, v, p=p, u_weights=a.double(), v_weights=b.double(), wanted=Wanted(False, False)
            ).cost
        )
    return torch.stack(found)


def plain_count(lines: Tensor, center: Tensor, scale: Tensor, counts: Tensor) -> None:
    """Add numbers (L, n) to counts (L, 2 BINS), in plain PyTorch: the definition.

    The first and the last place count what no bin holds.
    """
    z = ((lines.double() - center[:, None]) / scale[:, None]).float()
    key = (z.abs().view(torch.int32) >> _SHIFT) - _OFFSET
    key = key.clamp(min=0, max=BINS - 1).long()
    places = torch.where(z < 0, BINS - 1 - key, BINS + key)
    counts.scatter_add_(1, places, torch.ones_like(places))


def _bins() -> tuple[Tensor, Tensor]:
    """The center of each bin and half of its width, in units of the scale, (2 BINS,) each, ascending."""
    keys = torch.arange(BINS + 1, dtype=torch.int32)
    edges = ((keys + _OFFSET) << _SHIFT).view(torch.float32).double()
    edges[0] = 0.0
    middles, halves = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    halves = halves + _ROUNDING * edges[1:]
    return torch.cat([-middles.flip(0), middles]), torch.cat([halves.flip(0), halves])
