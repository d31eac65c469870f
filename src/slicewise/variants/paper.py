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
    """Sliced Wasserstein: the mean over uniform slices (Rabin et al., 2011).

    Use it as the default and as the baseline of every comparison. It is a metric and depends on no option but the
    number of slices.

    Args:
        n_slices: the number of slices.
    """
    return Recipe(Uniform(n_slices))


@variant(cost="L n (log n + d) + L d²")
def orthosw(n_slices: int = 50) -> Recipe:
    """SW over stacked orthonormal frames: the same mean, less noise (Rowland et al., 2019).

    Use it in place of `sw` if the noise of the estimate matters: slices of one frame are orthogonal and do not repeat
    each other. Frames are stacked if there are more slices than dimensions.

    Args:
        n_slices: the number of slices.
    """
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

    Use it if two sets differ in few directions, which a mean over slices would dilute. The value is a lower bound of
    the maximum; `Evaluation.bound` is an upper bound. For a careful search give `search=100, restarts=10, n_steps=50`.

    Args:
        n_slices: 1; for several orthogonal slices use `maxksw`.
        n_steps: the number T of slices in an ascent, its start included: T − 1 ascent steps are made.
        ascent_step: None adds the unit gradient to a slice, which does not depend on the scale of the data. A number is
            the fixed rate of published scripts, on the p-th root of the cost summed over points.
        restarts: the number of starts that are climbed from; the best result is kept.
        search: the number of random directions whose costs are computed first, beside those of the principal directions
            of the samples. The ascent starts from the best of them and ends with `n_steps` more steps, which are kept
            only if they increase the cost, so that they do not overshoot. 0 starts from random directions.

    Raises:
        ValueError: if `n_slices` is not 1.
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
    """Max-K-SW: the orthonormal frame of K = n_slices slices that costs most (Dai, Seljak, 2021).

    Use it if two sets differ in a subspace of a few dimensions. As for `maxsw`, an ascent that stops early returns a
    lower bound of the maximum.

    Args:
        n_slices: the number K of slices, at most the dimension of the samples.
        n_steps: the number T of slices in an ascent, its start included: T − 1 ascent steps are made.
        ascent_step: None adds the unit gradient to a slice, which does not depend on the scale of the data. A number is
            the fixed rate of published scripts, on the p-th root of the cost summed over points.
        legacy: reproduce the published code, which couples the slices in one ascent, at the rate 0.1.
    """
    check_count("n_steps", n_steps)
    climb = Ascend(ascent_step, coupled=legacy, frame=True)
    return Recipe(Then(Frame(n_slices), Repeat(climb, n_steps - 1)))


@variant()
def ksw(n_slices: int = 2) -> Recipe:
    """K-SW: the mean over one random orthonormal frame of K = n_slices slices.

    Use it as the baseline of `maxksw`, without the ascent. For more slices than dimensions use `orthosw`.

    Reference: Dai, Seljak, 2021.

    Args:
        n_slices: the number K of slices, at most the dimension of the samples.
    """
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

    Use it for many comparisons in a row, as in training, if slices of larger cost are wanted but not a single one. The
    network continues to learn from call to call in `SlicedWasserstein`; a functional call starts from an untrained
    network.

    Args:
        n_slices: the number of slices.
        n_steps: the number of steps of Adam in each call.
        penalty: the factor of the mean |θ·θ′| over slices, which keeps them apart, at least 0.
        inner_lr: the learning rate of Adam.
        betas: the two decay rates of Adam, in [0, 1).
        redraw: whether each step of Adam draws new inputs of the network.
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
    """DSW with slices spread around one learned location (the "DSW" of the EBSW and RPSW papers).

    Use it to compare with these papers, or if two sets differ mainly in one direction and its surroundings count. The
    location is found by ascent of the mean cost of the slices around it.

    Args:
        n_slices: the number of slices.
        n_steps: the number T of slices in an ascent, its start included: T − 1 ascent steps are made.
        kappa: the concentration around the location, a number or a schedule such as `Anneal(100)`. The larger it is,
            the closer the slices.
        ascent_step: None adds the unit gradient to a slice, which does not depend on the scale of the data. A number is
            the fixed rate of published scripts, on the p-th root of the cost summed over points.
        law: the distribution around the location, "vmf" (von Mises–Fisher) or "power_spherical".
        legacy: reproduce the published code, with its approximate von Mises–Fisher sampler, and ascents at the rate
            0.1.
    """
    check_count("n_steps", n_steps)
    check_choice("law", law, ("vmf", "power_spherical"))
    spread = Spread(kappa, law, copies=n_slices, legacy=legacy)
    climb = Repeat(Ascend(ascent_step, through=spread), n_steps - 1)
    return Recipe(Then(Uniform(1), InTurn(climb, spread)))


