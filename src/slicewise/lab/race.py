"""A computed step against a search over rates, on the toy targets: the race and its picture."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass

import torch
from torch import Tensor

import slicewise as sw
from slicewise import steps
from slicewise.lab.data import toy

SHOWN = (0, 3, 10, 20, 40)


@dataclass(frozen=True, eq=False)
class Race:
    """One target, reached with no rate given and with every rate of a grid."""

    name: str
    d: int
    target: Tensor  # (n, 2), in the plane of the data
    particles: Tensor  # (len(SHOWN), n, 2), with the step computed
    w2: Tensor  # exact, after `at` steps, with the step computed
    arrived: int  # steps to W_2 ≤ 1e-3
    seconds: float  # for all of them
    rates: Tensor
    at: list[int]
    searched: Tensor  # exact W_2 after `at` steps of each rate, (len(at), len(rates))
    search_seconds: float

    @property
    def best_w2(self) -> float:
        return self.searched[-1].min().item()

    @property
    def best_rate(self) -> float:
        return self.rates[self.searched[-1].argmin()].item()

    @property
    def n_diverged(self) -> int:
        return int(self.searched[-1].isinf().sum())


def race(name: str, *, d: int = 50, n: int = 300, n_steps: int = 1000, seed: int = 0) -> Race:
    """Flow to a toy target in R^d, step computed, then by twelve rates at once."""
    pair = toy(name, n, d, seed)
    sw.flow(pair.x, pair.y, seeds=seed, steps=1, bar=False)  # compiled once, not timed
    at = sorted({round(n_steps ** (i / 24)) for i in range(25)} | {0})
    begun = time.perf_counter()
    found = sw.flow(pair.x, pair.y, seeds=seed, bar=False)
    seconds = time.perf_counter() - begun
    looked = sw.flow(pair.x, pair.y, seeds=seed, w2_at=range(101), particles_at=SHOWN, bar=False)
    arrived = int((looked.trace.w2 <= 1e-3).double().argmax())
    edge = steps.rate_of_step(steps.stability_limit(50, d), n)
    rates = edge * 2.0 ** torch.arange(-9, 3).double()
    begun = time.perf_counter()
    searched = sw.flow(pair.x, pair.y, lr=rates, seeds=seed, steps=n_steps, w2_at=at, bar=False)
    search_seconds = time.perf_counter() - begun
    plane = sw.effective_subspace(pair.x, pair.y)
    w2 = torch.where(searched.diverged & (torch.tensor(at)[:, None] >= searched.steps), torch.inf,
                     searched.trace.w2)  # fmt: skip
    return Race(
        name,
        d,
        plane.reduce(pair.y),
        plane.reduce(looked.trace.particles),
        looked.trace.w2,
        arrived,
        seconds if found.converged else float("nan"),
        rates,
        at,
        w2,
        search_seconds,
    )


def draw_races(races: list[Race]) -> bytes:
    """Particles on their way, and how far each rate has come, as PNG."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    blue, orange, grey = "#0072b2", "#d55e00", "#777777"
    figure = plt.figure(figsize=(14, 2.6 * len(races)), layout="constrained")
    grid = figure.add_gridspec(len(races), len(SHOWN) + 1, width_ratios=[1] * len(SHOWN) + [1.7])
    for row, one in enumerate(races):
        for column, step in enumerate(SHOWN):
            axes = figure.add_subplot(grid[row, column])
            axes.plot(*one.target.T.tolist(), ".", ms=2, color=orange)
            axes.plot(*one.particles[column].T.tolist(), ".", ms=2.4, color=blue)
            extent = 1.6 * one.target.abs().max().item()
            axes.set(
                xlim=(-extent, extent), ylim=(-extent, extent), xticks=[], yticks=[], aspect="equal"
            )
            name = f"{one.name}, d = {one.d}: " if column == 0 else ""
            axes.set_title(f"{name}step {step}", fontsize=10)
        axes = figure.add_subplot(grid[row, -1])
        for i in range(len(one.rates)):
            curve = one.searched[:, i]
            ended = bool(curve.isinf().any())
            shown = curve.masked_fill(curve.isinf(), torch.nan)
            axes.plot(one.at, shown, color=grey, lw=0.8, ls=":" if ended else "-",
                      label=f"rates {one.rates[0]:.0f} to {one.rates[-1]:.0f} (dotted: diverged)" if i == 0 else None)  # fmt: skip
        computed = one.w2.clamp(min=1e-9)
        axes.plot(range(len(computed)), computed, color=blue, lw=2, label="step computed")
        axes.axhline(1e-3, color=orange, lw=0.8, ls="--")
        axes.set(xscale="symlog", yscale="log", ylim=(1e-7, 10), xlim=(0, one.at[-1] * 2))
        axes.set_ylabel("exact W₂", fontsize=9)
        axes.set_title(f"10⁻³ after {one.arrived} steps", fontsize=9)
        axes.legend(fontsize=7, loc="lower left")
        if row == len(races) - 1:
            axes.set_xlabel("steps")
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    plt.close(figure)
    return file.getvalue()


def as_text(one: Race) -> str:
    """One race in a line."""
    return (
        f"{one.name} in {one.d} dimensions: no rate given, W2 <= 1e-3 after {one.arrived} steps, to rounding in "
        f"{one.seconds:.2f} s; best of {len(one.rates)} searched rates after {one.at[-1]} steps: W2 = {one.best_w2:.1e}"
    )
