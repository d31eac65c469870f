"""A target prepared once, for calls that keep their slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.laws import Law
from slicewise.sampling import Generators, Randomness, uniform
from slicewise.support import (
    as_tensor,
    check_count,
    check_finite,
    check_generator,
    check_set,
    check_slices,
    check_weights,
    full_precision,
)
from slicewise.transport import project, sorted_lines


class Target:
    """A target prepared once: samples y with fixed slices, projected and sorted. Give it in place of `y`.

    Use it where many calls compare with the same y along the same slices: each saves half of its sorting. With fixed
    slices a flow is deterministic, and converges to samples that agree with y on these slices only.

    Args:
        y: samples (*batch, m, d), or a law of `slicewise.laws`; slices are then given.
        slices: directions (L, d) or (*batch, L, d); None draws `n_slices` uniform ones.
        y_weights: sample weights (m,) or (*batch, m) that sum to one.
        generator: where slices are drawn from, as in `sliced_wasserstein`.

    Raises:
        ValueError: for arguments that do not fit together.

    >>> target = Target(torch.randn(100, 3), n_slices=20)
    >>> from slicewise import sliced_wasserstein
    >>> sliced_wasserstein(torch.randn(5, 100, 3), target).shape
    torch.Size([5])
    """

    def __init__(
        self,
        y: Tensor | Law,
        slices: Tensor | None = None,
        *,
        n_slices: int = 50,
        y_weights: Tensor | None = None,
        generator: Generators = None,
    ) -> None:
        if isinstance(y, Law):
            self._of_law(y, slices, y_weights)
            return
        given: list[Any] = [y, slices, y_weights]
        y, slices, y_weights = (
            as_tensor(t) if isinstance(t, (np.ndarray, list)) else t for t in given
        )
        check_set("y", y)
        check_count("n_slices", n_slices)
        check_weights("y_weights", y_weights, y)
        batch = tuple(y.shape[:-2])
        if slices is not None:
            check_slices(slices, y, batch, y.shape[-1])
        check_finite(y=y, slices=slices)
        self.y: Tensor | Law = y.detach()
        self.y_weights = y_weights
        wide = y.detach().to(torch.promote_types(y.dtype, torch.float32))
        if slices is None:
            check_generator(generator)
            rng = Randomness(generator, y.device, batch)
            slices = uniform((*batch, n_slices, y.shape[-1]), rng, wide.dtype)
        self.slices = slices.detach().to(wide.dtype)
        with full_precision(y.device.type):
            self.sorted: Tensor | None = sorted_lines(project(wide, self.slices))  # (*batch, L, m)

    def _of_law(self, law: Law, slices: Tensor | None, y_weights: Tensor | None) -> None:
        if slices is None or y_weights is not None:
            raise ValueError(
                f"a Target of {law!r}: give slices (L, d), whose dimension the law takes, and no weights"
            )
        given: Any = slices
        slices = as_tensor(given) if isinstance(given, (np.ndarray, list)) else given
        if not isinstance(slices, Tensor) or slices.dim() < 2 or slices.shape[-2] == 0:
            got = tuple(slices.shape) if isinstance(slices, Tensor) else type(slices).__name__
            raise ValueError(f"slices is {got}: give a tensor (L, d), a direction in each row")
        law.dimension(slices.shape[-1])
        check_finite(slices=slices)
        self.y, self.y_weights, self.sorted = law, None, None
        self.slices = slices.detach()

    def __repr__(self) -> str:
        y = repr(self.y) if isinstance(self.y, Law) else f"y {tuple(self.y.shape)}"
        return f"Target({y}, slices {tuple(self.slices.shape)})"
