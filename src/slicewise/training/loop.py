"""The loop of a training: steps made eagerly or by CUDA graph, divergence checks, logging and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from slicewise.optim import Walker
from slicewise.support import Status, progress_bar
from slicewise.training.checkpoint import TrainingCheckpoint
from slicewise.training.optimizers import within_bounds
from slicewise.training.replay import (
    STEPS_PER_GRAPH,
    CapturedSteps,
    can_capture,
    eager_steps,
    is_known_to_capture,
)
from slicewise.training.step import Trainer

# Between two checks on a device, where a check synchronizes: steps at most, and seconds about.
_MAX_UNCHECKED, _SECONDS_UNCHECKED = 1024, 0.5


@runtime_checkable
class ScalarWriter(Protocol):
    """What logs losses: TensorBoard's `SummaryWriter`, or anything with its `add_scalar`."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> Any: ...


class TrainingLoop:
    """Advances a trainer to its number of steps, and records losses and time.

    Args:
        trainer: Makes the steps.
        checkpoint: Where to save and resume, if anywhere.
        writer: Where to log losses, if anywhere.
        graph: Whether to capture steps as CUDA graphs; None where network and optimizer are declared to allow it.

    Raises:
        ValueError: If `graph` is True where steps cannot be captured.
    """

    def __init__(
        self,
        trainer: Trainer,
        checkpoint: TrainingCheckpoint | None,
        writer: ScalarWriter | None,
        graph: bool | None,
    ) -> None:
        self._trainer, self._checkpoint, self._writer = trainer, checkpoint, writer
        possible = can_capture(trainer)
        if graph and not possible:
            raise ValueError(
                "graph=True, but these steps cannot be captured: that takes a CUDA device with kernels, a variant "
                "without parts of your own whose gradient is known in closed form, and an optimizer with "
                "capturable=True; leave graph=None"
            )
        self._use_graph = possible and is_known_to_capture(trainer) if graph is None else graph
        self._losses: list[Tensor] = []  # (some steps, R) each
        self._captured: CapturedSteps | None = None
        self._eager_steps = 0
        self._diverged = False  # all runs
        self._start = self.seconds = 0.0

    def losses(self) -> Tensor:
        """The losses of all steps, (steps, R), on the CPU."""
        if not self._losses:
            return torch.empty(0, len(self._trainer.seeds.which))
        return torch.cat([some.cpu() for some in self._losses])

    def status(self) -> list[str]:
        """How each run ended."""
        alive = self._trainer.alive
        runs = len(self._trainer.seeds.which)
        diverged = [self._diverged] * runs if alive is None else (~alive).tolist()
        return [(Status.DIVERGED if one else Status.OUT_OF_STEPS).value for one in diverged]

    def run(self, show_bar: bool | None) -> None:
        """Make steps until `max_steps`, or until every run has diverged."""
        trainer, total, checkpoint = (
            self._trainer,
            self._trainer.settings.max_steps,
            self._checkpoint,
        )
        before = None if checkpoint is None else checkpoint.load()
        if before is not None:
            self._losses, self.seconds = [before[0]], before[1]
        _start_autograd(trainer.parameters[0].device)
        self._start = time.perf_counter() - self.seconds
        saved = trainer.n_steps
        with progress_bar(total, show_bar, "training") as tick:
            while trainer.n_steps < total and not self._diverged:
                losses = self._advance(total - trainer.n_steps)
                if self._may_check() or trainer.n_steps == total:
                    self._check_divergence(losses)
                    self._log(losses)
                    tick(trainer.n_steps, f"loss {losses[-1].mean().item():.4g}")
                if checkpoint is not None and checkpoint.due():
                    self._check_divergence(losses)  # a diverged state must not replace a good one
                    if not self._diverged:
                        self._save(checkpoint)
                        saved = trainer.n_steps
        if self._captured is not None:
            trainer.drop_gradients()  # they lie in the memory of the graph
        self.seconds = time.perf_counter() - self._start
        if checkpoint is not None and saved < trainer.n_steps and not self._diverged:
            self._save(checkpoint)

    def _advance(self, remaining: int) -> Tensor:
        """Make the next step, or replay graphs of them; return the losses (S, R)."""
        ready = self._use_graph and self._eager_steps >= eager_steps(self._trainer)
        if self._trainer.walker is not None:
            # From a step on that measures, as those of the graph take it.
            ready = ready and self._trainer.n_steps % Walker.MEASURED_EVERY == 0
        if ready and self._captured is None and remaining >= 4 * STEPS_PER_GRAPH:
            self._captured = CapturedSteps(self._trainer)
        if self._captured is not None and remaining >= STEPS_PER_GRAPH:
            steps = min(remaining, self._steps_unchecked())
            losses = self._captured.replay(max(1, steps // STEPS_PER_GRAPH))
        else:
            losses = self._trainer.step().unsqueeze(0)
            self._eager_steps += 1
        self._losses.append(losses)
        return losses

    def _may_check(self) -> bool:
        """Whether to check now: on a device that synchronizes, so not after every eager step."""
        on_host = self._trainer.parameters[0].device.type == "cpu"
        return on_host or self._captured is not None or self._eager_steps % STEPS_PER_GRAPH == 0

    def _steps_unchecked(self) -> int:
        """About how many steps fit between two checks."""
        made = max(1, sum(len(some) for some in self._losses))
        seconds_per_step = max((time.perf_counter() - self._start) / made, 1e-5)
        return max(STEPS_PER_GRAPH, min(_MAX_UNCHECKED, int(_SECONDS_UNCHECKED / seconds_per_step)))

    def _check_divergence(self, losses: Tensor) -> None:
        """Find out whether all runs have diverged; losses are from before a step, so weights are checked as well."""
        trainer, alive = self._trainer, self._trainer.alive
        if alive is None:
            finite = bool(losses.isfinite().all())
            self._diverged = not (
                finite and within_bounds(self._trainer.parameters, trainer.largest_weight)
            )
        else:
            self._diverged = not bool(alive.any())

    def _log(self, losses: Tensor) -> None:
        if self._writer is not None:
            for run, mean in enumerate(losses.mean(dim=0).tolist()):
                tag = "loss" if losses.shape[1] == 1 else f"loss/{run}"
                self._writer.add_scalar(tag, mean, self._trainer.n_steps)

    def _save(self, checkpoint: TrainingCheckpoint) -> None:
        losses = self.losses()
        self._losses = [losses]
        self.seconds = time.perf_counter() - self._start
        checkpoint.save(losses, self.seconds)


def _start_autograd(device: torch.device) -> None:
    """Start autograd's thread on the device with a simple operation: if a matrix product is its first, torch warns."""
    if device.type == "cuda":
        torch.ones(1, device=device, requires_grad=True).add(1).sum().backward()


@contextmanager
def scalar_writer(given: str | Path | ScalarWriter | None) -> Iterator[ScalarWriter | None]:
    """The writer that is given, or a TensorBoard writer to a folder, which is closed in any case."""
    if given is None or isinstance(given, ScalarWriter):
        yield given
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as missing:
        raise ImportError(
            "tensorboard= a folder needs tensorboard: pip install tensorboard"
        ) from missing
    writer = SummaryWriter(str(given))
    try:
        yield writer
    finally:
        writer.close()
