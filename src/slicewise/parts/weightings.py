"""Weightings: parts that compute the weight of each slice.

The general form is the φ-weighting of the paper, ρ(φ(θ)) / L, which is `Phi`; the other weightings are named cases of
it. A weighting is called with costs (*batch, L), slices (*batch, L, d) and a problem, and returns weights (*batch, L).

`EnergyKind` is the type of the names of the energies: "exp", "identity" or "poly". `Weights` is the type of what
`weights_for` returns: a tensor, or a function from costs to weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from slicewise.problem import (
    MOST_LEVERAGE,
    BuiltIn,
    Problem,
    Uncertainty,
    Weighting,
    WeightingPart,
    basis_of,
    check_fit,
    declared,
)
from slicewise.sampling import sphere
from slicewise.support import broadcast, values_readable

EnergyKind = Literal["exp", "identity", "poly"]


@dataclass(frozen=True, repr=False)
class Equal(BuiltIn, WeightingPart):
    """Give every slice the weight 1/L: φ ≡ 1.

    Use it for the plain mean over slices, as in sliced Wasserstein. It is the right choice unless you want some slices
    to count more.

    Returns:
        When called with costs (*batch, L), slices (*batch, L, d) and a problem: weights (*batch, L).

    Example:
        >>> import torch
        >>> from slicewise.parts import Equal
        >>> from slicewise.problem import Problem
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slices = torch.eye(2)
        >>> costs = problem.costs(slices)  # 4 and 0
        >>> Equal()(costs, slices, problem)
        tensor([0.5000, 0.5000])
    """

    is_mean = True
    label_free = True

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        n_slices = slices.shape[-2]
        return slices.new_full((*problem.batch, n_slices), 1 / n_slices)

    def constant(self, slices: Tensor, problem: Problem) -> Tensor:
        return self(slices, slices, problem)  # whatever the costs are


@dataclass(frozen=True, repr=False)
class Energy(BuiltIn, WeightingPart):
    """Give slices with a larger cost more weight: weights ∝ f(cost), which sum to one.

    Use it with uniform slices for energy-based sliced Wasserstein.

    Args:
        kind: f. "exp" (default) is exp(cost / temperature), "identity" the cost itself, "poly" its `exponent`-th power.
        temperature: The temperature of "exp" (default 1.0).
        detach: Whether to hold the weights constant in the backward pass (default False). If False, with "exp",
            slices that cost less than the weighted average minus the temperature push the samples *apart*.
        exponent: The power of "poly" (default 2.0).

    Returns:
        When called with costs (*batch, L), slices (*batch, L, d) and a problem: weights (*batch, L).

    Example:
        >>> import torch
        >>> from slicewise.parts import Energy
        >>> from slicewise.problem import Problem
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slices = torch.eye(2)
        >>> costs = problem.costs(slices)  # 4 and 0
        >>> Energy(temperature=4.0)(costs, slices, problem)
        tensor([0.7311, 0.2689])
    """

    kind: EnergyKind = "exp"
    temperature: float = 1.0
    detach: bool = False
    exponent: float = 2.0
    self_normalized = True  # their sum is one whatever the costs are
    label_free = True

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        return self._weights(costs)

    def log_energy(self, costs: Tensor) -> Tensor:
        """Return log f of each cost, in the shape of `costs`."""
        if self.kind == "exp":
            return costs if self.temperature == 1 else costs / self.temperature
        # tiny: equal samples cost 0 on every slice and then weigh the same.
        log_cost = torch.log(costs + torch.finfo(costs.dtype).tiny)
        return log_cost if self.kind == "identity" else self.exponent * log_cost

    def _weights(self, costs: Tensor) -> Tensor:
        weights = torch.softmax(self.log_energy(costs), dim=-1)
        return weights.detach() if self.detach else weights

    def errors(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        """Return the first-order error (*batch, L) of a ratio of two means, slice by slice."""
        weights = self._weights(costs)
        return weights * (costs - (weights * costs).sum(dim=-1, keepdim=True))

    def uncertainty(self, costs: Tensor, slices: Tensor, problem: Problem) -> Uncertainty:
        """Return errors as if each slice were left out: without slice i the estimate is off by its error / (1 − weight).

        As many slices as 1 / Σ weights² count, less one.
        """
        weights = self._weights(costs)
        terms = self.errors(costs, slices, problem) / (1 - weights.clamp(max=MOST_LEVERAGE))
        freedom = 1 / weights.square().sum(dim=-1) - 1
        return Uncertainty((weights * costs).sum(dim=-1), terms, freedom)

    def total_and_slope(self, costs: Tensor) -> tuple[Tensor, Tensor]:
        """Return Σ weights · costs (...) and its derivative in each cost (..., L), computed in closed form."""
        weights = self._weights(costs)
        total = (weights * costs).sum(dim=-1)
        if self.detach:
            return total, weights
        beyond = weights * (costs - total.unsqueeze(-1))
        if self.kind == "exp":
            return total, torch.add(weights, beyond, alpha=1 / self.temperature)
        power = 1.0 if self.kind == "identity" else self.exponent
        return total, weights + power * beyond / (costs + torch.finfo(costs.dtype).tiny)


@dataclass(frozen=True, repr=False)
class Drawn(BuiltIn, WeightingPart):
    """Give equal weights to slices that were drawn by their energy, with the gradient of the energy law.

    Use it with slices that `Resample` or `Metropolis` drew, and the same energy. With slices of density σ ∝ f(w),

        ∇ E_σ w = E_σ[∇w + (w − E_σ w) ∇ log f(w)]

    The weights are therefore 1/L in value, and their gradient is that of a softmax of log f. Published code estimates
    the integral of f from further uniform slices. Here its derivative is the mean over the given slices, which are
    draws of σ.

    Args:
        energy: The `Energy` that the slices were drawn by. Its `detach=True` leaves the second term out.

    Returns:
        When called with costs (*batch, L), slices (*batch, L, d) and a problem: weights (*batch, L), each 1/L.

    Example:
        >>> import torch
        >>> from slicewise.parts import Drawn, Energy
        >>> from slicewise.problem import Problem
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slices = torch.eye(2)
        >>> costs = problem.costs(slices)  # 4 and 0
        >>> Drawn(Energy())(costs, slices, problem)
        tensor([0.5000, 0.5000])
    """

    energy: Energy
    self_normalized = True

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        if self.energy.detach:
            return torch.full_like(costs, 1 / costs.shape[-1])
        log_energy = self.energy.log_energy(costs)
        return torch.softmax(log_energy - log_energy.detach(), dim=-1)


@dataclass(frozen=True, repr=False, eq=False)
class Aligned(BuiltIn, WeightingPart):
    """Weight each slice by ρ(r) = r^(−p), where r = ‖Uᵀθ‖ is the length of its part inside the subspace U.

    Use it for samples that lie in a subspace. This is the weighting of the paper: with it, slicing the data in R^d
    gives the same number, slice by slice, as slicing their coordinates in the subspace. Slices orthogonal to the
    subspace have weight 0.

    Args:
        basis: The subspace, (d, k) or (*batch, d, k), with orthonormal columns. None (default) takes the span of the
            samples.

    Returns:
        When called with costs (*batch, L), slices (*batch, L, d) and a problem: weights (*batch, L).

    Raises:
        ValueError: When called, if `basis` does not have d rows.

    Example:
        >>> import torch
        >>> from slicewise.parts import Aligned
        >>> from slicewise.problem import Problem
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slices = torch.eye(2)
        >>> costs = problem.costs(slices)  # 4 and 0
        >>> Aligned(torch.tensor([[1.0], [0.0]]))(costs, slices, problem)
        tensor([0.5000, 0.0000])
    """

    basis: Tensor | None = None
    graph_safe = False  # finding the span looks at its rank
    label_free = True

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        check_fit(self, problem.d)
        batch = broadcast(problem.batch, slices.shape[:-2])
        costs = slices.new_zeros(*batch, slices.shape[-2])  # these weights ignore them
        return Phi(Alignment(self.basis), Reciprocal(problem.p))(costs, slices, problem)

    def constant(self, slices: Tensor, problem: Problem) -> Tensor:
        return self(slices, slices, problem)  # whatever the costs are

    @property
    def rotation_invariant(self) -> bool:  # type: ignore[override]
        """Whether the basis is computed from the samples; a given basis belongs to fixed axes."""
        return self.basis is None

    def unfit_for(self, d: int) -> str | None:
        if self.basis is None or self.basis.shape[-2] == d:
            return None
        return (
            f"basis has shape {tuple(self.basis.shape)}, but samples have d = {d}: give ({d}, k), a column for each "
            f"direction of the subspace"
        )


Informativeness = Callable[[Tensor, Tensor, Problem], Tensor]


@dataclass(frozen=True, repr=False)
class Phi(BuiltIn, WeightingPart):
    """Compute the general weighting of the paper: weights ρ(φ(θ_l)) / L.

    Use it to define a weighting of your own from two functions. Known cases:

    - SW is φ ≡ 1.
    - EBSW is φ = cost and ρ(r) = f(r) / mean f.
    - RPSW with uniform slices is φ = `PathDensity` and ρ(r) = r.
    - MaxSW is the limit of ρ = `Peak` at temperature 0, with φ = cost.

    Args:
        phi: A function of costs (*batch, L), slices (*batch, L, d) and a problem that returns how informative each
            slice is, (*batch, L). `slice_cost`, `Alignment` and `PathDensity` are such functions.
        rho: A function that maps these numbers to weights times L, (*batch, L). `Reciprocal` and `Peak` are such
            functions.

    Returns:
        When called with costs (*batch, L), slices (*batch, L, d) and a problem: weights (*batch, L).

    Example:
        >>> import torch
        >>> from slicewise.parts import Peak, Phi, slice_cost
        >>> from slicewise.problem import Problem
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slices = torch.eye(2)
        >>> costs = problem.costs(slices)  # 4 and 0
        >>> Phi(slice_cost, Peak(temperature=4.0))(costs, slices, problem)
        tensor([0.7311, 0.2689])
    """

    phi: Informativeness
    rho: Callable[[Tensor], Tensor]

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        return (self.rho(self.phi(costs, slices, problem)) / costs.shape[-1]).expand_as(costs)


@dataclass(frozen=True, repr=False)
class SliceCost(BuiltIn):
    """φ = W_p^p: a slice is as informative as its cost is large.

    Use its instance `slice_cost` as `phi` of `Phi`.

    Returns:
        When called with costs (*batch, L), slices (*batch, L, d) and a problem: the costs (*batch, L).

    Example:
        >>> import torch
        >>> from slicewise.parts import slice_cost
        >>> from slicewise.problem import Problem
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slices = torch.eye(2)
        >>> costs = problem.costs(slices)  # 4 and 0
        >>> slice_cost(costs, slices, problem)
        tensor([4., 0.])
    """

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        return costs


slice_cost = SliceCost()


@dataclass(frozen=True, repr=False, eq=False)
class Alignment(BuiltIn):
    """φ = ‖Uᵀθ‖: a slice is as informative as its part inside the subspace U is long.

    Use it as `phi` of `Phi`; `Aligned` combines it with `Reciprocal`. Lengths that are zero up to rounding are set to
    0.

    Args:
        basis: The subspace, (d, k) or (*batch, d, k), with orthonormal columns. None (default) takes the span of the
            samples.

    Returns:
        When called with costs (*batch, L), slices (*batch, L, d) and a problem: lengths (*batch, L).

    Example:
        >>> import torch
        >>> from slicewise.parts import Alignment
        >>> from slicewise.problem import Problem
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slices = torch.eye(2)
        >>> costs = problem.costs(slices)  # 4 and 0
        >>> Alignment(torch.tensor([[0.6], [0.8]]))(costs, slices, problem)
        tensor([0.6000, 0.8000])
    """

    basis: Tensor | None = None
    graph_safe = False

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        basis = basis_of(problem) if self.basis is None else self.basis.to(slices)
        inside = torch.linalg.vector_norm(slices @ basis, dim=-1)  # (*batch, L)
        # Below this an orthogonal slice's rounding would be taken for a direction.
        floor = 32 * torch.finfo(slices.dtype).eps * slices.shape[-1] ** 0.5
        return torch.where(inside > floor, inside, 0)

    @property
    def rotation_invariant(self) -> bool:  # type: ignore[override]
        """Whether the basis is computed from the samples; a given basis belongs to fixed axes."""
        return self.basis is None


@dataclass(frozen=True, repr=False)
class PathDensity(BuiltIn):
    """φ = the density of random paths with power-spherical spread at a slice, relative to the uniform density, 1.

    Use it as `phi` of `Phi` to check results of `RandomPath` with `Spread`. It averages over all n · m pairs of
    samples, so it is a definition to check against and not fast. One process must hold all samples. Sample weights are
    not used.

    Args:
        kappa: The concentration of the power-spherical distribution.

    Returns:
        When called with costs (*batch, L), slices (*batch, L, d) and a problem: densities (*batch, L).

    Example:
        >>> import torch
        >>> from slicewise.parts import PathDensity
        >>> from slicewise.problem import Problem
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slices = torch.eye(2)
        >>> costs = problem.costs(slices)  # 4 and 0
        >>> PathDensity(10.0)(costs, slices, problem).shape
        torch.Size([2])
    """

    kappa: float
    needs_all_samples = True
    needs_target_samples = True

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        path = problem.x.detach().unsqueeze(-2) - problem.y.detach().unsqueeze(-3)  # (..., n, m, d)
        pairs = sphere.normalize(path).flatten(-3, -2)
        cosine = slices @ pairs.mT  # (*batch, L, n · m)
        log_density = sphere.power_spherical_log_density(cosine, self.kappa, problem.d)
        return log_density.exp().mean(dim=-1)


@dataclass(frozen=True, repr=False)
class Reciprocal(BuiltIn):
    """ρ(r) = r^(−power), and 0 at r = 0.

    Use it as `rho` of `Phi`.

    Args:
        power: The power.

    Returns:
        When called with a tensor r: ρ(r), of the same shape.

    Example:
        >>> import torch
        >>> from slicewise.parts import Reciprocal
        >>> Reciprocal(2.0)(torch.tensor([0.0, 0.5, 1.0]))
        tensor([0., 4., 1.])
    """

    power: float

    def __call__(self, r: Tensor) -> Tensor:
        return torch.where(r > 0, torch.where(r > 0, r, 1) ** -self.power, 0)


@dataclass(frozen=True, repr=False)
class Peak(BuiltIn):
    """ρ ∝ exp(r / temperature), with mean one over the slices.

    Use it as `rho` of `Phi`. As the temperature goes to 0, all weight goes to the largest r.

    Args:
        temperature: The temperature, above 0.

    Returns:
        When called with a tensor r (*batch, L): ρ(r), of the same shape.

    Example:
        >>> import torch
        >>> from slicewise.parts import Peak
        >>> Peak(4.0)(torch.tensor([0.0, 4.0]))
        tensor([0.5379, 1.4621])
    """

    temperature: float

    def __call__(self, r: Tensor) -> Tensor:
        return r.shape[-1] * torch.softmax(r / self.temperature, dim=-1)


Weights = Tensor | Callable[[Tensor], Tensor]


def constant_weights(weighting: Weighting, slices: Tensor, problem: Problem) -> Tensor | None:
    """Return slice weights that do not depend on the costs, if the weighting has such weights.

    Use it before slices are priced: with constant weights, gradients can be accumulated at the same time.

    Args:
        weighting: The weighting.
        slices: The slices (*batch, L, d).
        problem: The problem.

    Returns:
        Weights (*batch, L), or None if they depend on the costs.

    Example:
        >>> import torch
        >>> from slicewise.parts import Energy, Equal, constant_weights
        >>> from slicewise.problem import Problem
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slices = torch.eye(2)
        >>> constant_weights(Equal(), slices, problem)
        tensor([0.5000, 0.5000])
        >>> constant_weights(Energy(), slices, problem) is None
        True
    """
    return declared(weighting, WeightingPart).constant(slices, problem)


def weights_for(weighting: Weighting, slices: Tensor, problem: Problem, *, hold: bool) -> Weights:
    """Return slice weights as constants, or as a function of the costs.

    Use it where a gradient is accumulated slice by slice and needs the factor of each slice.

    Args:
        weighting: The weighting.
        slices: The slices (*batch, L, d).
        problem: The problem.
        hold: If True, the function returns the weights themselves, to be held constant. If False, it returns the
            derivative of Σ weights · costs in each cost, which includes the derivative of the weights, such as those of
            an energy.

    Returns:
        Weights (*batch, L) if they do not depend on the costs. Otherwise a function of the costs as means over points,
        (*batch, L), that returns the factors, (*batch, L).

    Example:
        >>> import torch
        >>> from slicewise.parts import Energy, weights_for
        >>> from slicewise.problem import Problem
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slices = torch.eye(2)
        >>> follow = weights_for(Energy(temperature=4.0), slices, problem, hold=True)
        >>> follow(problem.costs(slices))
        tensor([0.7311, 0.2689])
    """
    known = constant_weights(weighting, slices, problem)
    if known is not None:
        return known

    def follow(means: Tensor) -> Tensor:
        costs = problem.in_convention(means)
        return (
            slice_weights(weighting, costs, slices, problem)
            if hold
            else coefficients(weighting, slices, problem, costs)[1]
        )

    return follow


# Sums of slice weights in single precision or less are off by rounding, never by so much.
_SUM_OFF_BY = 1e-3


def slice_weights(weighting: Weighting, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
    """Call a weighting, and check what one of a caller's own gives.

    Args:
        weighting: The weighting.
        costs: The costs (*batch, L).
        slices: The slices (*batch, L, d).
        problem: The problem.

    Returns:
        The weights (*batch, L).

    Raises:
        ValueError: They are not one real number for each cost, or, where that can be seen without waiting for a device,
            their sum is not one.

    Example:
        >>> import torch
        >>> from slicewise.parts import Energy, slice_weights
        >>> from slicewise.problem import Problem
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slice_weights(Energy(temperature=4.0), problem.costs(torch.eye(2)), torch.eye(2), problem)
        tensor([0.7311, 0.2689])
    """
    weights = weighting(costs, slices, problem)
    about = declared(weighting, WeightingPart)
    if about.built_in:
        return weights
    if not isinstance(weights, Tensor) or weights.shape != costs.shape:
        got = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise ValueError(
            f"{weighting!r} gave {got}: a weighting gives a tensor of weights of the shape of the costs, "
            f"{tuple(costs.shape)}"
        )
    if not weights.is_floating_point():
        raise ValueError(
            f"{weighting!r} gave weights of {weights.dtype}: give them in the dtype of the costs, "
            f"weights.to(costs.dtype), divided by their sum"
        )
    if weights.is_cuda or not values_readable(weights) or not about.sums_to_one:
        return weights
    sums = weights.detach().sum(dim=-1)
    off = (sums - 1).abs()
    if bool((off > _SUM_OFF_BY).any()):
        raise ValueError(
            f"{weighting!r} gave weights whose sum is {float(sums.flatten()[off.flatten().argmax()]):.4g}: slice weights "
            f"have the sum 1, so that the distance is a mean over slices; return weights / weights.sum(-1, keepdim=True), "
            f"or, if that is meant, make it a WeightingPart with sums_to_one = False"
        )
    return weights


def coefficients(
    weighting: Weighting, slices: Tensor, problem: Problem, costs: Tensor
) -> tuple[Tensor, Tensor]:
    """Return Σ weights · costs and its derivative in each cost, for weights that depend on the costs.

    Use it to differentiate a weighted cost without a graph through the slices. It uses the closed form of the weighting
    if there is one, and autograd otherwise.

    Args:
        weighting: The weighting.
        slices: The slices (*batch, L, d).
        problem: The problem.
        costs: The costs (*batch, L).

    Returns:
        A tuple of the sum (*batch,) and the derivatives (*batch, L).

    Example:
        >>> import torch
        >>> from slicewise.parts import Energy, coefficients
        >>> from slicewise.problem import Problem
        >>> problem = Problem(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]]))
        >>> slices = torch.eye(2)
        >>> costs = problem.costs(slices)  # 4 and 0
        >>> coefficients(Energy(detach=True, temperature=4.0), slices, problem, costs)
        (tensor(2.9242), tensor([0.7311, 0.2689]))
    """
    known = declared(weighting, WeightingPart).total_and_slope(costs)
    if known is not None:
        return known
    with torch.inference_mode(False), torch.enable_grad():
        live = costs.clone().requires_grad_()
        total = (slice_weights(weighting, live, slices, problem) * live).sum(dim=-1)
        (slope,) = torch.autograd.grad(total.sum(), live)
    return total.detach(), slope
