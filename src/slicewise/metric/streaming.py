"""The distance between streams of samples, in bounded memory."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from slicewise.distance import sliced_wasserstein
from slicewise.metric.exact import check_dimension, check_rows, check_seed
from slicewise.metric.sketch import Sketch
from slicewise.sampling import Randomness, uniform
from slicewise.support import (
    check_count,
    check_finite,
    check_order,
    full_precision,
    renamed_arguments,
)
from slicewise.transport import project


@renamed_arguments(seed="generator")
class StreamingSlicedWassersteinMetric(Metric):
    """SW_p between all x and all y given to `update`, over fixed uniform slices, in memory that does not grow.

    Keeps a `Sketch` of the projections of each side: 2 · `levels` · `n_slices` · `capacity` numbers in all, 20 MB by
    default. `compute()` is within `error_bound` of the exact distance over the same slices, whatever the order of
    samples. Over ranks sketches are merged, and the bound holds for the samples of all.

    Args:
        p: Order of the distance.
        n_slices: Number of slices.
        capacity: Numbers per slice and level. The error falls as 1 / capacity, the memory grows with it.
        levels: There is room for `capacity` · 2^(`levels` − 1) samples per side, or more.
        generator: An int that seeds the slices, which are the same on every rank.
        **options: Options of `torchmetrics.Metric`.

    Attributes:
        error_bound: Of the last `compute()`, (); None before.

    Raises:
        ValueError: If an argument is out of range.

    Example:
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
        generator: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        check_order(p)
        check_count("n_slices", n_slices)
        check_seed(generator)
        self.p, self.generator = float(p), generator
        self._shape = (n_slices, capacity, levels, self.p)
        empty = Sketch.empty(*self._shape).state
        merge = functools.partial(merged, shape=self._shape)
        for name in ("x", "y"):
            self.add_state(name, default=empty.clone(), dist_reduce_fx=merge)
        self.add_state("d", default=torch.zeros(1, dtype=torch.int64), dist_reduce_fx=one_dimension)
        # In a MetricCollection, metrics with equal states share one: those of another p or seed must not.
        order = torch.tensor([self.p, float(generator)], dtype=torch.float64)
        self.add_state("order", default=order, dist_reduce_fx="max")
        self._slices: Tensor | None = None
        self.error_bound: Tensor | None = None

    def update(self, x: Tensor | None = None, y: Tensor | None = None) -> None:
        """Add samples, which are projected and not kept.

        Args:
            x: Samples (n, d), or None.
            y: Samples (m, d), or None.

        Raises:
            ValueError: If their shape or dtype is another, d differs from that of earlier samples, or an entry is not
                finite.
        """
        given = {name: t for name, t in (("x", x), ("y", y)) if t is not None}
        for name, samples in given.items():
            check_rows(name, samples)
        check_finite(**given)
        some = {name: samples for name, samples in given.items() if len(samples)}
        # All is checked and projected before anything is added: an update is made whole, or not at all.
        known = int(self.d) or None
        for samples in some.values():
            check_dimension(samples, known)
            known = samples.shape[-1]
        lines = {}
        for name, samples in some.items():
            slices = self._slices_for(samples)
            wide = samples.detach().to(slices.dtype)
            with full_precision(wide.device.type):
                lines[name] = project(wide, slices)
        for name, projected in lines.items():
            self._sketch(name).add(projected)
        if known is not None:
            self.d.fill_(known)

    def compute(self) -> Tensor:
        """Return the distance between all samples given so far, (), and set `error_bound`."""
        x, y = self._sketch("x"), self._sketch("y")
        for name, sketch in (("x", x), ("y", y)):
            if not sketch.n:
                raise ValueError(
                    f"no samples of {name} yet: call update({name}=...) before compute()"
                )
        (u, a), (v, b) = x.numbers(), y.numbers()
        costs = sliced_wasserstein(
            u.unsqueeze(-1),  # each slice is a problem in one dimension
            v.unsqueeze(-1),
            p=self.p,
            x_weights=a,
            y_weights=b,
            slices=u.new_ones(1, 1),
            objective="power",
        )
        # By Minkowski's inequality over slices.
        self.error_bound = (x.error() + y.error()).pow(self.p).mean().pow(1 / self.p)
        return costs.mean().pow(1 / self.p)

    def _sketch(self, name: str) -> Sketch:
        return Sketch(getattr(self, name), *self._shape)

    def _slices_for(self, samples: Tensor) -> Tensor:
        d = samples.shape[-1]
        wide = torch.promote_types(samples.dtype, torch.float32)
        known = self._slices
        if known is None or known.shape[-1] != d:
            # Drawn on the CPU: a seed gives the same slices on every device.
            rng = Randomness(torch.Generator().manual_seed(self.generator), torch.device("cpu"))
            known = uniform((self._shape[0], d), rng, torch.float64)
        self._slices = known.to(samples.device)
        return self._slices.to(wide)


def merged(states: Tensor, *, shape: tuple[int, int, int, float]) -> Tensor:
    """Merge the sketches (R, size) of several processes into one (size,)."""
    whole = Sketch.empty(*shape, device=states.device)
    for state in states:
        whole.merge(Sketch(state, *shape))
    return whole.state


def one_dimension(dimensions: Tensor) -> Tensor:
    """Return the dimension of the samples, which must be the same on all ranks that have some."""
    known = dimensions.flatten().unique().tolist()
    known = [d for d in known if d > 0]
    if len(known) > 1:
        raise ValueError(
            f"ranks have samples of dimensions {known}: give every rank samples of one dimension"
        )
    return dimensions.flatten()[:1] * 0 + (known[0] if known else 0)
