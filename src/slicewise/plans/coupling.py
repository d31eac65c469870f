"""Pair samples by a sliced plan, as flow matching does with each batch; on one process or on several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slicewise.distributed import Ranks
from slicewise.laws import refuse_laws
from slicewise.plans.plan import Plan, sliced_plan
from slicewise.sampling import Generators, Randomness, one_generator, sphere
from slicewise.support import Result, check_count, takes_arrays

if TYPE_CHECKING:
    import torch.distributed as dist


@dataclass(frozen=True, eq=False)
class Pairs(Result):
    """Paired samples: row k of x0 goes with row k of x1.

    Attributes:
        x0: samples, (k, d).
        x1: their partners, (k, d).
        index0: the rows of the given x0, (k,).
        index1: the rows of the given x1, (k,); over several processes, of all of them after another.
    """

    x0: Tensor
    x1: Tensor
    index0: Tensor
    index1: Tensor

    def __repr__(self) -> str:
        return f"Pairs({len(self.index0)} pairs of samples {tuple(self.x0.shape[1:])})"


@takes_arrays("x0", "x1", "x0_weights", "x1_weights")
def couple(
    x0: Tensor,
    x1: Tensor,
    *,
    n_slices: int = 50,
    x0_weights: Tensor | None = None,
    x1_weights: Tensor | None = None,
    n_pairs: int | None = None,
    generator: Generators = None,
    group: dist.ProcessGroup | None = None,
) -> Pairs:
    """Pair the samples of two batches by the best of some sliced plans.

    Use it in flow matching in place of random pairs or of an exact assignment, which takes O(n³): paths between paired
    samples cross less. Sets of one size without weights are paired one to one, in the order of x0. Otherwise pairs are
    drawn from the plan, with probabilities proportional to their mass.

    Args:
        x0: samples (n, d), or (n, ...): further dimensions are flattened for the comparison only.
        x1: samples (m, d), or (m, ...).
        n_slices: the number of slices that are compared.
        x0_weights: weights (n,) of sum one. None is equal weights.
        x1_weights: weights (m,) of sum one.
        n_pairs: the number of pairs to draw, n by default. Not for sets that are paired one to one.
        generator: the source of random draws. Slices are those of the first process of a group.
        group: a process group whose processes hold shares of the batch, of one size each. All samples are paired
            together, and each process gets the partners of its own x0.

    Returns:
        The `Pairs`: samples and their indices.

    Raises:
        ValueError: for arguments that do not fit together.

    >>> x0, x1 = torch.tensor([[0.0], [3.0], [1.0]]), torch.tensor([[4.0], [6.0], [5.0]])
    >>> couple(x0, x1, generator=0).x1
    tensor([[4.],
            [6.],
            [5.]])

    References:
        A. Tong et al., Improving and generalizing flow-based generative models with minibatch optimal transport, 2024;
        G. Mahey et al., Fast optimal transport through sliced generalized Wasserstein geodesics, 2023.
    """
    refuse_laws("couple", x0, x1)
    check_count("n_pairs", n_pairs)
    for name, samples in (("x0", x0), ("x1", x1)):
        if samples.dim() < 2:
            raise ValueError(
                f"{name} has shape {tuple(samples.shape)}: give samples (n, d); numbers t are t[:, None]"
            )
    one_to_one = len(x0) == len(x1) and x0_weights is None and x1_weights is None
    if one_to_one and n_pairs is not None:
        raise ValueError(
            f"n_pairs = {n_pairs}, but sets of {len(x0)} samples without weights are paired one to one: leave it out"
        )
    if group is not None:
        if not one_to_one:
            raise ValueError(
                f"group= pairs sets of one size without weights, but x0 has {len(x0)} samples and x1 {len(x1)}, or "
                f"weights are given: give as many of both to every process"
            )
        return _over_ranks(x0, x1, n_slices, generator, Ranks(group))
    # One stream also of an int: first of slices, then of pairs.
    source = one_generator(generator)
    plan = _plan(x0, x1, n_slices, x0_weights, x1_weights, source)
    if one_to_one:
        index1 = plan.permutation
        return Pairs(x0, x1[index1], torch.arange(len(x0), device=x0.device), index1)
    rng = Randomness(source, x0.device, ())
    level = rng.uniform(len(x0) if n_pairs is None else n_pairs).to(x0.device, torch.float64)
    ends = plan.mass.double().cumsum(dim=-1)
    chosen = torch.searchsorted(ends / ends[-1], level, right=True).clamp(max=len(ends) - 1)
    index0, index1 = plan.rows[chosen], plan.cols[chosen]
    return Pairs(x0[index0], x1[index1], index0, index1)


def _plan(
    x0: Tensor,
    x1: Tensor,
    n_slices: int,
    x0_weights: Tensor | None,
    x1_weights: Tensor | None,
    generator: Generators,
    slices: Tensor | None = None,
) -> Plan:
    with torch.no_grad():
        return sliced_plan(
            x0.detach().flatten(1),
            x1.detach().flatten(1),
            n_slices=n_slices if slices is None else None,
            x_weights=x0_weights,
            y_weights=x1_weights,
            slices=slices,
            generator=generator,
        )


def _over_ranks(
    x0: Tensor, x1: Tensor, n_slices: int, generator: Generators, ranks: Ranks
) -> Pairs:
    """Everyone gathers the batch and finds the same plan, along the first process's slices."""
    here = torch.tensor(x0.shape, device=ranks.usual_device())
    sizes = [tuple(size.tolist()) for size in ranks.everyones(here)]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"the processes of the group hold shares of shapes {sorted(set(sizes))}: give as many samples to each, e.g. "
            f"by drop_last=True in the data loader"
        )
    every0, every1 = (torch.cat(ranks.everyones(t.detach())) for t in (x0, x1))
    d = every0[0].numel()
    rng = Randomness(generator, x0.device, ())
    slices = ranks.from_first(sphere.uniform((n_slices, d), rng).to(x0.device, x0.dtype))
    partner = _plan(every0, every1, n_slices, None, None, None, slices).permutation
    n = len(x0)
    index1 = partner[ranks.rank * n : (ranks.rank + 1) * n]
    own = torch.arange(n, device=x0.device)
    return Pairs(x0, every1[index1], own, index1)
