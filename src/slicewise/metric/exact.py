"""The distance between all samples seen, computed from all of them."""

from __future__ import annotations

import itertools
import numbers
from typing import Any, get_args

import torch
import torch.distributed as dist
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors

from slicewise.distance import Objective, recipe_for, sliced_wasserstein
from slicewise.laws import Law
from slicewise.support import check_choice, check_order, renamed_arguments
from slicewise.variants import Recipe, Variant

# Options of torchmetrics; all others are options of the variant.
_OF_TORCHMETRICS = {
    "compute_on_cpu",
    "compute_with_cache",
    "dist_sync_fn",
    "dist_sync_on_step",
    "distributed_available_fn",
    "process_group",
    "sync_on_compute",
}


@renamed_arguments(seed="generator", power="objective")
class SlicedWassersteinMetric(Metric):
    """The sliced Wasserstein distance between all x and all y given to `update`; over ranks, between those of all.

    Keeps every sample. For more samples than fit into memory use `StreamingSlicedWassersteinMetric`.

    Args:
        variant: The sliced distance: a name of `VARIANTS`, a `Variant` or a `Recipe`.
        p: Order of the distance.
        n_slices: Number of slices; None is the default of the variant.
        objective: "root" (SW_p), "power" (SW_p to the power p) or "mean_root" (the mean of W_p over slices).
        target: A law of `slicewise.laws` to compare all x with in place of samples y; `update` then takes x alone.
        generator: An int that seeds the slices. They are the same at each `compute` and on every rank, so that values
            can be compared from epoch to epoch.
        backend: As in `sliced_wasserstein`.
        **options: Options of the variant, or of `torchmetrics.Metric`.

    Raises:
        ValueError: If an argument is out of range.

    Example:
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
        objective: Objective = "root",
        target: Law | None = None,
        generator: int = 0,
        backend: str = "auto",
        **options: Any,
    ) -> None:
        super().__init__(**{k: v for k, v in options.items() if k in _OF_TORCHMETRICS})
        check_order(p)
        check_choice("objective", objective, get_args(Objective))
        check_seed(generator)
        own = {k: v for k, v in options.items() if k not in _OF_TORCHMETRICS}
        self.recipe = recipe_for(variant, n_slices, own)
        self.p, self.objective, self.backend = p, objective, backend
        self.generator = generator
        if target is not None and not isinstance(target, Law):
            raise ValueError(
                f"target is a {type(target).__name__}: give a law, e.g. slicewise.laws.Normal(); samples go to update(y=...)"
            )
        self.target = target
        self.add_state("x", default=[], dist_reduce_fx="cat")
        self.add_state("y", default=[], dist_reduce_fx="cat")

    def update(self, x: Tensor | None = None, y: Tensor | None = None) -> None:
        """Add samples.

        Args:
            x: Samples (n, d), or None.
            y: Samples (m, d), or None.

        Raises:
            ValueError: If their shape or dtype is another, or d differs from that of earlier samples.
        """
        if y is not None and self.target is not None:
            raise ValueError(f"samples of y beside target={self.target!r}: leave one of them out")
        given = {name: t for name, t in (("x", x), ("y", y)) if t is not None}
        for name, samples in given.items():
            check_rows(name, samples)
            first = next(itertools.chain(self.x, self.y, given.values()))
            check_dimension(samples, first.shape[-1])
        for name, samples in given.items():
            # Detached where nobody differentiates: else the metric would keep the graph of every batch.
            getattr(self, name).append(samples if torch.is_grad_enabled() else samples.detach())

    def _sync_dist(self, dist_sync_fn: Any = gather_all_tensors, process_group: Any = None) -> None:
        # A rank without samples would send a tensor of another shape, at which gloo ends the process.
        mine = tuple(bool(sum(map(len, kept))) for kept in (self.x, self.y))
        every: list[Any] = [None] * dist.get_world_size(process_group)
        dist.all_gather_object(every, mine, group=process_group)
        for rank, (has_x, has_y) in enumerate(every):
            if not (has_x and (has_y or self.target is not None)):
                raise ValueError(
                    f"rank {rank} has no samples of {'y' if has_x else 'x'}: give every rank some of either side, or "
                    f"take the streaming metric"
                )
        super()._sync_dist(dist_sync_fn, process_group)

    def compute(self) -> Tensor:
        """Return the distance between all samples given so far, ()."""
        x = joined("x", self.x)
        y = joined("y", self.y) if self.target is None else self.target
        return sliced_wasserstein(
            x,
            y,
            self.recipe,
            p=self.p,
            objective=self.objective,
            generator=torch.Generator().manual_seed(self.generator),
            backend=self.backend,
        )


def joined(name: str, kept: list[Tensor] | Tensor) -> Tensor:
    """Return all samples (n, d) of a side, which is a list, or a tensor once it has been synchronized."""
    whole = kept if isinstance(kept, Tensor) else torch.cat(kept) if kept else torch.empty(0, 0)
    if not len(whole):
        raise ValueError(f"no samples of {name} yet: call update({name}=...) before compute()")
    return whole


def check_seed(generator: object) -> None:
    """Check that `generator` is an int: anything else would not give the same slices each time."""
    if isinstance(generator, bool) or not isinstance(generator, numbers.Integral):
        raise ValueError(
            f"generator = {generator!r}: give an int (a seed); a metric has the same slices at each compute()"
        )


def check_rows(name: str, samples: Tensor) -> None:
    """Check that samples are (n, d) and floating-point."""
    if not isinstance(samples, Tensor) or samples.dim() != 2 or not samples.is_floating_point():
        got = type(samples).__name__
        if isinstance(samples, Tensor):
            got = f"{tuple(samples.shape)}, {samples.dtype}"
        raise ValueError(
            f"{name} is {got}: give floating-point samples (n, d); flatten images or features first, "
            f"e.g. {name}.flatten(1)"
        )
    if samples.shape[1] == 0:
        raise ValueError(
            f"{name} is {tuple(samples.shape)}: give samples (n, d) of at least one coordinate"
        )


def check_dimension(samples: Tensor, earlier: int | None) -> None:
    """Check that samples have the dimension of earlier ones, if there were any."""
    d = samples.shape[-1]
    if earlier not in (None, d):
        raise ValueError(
            f"samples have d = {d}, but earlier ones d = {earlier}: give samples of one dimension, or "
            f"reset() the metric"
        )
