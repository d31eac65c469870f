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
    GreatCircles,
    Metropolis,
    Moments,
    Monomials,
    Networks,
    Quasi,
    Resample,
    Spread,
    Stereographic,
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
    """Generalized SW: slices along curves in place of lines (Kolouri et al., 2019).

    Use it if sets differ in ways that few lines show. Homogeneous polynomials of odd degree are sliced in
    D = C(d + degree − 1, degree) dimensions. "linear" is `sw`. It is a metric for all functions but "neural", on whose
    slices two different laws may agree. Steps cannot be computed from such slices: give flows a learning rate.

    Args:
        n_slices: the number of slices.
        function: "poly" (homogeneous polynomials), "circular" (distances to points), "neural" (networks) or "linear"
            (lines).
        degree: the degree of the polynomials, odd.
        radius: the distance from the origin of the points of "circular", positive.
        width: the number of hidden units of "neural".

    Raises:
        ValueError: for an unknown function, an even degree, or a radius that is not positive.
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
    """Max-GSW: the one curve that costs most, by ascent in its parameters (Kolouri et al., 2019).

    Use it if sets differ along few curves, which the mean of `gsw` would dilute. The value is a lower bound of the
    maximum. Steps cannot be computed from such slices: give flows a learning rate.

    Args:
        n_slices: 1; for several slices use `gsw`.
        function: "poly" (homogeneous polynomials), "circular" (distances to points), "neural" (networks) or "linear"
            (lines).
        degree: the degree of the polynomials, odd.
        radius: the distance from the origin of the points of "circular", positive.
        width: the number of hidden units of "neural".
        n_steps: the number T of slices in an ascent, its start included: T − 1 ascent steps are made.
        ascent_step: None adds the unit gradient to a slice, which does not depend on the scale of the data. A number is
            the fixed rate of published scripts, on the p-th root of the cost summed over points.
        restarts: the number of starts that are climbed from; the best result is kept.

    Raises:
        ValueError: if `n_slices` is not 1, for an unknown function, an even degree, or a radius that is not positive.
    """
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

    Use it for many comparisons in a row, as in training, if sets differ in ways that lines do not show. The function
    continues to learn from call to call in `SlicedWasserstein`; a functional call starts from an untrained one. It is a
    metric for a fixed function, but not if each pair has its own. Steps cannot be computed from such slices: give flows
    a learning rate.

    Args:
        n_slices: the number of slices.
        n_steps: the number of steps of Adam in each call.
        penalty: the factor of the mean norms of the augmented samples, without which the function would only grow, at
            least 0.
        inner_lr: the learning rate of Adam.
        betas: the two decay rates of Adam, in [0, 1).
        activation: the activation of the learned layer, "linear" (as in the published code) or "leaky_relu".
    """
    check_learning(n_steps, penalty, inner_lr, betas)
    check_choice("activation", activation, ("linear", "leaky_relu"))
    lift = Augment(n_slices, n_steps, penalty, inner_lr, betas, activation)
    return Recipe(Uniform(n_slices), lift=lift)


@variant(lacks={"fresh", "metric", "rotation_invariant"})
def qsw(n_slices: int = 50, points: Points = "sobol") -> Recipe:
    """Quasi-SW: the mean over fixed slices that cover the sphere evenly (Nguyen et al., 2024).

    Use it if results should not depend on a seed, or for d = 3, where further evenly spread point sets are available.
    It is deterministic, and does not see differences outside its few slices: a pseudo-metric.

    Args:
        n_slices: the number of slices.
        points: "sobol" (any d), or for d = 3 "spiral", "equal_area" or "coulomb".
    """
    return Recipe(Quasi(n_slices, points))


@variant(cost="L n (log n + d) + L d² + d³")
def rqsw(n_slices: int = 50, points: Points = "sobol") -> Recipe:
    """Randomized quasi-SW: the same slices under one random rotation a call, unbiased (Nguyen et al., 2024).

    Use it in place of `qsw` for training and flows: slices are spread as evenly, and each call draws another rotation.

    Args:
        n_slices: the number of slices.
        points: "sobol" (any d), or for d = 3 "spiral", "equal_area" or "coulomb".
    """
    return Recipe(Quasi(n_slices, points, turned=True))


