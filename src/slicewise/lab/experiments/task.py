"""What a flow is asked to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from torch import Tensor


class Task(Protocol):
    """Samples to carry to samples."""

    @property
    def setting(self) -> str:
        """What it is called."""
        ...

    @property
    def given(self) -> Mapping[str, Any]:
        """All that determines its samples, but for the seed."""
        ...

    @property
    def noted(self) -> Mapping[str, Any]:
        """What else is to be told of them."""
        ...

    @property
    def shown(self) -> Sequence[int]:
        """After how many steps a flow is worth a picture."""
        ...

    @property
    def pictured(self) -> bool:
        """Whether the end of a run by a rate is worth keeping to look at."""
        ...

    def samples(self, seed: int) -> tuple[Tensor, Tensor]:
        """x (n, d) and y (m, d) of one run, float64."""
        ...

    def picture(self, particles: Tensor, seed: int) -> np.ndarray[Any, Any]:
        """What is kept of particles (S, n, d) to draw them."""
        ...
