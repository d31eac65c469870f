"""Whole steps of training as one CUDA graph: batches, network, loss, gradients and optimiser; the host only says go."""

from __future__ import annotations

import torch
from torch import Tensor

from slicewise.distance import can_replay
from slicewise.flows import Scheduled, Timetable
from slicewise.support import CapturedGraph
from slicewise.training.networks import Layers, Stack
from slicewise.training.optimizers import StackedOptimiser
from slicewise.training.step import Trainer

# Steps that are made by hand first: they compile kernels and make what optimisers keep, which no capture may.
BY_HAND = 3
# Steps of one graph. What a step sees is drawn for all of them at once.
LENGTH = 16


def can_capture(trainer: Trainer) -> bool:
    """Can its steps be a graph: on a device that draws by itself, by an optimiser that asks for nothing?"""
    if not trainer.parameters or not trainer.parameters[0].is_cuda:
        return False
    # Those that can say so; others, such as SGD, have nothing on the host.
    asks = any(not group.get("capturable", True) for group in trainer.optimiser.param_groups)
    recipe = trainer.settings.recipe
    # Where autograd finds the gradient of the loss, nothing was made to be captured.
    draws = trainer.seeds.counts_on_device and recipe.by_hand and can_replay(recipe)
    return draws and not asks


def may_capture_unasked(trainer: Trainer) -> bool:
    """Is all of it known to be the same as a graph? A network of a caller's own may look at numbers, or draw."""
    ours = type(trainer.network).__module__.startswith("slicewise.")
    known = isinstance(trainer.network, (Layers, Stack)) and ours
    optimiser = trainer.optimiser
    # SGD asks its rate of the host, also one that is a tensor.
    on_host = all(not isinstance(group["lr"], Tensor) for group in optimiser.param_groups)
    plain = type(optimiser) is StackedOptimiser or (type(optimiser) is torch.optim.SGD and on_host)
    says = all(group.get("capturable") is True for group in optimiser.param_groups)
    return known and (plain or says)


class Captured:
    """`length` steps as one graph, which goes on from where the trainer is."""

    def __init__(self, trainer: Trainer, length: int = LENGTH) -> None:
        self.length, self._trainer = length, trainer
        device, dtype = trainer.parameters[0].device, trainer.parameters[0].dtype
        self._table = Timetable(length, max(1, trainer.settings.steps), device)
        self._table.turn_to(trainer.done)
        if trainer.settings.decay is not None:
            self._table.now(trainer.settings.decay)  # its column is made before
            for group in trainer.optimiser.param_groups:
                # A number of the host would be the same at every replay. Who is not made for tensors, as SGD, keeps it:
                # the trainer then shortens its moves.
                if group.get("capturable"):
                    group["lr"] = torch.as_tensor(group["lr"], dtype=dtype, device=device)
        trainer.foresee(
            trainer.batches.draw_ahead(self._table.steps), self._table.steps
        )  # for nothing
        trainer.forget_gradients()
        # A slicer that learns hands on new tensors; a graph needs the same ones.
        self._slicer = {name: t.clone() for name, t in trainer.slicer.items()}
        runs = len(trainer.seeds.which)
        self._losses = torch.empty(length, runs, dtype=trainer.precision, device=device)
        done = trainer.done
        try:
            self._graph = CapturedGraph(self._capture)
        except RuntimeError as wrong:
            reason = str(wrong).partition("\n")[0]  # what follows is general advice
            raise RuntimeError(
                f"these steps of a {type(trainer.network).__name__} and {type(trainer.optimiser).__name__} cannot be "
                f"captured as a CUDA graph ({reason}): give graph=False"
            ) from wrong
        trainer.done, trainer.slicer = done, self._slicer  # nothing was made yet

    def _capture(self) -> None:
        trainer, table = self._trainer, self._table
        table.forget()
        trainer.slicer = dict(self._slicer)
        drawn = trainer.batches.draw_ahead(table.steps)
        foresight = trainer.foresee(drawn, table.steps)
        for i in range(self.length):
            value = trainer.make(table.steps[i], Scheduled(table, i), drawn, i, foresight)
            self._losses[i].copy_(value)
        for name, tensor in self._slicer.items():
            tensor.copy_(trainer.slicer[name])
        table.turn_on()

    def go(self, times: int) -> Tensor:
        """Replay so often: the losses of all steps, (S · times, R)."""
        found, first = [], self._trainer.done
        for _ in range(times):
            self._graph.replay()
            found.append(self._losses.clone())
        self._trainer.done, self._trainer.slicer = first + self.length * times, self._slicer
        return torch.cat(found)
