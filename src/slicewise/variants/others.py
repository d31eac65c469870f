"""The relatives: sliced distances and estimators that the paper's methods stand among, by name."""

from __future__ import annotations

from typing import Literal

from slicewise.parts import (
    Activation,
    Afresh,
    Augment,
    Between,
    Circles,
    ControlVariate,
    Drawn,
    EnergyKind,
    Gaussian,
    Metropolis,
    Moments,
    Monomials,
    Networks,
    Quasi,
    Resample,
    Spread,
    Then,
    Trace,
    Uniform,
)
from slicewise.problem import Lift
from slicewise.sampling import Points
from slicewise.support import check_choice, check_count
from slicewise.variants.options import Kappa, chains_for, check_learning, climb_from, energy_of
from slicewise.variants.recipe import Recipe
from slicewise.variants.registry import variant

Function = Literal["linear", "poly", "circular", "neural"]

# What slices that are not linear in the samples lose.
_CURVED = {
    "linear",
    "homogeneous",
    "translation_invariant",
    "rotation_invariant",
    "bounded",
    "exact_on_a_line",
}


@variant(lacks=_CURVED, cost="L n (log n + D)")
def gsw(
    n_slices: int = 50,
    function: Function = "poly",
    degree: int = 3,
    radius: float = 2.0,
    width: int = 16,
) -> Recipe:
    """Generalised SW: slices along curves in place of lines (Kolouri et al., 2019).

    `function` is "poly" (homogeneous polynomials of odd `degree`; D = C(d + degree − 1, degree)), "circular"
    (distances to points at `radius`), "neural" (networks of `width` hidden units) or "linear", which is `sw`.
    A metric for all but "neural", on whose slices two different laws may agree.
    """
    return Recipe(Uniform(n_slices), lift=_lift(function, degree, radius, width))


@variant(lacks=_CURVED, cost="R T n (log n + D)", climbs=True)
def maxgsw(
    n_slices: int = 1,
    function: Function = "poly",
    degree: int = 3,
    radius: float = 2.0,
    width: int = 16,
    n_steps: int = 10,
    ascent_step: float | None = None,
    restarts: int = 1,
) -> Recipe:
    """Max-GSW: the one curve that costs most, by ascent in its parameters (Kolouri et al., 2019)."""
    if n_slices != 1:
        raise ValueError(f"n_slices = {n_slices}: maxgsw has one slice; for several use 'gsw'")
    lift = _lift(function, degree, radius, width)
    return Recipe(climb_from(n_steps, ascent_step, restarts, 0), lift=lift)


@variant(lacks={*_CURVED, "metric"} - {"rotation_invariant"}, cost="T (L n (log n + d) + n d²)")
def asw(
    n_slices: int = 50,
    n_steps: int = 5,
    penalty: float = 0.5,
    inner_lr: float = 1e-3,
    betas: tuple[float, float] = (0.5, 0.999),
    activation: Activation = "linear",
) -> Recipe:
    """Augmented SW: samples sliced beside a learned function of themselves (Chen et al., 2022).

    The function learns on from call to call in `SlicedWasserstein`; a functional call starts cold. A metric
    for a function that is fixed, not where each pair has its own.
    """
    check_learning(n_steps, penalty, inner_lr, betas)
    check_choice("activation", activation, ("linear", "leaky_relu"))
    lift = Augment(n_slices, n_steps, penalty, inner_lr, betas, activation)
    return Recipe(Uniform(n_slices), lift=lift)


@variant(lacks={"fresh", "metric", "rotation_invariant"})
def qsw(n_slices: int = 50, points: Points = "sobol") -> Recipe:
    """Quasi-SW: the mean over fixed slices that cover the sphere evenly (Nguyen et al., 2024).

    Deterministic, and blind to what its few slices do not see. `points` is "sobol" (any d), or for d = 3 "spiral",
    "equal_area" or "coulomb".
    """
    return Recipe(Quasi(n_slices, points))


