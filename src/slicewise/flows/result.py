"""What a flow leaves behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from slicewise.flows.stopping import Status
from slicewise.transport import wasserstein


class Trace:
    """What was seen on the way, one entry a step; NaN once a run has ended.

    `loss` (T, *batch) is the objective on the slices of each step, where it began (with momentum, a little
    ahead of the particles), in the dimensions worked in: there SW_p^p is larger by 1 / essf(d, k).
    `step` (T, *batch) is the rate, or the dimensionless a; `seconds` (T, *batch) the time since the start,
    of the whole batch. `w2` (len(w2_at), *batch) is the exact distance after `w2_at` steps, infinite for runs
    that diverged; `particles` (len(particles_at), *batch, n, d) what was there after `particles_at` steps,
    on the CPU. Steps that were not made, or not looked at before a flow was resumed, are NaN.
    """

    def __init__(
        self, batch: tuple[int, ...], w2_at: Iterable[int] = (), particles_at: Iterable[int] = ()
    ) -> None:
        self.batch = batch
        self.w2_at = _steps("w2_at", w2_at)
        self.particles_at = _steps("particles_at", particles_at)
        self._rows: dict[str, list[Tensor]] = {"loss": [], "step": [], "seconds": []}
        self._kept: dict[str, dict[int, Tensor]] = {"w2": {}, "particles": {}}

    def add(self, **rows: Tensor) -> None:
        """Some steps, (S, R): a number for each run at each of them."""
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
        whole = torch.cat(rows) if rows else torch.zeros(0, *self._flat_shape())
        return whole.reshape(whole.shape[0], *self.batch)

    def _flat_shape(self) -> tuple[int, ...]:
        return (torch.Size(self.batch).numel(),)

    def _chosen(self, name: str, at: Sequence[int]) -> Tensor:
        kept = self._kept[name]
        if not kept:
            return torch.full((len(at), *self.batch), torch.nan)
        unseen = torch.full_like(next(iter(kept.values())), torch.nan)
        whole = torch.stack([kept.get(step, unseen) for step in at]) if at else unseen[None][:0]
        return whole.reshape(len(at), *self.batch, *whole.shape[2:])

    def mark(self) -> dict[str, Any]:
        """How much there is by now, by reference."""
        kept = {name: dict(kept) for name, kept in self._kept.items()}
        return {"length": len(self._rows["loss"]), "kept": kept}

    def saved(self, mark: dict[str, Any]) -> dict[str, Any]:
        """What there was at a mark, as plain tensors."""
        length = mark["length"]
        rows = {name: torch.cat(r[:length]) for name, r in self._rows.items() if length}
        return {"rows": rows, "kept": mark["kept"]}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from what was `saved`."""
        for name, rows in saved["rows"].items():
            self._rows[name] = [rows]
        self._kept = {name: dict(kept) for name, kept in saved["kept"].items()}


def _steps(name: str, at: Iterable[int]) -> list[int]:
    """After how many steps to look, in order."""
    try:
        steps = list(at)
        whole = {int(step) for step in steps}
        wrong = not all(int(step) == step >= 0 for step in steps)
    except (TypeError, ValueError, OverflowError):  # one number; words; NaN
        wrong = True
    if wrong:
        raise ValueError(f"{name} = {at!r}: give a list of numbers of steps, e.g. [0, 100]")
    return sorted(whole)


@dataclass(eq=False)
class Flow:
    """Particles after a flow, and how they got there: what `flow` returns.

    `particles` (*batch, n, d) are where they ended, `target` (*batch, m, d) is as it was given. Of each run, (*batch,):
    `steps` is how many were made, `ranks` the dimension it was worked in, `seeds` its seed, `status` how it ended
    (`converged`, `diverged` and `assigned` say it as masks). `trace` has what was seen on the way, step by step:
    `trace.loss`, `trace.step`, `trace.seconds`, and `trace.w2` and `trace.particles` where they were asked for.
    `state` is what to go on from: flow(..., resume=state).
    """

    particles: Tensor
    target: Tensor
    trace: Trace
    status: Tensor
    steps: Tensor
    ranks: Tensor
    seeds: Tensor
    state: dict[str, Any]
    x_weights: Tensor | None = None
    y_weights: Tensor | None = None

    @property
    def converged(self) -> Tensor:
        """Which runs ended because they had arrived, (*batch,); those that `finish` carried there did not."""
        return self.status == Status.CONVERGED

    @property
    def assigned(self) -> Tensor:
        """Which runs `finish="assign"` ended, (*batch,)."""
        return self.status == Status.ASSIGNED

    @property
    def diverged(self) -> Tensor:
        """Which runs were stopped on their way to infinity, (*batch,); theirs are the last finite particles."""
        return self.status == Status.DIVERGED

    @cached_property
    def w2(self) -> Tensor:
        """The exact W_2 that is left, (*batch,), float64; infinite for diverged runs."""
        x, y = self.particles.double(), self.target.double()
        left = wasserstein(x, y, x_weights=self.x_weights, y_weights=self.y_weights)
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
