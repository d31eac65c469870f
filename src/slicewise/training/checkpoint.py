"""Checkpoints of trainings: what a `CheckpointFile` holds of one, and which training it belongs to."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slicewise.sampling import DRAWS
from slicewise.support import CheckpointFile, fingerprint
from slicewise.training.networks import Generator, Layers, Stack, Translator
from slicewise.training.step import Trainer

# Networks that draw nothing themselves. Any other, a subclass included, may draw from torch's generators (dropout).
_DRAW_NOTHING = (Layers, Generator, Translator, Stack)


class TrainingCheckpoint:
    """The checkpoint file of one trainer.

    Args:
        path: Name of the file.
        trainer: Whose state is saved and restored.
        every: Seconds between two writes.

    Raises:
        ValueError, OSError: As `CheckpointFile`.
    """

    def __init__(self, path: str | Path, trainer: Trainer, every: float) -> None:
        self._file = CheckpointFile(path, "training", every)
        self._trainer, self._identity = trainer, identity_of(trainer)

    def due(self) -> bool:
        """Return whether it is time to write again."""
        return self._file.due()

    def save(self, losses: Tensor, seconds: float) -> None:
        """Replace the file by the present state, the losses (steps, R) so far and the seconds they took."""
        content = {"losses": losses, "seconds": seconds, **_state_of(self._trainer)}
        self._file.save_if_possible(content, self._identity)

    def load(self) -> tuple[Tensor, float] | None:
        """Restore the state of the file; return losses and seconds so far, or None if there is no file."""
        content = self._file.load(self._identity)
        if content is None:
            return None
        _restore(self._trainer, content)
        return content["losses"], content["seconds"]


def identity_of(trainer: Trainer) -> str:
    """Hash what a training is: data, settings, seeds, network and optimizer.

    The number of steps counts only where a step depends on it: else a longer training continues a shorter one.
    """
    settings, network, optimizer = trainer.settings, trainer.network, trainer.optimizer
    if not settings.depends_on_max_steps:
        settings = dataclasses.replace(settings, max_steps=0)
    weights = [(k, tuple(p.shape), p.dtype, p.requires_grad) for k, p in network.named_parameters()]
    buffers = [(k, tuple(b.shape), b.dtype) for k, b in network.named_buffers()]
    # The `repr` tells activations apart; addresses and devices in it say nothing about the training.
    printed = re.sub(r" at 0x[0-9a-fA-F]+| \(GPU \d+\)", "", repr(network))
    groups = [
        sorted((k, v) for k, v in group.items() if k != "params")
        for group in optimizer.param_groups
    ]
    return fingerprint(
        DRAWS,
        settings,
        (type(network).__qualname__, printed, weights, buffers),
        (type(optimizer).__qualname__, groups, getattr(optimizer, "kinds", ())),
        getattr(optimizer, "version", None),
        (trainer.seeds.which, trainer.batches.seeds.each),
        (trainer.batches.target, trainer.batches.source),
    )


def _state_of(trainer: Trainer) -> dict[str, Any]:
    """Everything that the next step depends on."""
    rng: dict[str, Tensor] = {}
    if type(trainer.network) not in _DRAW_NOTHING:
        rng["cpu"] = torch.get_rng_state()
        if trainer.parameters[0].is_cuda:
            rng["cuda"] = torch.cuda.get_rng_state(trainer.parameters[0].device)
    return {
        "n_steps": trainer.n_steps,
        "network": dict(trainer.network.state_dict()),
        "ema_weights": trainer.ema_weights,
        "slicer": trainer.slicer_state,
        "alive": trainer.alive,
        "optimizer": trainer.optimizer.state_dict()["state"],
        "rng": rng,
    }


def _restore(trainer: Trainer, state: dict[str, Any]) -> None:
    """Put a trainer into a state, in the tensors it has."""
    trainer.n_steps = state["n_steps"]
    trainer.network.load_state_dict(state["network"])
    for average, saved in zip(trainer.ema_weights or (), state["ema_weights"] or (), strict=True):
        average.copy_(saved)
    for name, tensor in trainer.slicer_state.items():
        tensor.copy_(state["slicer"][name])
    if trainer.alive is not None:
        trainer.alive.copy_(state["alive"])
    whole = trainer.optimizer.state_dict()
    trainer.optimizer.load_state_dict({**whole, "state": state["optimizer"]})
    if "cpu" in state["rng"]:
        torch.set_rng_state(state["rng"]["cpu"])
    if "cuda" in state["rng"]:
        torch.cuda.set_rng_state(state["rng"]["cuda"], trainer.parameters[0].device)
