"""The loop of a training: steps by hand or by graph, looks in between."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from slicewise.support import progress_bar
from slicewise.training.checkpoint import TrainingCheckpoint
from slicewise.training.optimizers import sound
from slicewise.training.replay import BY_HAND, LENGTH, Captured, can_capture, may_capture_unasked
from slicewise.training.step import Trainer

# Steps that are made before a look on a device, where a look is a wait; and seconds at most between looks.
_UNSEEN, _SECONDS = 1024, 0.5


@runtime_checkable
class Writer(Protocol):
    """Who notes losses: TensorBoard's SummaryWriter, or anything like it."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> Any: ...


class Loop:
    """A trainer on its way, with what it has noted."""

    def __init__(
        self,
        trainer: Trainer,
        checkpoint: TrainingCheckpoint | None,
        writer: Writer | None,
        graph: bool | None,
    ) -> None:
        self._trainer, self._checkpoint, self._writer = trainer, checkpoint, writer
        possible = can_capture(trainer)
        if graph and not possible:
            raise ValueError(
                "graph=True, but these steps cannot be one: it takes a CUDA device with kernels, a variant without parts "
                "of your own whose gradient is known in closed form, and an optimiser with capturable=True; leave "
                "graph=None"
            )
        self._by_graph = possible and may_capture_unasked(trainer) if graph is None else graph
        self._losses: list[Tensor] = []  # (some steps, R) each
        self._captured: Captured | None = None
        self._by_hand = 0  # steps
        self._lost = False
        self._begun = self.seconds = 0.0

    def losses(self) -> Tensor:
        """Of all steps, (steps, R), on the host."""
        if not self._losses:
            return torch.empty(0, len(self._trainer.seeds.which))
        return torch.cat([some.cpu() for some in self._losses])

    def status(self) -> list[str]:
        """How each run ended."""
        alive = self._trainer.alive
        ended = (
            [self._lost] * len(self._trainer.seeds.which) if alive is None else (~alive).tolist()
        )
        return ["diverged" if lost else "finished" for lost in ended]

    def run(self, bar: bool | None) -> None:
        """Go on until all steps are made, or every run has diverged."""
        trainer, steps, checkpoint = self._trainer, self._trainer.settings.steps, self._checkpoint
        before = None if checkpoint is None else checkpoint.load(trainer)
        if before is not None:
            self._losses, self.seconds = [before[0]], before[1]
        _wake(trainer.parameters[0].device)
        self._begun = time.perf_counter() - self.seconds
        saved = trainer.done
        with progress_bar(steps, bar, "training") as tick:
            while trainer.done < steps and not self._lost:
                losses = self._advance(steps - trainer.done)
                if self._may_look() or trainer.done == steps:
                    self._look(losses)
                    self._note(losses)
                    tick(trainer.done, f"loss {losses[-1].mean().item():.4g}")
                if checkpoint is not None and checkpoint.due():
                    self._look(losses)  # what is lost must not replace what is good
                    if not self._lost:
                        self._save(checkpoint)
                        saved = trainer.done
        if self._captured is not None:
            trainer.forget_gradients()  # they lie in the memory of a graph that goes
        self.seconds = time.perf_counter() - self._begun
        if checkpoint is not None and saved < trainer.done and not self._lost:
            self._save(checkpoint)

    def _advance(self, left: int) -> Tensor:
        """The next step, or on a device the next few, of those that are left: their losses (S, R)."""
        ready = self._by_graph and self._by_hand >= BY_HAND
        if ready and self._captured is None and left >= 4 * LENGTH:
            self._captured = Captured(self._trainer)
        if self._captured is not None and left >= LENGTH:
            losses = self._captured.go(max(1, min(left, self._unseen()) // LENGTH))
        else:
            losses = self._trainer.step().unsqueeze(0)
            self._by_hand += 1
        self._losses.append(losses)
        return losses

    def _may_look(self) -> bool:
        """On a device a look is a wait: not after every step that is made by hand."""
        on_host = self._trainer.parameters[0].device.type == "cpu"
        return on_host or self._captured is not None or self._by_hand % LENGTH == 0

    def _unseen(self) -> int:
        """So many steps take about as long as one may go without a look."""
        made = max(1, sum(len(some) for some in self._losses))
        pace = max((time.perf_counter() - self._begun) / made, 1e-5)
        return max(LENGTH, min(_UNSEEN, int(_SECONDS / pace)))

    def _look(self, losses: Tensor) -> None:
        """Has all been lost? Only a look tells, since nothing waits for the device in between.

        Losses are from before a step: what the last one did is seen from the weights alone.
        """
        alive = self._trainer.alive
        if alive is None:
            fine = bool(losses.isfinite().all()) and sound(self._trainer.parameters)
            self._lost = not fine
        else:
            self._lost = not bool(alive.any())

    def _note(self, losses: Tensor) -> None:
        if self._writer is not None:
            for run, mean in enumerate(losses.mean(dim=0).tolist()):
                tag = "loss" if losses.shape[1] == 1 else f"loss/{run}"
                self._writer.add_scalar(tag, mean, self._trainer.done)

    def _save(self, checkpoint: TrainingCheckpoint) -> None:
        losses = self.losses()
        self._losses = [losses]
        self.seconds = time.perf_counter() - self._begun
        checkpoint.save(self._trainer, losses, self.seconds)


def _wake(device: torch.device) -> None:
    """Let autograd's own thread meet the device by something simple: beginning with a product of matrices, it warns."""
    if device.type == "cuda":
        torch.ones(1, device=device, requires_grad=True).add(1).sum().backward()


@contextmanager
def writing(asked: str | Path | Writer | None) -> Iterator[Writer | None]:
    """The writer that is given; or TensorBoard's to a folder, which is closed whatever happens."""
    if asked is None or isinstance(asked, Writer):
        yield asked
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as missing:
        raise ImportError(
            "tensorboard= a folder needs tensorboard: pip install tensorboard"
        ) from missing
    writer = SummaryWriter(str(asked))
    try:
        yield writer
    finally:
        writer.close()