@variant()
def lcvsw(n_slices: int = 50, hold_weights: bool | None = None) -> Recipe:
    """SW with the lower control variate: the distance of the means along a slice (Nguyen, Ho, 2023).

    Use it to estimate `sw` with less noise from the same slices, in particular if the two sets differ mainly by their
    means. The control variate (θ·Δ)², with Δ from mean to mean, is at most the cost, for p = 2. The estimate may be
    below 0; its root is then 0.

    Args:
        n_slices: the number of slices.
        hold_weights: True treats slice weights as constants, False differentiates them. None holds them where a step is
            computed (`displacement`, `flow` with `lr="auto"`) and differentiates them where a gradient is.
    """
    return Recipe(Uniform(n_slices), ControlVariate("lower", bool(hold_weights)))


@variant()
def ucvsw(n_slices: int = 50, hold_weights: bool | None = None) -> Recipe:
    """SW with the upper control variate: that and both variances along a slice (Nguyen, Ho, 2023).

    Use it in place of `lcvsw` if the variances of the two sets vary with the direction; otherwise both are the same.
    The control variate is the squared distance of the means along a slice plus both variances along it, the cost of the
    independent coupling. It is at least the cost, for p = 2.

    Args:
        n_slices: the number of slices.
        hold_weights: True treats slice weights as constants, False differentiates them. None holds them where a step is
            computed (`displacement`, `flow` with `lr="auto"`) and differentiates them where a gradient is.
    """
    return Recipe(Uniform(n_slices), ControlVariate("upper", bool(hold_weights)))


@variant(lacks={"unit_slices", "bounded", "exact_on_a_line"})
def gaussiansw(n_slices: int = 50) -> Recipe:
    """SW with normal slices of covariance I / d: for p = 2 the same mean, with more noise (Nadjahi et al., 2021).

    Use it to compare with results for normal slices. Its slices are not of length one, so that a value may exceed W_p.
    For other p the mean of W_p^p is (2/d)^(p/2) Γ((d+p)/2) / Γ(d/2) times that of uniform slices.

    Args:
        n_slices: the number of slices.
    """
    return Recipe(Gaussian(n_slices))


@variant(
    lacks={"metric", "every_order", "fresh", "linear", "exact_on_a_line"},
    cost="n d",
)
def momentsw(check: bool = True) -> Recipe:
    """SW_2 from means and variances, without slices, for many weakly dependent coordinates (Nadjahi et al., 2021).

    Use it for a fast approximation in high dimensions, with p = 2 only. Nothing but means and variances enters. It is
    accurate if projections of the centered samples are nearly normal along most slices. It is not for samples of a
    low-dimensional subspace, nor for samples whose norms differ much.

    Args:
        check: whether to log a warning if the samples are not of that kind.
    """
    return Recipe(Between(), lift=Moments(check))


@variant(lacks={"homogeneous", "metric"}, cost="2 L n (log n + d)")
def sirebsw(
    n_slices: int = 50,
    energy: EnergyKind = "exp",
    temperature: float = 1.0,
    hold_weights: bool | None = None,
) -> Recipe:
    """EBSW with slices resampled by their energy (Nguyen, Ho, 2023).

    Use it to compare with `ebsw`, which weights its slices instead: here slices are drawn again with replacement, with
    probabilities proportional to their energies, and then count equally. It is no metric.

    Args:
        n_slices: the number of slices.
        energy: the energy f of a cost: "exp" for exp(cost / temperature), "identity" for the cost, "poly" for its
            square.
        temperature: the temperature of "exp", positive.
        hold_weights: True leaves the derivative of the energy law out of the gradient, False includes it. None leaves
            it out where a step is computed (`displacement`, `flow` with `lr="auto"`) and includes it where a gradient
            is.
    """
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
    """EBSW with slices of a Metropolis–Hastings chain, proposals uniform (Nguyen, Ho, 2023).

    Use it to compare with `ebsw`, which weights uniform slices instead: here slices are drawn from the energy law
    itself. Proposals are independent of the last slice. It is no metric.

    Args:
        n_slices: the number of slices kept, a multiple of what a chain keeps. None is the number of whole chains
            nearest to 50 slices.
        n_steps: the number of slices in each chain.
        energy: the energy f of a cost: "exp" for exp(cost / temperature), "identity" for the cost, "poly" for its
            square.
        temperature: the temperature of "exp", positive.
        hold_weights: True leaves the derivative of the energy law out of the gradient, False includes it. None leaves
            it out where a step is computed (`displacement`, `flow` with `lr="auto"`) and includes it where a gradient
            is.
        burn_in: how many slices at the start of each chain are dropped.
        thin: of the remaining slices of a chain, every `thin`-th is kept.

    Raises:
        ValueError: if `n_slices` is no whole number of chains, or if `burn_in` leaves no slice.
    """
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
    """EBSW with slices of a Metropolis–Hastings chain that walks by von Mises–Fisher steps (Nguyen, Ho, 2023).

    Use it in place of `imhebsw` if few uniform proposals would be accepted: here proposals lie near the last slice. It
    is no metric.

    Args:
        n_slices: the number of slices kept, a multiple of what a chain keeps. None is the number of whole chains
            nearest to 50 slices.
        n_steps: the number of slices in each chain.
        kappa: the concentration around the last slice, from which proposals are drawn, a number or a schedule such as
            `Anneal(100)`. The larger it is, the closer the slices.
        energy: the energy f of a cost: "exp" for exp(cost / temperature), "identity" for the cost, "poly" for its
            square.
        temperature: the temperature of "exp", positive.
        hold_weights: True leaves the derivative of the energy law out of the gradient, False includes it. None leaves
            it out where a step is computed (`displacement`, `flow` with `lr="auto"`) and includes it where a gradient
            is.
        burn_in: how many slices at the start of each chain are dropped.
        thin: of the remaining slices of a chain, every `thin`-th is kept.

    Raises:
        ValueError: if `n_slices` is no whole number of chains, or if `burn_in` leaves no slice.
    """
    law = energy_of(energy, temperature, hold_weights)
    start = Uniform(chains_for(n_slices, n_steps, burn_in, thin))
    walk = Metropolis(Spread(kappa), law)
    return Recipe(Trace(start, walk, n_steps, burn_in, thin), Drawn(law))