@variant()
def omsw(n_slices: int | None = None, n_steps: int = 10, burn_in: int = 0, thin: int = 1) -> Recipe:
    """Markovian SW whose next slice is orthogonal to the last (Nguyen et al., 2023).

    Use it as a baseline of the Markovian variants. Its slices do not depend on the samples.

    Args:
        n_slices: the number of slices kept, a multiple of what a chain keeps. None is the number of whole chains
            nearest to 50 slices.
        n_steps: the number of slices in each chain.
        burn_in: how many slices at the start of each chain are dropped.
        thin: of the remaining slices of a chain, every `thin`-th is kept.

    Raises:
        ValueError: if `n_slices` is no whole number of chains, or if `burn_in` leaves no slice.
    """
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
    """Markovian SW whose next slice is drawn near the last (Nguyen et al., 2023).

    Use it as a baseline of the Markovian variants: a random walk that does not depend on the samples. The next slice is
    drawn from a von Mises–Fisher distribution around the last.

    Args:
        n_slices: the number of slices kept, a multiple of what a chain keeps. None is the number of whole chains
            nearest to 50 slices.
        n_steps: the number of slices in each chain.
        kappa: the concentration around the last slice, a number or a schedule such as `Anneal(100)`. The larger it is,
            the closer the slices.
        burn_in: how many slices at the start of each chain are dropped.
        thin: of the remaining slices of a chain, every `thin`-th is kept.
        legacy: reproduce the published code, with its approximate von Mises–Fisher sampler.

    Raises:
        ValueError: if `n_slices` is no whole number of chains, or if `burn_in` leaves no slice.
    """
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
    """Markovian SW whose next slice climbs the cost (Nguyen et al., 2023).

    Use it between `sw` and `maxsw`: all slices on the way to a larger cost count, not only the last. It is no metric.

    Args:
        n_slices: the number of slices kept, a multiple of what a chain keeps. None is the number of whole chains
            nearest to 50 slices.
        n_steps: the number of slices in each chain.
        ascent_step: None adds the unit gradient to a slice, which does not depend on the scale of the data. A number is
            the fixed rate of published scripts, on the p-th root of the cost summed over points.
        burn_in: how many slices at the start of each chain are dropped.
        thin: of the remaining slices of a chain, every `thin`-th is kept.
        legacy: reproduce the published code, which stores slices that are not normalized and couples its chains, at the
            rate 0.1.

    Raises:
        ValueError: if `n_slices` is no whole number of chains, or if `burn_in` leaves no slice.
    """
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
    """Markovian SW whose next slice climbs the cost, then is spread (Nguyen et al., 2023).

    Use it in place of `imsw` if its chains should also explore: after each ascent step the slice is drawn anew from a
    von Mises–Fisher distribution around the result. It is no metric.

    Args:
        n_slices: the number of slices kept, a multiple of what a chain keeps. None is the number of whole chains
            nearest to 50 slices.
        n_steps: the number of slices in each chain.
        kappa: the concentration around the slice that the ascent reached, a number or a schedule such as `Anneal(100)`.
            The larger it is, the closer the slices.
        ascent_step: None adds the unit gradient to a slice, which does not depend on the scale of the data. A number is
            the fixed rate of published scripts, on the p-th root of the cost summed over points.
        burn_in: how many slices at the start of each chain are dropped.
        thin: of the remaining slices of a chain, every `thin`-th is kept.
        legacy: reproduce the published code, which stores slices that are not normalized, couples its chains and uses
            an approximate von Mises–Fisher sampler, at the rate 0.1.

    Raises:
        ValueError: if `n_slices` is no whole number of chains, or if `burn_in` leaves no slice.
    """
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
    """Energy-based SW: uniform slices, weighted by the energy of their cost (Nguyen, Ho, 2023).

    Use it if slices of larger cost should count more, without an inner optimization. It is no metric. With "exp" the
    weights depend on the scale of the samples; `temperature` sets the scale of the costs.

    Args:
        n_slices: the number of slices.
        energy: the energy f of a cost: "exp" for exp(cost / temperature), "identity" for the cost, "poly" for its
            square.
        temperature: the temperature of "exp", positive.
        hold_weights: True treats slice weights as constants, False differentiates them. None holds them where a step is
            computed (`displacement`, `flow` with `lr="auto"`) and differentiates them where a gradient is.
    """
    return Recipe(Uniform(n_slices), energy_of(energy, temperature, hold_weights))


