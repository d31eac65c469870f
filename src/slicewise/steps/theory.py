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
    """Compute a* = L d / (L + d − 1), the step that contracts most for L fresh uniform slices of R^d.

    Use it to choose a fixed step, or a learning rate, for a flow of free particles with p = 2. As a rate for SW_2² of n
    samples of equal weight it is (n/2) a*; see `rate_of_step`.

    Derivation: E M = I/d and E M² = I (L + d − 1) / (L d²). Of the L² pairs of slices, the L pairs of equal slices give
    θθᵀ, whose mean is I/d; the pairs of different slices give I/d². Hence E|e − aMe|² = |e|² (1 − 2a/d + a²
    (L + d − 1) / (L d²)), which is smallest at a*. The intrinsic dimension k of the data does not enter.

    Args:
        n_slices: the number L of slices drawn at each step, at least 1.
        d: the dimension of the space, at least 1.

    Returns:
        The dimensionless step a*.

    Raises:
        ValueError: if `n_slices` or `d` is below 1.

    >>> best_step(50, 100), best_step(10**9, 2)
    (33.557046979865774, 1.999999998)
    """
    _check(n_slices=n_slices, d=d)
    return n_slices * d / (n_slices + d - 1)


def stability_limit(n_slices: int, d: int) -> float:
    """Compute 2 a*, the limit below which a step is stable for fresh uniform slices.

    With slices drawn anew at each step, a step is stable in mean square if and only if it is smaller than this limit.
    As a rate for SW_2² with n samples of equal weight the limit is n L d / (L + d − 1), the right edge of every rate
    sweep.

    Args:
        n_slices: the number L of slices drawn at each step, at least 1.
        d: the dimension of the space, at least 1.

    Returns:
        The limit, as a dimensionless step.

    Raises:
        ValueError: if `n_slices` or `d` is below 1.

    >>> stability_limit(10, 10) == 2 * best_step(10, 10)
    True
    """
    return 2 * best_step(n_slices, d)


def contraction(step: float, n_slices: int, d: int) -> float:
    """Compute E|e′|² / |e|², the expected factor of the squared error in one step with fresh uniform slices.

    Use it to predict how many steps a flow needs near its solution. At the best step a* the factor is
    1 − L / (L + d − 1); above 1 the error diverges. If the data are reduced to their own k dimensions, k takes the
    place of d: the same error is reached in fewer steps.

    Args:
        step: the dimensionless step a.
        n_slices: the number L of slices drawn at each step, at least 1.
        d: the dimension of the space, at least 1.

    Returns:
        The factor 1 − 2a/d + a² (L + d − 1) / (L d²).

    Raises:
        ValueError: if `n_slices` or `d` is below 1.

    >>> contraction(best_step(1, 4), n_slices=1, d=4), contraction(stability_limit(1, 4), n_slices=1, d=4)
    (0.75, 1.0)
    """
    _check(n_slices=n_slices, d=d)
    return 1 - 2 * step / d + step**2 * (n_slices + d - 1) / (n_slices * d**2)


def fixed_slices_limit(slices: Tensor, weights: Tensor | None = None) -> Tensor:
    """Compute 2 / λ_max(M), the stability limit of the step for slices that are kept from step to step.

    Use it if slices are not redrawn, for example with a `Target`. Errors along these directions then never average out:
    for many uniform slices the limit is lower than `stability_limit`, see `marchenko_pastur_limit`.

    Args:
        slices: unit directions, (*batch, L, d).
        weights: non-negative slice weights, (*batch, L). None is 1/L each.

    Returns:
        The limit as a dimensionless step, (*batch,).

    >>> fixed_slices_limit(torch.eye(4))  # M = I/4
    tensor(8.)
    """
    if weights is None:
        weights = slices.new_full(slices.shape[:-1], 1 / slices.shape[-2])
    scaled = slices * weights.sqrt().unsqueeze(-1)
    return 2 / torch.linalg.matrix_norm(scaled, ord=2).square()


def marchenko_pastur_limit(n_slices: int, d: int) -> float:
    """Compute 2 L d / (√L + √d)², the value that `fixed_slices_limit` approaches for many uniform slices.

    Use it to know the limit for fixed slices before they are drawn. By the Marchenko–Pastur law,
    λ_max(M) → (1 + √(d/L))² / d.

    Args:
        n_slices: the number L of slices, at least 1.
        d: the dimension of the space, at least 1.

    Returns:
        The limit, as a dimensionless step.

    Raises:
        ValueError: if `n_slices` or `d` is below 1.

    >>> marchenko_pastur_limit(4, 4)
    2.0
    """
    _check(n_slices=n_slices, d=d)
    return 2 * n_slices * d / (math.sqrt(n_slices) + math.sqrt(d)) ** 2


