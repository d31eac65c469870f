"""How far to step: the theory as plain functions, the rules that compute a step from the slices drawn.

Every update of free particles by a sliced distance with p = 2 is X ← X − a D, where

    D_i = Σ_l w_l θ_l r_li        r_li = what slice l has sample i move by along θ_l
    M   = Σ_l w_l θ_l θ_lᵀ        so that D = M e where each sample has one partner, at offset e

and a is the *dimensionless step*: no unit of length, no sample size, no learning rate in it. With equal
sample weights 1/n the gradient of SW_2² is (2/n) D, so a rate h means a = 2h/n; the gradient of the root
is D / (n SW_2), so a rate h means a = h / (n SW_2), which grows without bound as the distance shrinks.

Near a solution e ← (I − aM) e. What follows asks when that contracts, in mean square, for slices drawn
afresh at each step, uniformly on the sphere unless said otherwise.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from slicewise.support import check_choice

Objective = Literal["power", "root"]
Reduction = Literal["mean", "sum"]


def best_step(n_slices: int, d: int) -> float:
    """a* = L d / (L + d − 1): the step that contracts most, for L fresh uniform slices of R^d.

    E M = I/d and E M² = I (L + d − 1) / (L d²): a pair of equal slices gives θθᵀ, of mean I/d, and there
    are L of those among the L² pairs; a pair of different ones gives I/d². Hence
    E|e − aMe|² = |e|² (1 − 2a/d + a² (L + d − 1) / (L d²)), least at a*. The data's own dimension k does
    not enter. As a rate for SW_2²: (n/2) a*.

    >>> best_step(50, 100), best_step(10**9, 2)
    (33.557046979865774, 1.999999998)
    """
    _check(n_slices=n_slices, d=d)
    return n_slices * d / (n_slices + d - 1)


def stability_limit(n_slices: int, d: int) -> float:
    """2 a*: with fresh slices a step is stable in mean square if, and only if, it is below.

    As a rate for SW_2² with n equal weights: n L d / (L + d − 1), the right edge of every rate sweep.
    """
    return 2 * best_step(n_slices, d)


def contraction(step: float, n_slices: int, d: int) -> float:
    """E|e′|² / |e|² of one step, 1 − L / (L + d − 1) at a*; above 1 it diverges.

    Reducing data to their own k dimensions replaces d by k here: fewer steps for the same error.
    """
    _check(n_slices=n_slices, d=d)
    return 1 - 2 * step / d + step**2 * (n_slices + d - 1) / (n_slices * d**2)


def fixed_slices_limit(slices: Tensor, weights: Tensor | None = None) -> Tensor:
    """2 / λ_max(M): the limit for slices (*batch, L, d) that are kept; those directions never average out."""
    if weights is None:
        weights = slices.new_full(slices.shape[:-1], 1 / slices.shape[-2])
    scaled = slices * weights.sqrt().unsqueeze(-1)
    return 2 / torch.linalg.matrix_norm(scaled, ord=2).square()


def marchenko_pastur_limit(n_slices: int, d: int) -> float:
    """What `fixed_slices_limit` comes to for many uniform slices: 2 L d / (√L + √d)².

    By the Marchenko–Pastur law, λ_max(M) → (1 + √(d/L))² / d.
    """
    _check(n_slices=n_slices, d=d)
    return 2 * n_slices * d / (math.sqrt(n_slices) + math.sqrt(d)) ** 2


def orthonormal_step(n_slices: int, d: int) -> float:
    """a* for stacked random orthonormal frames: L for L ≤ d, d once L is a multiple of d.

    With L = q d + r, M = (q I + P) / L where P projects on r random dimensions: E M = I/d and
    E M² = (q² + (2q + 1) r/d) I / L². Whole frames contract to nothing in one step.
    """
    _check(n_slices=n_slices, d=d)
    frames, rest = divmod(n_slices, d)
    return n_slices**2 / (d * frames**2 + (2 * frames + 1) * rest)


def projected_step(n_slices: int, d: int, k: int) -> float:
    """a* for slices of R^d whose moves are projected on the k dimensions of the data.

    E (P M P)² = I_k ((k + 2) / (d (d + 2)) + (L − 1) / d²) / L, by E θθᵀPθθᵀ = (2P + kI) / (d (d + 2)).
    """
    _check(n_slices=n_slices, d=d, k=k)
    return n_slices * d * (d + 2) / (d * (k + 2) + (n_slices - 1) * (d + 2))


def paper_step(k: int, weight: float) -> float:
    """The paper's rate k / (2 p_i) for SW_2², p_i the weight of a sample.

    It holds for flows run in the data's own R^k with the power (not the root) of p = 2 and L → ∞, and
    is the best rate there, not a bound: the bound is twice as large. Run in R^d the same argument gives
    d / (2 p_i). With finite L it is unstable as soon as L ≤ k − 1 (a = k then passes 2 a*).
    """
    _check(k=k)
    return k / (2 * weight)


def root_floor(rate: float, n: int, n_slices: int, d: int) -> float:
    """Where a constant rate on the root SW_2 ends: W_2 ≈ h (L + d − 1) / (2 n L √d).

    Its step a = h / (n SW_2) grows as SW_2 falls, up to 2 a*, where it rattles; SW_2 = W_2 / √d there.
    Above this floor a smaller rate is only slower. For d = 2 it is an upper bound within 2×.
    """
    return rate * math.sqrt(d) / (n * stability_limit(n_slices, d))


def step_of_rate(
    rate: float,
    n: int,
    objective: Objective = "power",
    *,
    sw: float | None = None,
    reduction: Reduction = "mean",
    times_n: bool = False,
) -> float:
    """The dimensionless step a of a learning rate, for a loss over n samples of equal weight (p = 2).

    `reduction` and `times_n` say how the loss is written: SW_2² is a mean over samples or a sum, the
    root is that of the mean or of the sum, and either may be multiplied by n. The root needs the present
    value `sw` of SW_2 (mean). Published flow scripts use the root of the sum, times n.

    >>> step_of_rate(150, n=300), step_of_rate(1e-4, n=10_000, objective="root", sw=0.1,
    ...                                       reduction="sum", times_n=True)
    (1.0, 0.1)
    """
    return rate * _step_of_unit_rate(n, objective, sw, reduction, times_n)


def rate_of_step(
    step: float,
    n: int,
    objective: Objective = "power",
    *,
    sw: float | None = None,
    reduction: Reduction = "mean",
    times_n: bool = False,
) -> float:
    """The learning rate that takes a dimensionless step: undoes `step_of_rate`."""
    return step / _step_of_unit_rate(n, objective, sw, reduction, times_n)


def _step_of_unit_rate(
    n: int, objective: Objective, sw: float | None, reduction: Reduction, times_n: bool
) -> float:
    check_choice("objective", objective, ("power", "root"))
    check_choice("reduction", reduction, ("mean", "sum"))
    outer = n if times_n else 1
    if objective == "power":
        return outer * 2 * (1 / n if reduction == "mean" else 1)
    if sw is None or not sw > 0:
        raise ValueError(
            f"sw = {sw}: the step of a root depends on how far the samples are; give SW_2 > 0"
        )
    return outer / (n * sw) * (1 if reduction == "mean" else math.sqrt(n))


def _check(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} = {count}: give at least 1")
