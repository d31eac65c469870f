"""Trainings that can be killed at any moment and gone on with: one safetensors file, always whole."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slicewise.sampling import DRAWS
from slicewise.support import check_choice, check_writable, fingerprint, write_whole
from slicewise.training.networks import Layers, Stack
from slicewise.training.step import Trainer

_KIND, _VERSION = "slicewise training", "1"
Tensors = dict[str, Tensor]


class TrainingCheckpoint:
    """The file of one training. A file that is damaged, or another training's, is refused and stays as it is."""

    def __init__(self, path: str | Path, identity: str, every: float) -> None:
        self.path, self._identity, self._every = Path(path), identity, every
        self._last = time.monotonic()
        if self.path.is_dir():
            raise ValueError(f"checkpoint = {str(path)!r} is a folder: give the name of a file")
        if not every >= 0:  # NaN is neither; infinity is at the end only
            raise ValueError(f"every = {every}: give the seconds between two saves, at least 0")
        # Before an hour of training, not after it.
        _safetensors()
        try:
            check_writable(self.path.parent)
        except OSError as wrong:
            raise type(wrong)(
                f"checkpoint = {str(path)!r} cannot be written: {wrong.strerror}; name another place"
            ) from None

    def due(self) -> bool:
        """Is it time to write again?"""
        return time.monotonic() - self._last >= self._every

    def save(self, trainer: Trainer, losses: Tensor, seconds: float) -> None:
        """Replace the file, all at once."""
        tensors, words = _taken_apart(trainer)
        tensors["losses"] = losses
        tensors = {k: t.detach().cpu().contiguous().clone() for k, t in tensors.items()}
        words |= {"kind": _KIND, "version": _VERSION, "identity": self._identity}
        words |= {"done": trainer.done, "seconds": seconds, "sum": _sum(tensors)}
        content = _safetensors().save(tensors, {"slicewise": json.dumps(words)})
        write_whole(self.path, content)
        self._last = time.monotonic()

    def load(self, trainer: Trainer) -> tuple[Tensor, float] | None:
        """Put the trainer where the file says; the losses so far and the seconds they took. None of no file."""
        if not self.path.exists():
            return None
        tensors, words = self._read()
        if words["identity"] != self._identity:
            raise ValueError(
                f"checkpoint = {str(self.path)!r} belongs to another training (other data, settings, seeds or "
                f"network): give another name, or remove it"
            )
        losses = tensors.pop("losses")
        try:
            _put_together(trainer, tensors, words)
        except (KeyError, ValueError, RuntimeError) as wrong:
            raise self._damaged(wrong) from wrong
        trainer.done = int(words["done"])
        return losses, float(words["seconds"])

    def _read(self) -> tuple[Tensors, dict[str, Any]]:
        from safetensors import safe_open

        try:
            with safe_open(self.path, "pt") as file:
                words = json.loads((file.metadata() or {})["slicewise"])
                check_choice("kind", words["kind"], (_KIND,))
                check_choice("version", words["version"], (_VERSION,))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no dictionary)
                if _sum(tensors) != words["sum"]:
                    raise ValueError("its sum does not agree with what it holds")
        except Exception as wrong:  # safetensors and the file system raise many kinds
            raise self._damaged(wrong) from wrong
        return tensors, words

    def _damaged(self, wrong: Exception) -> ValueError:
        return ValueError(
            f"checkpoint = {str(self.path)!r} cannot be read as a training's state ({wrong}): it was left as it is; "
            f"remove it to start anew, or give another name"
        )


