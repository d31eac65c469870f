"""What a flow records while it runs: what to record, and the record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slicewise.support import Result, renamed_arguments


@renamed_arguments(bar="progress_bar")
@dataclass(frozen=True)
class Recording:
    """What a flow writes down on its way. Loss, step and time of every step are always kept.

    Args:
        w2_at: Numbers of steps after which to compute the exact W_2 (extra `exact`), e.g. `[0, 100]`.
        particles_at: Numbers of steps after which to keep a copy of all particles; for steps that a run did not make,
            its last ones.
        checkpoint: A file to resume from if it exists, and to write every 30 seconds and at the end, also after an
            interrupt. The file on disk is always whole, and a resumed flow continues bit for bit.
        progress_bar: True shows a progress bar, False does not, None does on a terminal.

    Raises:
        ValueError: If `w2_at` or `particles_at` are not whole numbers of at least 0.

    Example:
        >>> x, y = torch.zeros(5, 2), torch.ones(5, 2)
        >>> import slicewise as sw
        >>> result = sw.flow(x, y, lr=1.0, max_steps=4, recording=sw.Recording(particles_at=[0, 2]))
        >>> result.history.particles.shape
        torch.Size([2, 5, 2])
    """

    w2_at: Iterable[int] = ()
    particles_at: Iterable[int] = ()
    checkpoint: str | Path | None = None
    progress_bar: bool | None = None

    def __post_init__(self) -> None:
        for name in ("w2_at", "particles_at"):
            object.__setattr__(self, name, _step_numbers(name, getattr(self, name)))


class History(Result):
    """What was recorded of a flow, step by step. T is the largest number of steps that any run made.

    Entries are NaN after a run has ended, for steps that were not made, and for steps before a flow was resumed that
    were not asked for then.

    Attributes:
        loss: The objective on the slices of each step, at the start of the step, (T, *batch). With momentum it is
            measured a little ahead of the particles. It belongs to the dimensions the flow worked in: after a reduction
            from d to k dimensions SW_p^p is larger by 1 / essf(d, k).
        step: The learning rate, or the computed dimensionless step, (T, *batch).
        seconds: Time since the start, of the whole batch, (T, *batch).
        w2_at, particles_at: After how many steps the next two were recorded.
        w2: The exact W_2, (len(w2_at), *batch); infinite for diverged runs.
        particles: The particles, on the CPU, (len(particles_at), *batch, n, d).

    The methods are for the loop that fills it.

    Example:
        >>> import slicewise as sw
        >>> result = sw.flow(torch.zeros(5, 2), torch.ones(5, 2), lr=1.0, max_steps=4)
        >>> result.history.loss.shape
        torch.Size([4])
    """

    def __init__(
        self, batch: tuple[int, ...], w2_at: Iterable[int] = (), particles_at: Iterable[int] = ()
    ) -> None:
        self.batch = batch
        self.w2_at, self.particles_at = tuple(w2_at), tuple(particles_at)
        self._rows: dict[str, list[Tensor]] = {"loss": [], "step": [], "seconds": []}
        self._kept: dict[str, dict[int, Tensor]] = {"w2": {}, "particles": {}}

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
        whole = torch.cat(rows) if rows else torch.zeros(0, torch.Size(self.batch).numel())
        return whole.reshape(whole.shape[0], *self.batch)

    def _chosen(self, name: str, at: Sequence[int]) -> Tensor:
        kept = self._kept[name]
        if not kept:
            return torch.full((len(at), *self.batch), torch.nan)
        missing = torch.full_like(next(iter(kept.values())), torch.nan)
        whole = torch.stack([kept.get(step, missing) for step in at]) if at else missing[None][:0]
        return whole.reshape(len(at), *self.batch, *whole.shape[2:])

    def add(self, **rows: Tensor) -> None:
        """Append some steps, (S, R): a number for each run at each of them."""
        for name, row in rows.items():
            self._rows[name].append(row)

    def keep(self, name: str, step: int, value: Tensor) -> None:
        """Record `w2` or `particles` after a chosen step."""
        self._kept[name][step] = value

    def has(self, name: str, step: int) -> bool:
        """Whether `w2` or `particles` were recorded after a step."""
        return step in self._kept[name]

    def mark(self) -> dict[str, Any]:
        """How much there is by now, without a copy: entries are only ever appended."""
        kept = {name: dict(kept) for name, kept in self._kept.items()}
        return {"length": len(self._rows["loss"]), "kept": kept}

    def saved(self, mark: dict[str, Any]) -> dict[str, Any]:
        """What there was at a mark, as plain tensors."""
        length = mark["length"]
        rows = {name: torch.cat(r[:length]) for name, r in self._rows.items() if length}
        return {"rows": rows, "kept": mark["kept"]}

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from what was `saved`."""
        for name, rows in saved["rows"].items():
            self._rows[name] = [rows]
        self._kept = {name: dict(kept) for name, kept in saved["kept"].items()}


def _step_numbers(name: str, at: Iterable[int]) -> tuple[int, ...]:
    """Distinct numbers of steps, in order."""
    try:
        steps = list(at)
        whole = {int(step) for step in steps}
        wrong = not all(int(step) == step >= 0 for step in steps)
    except (TypeError, ValueError, OverflowError):  # a single number; a string; NaN
        wrong = True
    if wrong:
        raise ValueError(f"{name} = {at!r}: give a list of numbers of steps, e.g. [0, 100]")
    return tuple(sorted(whole))