def orthonormal_step(n_slices: int, d: int) -> float:
    """Compute the step a* that contracts most for stacked random orthonormal frames.

    Use it in place of `best_step` for the slices of `orthosw`. It is L for L ≤ d, and d once L is a multiple of d.
    Whole frames reduce the error to zero in one step.

    Derivation: with L = q d + r, M = (q I + P) / L, where P projects on r random dimensions. Then E M = I/d and E
    M² = (q² + (2q + 1) r/d) I / L².

    Args:
        n_slices: the number L of slices drawn at each step, at least 1.
        d: the dimension of the space, at least 1.

    Returns:
        The dimensionless step a*.

    Raises:
        ValueError: if `n_slices` or `d` is below 1.

    >>> orthonormal_step(3, 10), orthonormal_step(20, 10)
    (3.0, 10.0)
    """
    _check(n_slices=n_slices, d=d)
    frames, rest = divmod(n_slices, d)
    return n_slices**2 / (d * frames**2 + (2 * frames + 1) * rest)


def projected_step(n_slices: int, d: int, k: int) -> float:
    """Compute the step a* for slices of R^d whose moves are projected on the k dimensions of the data.

    Use it for a flow that draws slices in R^d and keeps its samples in the subspace of the data.

    Derivation: E (P M P)² = I_k ((k + 2) / (d (d + 2)) + (L − 1) / d²) / L, by E θθᵀPθθᵀ = (2P + kI) / (d (d + 2)).

    Args:
        n_slices: the number L of slices drawn at each step, at least 1.
        d: the dimension of the space, at least 1.
        k: the dimension of the subspace that holds the data, at least 1.

    Returns:
        The dimensionless step a*; `best_step(n_slices, d)` for k = d.

    Raises:
        ValueError: if `n_slices`, `d` or `k` is below 1.

    >>> projected_step(1, 10, 10) == best_step(1, 10)
    True
    """
    _check(n_slices=n_slices, d=d, k=k)
    return n_slices * d * (d + 2) / (d * (k + 2) + (n_slices - 1) * (d + 2))


def paper_step(k: int, weight: float) -> float:
    """Compute the paper's learning rate k / (2 p_i) for SW_2², where p_i is the weight of a sample.

    Use it to reproduce the paper. The rate holds for flows run in the data's own R^k, with the power (not the root) of
    p = 2, for L → ∞. There it is the best rate, not a bound: the bound is twice as large. For a flow run in R^d the
    same argument gives d / (2 p_i). With finite L the rate is unstable as soon as L ≤ k − 1, because a = k then reaches
    or exceeds the limit 2 a*.

    Args:
        k: the dimension of the data's subspace, at least 1.
        weight: the weight p_i of a sample, 1/n for n samples of equal weight.

    Returns:
        The learning rate.

    Raises:
        ValueError: if `k` is below 1.

    >>> paper_step(2, weight=1 / 100)
    100.0
    """
    _check(k=k)
    return k / (2 * weight)


def root_floor(rate: float, n: int, n_slices: int, d: int) -> float:
    """Compute the W_2 at which a constant learning rate on the root SW_2 stops improving.

    Use it to judge whether a flow on the root stopped because of its rate. The floor is W_2 ≈ h (L + d − 1) / (2 n L
    √d). The step a = h / (n SW_2) grows as SW_2 falls. It stops the progress when it reaches 2 a*, and the samples then
    oscillate; SW_2 = W_2 / √d there. Above this floor a smaller rate is only slower. For d = 2 the formula is an upper
    bound, at most twice the floor itself.

    Args:
        rate: the learning rate h on SW_2.
        n: the number of samples, of equal weight.
        n_slices: the number L of uniform slices drawn at each step, at least 1.
        d: the dimension of the space, at least 1.

    Returns:
        The approximate W_2 that remains.

    Raises:
        ValueError: if `n_slices` or `d` is below 1.

    >>> root_floor(1.0, n=100, n_slices=1, d=4)
    0.01
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
    """Convert a learning rate to the dimensionless step a, for a loss over n samples of equal weight with p = 2.

    Use it to compare a learning rate with `best_step` and `stability_limit`. `reduction` and `times_n` describe how the
    loss is written. Published flow scripts use the root of the sum, times n.

    Args:
        rate: the learning rate.
        n: the number of samples.
        objective: "power" for SW_2², "root" for SW_2.
        sw: the present value of SW_2, with costs as means over samples. Required for "root", ignored for "power".
        reduction: "mean" or "sum": whether SW_2² is a mean or a sum over samples. The root is that of the mean or the
            sum.
        times_n: whether the loss is multiplied by n.

    Returns:
        The dimensionless step a.

    Raises:
        ValueError: for an unknown `objective` or `reduction`, and for "root" without a positive `sw`.

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
    """Convert a dimensionless step to the learning rate that takes it: the inverse of `step_of_rate`.

    Use it to give an optimizer the rate of a computed step, such as `best_step`.

    Args:
        step: the dimensionless step a.
        n: the number of samples, of equal weight.
        objective: "power" for SW_2², "root" for SW_2.
        sw: the present value of SW_2, with costs as means over samples. Required for "root", ignored for "power".
        reduction: "mean" or "sum": whether SW_2² is a mean or a sum over samples. The root is that of the mean or the
            sum.
        times_n: whether the loss is multiplied by n.

    Returns:
        The learning rate.

    Raises:
        ValueError: for an unknown `objective` or `reduction`, and for "root" without a positive `sw`.

    >>> rate_of_step(1.0, n=300)
    150.0
    """
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
