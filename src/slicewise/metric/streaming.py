"""The distance between streams of samples, none of which is kept."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from slicewise.distance import sliced_wasserstein
from slicewise.metric.exact import check_dimension, check_rows
from slicewise.metric.sketch import Sketch
from slicewise.sampling import Randomness, uniform
from slicewise.support import check_count, check_finite, check_order, full_precision
from slicewise.transport import project


class StreamingSlicedWassersteinMetric(Metric):
    """SW_p between all x and all y given to `update`, over fixed uniform slices, in memory that does not grow.

    Each side is a `Sketch` of its projections: 2 · `levels` · `n_slices` · `capacity` numbers in all, 20 MB as
    it comes. `compute()` is within `error_bound` of the exact distance over the same slices, whatever the order
    of samples; over ranks sketches are merged, and the bound holds for the samples of all.

    Args:
        n_slices: how many slices.
        capacity: numbers a level keeps of a slice. The error falls as 1 / capacity, the memory grows with it.
        levels: room for `capacity` · 2^(`levels` − 1) samples a side, or more.
        seed: of the slices, which are the same on every rank.

    >>> metric = StreamingSlicedWassersteinMetric(n_slices=20, capacity=64)
    >>> for _ in range(30): metric.update(torch.randn(100, 2), torch.randn(100, 2) + 1)
    >>> distance = metric.compute()
    >>> abs(distance - 1) < 0.2 and 0 < metric.error_bound < 0.3
    tensor(True)
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    x: Tensor
    y: Tensor
    d: Tensor

    def __init__(
        self,
        *,
        p: float = 2,
        n_slices: int = 50,
        capacity: int = 1024,
        levels: int = 24,
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        check_order(p)
        check_count("n_slices", n_slices)
        self.p, self.seed = float(p), seed
        self._shape = (n_slices, capacity, levels, self.p)
        empty = Sketch.empty(*self._shape).state
        merge = functools.partial(merged, shape=self._shape)
        for name in ("x", "y"):
            self.add_state(name, default=empty.clone(), dist_reduce_fx=merge)
        self.add_state("d", default=torch.zeros(1, dtype=torch.int64), dist_reduce_fx=one_dimension)
        # In a collection, metrics whose states are equal share one: those of another p must not.
        order = torch.tensor([self.p, float(seed)], dtype=torch.float64)
        self.add_state("order", default=order, dist_reduce_fx="max")
        self._slices: Tensor | None = None
        self.error_bound: Tensor | None = None  # of the last `compute()`

    def update(self, x: Tensor | None = None, y: Tensor | None = None) -> None:
        """Further samples (n, d) of either side, or of both; they are projected and forgotten."""
        given = {name: t for name, t in (("x", x), ("y", y)) if t is not None}
        for name, samples in given.items():
            check_rows(name, samples)
        check_finite(**given)
        for name, samples in given.items():
            if len(samples):
                slices = self._slices_for(samples)
                wide = samples.detach().to(slices.dtype)
                with full_precision(wide.device.type):
                    self._sketch(name).add(project(wide, slices))

    def compute(self) -> Tensor:
        """The distance between what has been seen; `error_bound` is then how far off it may be."""
        x, y = self._sketch("x"), self._sketch("y")
        for name, sketch in (("x", x), ("y", y)):
            if not sketch.n:
                raise ValueError(
                    f"no samples of {name} yet: call update({name}=...) before compute()"
                )
        (u, a), (v, b) = x.numbers(), y.numbers()
        costs = sliced_wasserstein(
            u.unsqueeze(-1),  # each line is a problem of its own, in one dimension
            v.unsqueeze(-1),
            p=self.p,
            x_weights=a,
            y_weights=b,
            slices=u.new_ones(1, 1),
            objective="power",
        )
        # Minkowski once more, over slices.
        self.error_bound = (x.error() + y.error()).pow(self.p).mean().pow(1 / self.p)
        return costs.mean().pow(1 / self.p)

    def _sketch(self, name: str) -> Sketch:
        return Sketch(getattr(self, name), *self._shape)

    def _slices_for(self, samples: Tensor) -> Tensor:
        d = samples.shape[-1]
        check_dimension(samples, int(self.d) or None)
        self.d.fill_(d)
        wide = torch.promote_types(samples.dtype, torch.float32)
        known = self._slices
        if known is None or known.shape[-1] != d:
            # On the CPU: a seed gives the same numbers on every device then.
            rng = Randomness(torch.Generator().manual_seed(self.seed), torch.device("cpu"))
            known = uniform((self._shape[0], d), rng, torch.float64)
        self._slices = known.to(samples.device)
        return self._slices.to(wide)


def merged(states: Tensor, *, shape: tuple[int, int, int, float]) -> Tensor:
    """The sketches of several processes (R, size) as one."""
    whole = Sketch.empty(*shape, device=states.device)
    for state in states:
        whole.merge(Sketch(state, *shape))
    return whole.state


def one_dimension(dimensions: Tensor) -> Tensor:
    """The dimension of the samples, which all processes that have some must share."""
    known = dimensions.flatten().unique().tolist()
    known = [d for d in known if d > 0]
    if len(known) > 1:
        raise ValueError(
            f"ranks have samples of dimensions {known}: give every rank samples of one dimension"
        )
    return dimensions.flatten()[:1] * 0 + (known[0] if known else 0)
