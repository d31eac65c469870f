"""How much a slice counts: the paper's φ-weighting, ρ(φ(θ)) / L, and its named cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from slicewise.problem import (
    BuiltIn,
    Problem,
    Weighting,
    WeightingPart,
    basis_of,
    check_fit,
    declared,
)
from slicewise.sampling import sphere

EnergyKind = Literal["exp", "identity", "poly"]


@dataclass(frozen=True, repr=False)
class Equal(BuiltIn, WeightingPart):
    """Every slice counts the same: φ ≡ 1."""

    is_mean = True

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        n_slices = slices.shape[-2]
        return slices.new_full((*problem.batch, n_slices), 1 / n_slices)

    def constant(self, slices: Tensor, problem: Problem) -> Tensor:
        return self(slices, slices, problem)  # whatever the costs are


@dataclass(frozen=True, repr=False)
class Energy(BuiltIn, WeightingPart):
    """Slices that separate more count more: weights ∝ f(cost), which sum to one.

    f is exp(cost / temperature), the cost itself ("identity") or its `exponent`-th power ("poly").
    `detach` holds the weights constant in the backward pass; without it slices that cost less than
    the average minus the temperature are pushed *apart*.
    """

    kind: EnergyKind = "exp"
    temperature: float = 1.0
    detach: bool = False
    exponent: float = 2.0
    self_normalized = True  # their sum is one whatever the costs are

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        return self._weights(costs)

    def log_energy(self, costs: Tensor) -> Tensor:
        """log f of each cost."""
        if self.kind == "exp":
            return costs if self.temperature == 1 else costs / self.temperature
        # tiny: equal samples cost 0 on every slice and then weigh the same.
        log_cost = torch.log(costs + torch.finfo(costs.dtype).tiny)
        return log_cost if self.kind == "identity" else self.exponent * log_cost

    def _weights(self, costs: Tensor) -> Tensor:
        weights = torch.softmax(self.log_energy(costs), dim=-1)
        return weights.detach() if self.detach else weights

    def errors(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        """The first-order error of a ratio of two means."""
        weights = self._weights(costs)
        return weights * (costs - (weights * costs).sum(dim=-1, keepdim=True))

    def total_and_slope(self, costs: Tensor) -> tuple[Tensor, Tensor]:
        """Σ weights · costs (...), and its derivative in each cost (..., L), written out."""
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
    """Equal weights for slices that were drawn by their energy, whose derivative is that of the energy law.

    With slices of density σ ∝ f(w), ∇ E_σ w = E_σ[∇w + (w − E_σ w) ∇ log f(w)]: weights that are 1/L and
    whose gradient is that of a softmax of log f. Where published code estimates the integral of f from further
    uniform slices, its derivative here is the mean over the slices at hand, which are draws of σ.
    `detach` leaves the second term out.
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
    """The paper's weighting: ρ(r) = r^(−p) of the part r = ‖Uᵀθ‖ of a slice inside the subspace U.

    With it slicing the data in R^d is slicing their coordinates in the subspace: the same number,
    slice by slice. `basis` is (d, k) or (*batch, d, k) with orthonormal columns; None takes the span
    of the samples at hand. Slices orthogonal to the subspace weigh nothing.
    """

    basis: Tensor | None = None
    graph_safe = False  # finding the span looks at its rank

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        check_fit(self, problem.d)
        costs = slices.new_zeros(*problem.batch, slices.shape[-2])  # these weights ignore them
        return Phi(Alignment(self.basis), Reciprocal(problem.p))(costs, slices, problem)

    def constant(self, slices: Tensor, problem: Problem) -> Tensor:
        return self(slices, slices, problem)  # whatever the costs are

    @property
    def rotation_invariant(self) -> bool:  # type: ignore[override]
        """A given basis belongs to the axes it is given in."""
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
    """The paper's general form: weights ρ(φ(θ_l)) / L.

    `phi(costs, slices, problem)` says how informative each slice is, (*batch, L); `rho` maps those
    numbers to weights. SW is φ ≡ 1; EBSW is φ = cost, ρ(r) = f(r) / mean f; RPSW under uniform slices
    is φ = `PathDensity`, ρ(r) = r; MaxSW is the limit of `Peak` at temperature 0.
    """

    phi: Informativeness
    rho: Callable[[Tensor], Tensor]

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        return (self.rho(self.phi(costs, slices, problem)) / costs.shape[-1]).expand_as(costs)


