"""How far directions are from the uniform law on the sphere."""

from __future__ import annotations

from torch import Tensor

from slicewise.distance.request import prepare, problem_for, recipe_for
from slicewise.parts import turns
from slicewise.sampling import Generators
from slicewise.support import check_choice, takes_arrays
from slicewise.transport import root, uniform_circle_costs


@takes_arrays("x", "x_weights", "slices")
def spherical_uniformity(
    x: Tensor,
    *,
    objective: str = "root",
    n_slices: int | None = None,
    x_weights: Tensor | None = None,
    slices: Tensor | None = None,
    generator: Generators = None,
) -> Tensor:
    """Compute the spherical sliced-Wasserstein distance of directions to the uniform law on the sphere, for p = 2.

    Use it as a measure of how evenly embeddings cover the sphere, or as a loss that spreads them: it is differentiable,
    and takes O(L n log n), where pairwise uniformity losses take O(n²). No samples of the uniform law are drawn: on each
    great circle the cost is known in closed form.

    Args:
        x: samples (*batch, n, d), of which only the directions count; d ≥ 2.
        objective: "root" (the distance) or "power" (its square).
        n_slices: the number of great circles (50 by default).
        x_weights: weights (n,) or (*batch, n), of sum one. None is equal weights.
        slices: pairs of vectors as rows (L, 2 d) or (*batch, L, 2 d), orthonormalized here, in place of random ones.
        generator: the source of random draws.

    Returns:
        The value, (*batch,), in turns: a single point has 1/√12.

    Raises:
        ValueError: for arguments that do not fit together, or d = 1.

    >>> import torch
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    >>> spherical_uniformity(x, objective="power") * 12 * 16  # 1 / (12 n²), the least that n points reach on a circle
    tensor(1.0000)

    Reference:
        C. Bonet et al., Spherical sliced-Wasserstein, 2023.
    """
    check_choice("objective", objective, ("root", "power"))
    recipe = recipe_for("ssw", n_slices, {})
    assert recipe.lift is not None
    problem = problem_for(x, x, 2, x_weights, x_weights, "mean", 0.0, "auto")
    ready = prepare(recipe, problem, generator, slices, n_slices=n_slices)
    weights = None if x_weights is None else x_weights.unsqueeze(-2)
    costs = uniform_circle_costs(turns(problem.x, ready.slices), weights)  # (*batch, L)
    power = costs.mean(dim=-1).to(x.dtype)
    return root(power, 2) if objective == "root" else power
