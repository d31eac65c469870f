"""Steps of training as a CUDA graph: batches, network, loss, gradients and optimizer in one launch."""

from __future__ import annotations

import torch
from torch import Tensor

from slicewise.flows import Scheduled, Timetable
from slicewise.optim import Walker
from slicewise.support import CapturedGraph
from slicewise.training.optimizers import ComputedOptimizer, StackedOptimizer
from slicewise.training.step import Trainer

# Steps made eagerly first: they compile kernels and allocate the optimizer's state, which a capture cannot.
EAGER_STEPS = 3
# Steps in one graph. What they draw is drawn for all of them at once.
STEPS_PER_GRAPH = 16


def eager_steps(trainer: Trainer) -> int:
    """How many steps are made eagerly first; with computed lengths, those that measure each time."""
    return Walker.MEASURED_FIRST if trainer.walker is not None else EAGER_STEPS


def can_capture(trainer: Trainer) -> bool:
    """Whether steps can be captured: a CUDA device that draws by itself, and nothing that reads values on the host."""
    if not trainer.parameters or not trainer.parameters[0].is_cuda:
        return False
    # An optimizer that does not mention `capturable`, such as SGD, keeps nothing on the host.
    refuses = any(not group.get("capturable", True) for group in trainer.optimizer.param_groups)
    recipe = trainer.settings.recipe
    # Where autograd differentiates the loss, nothing was written with a capture in mind.
    draws = trainer.seeds.counts_on_device and recipe.closed_form_gradient and recipe.graph_safe
    return draws and not refuses


def is_known_to_capture(trainer: Trainer) -> bool:
    """Whether network and optimizer are declared to work in a graph, so that one is used without being asked for."""
    optimizer = trainer.optimizer
    # Of the class itself: a subclass does not inherit the promise, since it may read values, or draw.
    network = vars(type(trainer.network)).get("capturable", False)
    # SGD reads a rate that is a tensor on the host.
    on_host = all(not isinstance(group["lr"], Tensor) for group in optimizer.param_groups)
    ours = type(optimizer) in (ComputedOptimizer, StackedOptimizer)
    plain = ours or (type(optimizer) is torch.optim.SGD and on_host)
    declared = all(group.get("capturable") is True for group in optimizer.param_groups)
    return bool(network) and (plain or declared)


class CapturedSteps:
    """`length` steps as one graph, which continues from where the trainer is."""

    def __init__(self, trainer: Trainer, length: int = STEPS_PER_GRAPH) -> None:
        self.length, self._trainer = length, trainer
        device, dtype = trainer.parameters[0].device, trainer.parameters[0].dtype
        self._table = Timetable(length, max(1, trainer.settings.max_steps), device)
        self._table.turn_to(trainer.n_steps)
        if trainer.settings.decay is not None:
            self._table.now(trainer.settings.decay)  # allocates its column before the capture
            for group in trainer.optimizer.param_groups:
                # A number would be the same at every replay. Optimizers that need one, as SGD, keep it: the trainer
                # then scales their steps.
                if group.get("capturable"):
                    group["lr"] = torch.as_tensor(group["lr"], dtype=dtype, device=device)
        # Compiles what draws ahead; the result is not used.
        trainer.slices_ahead(trainer.batches.draw_ahead(self._table.steps), self._table.steps)
        trainer.drop_gradients()
        # A slicer that learns returns new tensors; a graph needs the same ones at each replay.
        self._slicer_state = {name: t.clone() for name, t in trainer.slicer_state.items()}
        runs = len(trainer.seeds.which)
        self._losses = torch.empty(length, runs, dtype=trainer.loss_dtype, device=device)
        n_steps = trainer.n_steps
        try:
            self._graph = CapturedGraph(self._capture)
        except RuntimeError as wrong:
            reason = str(wrong).partition("\n")[0]  # the rest is general advice
            raise RuntimeError(
                f"these steps of a {type(trainer.network).__name__} and {type(trainer.optimizer).__name__} cannot be "
                f"captured as a CUDA graph ({reason}): give graph=False"
            ) from wrong
        trainer.n_steps, trainer.slicer_state = n_steps, self._slicer_state  # no step was made yet

    def _capture(self) -> None:
        trainer, table = self._trainer, self._table
        table.forget()
        trainer.slicer_state = dict(self._slicer_state)
        draws = trainer.batches.draw_ahead(table.steps)
        slices = trainer.slices_ahead(draws, table.steps)
        for i in range(self.length):
            value = trainer.take_step(table.steps[i], Scheduled(table, i), draws, i, slices)
            self._losses[i].copy_(value)
        for name, tensor in self._slicer_state.items():
            tensor.copy_(trainer.slicer_state[name])
        table.turn_on()

    def replay(self, times: int) -> Tensor:
        """Replay the graph; return the losses of all steps, (times · length, R)."""
        found, first = [], self._trainer.n_steps
        for _ in range(times):
            self._graph.replay()
            found.append(self._losses.clone())
        self._trainer.n_steps = first + self.length * times
        self._trainer.slicer_state = self._slicer_state
        return torch.cat(found)
