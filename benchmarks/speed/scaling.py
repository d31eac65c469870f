"""The time of a step over n, d and L, beside the limits of the machine."""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.speed.contenders import contenders
from benchmarks.speed.timing import pinned
from slicewise.lab.images.figures import BLUE, GRAY, ORANGE

# One quantity varies, the others stay at the middle of what people use.
AXES = {
    "n": [30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000],
    "d": [2, 8, 32, 128, 512, 2048],
    "n_slices": [5, 20, 50, 200, 1000],
}
MIDDLE = {"n": 1000, "d": 16, "n_slices": 50}
LINES = ("slicewise", "torch sort", "POT")


def measure(*, quick: bool, tell: Callable[[str], None]) -> dict[str, Any]:
    """Seconds of CPU time a step, by axis and contender, one thread, with the floor."""
    curves: dict[str, Any] = {}
    with pinned(1):
        for axis, values in AXES.items():
            values = values[: 3 if quick else None]
            lines: dict[str, list[float | None]] = {name: [] for name in (*LINES, "floor")}
            for value in values:
                size = {**MIDDLE, axis: value}
                tell(f"scaling: {axis} = {value}")
                x, y = torch.randn(size["n"], size["d"]), torch.randn(size["n"], size["d"]) + 0.5
                for name in LINES:
                    lines[name].append(_seconds(name, x, y, size["n_slices"]))
                lines["floor"].append(floor(**size))
            curves[axis] = {"values": values, "seconds": lines}
    return curves


def _seconds(name: str, x: torch.Tensor, y: torch.Tensor, n_slices: int) -> float | None:
    if name == "POT" and len(x) * n_slices > 2e6:
        return None  # seconds a step: the curve has made its point
    contender = contenders()[name]
    contender(x, y, n_slices)
    return median_seconds(lambda: contender(x, y, n_slices))


def floor(n: int, d: int, n_slices: int) -> float:
    """Measure the parts of a step on this machine: draw, three products, two vectorized sorts.

    The sorts are NumPy's of 32-bit words for short rows, and three radix passes of one nanosecond a
    number for long ones: an estimate of what good code would reach, not a proof.
    """
    slices, samples = torch.randn(n_slices, d), torch.randn(n, d)
    lines = torch.randn(n_slices, n)
    words = np.random.default_rng(0).integers(0, 2**32, (n_slices, n), dtype=np.uint32)
    draw = median_seconds(lambda: torch.randn(n_slices, d))
    products = 2 * median_seconds(lambda: slices @ samples.mT) + median_seconds(
        lambda: (slices.mT @ lines).mT
    )
    by_network = 2 * (median_seconds(lambda: np.sort(words, axis=1)) if n <= 4096 else np.inf)
    by_radix = 2 * n_slices * n * 3e-9
    return float(draw + products + min(by_network, by_radix))


def median_seconds(work: Callable[[], Any], budget: float = 0.3) -> float:
    """Return the median CPU seconds of a function, over as many repeats as fit the budget."""
    times: list[float] = []
    while len(times) < 3 or (sum(times) < budget and len(times) < 200):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def draw(curves: dict[str, Any]) -> bytes:
    """The curves, log–log, as PNG."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    styles = {
        "slicewise": (BLUE, "o", "-"),
        "torch sort": ("#e69f00", "s", "-"),
        "POT": (ORANGE, "^", "-"),
        "floor": (GRAY, "", "--"),
    }
    figure, panels = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained", sharey=True)
    words = {"n": "samples n", "d": "dimension d", "n_slices": "slices L"}
    for axes, (axis, curve) in zip(panels, curves.items(), strict=True):
        for name, (color, marker, line) in styles.items():
            points = [
                (v, 1e3 * s)
                for v, s in zip(curve["values"], curve["seconds"][name], strict=True)
                if s is not None
            ]
            axes.loglog(
                *zip(*points, strict=True), color=color, marker=marker, ls=line, ms=4, label=name
            )
        fixed = ", ".join(f"{words[k].split()[-1]} = {v}" for k, v in MIDDLE.items() if k != axis)
        axes.set_xlabel(f"{words[axis]}   ({fixed})")
        axes.grid(alpha=0.3, which="both")
    panels[0].set_ylabel("ms a step, value and gradient (one thread)")
    panels[0].legend(fontsize=9)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    plt.close(figure)
    return file.getvalue()