@variant(lacks={"symmetric", "permutation_invariant", "metric"})
def rpsw(n_slices: int = 50, kappa: Kappa = 50.0) -> Recipe:
    """Random-path SW: slices spread around paths from x to y (Nguyen et al., 2024).

    Use it if slices should point from one set to the other, without an inner optimization. Slices are drawn from a
    power spherical distribution around directions between random samples of x and y. It is symmetric in law; with one
    seed, swapping or permuting samples draws other pairs. It is no metric.

    Args:
        n_slices: the number of slices.
        kappa: the concentration around a path, a number or a schedule such as `Anneal(100)`. The larger it is, the
            closer the slices.
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
    """Energy-weighted random-path SW, IWRPSW in its paper (Nguyen et al., 2024).

    Use it to combine `rpsw` and `ebsw`: slices around paths from x to y, of which those of larger cost count more. It
    is no metric.

    Args:
        n_slices: the number of slices.
        kappa: the concentration around a path, a number or a schedule such as `Anneal(100)`. The larger it is, the
            closer the slices.
        energy: the energy f of a cost: "exp" for exp(cost / temperature), "identity" for the cost, "poly" for its
            square.
        temperature: the temperature of "exp", positive.
        hold_weights: True treats slice weights as constants, False differentiates them. None holds them where a step is
            computed (`displacement`, `flow` with `lr="auto"`) and differentiates them where a gradient is.
    """
    path = Then(RandomPath(n_slices), Spread(kappa, "power_spherical"))
    return Recipe(path, energy_of(energy, temperature, hold_weights))


@variant(lacks={"metric"}, cost="L n (log n + d) + n d min(n, d)")
def phisw(
    n_slices: int | None = None, basis: Tensor | None = None, slicer: Slicer | None = None
) -> Recipe:
    """φ-weighted SW of the paper: slices of R^d rescaled to be slices of the data's own subspace.

    Use it if samples in R^d lie in a subspace of k dimensions: the value is that of SW in the data's own R^k, slice by
    slice. Slices θ have the weights ‖Uᵀθ‖^(−p) / L, where the columns of U are the basis. With a given basis it is a
    metric on that subspace. An estimated basis differs from pair to pair, so that it is no metric.

    The gradient holds the basis constant. For an estimated basis, which moves with the samples, it is therefore not the
    derivative of the value: samples that leave the subspace are seen by the slices, not by the weights. Give a basis, or
    use "sw", where the derivative matters.

    Args:
        n_slices: the number of slices, 50 if None. Leave it out if a slicer is given.
        basis: a basis of the subspace, (d, k) with orthonormal columns. None estimates it from the samples of each
            call.
        slicer: the slicer. None draws uniform slices.

    Raises:
        ValueError: for a basis whose columns are not orthonormal, and for `n_slices` beside a slicer.
    """
    if basis is not None:
        check_basis(basis)
    if slicer is None:
        slicer = Uniform(50 if n_slices is None else n_slices)
    elif n_slices is not None:
        raise ValueError(f"n_slices = {n_slices} beside a slicer: let {slicer!r} say how many")
    return Recipe(slicer, Aligned(basis))
