"""Train a network by a sliced distance: the call, and its result."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from slicewise.distance import Objective, Scale, recipe_for
from slicewise.support import (
    Status,
    check_choice,
    check_finite,
    check_number,
    current,
    renamed_arguments,
)
from slicewise.training.checkpoint import TrainingCheckpoint
from slicewise.training.loop import ScalarWriter, TrainingLoop, scalar_writer
from slicewise.training.networks import Layers, Stack
from slicewise.training.optimizers import (
    KINDS,
    ComputedOptimizer,
    StackedOptimizer,
    largest_weight,
    per_network,
)
from slicewise.training.settings import (
    Precision,
    TrainingSettings,
    decay_for,
    matmul_precision,
)
from slicewise.training.step import Trainer, set_weights
from slicewise.variants import Recipe, Variant

Optimizers = str | Sequence[str] | Callable[[Iterable[Tensor]], torch.optim.Optimizer]
# Default rates: for the displacement scale; for Adam, whose steps do not depend on the scale, for both.
_RATES = {"sgd": 0.1, "momentum": 0.03, "adam": 1e-3}
_OLD_ATTRIBUTES = {"averaged": "ema_network", "steps": "n_steps"}

_log = logging.getLogger("slicewise")


@dataclass(frozen=True, eq=False)
class Training:
    """The result of `train`.

    Attributes:
        network: The network that was given, trained in place.
        ema_network: A copy with its weights averaged over steps; None unless `ema` was given.
        losses: The loss before each step, (n_steps,), or (n_steps, R) for a stack of R networks.
        n_steps: Number of steps made.
        status: "out of steps" (all steps were made) or "diverged"; for a stack a list, one word for each network.
        seconds: Time taken, that of earlier calls with the same checkpoint included.
        notes: What was logged as a warning, such as too few rows for a batch.
    """

    network: nn.Module
    ema_network: nn.Module | None
    losses: Tensor
    n_steps: int
    status: str | list[str]
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def diverged(self) -> bool | list[bool]:
        """Whether the training diverged; for a stack a list, one value for each network."""
        if isinstance(self.status, str):
            return self.status == Status.DIVERGED
        return [one == Status.DIVERGED for one in self.status]

    def __getattr__(self, name: str) -> Any:
        new = f": it is called {_OLD_ATTRIBUTES[name]!r} now" if name in _OLD_ATTRIBUTES else ""
        raise AttributeError(f"a Training has no attribute {name!r}{new}")


@renamed_arguments(
    steps="max_steps",
    optimiser="optimizer",
    seed="seeds",
    generator="seeds",
    every="checkpoint_every",
    bar="progress_bar",
    power="objective",
)
def train(
    network: nn.Module,
    target: Tensor,
    variant: str | Variant | Recipe = "sw",
    *,
    source: Tensor | int | None = None,
    max_steps: int = 10_000,
    batch: int = 2048,
    n_slices: int | None = None,
    objective: Objective = "power",
    scale: Scale | None = None,
    optimizer: Optimizers | None = None,
    lr: float | Sequence[float] | Tensor | Literal["auto"] | None = "auto",
    decay: str | Callable[[float], float] | None = None,
    clip: float | None = None,
    ema: float | None = None,
    precision: Precision = "float32",
    seeds: int | Sequence[int] | Tensor = 0,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 30.0,
    progress_bar: bool | None = None,
    tensorboard: str | Path | ScalarWriter | None = None,
    graph: bool | None = None,
    backend: str = "auto",
    **options: Any,
) -> Training:
    """Train a network so that its outputs are distributed as the target samples.

    Use it for a generator (noise in, samples out) or for a translation (samples of one set in, samples of another out).
    There is no learning rate: outputs are first given the mean and the spread of the target, steps are shares of the
    weights that shrink to the end, and the loss computes how long they may be at most; docs/networks.md says how, and
    how that compares with searched rates. To write the training loop yourself, use the
    loss `SlicedWasserstein` with the optimizer `slicewise.optim.Computed`.
    What a step draws depends on the seed and the step number alone, on every device.

    Args:
        network: A `Generator`, a `Translator`, a `Stack` of either, or any module from (B, d_in) to (B, d). It is
            trained in place, on the device of its weights.
        target: Samples (N, d).
        variant: The sliced distance: a name of `VARIANTS`, a `Variant` or a `Recipe`.
        source: Input samples (M, d_in), or the dimension of standard normal noise. None is the noise of a `Generator`.
        max_steps: Number of steps.
        batch: Rows of the target, and of the source, per step: without replacement within an epoch, with replacement
            if there are fewer rows than that.
        n_slices: Number of slices; None is the default of the variant.
        objective: What is minimized: "power" (SW_2 squared), "root" (SW_2) or "mean_root" (the mean of W_2 over
            slices).
        scale: How gradients are scaled: "displacement" (minus the displacement that the slices suggest, divided by
            the batch; for the power only) or "classic" (the gradient of the objective). None is classic where lengths
            are computed, and displacement where a rate is used.
        optimizer: The direction of steps: "adam", "momentum" or "sgd" (where rates are given, for a stack one or one for
            each network), or a function that makes one of torch's optimizers from the parameters. None is "adam" where
            lengths are computed, and "sgd" where a rate is used.
        lr: "auto" computes the length of each step. A number is a learning rate; for a stack, one or one for each
            network. None is a rate of 0.1 for "sgd", 0.03 for "momentum", 0.001 for "adam"; with the classic scale,
            which has no rate that works everywhere, only "adam" has one. A function that makes an optimizer sets its
            own rate, and "auto" is ignored.
        decay: Factor of the rate over the training: "linear", "cosine", "tail" (linear over the last 30 % of the
            steps), or a function of the fraction of steps made. None is 1, and "linear" where lengths are computed.
        clip: Largest norm of a gradient; in a stack, of each network's.
        ema: Average the weights over steps with this factor, e.g. 0.999; see `Training.ema_network`.
        precision: "tf32" for matrix products on a CUDA device, "bf16" for the network; weights and loss stay as they
            are.
        seeds: Seed of everything that is drawn; for a stack, one or one for each network. Networks with the same seed
            see the same batches, noise and slices.
        checkpoint: A file to resume from if it exists, and to save to. A resumed training continues bit for bit.
        checkpoint_every: Seconds between two saves.
        progress_bar: Show a progress bar; None shows one on a terminal.
        tensorboard: Where losses are logged: a folder, or a writer with `add_scalar`.
        graph: Make steps as CUDA graphs. None does so if the network's class declares `capturable = True`, as ours
            do, and the optimizer is one of the names or declares it. True does so for any network, which then must not
            read values on the host.
        backend: As in `sliced_wasserstein`.
        **options: Options of the variant.

    Returns:
        The trained network, with losses and how the training ended.

    Raises:
        ValueError: If arguments do not fit together, or the checkpoint belongs to another training.
        TypeError: If an argument has a name of before.

    Example:
        >>> from slicewise.training import Generator
        >>> from slicewise import sliced_wasserstein
        >>> network, target = Generator(16, hidden=(32,), generator=0), torch.randn(500, 16) + 1
        >>> before = sliced_wasserstein(network.sample(500), target)
        >>> found = train(network, target, max_steps=50, batch=64, n_slices=20)
        >>> found.status, bool(sliced_wasserstein(network.sample(500), target) < before / 2)
        ('out of steps', True)
    """
    _check_data(target, source)
    computed = isinstance(lr, str) and not callable(optimizer)
    if isinstance(lr, str):
        check_choice("lr", lr, ("auto",))
        lr = None
    if optimizer is None:
        optimizer = "adam" if computed else "sgd"
    if scale is None:
        scale = "classic" if computed else "displacement"
    settings = TrainingSettings(
        recipe_for(variant, n_slices, options),
        objective,
        scale,
        batch,
        max_steps,
        decay_for("linear" if computed and decay is None else decay),
        clip,
        ema,
        precision,
    )
    weights = [p for p in network.parameters() if p.requires_grad]
    if not weights:
        raise ValueError("the network has no parameters to train: give one that has")
    stacked = isinstance(network, Stack)
    runs = network.runs if isinstance(network, Stack) else 1
    seed_of_run = per_network("seeds", seeds, runs, torch.int64).cpu()
    largest = largest_weight(target)
    if computed:
        made: torch.optim.Optimizer = _computed(optimizer, weights, largest, stacked=stacked)
    else:
        made = _optimizer(optimizer, weights, lr, settings, largest, stacked=stacked)
    target = target.detach().to(weights[0])  # its device and dtype
    given = _source(source, network)
    given = given.detach().to(weights[0]) if isinstance(given, Tensor) else given
    device = weights[0].device
    with (
        current(device),
        matmul_precision(precision, device),
        scalar_writer(tensorboard) as writer,
    ):
        trainer = Trainer(network, target, given, settings, made, seed_of_run, backend)
        notes = trainer.batches.notes()
        for note in notes:
            _log.warning(note)
        file = None
        if checkpoint is not None:
            file = TrainingCheckpoint(checkpoint, trainer, checkpoint_every)
        loop = TrainingLoop(trainer, file, writer, graph)
        loop.run(progress_bar)
    ema_network = None
    if trainer.ema_weights is not None:
        ema_network = copy.deepcopy(network)
        set_weights(ema_network, trainer.ema_weights)
    losses, status = loop.losses(), loop.status()
    return Training(
        network,
        ema_network,
        losses if stacked else losses.squeeze(-1),
        trainer.n_steps,
        status if stacked else status[0],
        loop.seconds,
        tuple(notes),
    )


def _check_data(target: Tensor, source: Tensor | int | None) -> None:
    for name, samples in (("target", target), ("source", source)):
        if name == "source" and (samples is None or isinstance(samples, int)):
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
                f"source has {width} coordinates, the network takes {sizes[0]} ({' → '.join(map(str, sizes))}): "
                f"they must agree"
            )
        return source
    if isinstance(network, (Layers, Stack)) and not network.residual:
        return network.sizes[0]
    raise ValueError(
        f"source = None for a {type(network).__name__}: give samples to start from, or the dimension of the noise"
    )


def _computed(
    asked: Optimizers, weights: Sequence[Tensor], largest: float, *, stacked: bool
) -> ComputedOptimizer:
    kinds = {asked} if isinstance(asked, str) else set(asked)  # type: ignore[arg-type]
    if len(kinds) != 1:
        raise ValueError(
            f"optimizer = {asked!r} with lr='auto': one direction for all networks; give rates to compare several"
        )
    (kind,) = kinds
    check_choice("optimizer", kind, KINDS)
    return ComputedOptimizer(weights, kind, stacked=stacked, largest=largest)


def _optimizer(
    asked: Optimizers,
    weights: Sequence[Tensor],
    lr: Any,
    settings: TrainingSettings,
    largest: float,
    *,
    stacked: bool,
) -> torch.optim.Optimizer:
    if callable(asked):
        if lr is not None or stacked:
            what = "a stack has" if stacked else "lr is given, too"
            raise ValueError(
                f"optimizer is a function, but {what}: use a name ({', '.join(KINDS)}), or let the function set the "
                f"rate"
            )
        return _checked(asked(weights))
    kinds = [asked] if isinstance(asked, str) else list(asked)
    for kind in kinds:
        check_choice("optimizer", kind, KINDS)
    if lr is None:
        if settings.scale == "classic" and set(kinds) != {"adam"}:
            raise ValueError(
                "lr = None with scale='classic', which has no rate that is good everywhere: give lr, or "
                "scale='displacement'"
            )
        lr = [_RATES[kind] for kind in kinds]
        lr = lr[0] if isinstance(asked, str) else lr
    if stacked:
        return StackedOptimizer(weights, lr, asked, largest=largest)
    if isinstance(lr, Tensor) and lr.numel() == 1:
        lr = lr.item()
    if len(kinds) != 1 or not isinstance(lr, (int, float)):
        raise ValueError(f"lr = {lr!r}, optimizer = {asked!r}: one network has one of each")
    check_number("lr", lr, above=0, or_equal=True)
    if kinds[0] == "adam":
        return torch.optim.Adam(weights, lr=lr, capturable=weights[0].is_cuda)
    return torch.optim.SGD(weights, lr=lr, momentum=0.9 if kinds[0] == "momentum" else 0.0)


def _checked(made: object) -> torch.optim.Optimizer:
    """Return what a function made, if it is an optimizer that needs no closure."""
    if not isinstance(made, torch.optim.Optimizer):
        raise ValueError(
            f"optimizer is a function that makes a {type(made).__name__}: let it return one of torch's optimizers"
        )
    closure = inspect.signature(made.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ValueError(
            f"optimizer makes {type(made).__name__}, which evaluates the loss several times in a step, where each step "
            f"here has a batch of its own: use one of torch's that does not, or a name ({', '.join(KINDS)})"
        )
    return made
