"""The distance between all samples seen, kept until it is asked for."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors

from slicewise.distance import recipe_for, sliced_wasserstein
from slicewise.support import check_order
from slicewise.variants import Recipe, Variant

# What torchmetrics itself understands; everything else is an option of the variant.
_OF_TORCHMETRICS = {
    "compute_on_cpu",
    "compute_with_cache",
    "dist_sync_fn",
    "dist_sync_on_step",
    "distributed_available_fn",
    "process_group",
    "sync_on_compute",
}


class SlicedWassersteinMetric(Metric):
    """Sliced Wasserstein between all x and all y given to `update`, exactly; over ranks, between those of all.

    Keeps every sample. `StreamingSlicedWassersteinMetric` keeps none.

    Args:
        variant, p, n_slices, power, options: as in `sliced_wasserstein`.
        seed: of the slices. A metric is compared from epoch to epoch and computed on every rank, so its slices are
            the same each time; another seed gives others.

    >>> metric = SlicedWassersteinMetric(n_slices=20)
    >>> for _ in range(3): metric.update(torch.zeros(10, 2), torch.ones(10, 2))
    >>> metric.compute().item() > 0
    True
    """

    is_differentiable = True
    higher_is_better = False
    full_state_update = False
    x: list[Tensor]
    y: list[Tensor]

    def __init__(
        self,
        variant: str | Variant | Recipe = "sw",
        *,
        p: float = 2,
        n_slices: int | None = None,
        power: bool = False,
        seed: int = 0,
        backend: str = "auto",
        **options: Any,
    ) -> None:
        super().__init__(**{k: v for k, v in options.items() if k in _OF_TORCHMETRICS})
        check_order(p)
        own = {k: v for k, v in options.items() if k not in _OF_TORCHMETRICS}
        self.recipe = recipe_for(variant, n_slices, own)
        self.p, self.power, self.seed, self.backend = p, power, seed, backend
        self.add_state("x", default=[], dist_reduce_fx="cat")
        self.add_state("y", default=[], dist_reduce_fx="cat")

    def update(self, x: Tensor | None = None, y: Tensor | None = None) -> None:
        """Further samples (n, d) of either side, or of both."""
        given = {name: t for name, t in (("x", x), ("y", y)) if t is not None}
        for name, samples in given.items():
            check_rows(name, samples)
            first = next(itertools.chain(self.x, self.y, given.values()))
            check_dimension(samples, first.shape[-1])
        for name, samples in given.items():
            # Without this a metric that is only looked at would keep what every batch was computed from.
            getattr(self, name).append(samples if torch.is_grad_enabled() else samples.detach())

    def _sync_dist(self, dist_sync_fn: Any = gather_all_tensors, process_group: Any = None) -> None:
        # What torchmetrics sends for a rank without samples has another shape: gloo would end the process.
        mine = tuple(bool(sum(map(len, kept))) for kept in (self.x, self.y))
        every: list[Any] = [None] * dist.get_world_size(process_group)
        dist.all_gather_object(every, mine, group=process_group)
        for rank, (has_x, has_y) in enumerate(every):
            if not (has_x and has_y):
                raise ValueError(
                    f"rank {rank} has no samples of {'y' if has_x else 'x'}: give every rank some of either side, or take the "
                    f"streaming metric"
                )
        super()._sync_dist(dist_sync_fn, process_group)

    def compute(self) -> Tensor:
        """The distance between what has been seen."""
        x, y = (joined(name, kept) for name, kept in (("x", self.x), ("y", self.y)))
        return sliced_wasserstein(
            x,
            y,
            self.recipe,
            p=self.p,
            objective="power" if self.power else "root",
            generator=torch.Generator().manual_seed(self.seed),
            backend=self.backend,
        )


def joined(name: str, kept: list[Tensor] | Tensor) -> Tensor:
    """All samples of a side: a list here, one tensor once it has been synchronised."""
    whole = kept if isinstance(kept, Tensor) else torch.cat(kept) if kept else torch.empty(0, 0)
    if not len(whole):
        raise ValueError(f"no samples of {name} yet: call update({name}=...) before compute()")
    return whole


def check_rows(name: str, samples: Tensor) -> None:
    """Samples (n, d)."""
    if not isinstance(samples, Tensor) or samples.dim() != 2 or not samples.is_floating_point():
        got = type(samples).__name__
        if isinstance(samples, Tensor):
            got = f"{tuple(samples.shape)}, {samples.dtype}"
        raise ValueError(
            f"{name} is {got}: give floating-point samples (n, d); flatten images or features first, "
            f"e.g. {name}.flatten(1)"
        )


def check_dimension(samples: Tensor, earlier: int | None) -> None:
    """Samples of the dimension that earlier ones had, if there were any."""
    d = samples.shape[-1]
    if earlier not in (None, d):
        raise ValueError(
            f"samples have d = {d}, but earlier ones d = {earlier}: give samples of one dimension, or "
            f"reset() the metric"
        )
