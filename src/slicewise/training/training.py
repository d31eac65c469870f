"""Training a network by a sliced distance: the call, and what comes of it."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from slicewise.distance import Objective, recipe_for
from slicewise.support import check_choice, check_finite, check_number, current
from slicewise.training.checkpoint import TrainingCheckpoint, identity_of
from slicewise.training.loop import Loop, Writer, writing
from slicewise.training.networks import Layers, Stack
from slicewise.training.optimizers import KINDS, StackedOptimiser, one_each
from slicewise.training.settings import Precision, Scale, Settings, arithmetic, decay_for
from slicewise.training.step import Trainer, with_weights
from slicewise.variants import Recipe, Variant

Optimisers = str | Sequence[str] | Callable[[Iterable[Tensor]], torch.optim.Optimizer]
# Good for the displacement scale; for Adam, which knows no scale, for both.
_RATES = {"sgd": 0.1, "momentum": 0.03, "adam": 1e-3}

_log = logging.getLogger("slicewise")


@dataclass(frozen=True, eq=False)
class Training:
    """What came of a training."""

    network: nn.Module  # the one that was given, trained
    averaged: nn.Module | None  # a copy with its weights averaged over steps, if asked for
    losses: Tensor  # (steps,), of a stack (steps, R): before each step
    steps: int  # made
    status: str | list[str]  # "finished" or "diverged"; of a stack one each
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def diverged(self) -> Any:
        """Whether it did; of a stack which did."""
        if isinstance(self.status, str):
            return self.status == "diverged"
        return [one == "diverged" for one in self.status]


def train(
    network: nn.Module,
    target: Tensor,
    variant: str | Variant | Recipe = "sw",
    *,
    source: Tensor | int | None = None,
    steps: int = 10_000,
    batch: int = 2048,
    n_slices: int | None = None,
    objective: Objective = "power",
    scale: Scale = "displacement",
    optimiser: Optimisers = "sgd",
    lr: float | Sequence[float] | Tensor | None = None,
    decay: str | Callable[[float], float] | None = None,
    clip: float | None = None,
    ema: float | None = None,
    precision: Precision = "float32",
    seed: int | Sequence[int] | Tensor = 0,
    checkpoint: str | Path | None = None,
    every: float = 30.0,
    bar: bool | None = None,
    tensorboard: str | Path | Writer | None = None,
    graph: bool | None = None,
    backend: str = "auto",
    **options: Any,
) -> Training:
    """Train a network until what it makes of noise, or of samples, is like the target (N, d).

    With the default scale a rate of 0.1 for plain SGD is near the best over batch sizes, slice counts and variants, but
    for "dsw", which wants 0.02 (docs/latents.md has what was measured). What a step draws depends on the seed and the
    step alone, on every device.

    Args:
        network: `Generator`, `Translator`, a `Stack` of them, or any module from (B, ·) to (B, d). It is trained
            where its weights are.
        source: samples (M, ·) to start from, or the dimension of normal noise; None is the noise of a `Generator`.
        batch: rows of a step, of the target and of the source: shuffled, without replacement where there are enough.
        n_slices, options: of the variant, as in `SlicedWasserstein`.
        objective, scale: what is descended, "power", "root" or "mean_root"; and how long gradients are: "classic",
            or "displacement", minus the move that the slices suggest.
        optimiser: "sgd", "momentum" or "adam" (of a stack, one each if you like), or a function of the parameters
            that makes one of torch's.
        lr: None is 0.1, 0.03 or 0.001 for those names; of a stack one each if you like. The classic scale has no
            rate that is good everywhere, so give one.
        decay: what the rate is multiplied by: "linear", "cosine", "tail" (the last 30 % of the steps), or a function of
            the share of steps made.
        clip: the largest length of a gradient; of a stack each network's own.
        ema: average the weights over steps, 0.999 say.
        precision: "tf32" for matrix products on a device that has it, "bf16" for the network (weights and loss stay).
        seed: of all that is drawn; of a stack one each if you like. Those with one seed see the same.
        checkpoint, every: a safetensors file to go on from if it exists, kept up to date every so many seconds.
        tensorboard: a folder, or a writer with `add_scalar`.
        graph: make whole steps as CUDA graphs; None does for our networks with SGD or an optimiser that says it is
            capturable. True does for a network of your own, which then must not look at its numbers.

    >>> from slicewise.training import Generator
    >>> target = torch.randn(500, 16) + 1
    >>> found = train(Generator(16, hidden=(32,), seed=0), target, steps=50, batch=64)
    >>> found.status, bool(found.losses[-1] < found.losses[0])
    ('finished', True)
    """
    _check_data(target, source)
    stacked = isinstance(network, Stack)
    settings = Settings(
        recipe_for(variant, n_slices, options),
        objective,
        scale,
        batch,
        steps,
        decay_for(decay),
        clip,
        ema,
        precision,
    )
    weights = [p for p in network.parameters() if p.requires_grad]
    if not weights:
        raise ValueError("the network has no parameters to train: give one that has")
    device = weights[0].device
    seeds = one_each("seed", seed, network.runs if isinstance(network, Stack) else 1, torch.int64)
    made = _optimiser(optimiser, weights, lr, settings, stacked=stacked)
    target = target.detach().to(weights[0])  # there, and as precise
    given = _source(source, network)
    given = given.detach().to(weights[0]) if isinstance(given, Tensor) else given
    with current(device), arithmetic(precision, device), writing(tensorboard) as writer:
        trainer = Trainer(network, target, given, settings, made, seeds, backend)
        notes = trainer.batches.notes()
        for note in notes:
            _log.warning(note)
        kept = None
        if checkpoint is not None:
            kept = TrainingCheckpoint(checkpoint, identity_of(trainer), every)
        loop = Loop(trainer, kept, writer, graph)
        loop.run(bar)
    averaged = None
    if trainer.averaged is not None:
        averaged = copy.deepcopy(network)
        with_weights(averaged, trainer.averaged)
    losses = loop.losses()
    found = losses if stacked else losses.squeeze(-1)
    status = loop.status() if stacked else loop.status()[0]
    return Training(network, averaged, found, trainer.done, status, loop.seconds, tuple(notes))


def _check_data(target: Tensor, source: Tensor | int | None) -> None:
    for name, samples in (("target", target), ("source", source)):
        if name == "source" and not isinstance(samples, Tensor):
            continue
        if not isinstance(samples, Tensor) or samples.dim() != 2 or not len(samples):
            got = tuple(samples.shape) if isinstance(samples, Tensor) else type(samples).__name__
            raise ValueError(f"{name} is {got}: give a tensor of samples (N, d)")
        if samples.is_complex():
            raise ValueError(f"{name} is {samples.dtype}: give real numbers")
        check_finite(**{name: samples})


def _source(source: Tensor | int | None, network: nn.Module) -> Tensor | int:
    sizes = network.sizes if isinstance(network, (Layers, Stack)) else None
    if source is not None:
        width = source.shape[1] if isinstance(source, Tensor) else source
        if sizes is not None and width != sizes[0]:
            raise ValueError(
                f"source has {width} coordinates, the network takes {sizes[0]} ({' → '.join(map(str, sizes))}): they must "
                f"agree"
            )
        return source
    if isinstance(network, (Layers, Stack)) and not network.residual:
        return network.sizes[0]
    raise ValueError(
        f"source = None for a {type(network).__name__}: give samples to start from, or the dimension of the noise"
    )


def _optimiser(
    asked: Optimisers, weights: Sequence[Tensor], lr: Any, settings: Settings, *, stacked: bool
) -> torch.optim.Optimizer:
    if callable(asked):
        if lr is not None or stacked:
            what = "a stack has" if stacked else "lr is given, too"
            raise ValueError(
                f"optimiser is a function, but {what}: use a name ({', '.join(KINDS)}), or let the function say all"
            )
        return _checked(asked(weights))
    kinds = [asked] if isinstance(asked, str) else list(asked)
    for kind in kinds:
        check_choice("optimiser", kind, KINDS)
    if lr is None:
        if settings.scale == "classic" and set(kinds) != {"adam"}:
            raise ValueError(
                "lr = None with scale='classic', which has no rate that is good everywhere: give lr, or "
                "scale='displacement'"
            )
        lr = [_RATES[kind] for kind in kinds]
        lr = lr[0] if isinstance(asked, str) else lr
    if stacked:
        return StackedOptimiser(weights, lr, asked)
    if isinstance(lr, Tensor) and lr.numel() == 1:
        lr = lr.item()
    if len(kinds) != 1 or not isinstance(lr, (int, float)):
        raise ValueError(f"lr = {lr!r}, optimiser = {asked!r}: one network has one of each")
    check_number("lr", lr, above=0, or_equal=True)
    if kinds[0] == "adam":
        return torch.optim.Adam(weights, lr=lr, capturable=weights[0].is_cuda)
    return torch.optim.SGD(weights, lr=lr, momentum=0.9 if kinds[0] == "momentum" else 0.0)


def _checked(made: object) -> torch.optim.Optimizer:
    """What a function has made, if it makes steps of gradients that are given."""
    if not isinstance(made, torch.optim.Optimizer):
        raise ValueError(
            f"optimiser is a function that makes a {type(made).__name__}: let it return one of torch's optimisers"
        )
    closure = inspect.signature(made.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ValueError(
            f"optimiser makes {type(made).__name__}, which evaluates the loss several times in a step, where each step "
            f"here has a batch of its own: use one of torch's that does not, or a name ({', '.join(KINDS)})"
        )
    return made
