"""The result of a flow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from slicewise.flows.history import History
from slicewise.flows.stopping import Outcome
from slicewise.support import Result, Status
from slicewise.transport import wasserstein

_WORDS = {
    Outcome.NOT_ENDED: Status.OUT_OF_STEPS,
    Outcome.ARRIVED: Status.ARRIVED,
    Outcome.DIVERGED: Status.DIVERGED,
    Outcome.ASSIGNED: Status.ARRIVED,
}


@dataclass(eq=False)
class Flow(Result):
    """The result of `flow`: where the particles ended, and how they got there.

    Attributes:
        particles: Final particles, (*batch, n, d).
        target: The target samples as given, (*batch, m, d).
        history: What was recorded on the way, a `History`: `.loss`, `.step`, `.seconds`, and `.w2` and `.particles`
            where a `Recording` asked for them.
        n_steps: Number of steps each run made, (*batch,).
        dimensions: The dimension each run was worked in, (*batch,): d, or fewer after an exact reduction.
        seeds: The seed of each run, (*batch,).
        state: Everything needed to continue: `flow(..., resume=result.state)`.
        status: How each run ended: "arrived", "out of steps" or "diverged". A string for one run, a nested list in the
            shape of the batch for several.
        converged, assigned, diverged: The same as masks, (*batch,).
        w2: The exact W_2 that is left, (*batch,).

    Example:
        >>> import slicewise as sw
        >>> x, y = torch.randn(2, 30, 2, dtype=torch.float64)
        >>> result = sw.flow(x, y, seeds=0)
        >>> result.status
        'arrived'
        >>> sw.flow(x, y, lr=torch.tensor([1.0, 1e9]), seeds=0, max_steps=20).status
        ['out of steps', 'diverged']
    """

    renamed = {"trace": "history", "steps": "n_steps", "ranks": "dimensions"}  # noqa: RUF012

    particles: Tensor
    target: Tensor
    history: History
    n_steps: Tensor
    dimensions: Tensor
    seeds: Tensor
    state: dict[str, Any]
    outcome: Tensor = field(repr=False)  # (*batch,), codes of `Outcome`
    x_weights: Tensor | None = None
    y_weights: Tensor | None = None

    @property
    def status(self) -> Any:
        """How each run ended, in words: a str for one run, a nested list of str for a batch."""
        return _worded(self.outcome.tolist())

    @property
    def converged(self) -> Tensor:
        """Runs that met a stopping criterion by themselves, (*batch,); not those that an assignment ended."""
        return self.outcome == Outcome.ARRIVED

    @property
    def assigned(self) -> Tensor:
        """Runs that `Stopping(assign=True)` ended, (*batch,)."""
        return self.outcome == Outcome.ASSIGNED

    @property
    def diverged(self) -> Tensor:
        """Runs that were stopped on their way to infinity, (*batch,); they keep their last finite particles."""
        return self.outcome == Outcome.DIVERGED

    @cached_property
    def w2(self) -> Tensor:
        """The exact W_2 that is left, (*batch,), float64 (extra `exact`); infinite for diverged runs."""
        x, y = self.particles.double(), self.target.double()
        left = wasserstein(x, y, x_weights=self.x_weights, y_weights=self.y_weights)
        return torch.where(self.diverged, torch.inf, left)

    def __repr__(self) -> str:
        counts = Counter(_WORDS[Outcome(code)] for code in self.outcome.flatten().tolist())
        assigned = f" ({n} assigned)" if (n := int(self.assigned.sum())) else ""
        ended = ", ".join(
            f"{counts[word]} {word}{assigned if word == Status.ARRIVED else ''}"
            for word in Status
            if counts[word]
        )
        worked = " and ".join(map(str, sorted(set(self.dimensions.flatten().tolist()))))
        most = int(self.n_steps.max()) if self.n_steps.numel() else 0
        return (
            f"Flow(particles {tuple(self.particles.shape)}, {ended}, up to {most} steps, worked in "
            f"{worked} of {self.particles.shape[-1]} dimensions)"
        )


def _worded(codes: Any) -> Any:
    if isinstance(codes, list):
        return [_worded(code) for code in codes]
    return _WORDS[Outcome(codes)].value