def identity_of(trainer: Trainer) -> str:
    """What a checkpoint belongs to. More steps are the same training, unless something follows their number."""
    settings, network = trainer.settings, trainer.network
    if not settings.follows_steps:
        settings = dataclasses.replace(settings, steps=0)
    weights = [(k, tuple(p.shape), p.dtype, p.requires_grad) for k, p in network.named_parameters()]
    buffers = [(k, tuple(b.shape), b.dtype) for k, b in network.named_buffers()]
    # As it prints itself, but for where it happens to be: an address, a device.
    printed = re.sub(r" at 0x[0-9a-fA-F]+| \(GPU \d+\)", "", repr(network))
    made = type(network).__module__, type(network).__qualname__, printed, weights, buffers
    groups = trainer.optimiser.param_groups
    hyper = [sorted((k, v) for k, v in group.items() if k != "params") for group in groups]
    kinds = getattr(trainer.optimiser, "kinds", ())
    how = (type(trainer.optimiser).__qualname__, hyper, kinds)
    seeds = trainer.seeds.which, trainer.batches.seeds.each
    data = trainer.batches.target, trainer.batches.source
    return fingerprint("training", DRAWS, settings, made, how, seeds, data)


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as missing:
        raise ImportError("checkpoint needs safetensors: pip install 'slicewise[lab]'") from missing
    return safetensors.torch


def _sum(tensors: Tensors) -> str:
    """A hash of all numbers: a file may be whole and wrong."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        plain = tensors[name].contiguous().flatten().view(torch.uint8)
        digest.update(f"{name} {tuple(tensors[name].shape)}".encode() + plain.numpy().tobytes())
    return digest.hexdigest()


def _taken_apart(trainer: Trainer) -> tuple[Tensors, dict[str, Any]]:
    """Everything that the next step depends on, as tensors and as words."""
    tensors = {f"network.{k}": t for k, t in trainer.network.state_dict().items()}
    if trainer.averaged is not None:
        tensors |= {f"averaged.{i}": t for i, t in enumerate(trainer.averaged)}
    tensors |= {f"slicer.{k}": t for k, t in trainer.slicer.items()}
    if trainer.alive is not None:
        tensors["alive"] = trainer.alive
    numbers: dict[str, Any] = {}
    for index, state in trainer.optimiser.state_dict()["state"].items():
        for name, value in state.items():
            where = f"optimiser.{index}.{name}"
            if isinstance(value, Tensor):
                tensors[where] = value
            elif value is None or isinstance(value, (bool, int, float)):
                numbers[where] = value
            else:
                raise ValueError(
                    f"{type(trainer.optimiser).__name__} keeps a {type(value).__name__} ({name}), which a checkpoint "
                    f"cannot hold: train without one, or with another optimiser"
                )
    if _draws(trainer):
        tensors["rng.cpu"] = torch.get_rng_state()
        if trainer.parameters[0].is_cuda:
            tensors["rng.cuda"] = torch.cuda.get_rng_state(trainer.parameters[0].device)
    return tensors, {"numbers": numbers}


def _put_together(trainer: Trainer, tensors: Tensors, words: dict[str, Any]) -> None:
    def under(prefix: str) -> Tensors:
        return {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}

    trainer.network.load_state_dict(under("network."))
    if trainer.averaged is not None:
        for i, average in enumerate(trainer.averaged):
            average.copy_(tensors[f"averaged.{i}"])
    for name, tensor in trainer.slicer.items():
        tensor.copy_(tensors[f"slicer.{name}"])
    if trainer.alive is not None:
        trainer.alive.copy_(tensors["alive"])
    whole = trainer.optimiser.state_dict()
    state: dict[int, dict[str, Any]] = {}
    for where, value in {**under("optimiser."), **_stripped(words["numbers"])}.items():
        index, _, name = where.partition(".")
        state.setdefault(int(index), {})[name] = value
    trainer.optimiser.load_state_dict({**whole, "state": state})
    if "rng.cpu" in tensors:
        torch.set_rng_state(tensors["rng.cpu"])
    if "rng.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["rng.cuda"], trainer.parameters[0].device)


def _stripped(numbers: dict[str, Any]) -> dict[str, Any]:
    return {where.removeprefix("optimiser."): value for where, value in numbers.items()}


def _draws(trainer: Trainer) -> bool:
    """Might the network itself draw from torch's generators (dropout)? Ours do not."""
    return not isinstance(trainer.network, (Layers, Stack))
