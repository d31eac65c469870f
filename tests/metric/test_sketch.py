"""Sketches stay within their bounds whatever the order, and in their memory whatever the length."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from slicewise.metric.sketch import Sketch, promise
from tests.tolerances import assert_close

N = 3000


def organ(values):
    """Up and down again."""
    ordered = np.sort(values)
    return np.concatenate([ordered[::2], ordered[1::2][::-1]])


def inward(values):
    """The smallest, the largest, the second smallest ...: what comes lies between all that came."""
    ordered = np.sort(values)
    half = len(values) // 2
    return np.stack([ordered[:half], ordered[::-1][:half]], axis=1).reshape(-1)


ORDERS = {
    "as it comes": lambda v: v,
    "rising": np.sort,
    "falling": lambda v: np.sort(v)[::-1].copy(),
    "organ": organ,
    "inward": inward,
    "outward": lambda v: inward(v)[::-1].copy(),
    "combed": lambda v: np.sort(v).reshape(-1, 60).T.reshape(-1).copy(),
}
DRAW = np.random.default_rng(0)
VALUES = {
    "normal": DRAW.normal(size=N),
    "two places": np.repeat([0.0, 1.0], N // 2),
    "far apart": np.exp2(np.linspace(0, 60, N)),
    "heavy tails": DRAW.standard_cauchy(size=N),
    "mostly one": np.concatenate([np.zeros(N - 7), DRAW.normal(size=7) * 1e6]),
    "steps": np.repeat(np.arange(60.0), N // 60),
}


def distance(line, sketch, row, p):
    """W_p by repeating each number as often as it stands for: as many as the line had."""
    kept, weights = sketch.numbers()
    times = (weights * sketch.n).round().long()
    assert int(times.sum()) == len(line)
    spread = np.sort(kept[row].repeat_interleave(times).numpy())
    return (np.abs(np.sort(line) - spread) ** p).mean() ** (1 / p)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize("order", ORDERS)
def test_the_bound_holds_in_any_order(order, p):
    lines = np.stack([ORDERS[order](values) for values in VALUES.values()])
    whole = Sketch.empty(len(lines), 32, p=p)
    for piece in np.array_split(lines, [1, 40, 1000, 1001, 2500], axis=1):
        whole.add(torch.from_numpy(piece))
    parts = [Sketch.empty(len(lines), 32, p=p) for _ in range(5)]
    for part, piece in zip(parts, np.array_split(lines, [10, 700, 710, 2000], axis=1), strict=True):
        part.add(torch.from_numpy(piece))
    for part in parts[1:]:
        parts[0].merge(part)
    for sketch in (whole, parts[0]):
        assert sketch.n == N
        error, ranges = sketch.error(), sketch.ranges()
        for row, line in enumerate(lines):
            rounding = 1e-12 * float(ranges[row])
            assert float(ranges[row]) == line.max() - line.min()
            assert distance(line, sketch, row, p) <= float(error[row]) + rounding
            assert float(error[row]) <= promise(N, 32, p) * float(ranges[row]) + rounding


@pytest.mark.parametrize("p", [1, 2, 3])
def test_the_bound_is_no_larger_than_one_joining(p):
    """Sixteen numbers in a sketch of sixteen: the middle twelve become six, and nothing else moves."""
    line = np.arange(16.0) ** 2
    sketch = Sketch.empty(1, 16, p=p)
    sketch.add(torch.from_numpy(line)[None])
    gaps = np.diff(line)[2:14:2]
    expected = (2 * ((gaps / 2) ** p).sum() / 16) ** (1 / p)
    assert math.isclose(distance(line, sketch, 0, p), expected, rel_tol=1e-12)
    assert_close(sketch.error(), torch.tensor([expected], dtype=torch.float64))


def test_short_lines_are_kept_as_they_are():
    lines = torch.randn(3, 60, dtype=torch.float64)
    sketch = Sketch.empty(3, 64)
    sketch.add(lines)
    kept, weights = sketch.numbers()
    assert_close(kept, lines)
    assert_close(weights, torch.full((60,), 1 / 60, dtype=torch.float64))
    assert sketch.error().max() == 0


def test_the_bound_is_worth_having():
    """A percent of the range for ten thousand numbers that fill it evenly, at the usual capacity."""
    sketch = Sketch.empty(1)
    sketch.add(torch.rand(1, 10_000, dtype=torch.float64))
    assert sketch.error()[0] < 0.002 * sketch.ranges()[0]


def test_it_is_full_at_some_point_and_wants_even_room():
    sketch = Sketch.empty(1, 4, levels=3)
    with pytest.raises(ValueError, match=r"is full after .* give more levels"):
        sketch.add(torch.arange(100.0)[None])
    with pytest.raises(ValueError, match="capacity = 7: give an even number"):
        Sketch.empty(1, 7)