@variant(cost="L n (log n + d) + L d² + d³")
def rqsw(n_slices: int = 50, points: Points = "sobol") -> Recipe:
    """Randomised quasi-SW: the same slices under one random rotation a call, unbiased (Nguyen et al., 2024)."""
    return Recipe(Quasi(n_slices, points, turned=True))


@variant()
def lcvsw(n_slices: int = 50, hold_weights: bool | None = None) -> Recipe:
    """SW with the lower control variate: the distance of the means along a slice (Nguyen, Ho, 2023)."""
    return Recipe(Uniform(n_slices), ControlVariate("lower", bool(hold_weights)))


@variant()
def ucvsw(n_slices: int = 50, hold_weights: bool | None = None) -> Recipe:
    """SW with the upper control variate: that and both variances along a slice (Nguyen, Ho, 2023)."""
    return Recipe(Uniform(n_slices), ControlVariate("upper", bool(hold_weights)))


@variant(lacks={"unit_slices", "bounded", "exact_on_a_line"})
def gaussiansw(n_slices: int = 50) -> Recipe:
    """SW with normal slices of covariance I / d: for p = 2 the same mean, with more noise (Nadjahi et al., 2021)."""
    return Recipe(Gaussian(n_slices))


@variant(
    lacks={"metric", "every_order", "fresh", "linear", "exact_on_a_line"},
    cost="n d",
)
def momentsw(check: bool = True) -> Recipe:
    """SW_2 from means and variances alone, without slices, for many weakly dependent coordinates (Nadjahi et al., 2021).

    `check` logs a warning where samples are not of that kind.
    """
    return Recipe(Between(), lift=Moments(check))


@variant(lacks={"homogeneous", "metric"}, cost="2 L n (log n + d)")
def sirebsw(
    n_slices: int = 50,
    energy: EnergyKind = "exp",
    temperature: float = 1.0,
    hold_weights: bool | None = None,
) -> Recipe:
    """EBSW with slices resampled by their energy (Nguyen, Ho, 2023)."""
    law = energy_of(energy, temperature, hold_weights)
    return Recipe(Then(Uniform(n_slices), Resample(law)), Drawn(law))


@variant(lacks={"homogeneous", "metric"}, cost="3 L n (log n + d)")
def imhebsw(
    n_slices: int | None = None,
    n_steps: int = 50,
    energy: EnergyKind = "exp",
    temperature: float = 1.0,
    hold_weights: bool | None = None,
    burn_in: int = 0,
    thin: int = 1,
) -> Recipe:
    """EBSW with slices of a Metropolis–Hastings chain, proposals uniform (Nguyen, Ho, 2023)."""
    law = energy_of(energy, temperature, hold_weights)
    start = Uniform(chains_for(n_slices, n_steps, burn_in, thin))
    return Recipe(Trace(start, Metropolis(Afresh(), law), n_steps, burn_in, thin), Drawn(law))


@variant(lacks={"homogeneous", "metric"}, cost="3 L n (log n + d)")
def rmhebsw(
    n_slices: int | None = None,
    n_steps: int = 50,
    kappa: Kappa = 10.0,
    energy: EnergyKind = "exp",
    temperature: float = 1.0,
    hold_weights: bool | None = None,
    burn_in: int = 0,
    thin: int = 1,
) -> Recipe:
    """EBSW with slices of a Metropolis–Hastings chain that walks by von Mises–Fisher steps (Nguyen, Ho, 2023)."""
    law = energy_of(energy, temperature, hold_weights)
    start = Uniform(chains_for(n_slices, n_steps, burn_in, thin))
    walk = Metropolis(Spread(kappa), law)
    return Recipe(Trace(start, walk, n_steps, burn_in, thin), Drawn(law))


def _lift(function: Function, degree: int, radius: float, width: int) -> Lift | None:
    check_choice("function", function, ("linear", "poly", "circular", "neural"))
    check_count("degree", degree)
    check_count("width", width)
    if function == "linear":
        return None
    if function == "poly":
        return Monomials(degree)
    return Circles(radius) if function == "circular" else Networks(width)
