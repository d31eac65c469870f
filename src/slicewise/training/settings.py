"""The settings of a training: everything but the network, the data and the seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from slicewise.distance import Objective, Scale, check_objective
from slicewise.problem import Schedule, follows_progress
from slicewise.support import check_choice, check_count
from slicewise.variants import Recipe

# Of the scales of the loss, those whose gradient is computed here in closed form.
SCALES: tuple[Scale, ...] = ("classic", "displacement")
Precision = Literal["float32", "tf32", "bf16"]


def _linear(progress: float) -> float:
    return 1 - progress


def _cosine(progress: float) -> float:
    return (1 + math.cos(math.pi * progress)) / 2


def _tail(progress: float) -> float:
    return min(1.0, (1 - progress) / 0.3)


# Factors of the learning rate as functions of the fraction of steps made; "tail" decays over the last 30 %.
DECAYS: dict[str, Schedule] = {"linear": _linear, "cosine": _cosine, "tail": _tail}


@dataclass(frozen=True)
class TrainingSettings:
    """What is minimized, and how; checked when it is made. `train` documents each field."""

    recipe: Recipe
    objective: Objective = "power"
    scale: Scale = "classic"
    batch: int = 2048
    max_steps: int = 10_000
    decay: Schedule | None = None
    clip: float | None = None
    ema: float | None = None
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        check_objective(self.objective, self.recipe)
        check_choice("scale", self.scale, SCALES)
        check_choice("precision", self.precision, get_args(Precision))
        check_count("batch", self.batch)
        check_count("max_steps", self.max_steps, at_least=0)
        if self.scale == "displacement" and self.objective != "power":
            raise ValueError(
                f"scale='displacement' with objective={self.objective!r}: moves have the right length for the "
                f"power alone; give objective='power', or scale='classic'"
            )
        if self.scale == "displacement":
            self.recipe.check_linear("scale='displacement'")
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise ValueError(f"clip = {self.clip}: give the largest norm of a gradient, or None")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ValueError(f"ema = {self.ema}: give a number between 0 and 1 such as 0.999")

    @property
    def depends_on_max_steps(self) -> bool:
        """Whether a step depends on how many there will be, so that a longer training is another one."""
        return self.decay is not None or follows_progress(self.recipe)


def decay_for(decay: str | Callable[[float], float] | None) -> Schedule | None:
    """Return the schedule of a name, or the function itself."""
    if isinstance(decay, str):
        check_choice("decay", decay, DECAYS)
        return DECAYS[decay]
    if decay is not None and not callable(decay):
        raise ValueError(f"decay = {decay!r}: give a name ({', '.join(DECAYS)}) or a function")
    return decay


@contextmanager
def matmul_precision(precision: Precision, device: torch.device) -> Iterator[None]:
    """Allow TF32 in matrix products on a CUDA device, unless "float32" is asked for; restored afterwards."""
    if precision == "float32" or device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
