"""Every method by its name in the literature: one short composition of parts each."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

from torch import Tensor

from slicewise.checks import check_basis, check_choice, check_count
from slicewise.learned import PushForward
from slicewise.legacy import AliasedTrace
from slicewise.moves import Ascend, Best, InTurn, Orthogonal, Repeat, Spread
from slicewise.problem import Move, Slicer
from slicewise.recipe import LAWS, Recipe, Variant
from slicewise.schedules import Schedule
from slicewise.slicers import Frame, Orthonormal, RandomPath, Then, Trace, Uniform
from slicewise.weighting import Aligned, Energy, EnergyKind

VARIANTS: dict[str, Variant] = {}

Kappa = float | Schedule
Law = Literal["vmf", "power_spherical"]
Entering = Callable[[Callable[..., Recipe]], Variant]


def variant(*, breaks: Collection[str] = (), cost: str = "L n (log n + d)") -> Entering:
    """Enter a recipe into `VARIANTS` under its function's name, with the laws it breaks and what it costs."""

    def enter(build: Callable[..., Recipe]) -> Variant:
        entry = Variant(build.__name__, build, LAWS.difference(breaks), cost)
        VARIANTS[entry.name] = entry
        return entry

    return enter


@variant()
def sw(n_slices: int = 50) -> Recipe:
    """Sliced Wasserstein: the mean over uniform slices (Rabin et al., 2011)."""
    return Recipe(Uniform(n_slices))


@variant(cost="L n (log n + d) + L d²")
def orthosw(n_slices: int = 50) -> Recipe:
    """SW over stacked orthonormal frames: the same mean, less noise (Rowland et al., 2019)."""
    return Recipe(Orthonormal(n_slices))


@variant(cost="R T n (log n + d)")
def maxsw(
    n_slices: int = 1, n_steps: int = 10, ascent_step: float | None = None, restarts: int = 1
) -> Recipe:
    """Max-SW: the one slice that costs most, by ascent (Deshpande et al., 2019).

    A lower bound of the maximum; `restarts` climbs from several starts and keeps the best.
    """
    if n_slices != 1:
        raise ValueError(
            f"n_slices = {n_slices}: maxsw has one slice; for several orthogonal ones use 'maxksw'"
        )
    check_count("n_steps", n_steps)
    check_count("restarts", restarts)
    climb: Move = Repeat(Ascend(ascent_step), n_steps - 1)
    return Recipe(Then(Uniform(restarts), InTurn(climb, Best()) if restarts > 1 else climb))


@variant(cost="T L n (log n + d)")
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


@variant(breaks={"homogeneous"}, cost="T (L n (log n + d) + L d² + L² d)")
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
    check_count("n_steps", n_steps, at_least=0)
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
    start = Uniform(_chains(n_slices, n_steps, burn_in, thin))
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
    start = Uniform(_chains(n_slices, n_steps, burn_in, thin))
    return Recipe(Trace(start, Spread(kappa, legacy=legacy), n_steps, burn_in, thin))


@variant(breaks={"metric"}, cost="2 L n (log n + d)")
def imsw(
    n_slices: int | None = None,
    n_steps: int = 10,
    ascent_step: float | None = None,
    burn_in: int = 0,
    thin: int = 1,
    legacy: bool = False,
) -> Recipe:
    """Markovian SW whose next slice climbs the cost (Nguyen et al., 2023)."""
    start = Uniform(_chains(n_slices, n_steps, burn_in, thin))
    climb = Ascend(ascent_step, coupled=legacy)
    if legacy:
        return Recipe(AliasedTrace(start, climb, n_steps, burn_in=burn_in, thin=thin))
    return Recipe(Trace(start, climb, n_steps, burn_in, thin))


@variant(breaks={"metric"}, cost="2 L n (log n + d)")
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
    start = Uniform(_chains(n_slices, n_steps, burn_in, thin))
    climb, spread = Ascend(ascent_step, coupled=legacy), Spread(kappa, legacy=legacy)
    if legacy:
        return Recipe(AliasedTrace(start, climb, n_steps, spread, burn_in, thin))
    return Recipe(Trace(start, InTurn(climb, spread), n_steps, burn_in, thin))


@variant(breaks={"homogeneous", "metric"})
def ebsw(
    n_slices: int = 50,
    energy: EnergyKind = "exp",
    temperature: float = 1.0,
    detach: bool = False,
) -> Recipe:
    """Energy-based SW: uniform slices, weighted by the energy of their cost (Nguyen, Ho, 2023)."""
    return Recipe(Uniform(n_slices), _energy(energy, temperature, detach))


@variant(breaks={"symmetric", "permutation_invariant", "metric"})
def rpsw(n_slices: int = 50, kappa: Kappa = 50.0) -> Recipe:
    """Random-path SW: slices spread around paths from x to y (Nguyen et al., 2024).

    Symmetric in law; with one seed, swapping or permuting samples draws other pairs.
    """
    return Recipe(Then(RandomPath(n_slices), Spread(kappa, "power_spherical")))


@variant(breaks={"symmetric", "permutation_invariant", "homogeneous", "metric"})
def ebrpsw(
    n_slices: int = 50,
    kappa: Kappa = 50.0,
    energy: EnergyKind = "exp",
    temperature: float = 1.0,
    detach: bool = False,
) -> Recipe:
    """Energy-weighted random-path SW, IWRPSW in its paper (Nguyen et al., 2024)."""
    path = Then(RandomPath(n_slices), Spread(kappa, "power_spherical"))
    return Recipe(path, _energy(energy, temperature, detach))


@variant(breaks={"metric"}, cost="L n (log n + d) + n d min(n, d)")
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


def _chains(n_slices: int | None, n_steps: int, burn_in: int, thin: int) -> int:
    """How many chains give n_slices kept slices; None is as near to 50 as whole chains come."""
    check_count("n_steps", n_steps)
    check_count("burn_in", burn_in, at_least=0)
    check_count("thin", thin)
    kept = len(range(burn_in, n_steps, thin))
    if kept == 0:
        raise ValueError(f"burn_in = {burn_in} leaves nothing of n_steps = {n_steps}: lower it")
    if n_slices is None:
        return max(1, round(50 / kept))
    if n_slices % kept:
        below, above = n_slices // kept * kept, (n_slices // kept + 1) * kept
        near = f"{below} or {above}" if below else f"{above}"
        raise ValueError(
            f"n_slices = {n_slices} is no whole number of chains: each keeps {kept} slices "
            f"(n_steps = {n_steps}, burn_in = {burn_in}, thin = {thin}); use n_slices = {near}"
        )
    return n_slices // kept


def _energy(energy: EnergyKind, temperature: float, detach: bool) -> Energy:
    check_choice("energy", energy, ("exp", "identity", "poly"))
    if not temperature > 0:
        raise ValueError(f"temperature = {temperature}: give a positive number")
    return Energy(energy, temperature, detach)