# What distances between directions lose: lengths do not count.
_DIRECTIONS = {
    "linear",
    "homogeneous",
    "metric",
    "translation_invariant",
    "bounded",
    "exact_on_a_line",
}


@variant(lacks=_DIRECTIONS)
def ssw(n_slices: int = 50) -> Recipe:
    """Spherical SW: transport on random great circles, for samples on a sphere (Bonet et al., 2023).

    Use it for directions, such as normalized embeddings or places on a globe. Only the direction of a sample from the
    origin counts. The cost of a slice is W_p^p on a circle of circumference one, so that a value is at most 1/2. Steps
    cannot be computed from such slices: give flows a learning rate; they keep particles on their sphere. For samples
    against the uniform law see `spherical_uniformity`.

    Args:
        n_slices: the number of great circles.
    """
    return Recipe(Uniform(n_slices), lift=GreatCircles())


@variant(lacks=_DIRECTIONS | {"every_order"})
def linearssw(n_slices: int = 50) -> Recipe:
    """Linear spherical SW: circles compared by their plans from the uniform law, p = 2 (Liu et al., 2025).

    Use it in place of `ssw` for many comparisons: nothing is searched for, and on common slices it is the distance
    between embeddings of the single sets. It is at least `ssw` on the same slices.

    Args:
        n_slices: the number of great circles.
    """
    return Recipe(Uniform(n_slices), lift=GreatCircles(embedded=True))


@variant(lacks=_DIRECTIONS | {"rotation_invariant"})
def s3w(n_slices: int = 50) -> Recipe:
    """Stereographic spherical SW: samples on a sphere, mapped to flat space and sliced there (Tran et al., 2024).

    Use it in place of `ssw` where speed counts: lines are sorted once. The pole is the last axis, so that values depend
    on the axes; `ris3w` does not. Distances are in radians.

    Args:
        n_slices: the number of slices of R^(d−1).
    """
    return Recipe(Uniform(n_slices), lift=Stereographic())


@variant(lacks=_DIRECTIONS)
def ris3w(n_slices: int = 50) -> Recipe:
    """Rotationally invariant S3W: every slice has a random pole of its own (Tran et al., 2024).

    Use it in place of `s3w` if no axis is distinguished. Published code averages over a few rotations with many slices
    each; here each slice has its own rotation, which has the same mean and less variance for as many slices.

    Args:
        n_slices: the number of slices, each with its pole.
    """
    return Recipe(Uniform(n_slices), lift=Stereographic(turned=True))


def _lift(function: Function, degree: int, radius: float, width: int) -> Lift | None:
    check_choice("function", function, ("linear", "poly", "circular", "neural"))
    check_count("degree", degree)
    check_count("width", width)
    if function == "linear":
        return None
    if function == "poly":
        return Monomials(degree)
    return Circles(radius) if function == "circular" else Networks(width)
