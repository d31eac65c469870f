"""The minimizing scheme of the paper's SW flows: each step minimizes SW_2²(X, X_t) / (2τ) + SW_2²(X, Y) over X."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

import slicewise as sw
from slicewise.lab.data import swiss
from slicewise.lab.experiments.check import (
    Check,
    Measured,
    Measures,
    Task,
    between,
    by_preset,
    column,
    generator_of,
    grouped,
    label,
    line,
    points,
    rng_of,
    seeded,
)
from slicewise.lab.images import BLUE, ORANGE

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

K = 2
_ANGLES = 180
# The inner minimization ends when a round moves samples by less than this part of their way so far, and after so many rounds.
_RESOLUTION, _ROUNDS = 1e-7, 4000
# Of SW_2² at the start: below it what is left is rounding.
_ROUNDING = 1e-18


@dataclass(frozen=True, eq=False)
class MinimizingScheme:
    """X_{t+1} = argmin SW_2²(X, X_t) / (2τ) + SW_2²(X, Y), on equispaced slices of the plane.

    For couplings held at those of the present X the function is quadratic and never below itself, because other couplings can
    only be better; its minimum lies at X − h ∇ with h = (n k / 2) / (1 + 1/(2τ)). Each round goes there, so that no round
    increases the function.
    """

    target: Tensor  # (n, 2)
    tau: float

    def next(self, x: Tensor) -> Tensor:
        """Return the stationary point that these rounds reach from x, (n, 2).

        It is a minimum for the couplings there. Pairs that change partners on some slice may lower the function a little further,
        in a test of six samples by less than 1e-5 of it.
        """
        found = self.explicit(x)  # the first round: at x itself SW_2²(X, X_t) has no gradient
        for _ in range(_ROUNDS):
            gradient = self._gradient(found, x) / (2 * self.tau) + self._gradient(
                found, self.target
            )
            moved = found - self._rate * gradient
            done = float((moved - found).norm()) <= _RESOLUTION * float((moved - x).norm())
            found = moved
            if done:
                break
        return found

    def explicit(self, x: Tensor) -> Tensor:
        """Return X − h ∇SW_2²(X, Y) with the same h: the gradient step that the paper puts in the place of the scheme."""
        return x - self._rate * self._gradient(x, self.target)

    @property
    def _rate(self) -> float:
        return len(self.target) * K / 2 / (1 + 1 / (2 * self.tau))

    def distance(self, x: Tensor, y: Tensor) -> float:
        """SW_2²(x, y) on the slices of the scheme."""
        return float(sw.sliced_wasserstein(x, y, objective="power", slices=_slices()))

    def _gradient(self, x: Tensor, y: Tensor) -> Tensor:
        return sw.value_and_grad(x, y, objective="power", slices=_slices())[1]


def _slices() -> Tensor:
    angle = (torch.arange(_ANGLES, dtype=torch.float64) + 0.5) * (math.pi / _ANGLES)
    return torch.stack([angle.cos(), angle.sin()], dim=-1)


def tasks(preset: str) -> list[Task]:
    """One sample, and a normal cloud to a Swiss roll, for small steps to huge ones."""
    taus = by_preset(preset, quick=(0.5, 50.0), paper=(0.05, 0.2, 0.5, 1.0, 5.0, 50.0))
    sizes = by_preset(preset, quick=(1, 10), paper=(1, 50))
    steps = by_preset(preset, quick=3, paper=10)
    return seeded({"n": n, "tau": tau, "steps": steps} for n in sizes for tau in taus)


def measure(task: Task) -> Measures:
    """The factor by which a step shortens SW_2 to the target, the mean over steps in logarithms.

    Along a straight way it is 1 / (1 + 2τ) (`expected`), and the function minimized is then 1 / (1 + 2τ) of SW_2²(X_t, Y), below
    which it cannot come by the triangle inequality: `value` is its mean over that. `from_gradient` is how far the gradient step
    ends from the minimizer, as a part of its own way; `increases` counts steps that are longer than what they left.
    """
    rng, tau = rng_of(task), task["tau"]
    x = rng.normal(task["n"], K).double()
    y = swiss(task["n"], generator_of(task)) if task["n"] > 1 else rng.normal(1, K).double()
    scheme = MinimizingScheme(y, tau)
    begun = before = scheme.distance(x, y)
    values, apart, increases = [], [], 0
    for _ in range(task["steps"]):
        after = scheme.next(x)
        left = scheme.distance(after, y)
        values.append((scheme.distance(after, x) / (2 * tau) + left) / before * (1 + 2 * tau))
        apart.append(float((scheme.explicit(x) - after).norm() / (after - x).norm()))
        increases += left > before
        x, before = after, left
        if before < _ROUNDING * begun:
            break
    return {
        "measured": (before / begun) ** (0.5 / len(values)),
        "expected": 1 / (1 + 2 * tau),
        "value": sum(values) / len(values),
        "from_gradient": max(apart),
        "increases": float(increases),
        "stderr": 0.0,
    }


def draw(figure: SubFigure, every: list[Measured]) -> None:
    """The factor of a step against τ, with that of a straight way."""
    axes = figure.subplots()
    for ((n,), some), color in zip(grouped(every, "n").items(), (BLUE, ORANGE), strict=False):
        x = column(some, "tau")
        points(axes, x, column(some, "measured"), column(some, "stderr"), color, label=f"n = {n}")
        line(axes, x, column(some, "expected"), color)
    label(axes, r"$\tau$", "$SW_2$ to the target, factor of a step", log="xy")


def verdict(every: list[Measured]) -> str:
    """Whether every step shortens the distance, by how much, and whether a gradient step does the same."""
    one = [m for m in every if m.task["n"] == 1]
    many = [m for m in every if m.task["n"] > 1]
    ratios = column(many, "measured") / column(many, "expected")
    rises = int(column(every, "increases").sum())
    taus = column(every, "tau")
    stable = f"{rises} steps increase the distance" if rises else "No step increases the distance"
    return (
        f"{stable}, for τ from {taus.min():g} to {taus.max():g}; one sample comes nearer by 1/(1 + 2τ) (within {abs(column(one, 'measured') / column(one, 'expected') - 1).max():.0e}), "
        f"{int(many[0].task['n'])} samples by {between(ratios)} times that. The gradient step that the paper puts in its place ends "
        f"{column(many, 'from_gradient').min():.2f} to {column(many, 'from_gradient').max():.2f} of the way from the minimizer, "
        f"and at the minimizer for one sample."
    )


MINIMIZING = Check(
    name="minimizing",
    title="The minimizing scheme",
    statement="argmin SW_2²(μ, μ_t)/(2τ) + SW_2²(μ, ν) becomes a gradient step X − h ⊙ ∇SW_2² for samples of fixed weights.",
    tasks=tasks,
    measure=measure,
    draw=draw,
    verdict=verdict,
)
