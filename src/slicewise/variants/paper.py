"""Every method by its name in the literature: one short composition of parts each."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from slicewise.parts import (
    AliasedTrace,
    Aligned,
    Ascend,
    EnergyKind,
    Frame,
    InTurn,
    Orthogonal,
    Orthonormal,
    PushForward,
    RandomPath,
    Repeat,
    Spread,
    Then,
    Trace,
    Uniform,
)
from slicewise.problem import Slicer
from slicewise.support import check_basis, check_choice, check_count
from slicewise.variants.options import Kappa, chains_for, check_learning, climb_from, energy_of
from slicewise.variants.recipe import Recipe
from slicewise.variants.registry import variant

Law = Literal["vmf", "power_spherical"]


@variant()
def sw(n_slices: int = 50) -> Recipe:
    """Sliced Wasserstein: the mean over uniform slices (Rabin et al., 2011)."""
    return Recipe(Uniform(n_slices))


@variant(cost="L n (log n + d) + L d²")
def orthosw(n_slices: int = 50) -> Recipe:
    """SW over stacked orthonormal frames: the same mean, less noise (Rowland et al., 2019)."""
    return Recipe(Orthonormal(n_slices))


@variant(cost="R T n (log n + d)", climbs=True)
def maxsw(
    n_slices: int = 1,
    n_steps: int = 10,
    ascent_step: float | None = None,
    restarts: int = 1,
    search: int = 0,
) -> Recipe:
    """Max-SW: the one slice that costs most, by ascent (Deshpande et al., 2019).

    A lower bound of the maximum (`Evaluation.bound` is an upper one). `restarts` climbs from several starts and
    keeps the best. `search` prices so many random directions and the principal ones of the samples first, and
    climbs from the best of them, with an end that does not overshoot: `search=100, restarts=10, n_steps=50`.
    """
    if n_slices != 1:
        raise ValueError(
            f"n_slices = {n_slices}: maxsw has one slice; for several orthogonal ones use 'maxksw'"
        )
    return Recipe(climb_from(n_steps, ascent_step, restarts, search))


@variant(cost="T L n (log n + d)", climbs=True)
def maxksw(
    n_slices: int = 2, n_steps: int = 10, ascent_step: float | None = None, legacy: bool = False
) -> Recipe:
    """Max-K-SW: the orthonormal frame of K = n_slices slices that costs most (Dai, Seljak, 2021)."""
    check_count("n_steps", n_steps)
    climb = Ascend(ascent_step, coupled=legacy, frame=True)
    return Recipe(Then(Frame(n_slices), Repeat(climb, n_steps - 1)))


@variant()
def ksw(n_slices: int = 2) -> Recipe:
    """K-SW: the mean over one random orthonormal frame of K = n_slices slices."""
    return Recipe(Frame(n_slices))


@variant(lacks={"homogeneous"}, cost="T (L n (log n + d) + L d² + L² d)")
def dsw(
    n_slices: int = 50,
    n_steps: int = 10,
    penalty: float = 1.0,
    inner_lr: float = 5e-4,
    betas: tuple[float, float] = (0.5, 0.999),
    redraw: bool = False,
) -> Recipe:
    """Distributional SW: slices from a learned network that keeps them apart (Nguyen et al., 2021).

    The network learns on from call to call in `SlicedWasserstein`; a functional call starts cold.
    """
    check_learning(n_steps, penalty, inner_lr, betas)
    return Recipe(PushForward(n_slices, n_steps, penalty, inner_lr, betas, redraw))


@variant(cost="T L n (log n + d)")
def vdsw(
    n_slices: int = 50,
    n_steps: int = 10,
    kappa: Kappa = 50.0,
    ascent_step: float | None = None,
    law: Law = "vmf",
    legacy: bool = False,
) -> Recipe:
    """DSW with slices spread around one learned location (the "DSW" of the EBSW and RPSW papers)."""
    check_count("n_steps", n_steps)
    check_choice("law", law, ("vmf", "power_spherical"))
    spread = Spread(kappa, law, copies=n_slices, legacy=legacy)
    climb = Repeat(Ascend(ascent_step, through=spread), n_steps - 1)
    return Recipe(Then(Uniform(1), InTurn(climb, spread)))


@variant()
def omsw(n_slices: int | None = None, n_steps: int = 10, burn_in: int = 0, thin: int = 1) -> Recipe:
    """Markovian SW whose next slice is orthogonal to the last (Nguyen et al., 2023)."""
    start = Uniform(chains_for(n_slices, n_steps, burn_in, thin))
    return Recipe(Trace(start, Orthogonal(), n_steps, burn_in, thin))


@variant()
def rmsw(
    n_slices: int | None = None,
    n_steps: int = 10,
    kappa: Kappa = 50.0,
    burn_in: int = 0,
    thin: int = 1,
    legacy: bool = False,
) -> Recipe:
    """Markovian SW whose next slice is drawn near the last (Nguyen et al., 2023)."""
    start = Uniform(chains_for(n_slices, n_steps, burn_in, thin))
    return Recipe(Trace(start, Spread(kappa, legacy=legacy), n_steps, burn_in, thin))


@variant(lacks={"metric"}, cost="2 L n (log n + d)")
def imsw(
    n_slices: int | None = None,
    n_steps: int = 10,
    ascent_step: float | None = None,
    burn_in: int = 0,
    thin: int = 1,
    legacy: bool = False,
) -> Recipe:
    """Markovian SW whose next slice climbs the cost (Nguyen et al., 2023)."""
    start = Uniform(chains_for(n_slices, n_steps, burn_in, thin))
    climb = Ascend(ascent_step, coupled=legacy)
    if legacy:
        return Recipe(AliasedTrace(start, climb, n_steps, burn_in=burn_in, thin=thin))
    return Recipe(Trace(start, climb, n_steps, burn_in, thin))


@variant(lacks={"metric"}, cost="2 L n (log n + d)")
def vimsw(
    n_slices: int | None = None,
    n_steps: int = 10,
    kappa: Kappa = 50.0,
    ascent_step: float | None = None,
    burn_in: int = 0,
    thin: int = 1,
    legacy: bool = False,
) -> Recipe:
    """Markovian SW whose next slice climbs the cost, then is spread (Nguyen et al., 2023)."""
    start = Uniform(chains_for(n_slices, n_steps, burn_in, thin))
    climb, spread = Ascend(ascent_step, coupled=legacy), Spread(kappa, legacy=legacy)
    if legacy:
        return Recipe(AliasedTrace(start, climb, n_steps, spread, burn_in, thin))
    return Recipe(Trace(start, InTurn(climb, spread), n_steps, burn_in, thin))


@variant(lacks={"homogeneous", "metric"})
def ebsw(
    n_slices: int = 50,
    energy: EnergyKind = "exp",
    temperature: float = 1.0,
    hold_weights: bool | None = None,
) -> Recipe:
    """Energy-based SW: uniform slices, weighted by the energy of their cost (Nguyen, Ho, 2023)."""
    return Recipe(Uniform(n_slices), energy_of(energy, temperature, hold_weights))


@variant(lacks={"symmetric", "permutation_invariant", "metric"})
def rpsw(n_slices: int = 50, kappa: Kappa = 50.0) -> Recipe:
    """Random-path SW: slices spread around paths from x to y (Nguyen et al., 2024).

    Symmetric in law; with one seed, swapping or permuting samples draws other pairs.
    """
    return Recipe(Then(RandomPath(n_slices), Spread(kappa, "power_spherical")))


@variant(lacks={"symmetric", "permutation_invariant", "homogeneous", "metric"})
def ebrpsw(
    n_slices: int = 50,
    kappa: Kappa = 50.0,
    energy: EnergyKind = "exp",
    temperature: float = 1.0,
    hold_weights: bool | None = None,
) -> Recipe:
    """Energy-weighted random-path SW, IWRPSW in its paper (Nguyen et al., 2024)."""
    path = Then(RandomPath(n_slices), Spread(kappa, "power_spherical"))
    return Recipe(path, energy_of(energy, temperature, hold_weights))


@variant(lacks={"metric"}, cost="L n (log n + d) + n d min(n, d)")
def phisw(
    n_slices: int | None = None, basis: Tensor | None = None, slicer: Slicer | None = None
) -> Recipe:
    """φ-weighted SW of the paper: slices of R^d rescaled to be slices of the data's own subspace.

    `basis` (d, k) has orthonormal columns; None estimates it from the samples of each call, which then
    differs from pair to pair: no metric.
    """
    if basis is not None:
        check_basis(basis)
    if slicer is None:
        slicer = Uniform(50 if n_slices is None else n_slices)
    elif n_slices is not None:
        raise ValueError(f"n_slices = {n_slices} beside a slicer: let {slicer!r} say how many")
    return Recipe(slicer, Aligned(basis))
