"""What a flow leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from slicewise.judge import wasserstein
from slicewise.learn.runs import Status


class Trace:
    """What was seen on the way, one entry a step; NaN once a run has ended.

    `loss` (T, *batch) is the objective on the slices of each step, before it, in the dimensions that are
    worked in (there SW_p^p is larger by 1 / essf(d, k)); `step` (T, *batch) the rate, or the dimensionless a; `seconds` (T, *batch) the time since the
    start, of the whole batch. `w2` (len(w2_at), *batch) is the exact distance after `w2_at` steps, and
    `particles` (len(particles_at), *batch, n, d) what was there after `particles_at` steps.
    """

    def __init__(
        self, batch: tuple[int, ...], w2_at: Sequence[int] = (), particles_at: Sequence[int] = ()
    ) -> None:
        self.batch = batch
        self.w2_at, self.particles_at = sorted(set(w2_at)), sorted(set(particles_at))
        self._rows: dict[str, list[Tensor]] = {"loss": [], "step": [], "seconds": []}
        self._kept: dict[str, dict[int, Tensor]] = {"w2": {}, "particles": {}}

    def add(self, **rows: Tensor) -> None:
        """One step: a number for each run."""
        for name, row in rows.items():
            self._rows[name].append(row)

    def keep(self, name: str, step: int, value: Tensor) -> None:
        """What is looked at after chosen steps only."""
        self._kept[name][step] = value

    def has(self, name: str, step: int) -> bool:
        """Was it looked at?"""
        return step in self._kept[name]

    @property
    def loss(self) -> Tensor:
        return self._stacked("loss")

    @property
    def step(self) -> Tensor:
        return self._stacked("step")

    @property
    def seconds(self) -> Tensor:
        return self._stacked("seconds")

    @property
    def w2(self) -> Tensor:
        return self._chosen("w2", self.w2_at)

    @property
    def particles(self) -> Tensor:
        return self._chosen("particles", self.particles_at)

    def _stacked(self, name: str) -> Tensor:
        rows = self._rows[name]
        whole = torch.stack(rows) if rows else torch.zeros(0, *self._flat_shape())
        return whole.reshape(whole.shape[0], *self.batch)

    def _flat_shape(self) -> tuple[int, ...]:
        return (torch.Size(self.batch).numel(),)

    def _chosen(self, name: str, at: Sequence[int]) -> Tensor:
        kept = [self._kept[name][step] for step in at if step in self._kept[name]]
        if not kept:
            return torch.zeros(0, *self.batch)
        whole = torch.stack(kept)
        return whole.reshape(len(kept), *self.batch, *whole.shape[2:])

    def saved(self) -> dict[str, Any]:
        """As plain tensors."""
        rows = {name: torch.stack(rows) for name, rows in self._rows.items() if rows}
        return {"rows": rows, "kept": {name: dict(kept) for name, kept in self._kept.items()}}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from what was `saved`."""
        for name, rows in saved["rows"].items():
            self._rows[name] = list(rows.unbind(0))
        self._kept = {name: dict(kept) for name, kept in saved["kept"].items()}


@dataclass(eq=False)
class Flow:
    """Particles after a flow, and how they got there."""

    particles: Tensor  # (*batch, n, d)
    target: Tensor  # (*batch, m, d), as it was given
    trace: Trace
    status: Tensor  # (*batch,), see `Status`
    steps: Tensor  # (*batch,), how many were made
    ranks: Tensor  # (*batch,), the dimension k that each run was worked in
    seeds: Tensor  # (*batch,)
    state: dict[str, Any]  # to go on from: flow(..., resume=state)
    x_weights: Tensor | None = None
    y_weights: Tensor | None = None

    @property
    def converged(self) -> Tensor:
        """Which runs ended because they had arrived, (*batch,)."""
        return (self.status == Status.CONVERGED) | (self.status == Status.ASSIGNED)

    @property
    def diverged(self) -> Tensor:
        """Which runs were stopped on their way to infinity, (*batch,); theirs are the last finite particles."""
        return self.status == Status.DIVERGED

    @cached_property
    def w2(self) -> Tensor:
        """The exact W_2 that is left, (*batch,), float64; infinite for diverged runs."""
        left = wasserstein(
            self.particles, self.target, x_weights=self.x_weights, y_weights=self.y_weights
        )
        return torch.where(self.diverged, torch.inf, left)

    def __repr__(self) -> str:
        counts = torch.bincount(self.status.flatten(), minlength=len(Status)).tolist()
        ended = ", ".join(f"{n} {s.name.lower()}" for s, n in zip(Status, counts, strict=True) if n)
        ranks = sorted(set(self.ranks.flatten().tolist()))
        worked = " and ".join(map(str, ranks))
        most = int(self.steps.max()) if self.steps.numel() else 0
        return (
            f"Flow(particles {tuple(self.particles.shape)}, {ended}, up to {most} steps, worked in "
            f"{worked} of {self.particles.shape[-1]} dimensions)"
        )
