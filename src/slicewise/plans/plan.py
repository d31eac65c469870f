"""Plans of slices: the coupling of each slice, the best of them, and their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from slicewise.distance import fixed_slices, prepare, problem_for, recipe_for
from slicewise.laws import refuse_laws
from slicewise.problem import Problem
from slicewise.sampling import Generators
from slicewise.support import (
    Result,
    broadcast,
    check_choice,
    check_finite,
    check_number,
    full_precision,
    takes_arrays,
)
from slicewise.transport import at_index, pair_costs, plan_on_lines, project
from slicewise.variants import Recipe, Variant

Kind = Literal["best", "expected"]
# Pairs that are held at once while slices are compared.
_PIECE = 2**21


@dataclass(frozen=True, eq=False)
class Plan(Result):
    """A transport plan between two sample sets, as the pairs between which mass goes.

    Attributes:
        rows: the sample of x of each pair, (*batch, K).
        cols: the sample of y of each pair, (*batch, K).
        mass: the mass of each pair, (*batch, K); it may be zero, and a pair may occur several times.
        shape: n and m.
        cost: Σ mass · ‖x_i − y_j‖^p, (*batch,); differentiable in x and y, the plan held.
        costs: the same for the plan of each slice, (*batch, L).
        weights: how much each slice counts in the plan, (*batch, L).
        slices: the slices, (*batch, L, d).

    `dense`, `sparse`, `map` and `permutation` give it in other forms.
    """

    rows: Tensor
    cols: Tensor
    mass: Tensor
    shape: tuple[int, int]
    cost: Tensor
    costs: Tensor
    weights: Tensor
    slices: Tensor

    def dense(self) -> Tensor:
        """Return the plan as a matrix, (*batch, n, m). It needs n · m numbers; `sparse` needs one for each pair."""
        n, m = self.shape
        batch = self.rows.shape[:-1]
        flat = self.mass.new_zeros(*batch, n * m)
        flat = flat.scatter_add(-1, self.rows * m + self.cols, self.mass)
        return flat.view(*batch, n, m)

    def sparse(self) -> Tensor:
        """Return the plan as a sparse COO tensor, (*batch, n, m), each pair once and none of mass zero."""
        there = self.mass != 0
        index = there.nonzero().T  # (batch dimensions and the place, pairs)
        pairs = torch.stack([self.rows[there], self.cols[there]])
        size = (*self.rows.shape[:-1], *self.shape)
        found = torch.sparse_coo_tensor(
            torch.cat([index[:-1], pairs]), self.mass[there], size, check_invariants=False
        )
        return found.coalesce()

    def map(self, y: Tensor) -> Tensor:
        """Return where each sample of x goes on average: the barycentric projection.

        Args:
            y: samples (*batch, m, d), or any features of them.

        Returns:
            The mean of the partners of each sample of x, (*batch, n, d). Zero for samples without mass.
        """
        n = self.shape[0]
        batch = broadcast(y.shape[:-2], self.rows.shape[:-1])
        partners = at_index(y, self.cols.unsqueeze(-2), batch).squeeze(-3)  # (*batch, K, d)
        rows, mass = self.rows.expand(*batch, -1), self.mass.expand(*batch, -1).to(y.dtype)
        place = rows.unsqueeze(-1).expand(partners.shape)
        total = partners.new_zeros(*batch, n, y.shape[-1])
        total = total.scatter_add(-2, place, mass.unsqueeze(-1) * partners)
        share = mass.new_zeros(*batch, n).scatter_add(-1, rows, mass).unsqueeze(-1)
        return torch.where(share > 0, total / torch.where(share > 0, share, 1), 0)

    @property
    def permutation(self) -> Tensor:
        """The partner of each sample of x, (*batch, n), if the plan pairs them one to one.

        Raises:
            ValueError: if it does not: sizes or weights differ, or it is the mean of several slices.
        """
        n, m = self.shape
        if n != m or self.rows.shape[-1] != n:
            raise ValueError(
                f"a plan of {self.rows.shape[-1]} pairs between {n} and {m} samples is no permutation: take kind='best' "
                f"with sets of one size and no weights, or its rows, cols and mass"
            )
        return torch.zeros_like(self.cols).scatter(-1, self.rows, self.cols)

    def __repr__(self) -> str:
        n, m = self.shape
        batch = tuple(self.rows.shape[:-1])
        many = f", batch {batch}" if batch else f", cost {float(self.cost.detach()):.4g}"
        return f"Plan({n} × {m}, {self.rows.shape[-1]} pairs, {self.costs.shape[-1]} slices{many})"


class SlicePlans(NamedTuple):
    """The plans of all slices."""

    rows: Tensor  # (*batch, L, K)
    cols: Tensor  # (*batch, L, K)
    mass: Tensor  # (*batch, L, K)


@takes_arrays("x", "y", "x_weights", "y_weights", "slices")
def sliced_plan(
    x: Tensor,
    y: Tensor,
    kind: Kind = "best",
    *,
    variant: str | Variant | Recipe = "sw",
    p: float = 2,
    norm: float = 2,
    beta: float = 0.0,
    n_slices: int | None = None,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    slices: Tensor | None = None,
    generator: Generators = None,
    **options: Any,
) -> Plan:
    """Compute a transport plan between two sample sets from the couplings of slices.

    Use it where a plan is wanted and the exact one, in O(n³), is too slow: each slice couples samples by sorting. The
    best of them costs at least as much as the exact plan, and equals it in one dimension. The plan is sparse: n pairs a
    slice for equal sizes and weights, n + m otherwise.

    Args:
        x: samples (*batch, n, d).
        y: samples (*batch, m, d).
        kind: "best" (the coupling of the slice with the lowest cost) or "expected" (the mean of all couplings).
        variant: where slices come from: a name of `VARIANTS` whose slices are lines, or a `Recipe`. Only its slicer is
            used.
        p: the power of the distance in the cost: Σ mass · ‖x_i − y_j‖^p.
        norm: the order of the Minkowski norm of that distance, at least 1.
        beta: the inverse temperature of "expected": slices count in proportion to exp(−beta · cost). 0 is the plain
            mean; the larger, the nearer to the best slice.
        n_slices: the number of slices; that of the variant by default.
        x_weights: weights (n,) or (*batch, n), of sum one. None is equal weights.
        y_weights: the same for y.
        slices: slices (L, d) or (*batch, L, d) in place of drawn ones.
        generator: the source of random draws.
        options: further options of the variant.

    Returns:
        The `Plan`. Its cost is differentiable in x and y, with the couplings held.

    Raises:
        ValueError: for arguments that do not fit together, or a variant whose slices are curves.

    >>> x, y = torch.tensor([[0.0], [1.0]]), torch.tensor([[5.0], [2.0]])
    >>> sliced_plan(x, y).permutation, sliced_plan(x, y).cost
    (tensor([1, 0]), tensor(10.))

    References:
        G. Mahey et al., Fast optimal transport through sliced generalized Wasserstein geodesics, 2023; X. Liu et al.,
        Expected sliced transport plans, 2024.
    """
    refuse_laws("sliced_plan", x, y)
    check_choice("kind", kind, ("best", "expected"))
    check_number("norm", norm, above=1, or_equal=True)
    check_number("beta", beta, above=0, or_equal=True)
    problem, drawn = _prepared(
        x, y, variant, p, n_slices, x_weights, y_weights, slices, generator, options
    )
    return plan_of(problem, drawn, kind, norm=float(norm), beta=float(beta))


def plan_of(
    problem: Problem, slices: Tensor, kind: Kind, *, norm: float = 2, beta: float = 0.0
) -> Plan:
    """Compute the plan of a problem along slices (*batch, L, d); see `sliced_plan`."""
    p, sizes = problem.p, (problem.x.shape[-2], problem.y.shape[-2])
    if kind == "best":
        with torch.no_grad():
            still = problem.detached()
            found, costs = _best(still, slices, norm)
            weights = torch.zeros_like(costs).scatter(-1, costs.argmin(-1, keepdim=True), 1)
    else:
        found = slice_plans(problem, slices)
        costs = pair_costs(problem.x, problem.y, *found, p=p, norm=norm)
        # Held, as the couplings are: the gradient of the cost moves samples along the plan.
        weights = torch.softmax(-beta * costs.detach(), dim=-1)
        mass = (found.mass * weights.unsqueeze(-1)).flatten(-2)
        found = SlicePlans(found.rows.flatten(-2), found.cols.flatten(-2), mass)
        return Plan(*found, sizes, (weights * costs).sum(dim=-1), costs.detach(), weights, slices)
    one = SlicePlans(*(t.unsqueeze(-2) for t in found))
    cost = pair_costs(problem.x, problem.y, *one, p=p, norm=norm).squeeze(-1)
    return Plan(*found, sizes, cost, costs, weights, slices)


def slice_plans(problem: Problem, slices: Tensor) -> SlicePlans:
    """Compute the plan of each slice (*batch, L, d), as pairs (*batch, L, K)."""
    still = problem.detached()
    with torch.no_grad(), full_precision(still.x.device.type):
        u, v = (project(t, slices) for t in (still.x, still.y))
        batch = (*problem.batch, slices.shape[-2])
        u, v = (t.expand(*batch, t.shape[-1]) for t in (u, v))
        a, b = (None if w is None else w.unsqueeze(-2) for w in (still.x_weights, still.y_weights))
        rows, cols, mass = plan_on_lines(u, v, u_weights=a, v_weights=b)
    if mass.shape != rows.shape:
        mass = mass.expand(rows.shape)
    return SlicePlans(rows, cols, mass)


def _best(problem: Problem, slices: Tensor, norm: float) -> tuple[SlicePlans, Tensor]:
    """The plan of the slice with the lowest cost, (*batch, K), and the costs of all; a few slices are held at a time."""
    pairs = sum(t.shape[-2] for t in (problem.x, problem.y)) * max(
        1, torch.Size(problem.batch).numel()
    )
    piece = max(1, _PIECE // pairs)
    best: SlicePlans | None = None
    least: Tensor | None = None
    costs = []
    for i in range(0, slices.shape[-2], piece):
        plans = slice_plans(problem, slices[..., i : i + piece, :])
        cost = pair_costs(problem.x, problem.y, *plans, p=problem.p, norm=norm)
        costs.append(cost)
        value, place = cost.min(dim=-1, keepdim=True)
        index = place.unsqueeze(-1)
        here = SlicePlans(*(t.take_along_dim(index, dim=-2).squeeze(-2) for t in plans))
        if best is None or least is None:
            best, least = here, value
        else:
            better = value < least
            best = SlicePlans(*(torch.where(better, new, old) for new, old in zip(here, best, strict=True)))  # fmt: skip
            least = torch.where(better, value, least)
    assert best is not None
    return best, torch.cat(costs, dim=-1)


def _prepared(
    x: Tensor,
    y: Tensor,
    variant: str | Variant | Recipe,
    p: float,
    n_slices: int | None,
    x_weights: Tensor | None,
    y_weights: Tensor | None,
    slices: Tensor | None,
    generator: Generators,
    options: dict[str, Any],
) -> tuple[Problem, Tensor]:
    """A checked problem, and its slices."""
    recipe = recipe_for(variant, n_slices, options)
    recipe.check_linear("a plan")
    problem = problem_for(x, y, p, x_weights, y_weights, "mean", 0.0, "auto")
    check_finite(x=problem.x.detach(), y=problem.y.detach())
    with torch.no_grad():
        given = fixed_slices(y, slices)
        ready = prepare(recipe, problem.detached(), generator, given, n_slices=n_slices)
    return problem, ready.slices
