"""The whole distance in plain PyTorch, to be read: draw, project, sort, subtract, weigh, add.

No speed, no gradients of our own, no batches beyond torch's. Every faster path is tested against it.
"""

from __future__ import annotations

from torch import Tensor

from slicewise.problem import Problem
from slicewise.sampling import Randomness
from slicewise.variants import Recipe


def sliced_wasserstein(x: Tensor, y: Tensor, recipe: Recipe, seed: int, p: float = 2) -> Tensor:
    """SW_p between x (n, d) and y (m, d), equally weighted, for any recipe.

    >>> import torch
    >>> from slicewise import VARIANTS
    >>> x, y = torch.zeros(4, 2), torch.tensor([3.0, 4.0]).expand(5, 2)
    >>> sliced_wasserstein(x, y, VARIANTS["maxsw"](), seed=0).round(decimals=4)
    tensor(5.)
    """
    rng = Randomness(seed, x.device)
    problem = Problem(x, y, p)
    if recipe.lift is not None:  # slice something else in place of the samples
        problem = recipe.lift(problem, rng)
    slices = recipe.slicer(problem, rng)  # (L, d), unit rows
    u = problem.positions("x", slices)  # (L, n), where the samples lie along each slice
    v = problem.positions("y", slices)  # (L, m)
    costs = transport_cost(u, v, p)  # (L,), W_p^p on each line
    weights = recipe.weighting(costs, slices, problem)  # (L,), 1/L for SW
    return (weights * costs).sum().clamp(min=0) ** (1 / p)


def transport_cost(u: Tensor, v: Tensor, p: float) -> Tensor:
    """W_p^p between the numbers of each line, u (L, n) and v (L, m): sorted, the k-th goes to the k-th."""
    n, m = u.shape[-1], v.shape[-1]
    u, v = u.sort(dim=-1).values, v.sort(dim=-1).values
    # Repeated m and n times both have n · m numbers, and the plan stays what it is.
    gap = u.repeat_interleave(m, dim=-1) - v.repeat_interleave(n, dim=-1)
    return gap.abs().pow(p).mean(dim=-1)