@dataclass(frozen=True, repr=False)
class SliceCost(BuiltIn):
    """A slice informs as much as it separates: φ = W_p^p."""

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        return costs


slice_cost = SliceCost()


@dataclass(frozen=True, repr=False, eq=False)
class Alignment(BuiltIn):
    """A slice informs as far as it lies in the subspace: φ = ‖Uᵀθ‖."""

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
        """A given basis belongs to the axes it is given in."""
        return self.basis is None


@dataclass(frozen=True, repr=False)
class PathDensity(BuiltIn):
    """How likely random paths with power-spherical spread are to give this slice, uniform being 1.

    Averages over all n · m pairs of samples: a definition to check against, not a fast path.
    """

    kappa: float
    needs_all_samples = True

    def __call__(self, costs: Tensor, slices: Tensor, problem: Problem) -> Tensor:
        path = problem.x.detach().unsqueeze(-2) - problem.y.detach().unsqueeze(-3)  # (..., n, m, d)
        pairs = sphere.normalize(path).flatten(-3, -2)
        cosine = slices @ pairs.mT  # (*batch, L, n · m)
        log_density = sphere.power_spherical_log_density(cosine, self.kappa, problem.d)
        return log_density.exp().mean(dim=-1)


@dataclass(frozen=True, repr=False)
class Reciprocal(BuiltIn):
    """ρ(r) = r^(−power), and 0 at 0."""

    power: float

    def __call__(self, r: Tensor) -> Tensor:
        return torch.where(r > 0, torch.where(r > 0, r, 1) ** -self.power, 0)


@dataclass(frozen=True, repr=False)
class Peak(BuiltIn):
    """ρ ∝ exp(r / temperature), of mean one: all weight on the largest r as temperature → 0."""

    temperature: float

    def __call__(self, r: Tensor) -> Tensor:
        return r.shape[-1] * torch.softmax(r / self.temperature, dim=-1)


Weights = Tensor | Callable[[Tensor], Tensor]


def constant_weights(weighting: Weighting, slices: Tensor, problem: Problem) -> Tensor | None:
    """Slice weights that do not depend on the costs, if the weighting knows them beforehand."""
    return declared(weighting, WeightingPart).constant(slices, problem)


def weights_for(weighting: Weighting, slices: Tensor, problem: Problem, *, hold: bool) -> Weights:
    """Slice weights as constants, or how they follow from costs that are means over points.

    Without `hold`, the derivative of Σ weights · costs in each cost, energies differentiated.
    """
    known = constant_weights(weighting, slices, problem)
    if known is not None:
        return known

    def follow(means: Tensor) -> Tensor:
        costs = problem.in_convention(means)
        return (
            weighting(costs, slices, problem)
            if hold
            else coefficients(weighting, slices, problem, costs)[1]
        )

    return follow


def coefficients(
    weighting: Weighting, slices: Tensor, problem: Problem, costs: Tensor
) -> tuple[Tensor, Tensor]:
    """Σ weights · costs and its derivative in each cost, for weights that follow the costs."""
    known = declared(weighting, WeightingPart).total_and_slope(costs)
    if known is not None:
        return known
    with torch.inference_mode(False), torch.enable_grad():
        live = costs.clone().requires_grad_()
        total = (weighting(live, slices, problem) * live).sum(dim=-1)
        (slope,) = torch.autograd.grad(total.sum(), live)
    return total.detach(), slope
