"""How a network is trained: everything but the network, the data and who counts the steps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from slicewise.distance import Objective
from slicewise.problem import Schedule
from slicewise.support import check_choice, check_count
from slicewise.variants import Recipe

Scale = Literal["classic", "displacement"]
Precision = Literal["float32", "tf32", "bf16"]


def _linear(progress: float) -> float:
    return 1 - progress


def _cosine(progress: float) -> float:
    return (1 + math.cos(math.pi * progress)) / 2


def _tail(progress: float) -> float:
    return min(1.0, (1 - progress) / 0.3)


# How the rate falls in the course of a run; "tail" over its last 30 %.
DECAYS: dict[str, Schedule] = {"linear": _linear, "cosine": _cosine, "tail": _tail}


@dataclass(frozen=True)
class Settings:
    """What is descended, and how."""

    recipe: Recipe
    objective: Objective = "power"
    scale: Scale = "classic"
    batch: int = 2048
    steps: int = 10_000
    decay: Schedule | None = None
    clip: float | None = None
    ema: float | None = None
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        check_choice("objective", self.objective, get_args(Objective))
        check_choice("scale", self.scale, get_args(Scale))
        check_choice("precision", self.precision, get_args(Precision))
        check_count("batch", self.batch)
        check_count("steps", self.steps, at_least=0)
        if self.scale == "displacement" and self.objective != "power":
            raise ValueError(
                f"scale='displacement' with objective={self.objective!r}: moves have the right length for the "
                f"power alone; give objective='power', or scale='classic'"
            )
        if self.scale == "displacement":
            self.recipe.check_linear("scale='displacement'")
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise ValueError(f"clip = {self.clip}: give the largest length of a gradient, or None")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ValueError(f"ema = {self.ema}: give a share between 0 and 1 such as 0.999")

    @property
    def follows_steps(self) -> bool:
        """Does what a step does depend on how many there will be?"""
        return self.decay is not None or _may_follow(self.recipe)


def _may_follow(part: object) -> bool:
    """Might a part of a recipe look at how much of the run is over? One of a caller's own might."""
    if part is None or isinstance(part, (bool, int, float, str, Tensor)):
        return False
    if isinstance(part, tuple):
        return any(_may_follow(one) for one in part)
    if not dataclasses.is_dataclass(part) or not type(part).__module__.startswith("slicewise."):
        return True
    scheduled = getattr(part, "scheduled", ())  # numbers that may be functions of the moment
    values = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    return any(
        callable(value) if name in scheduled else _may_follow(value)
        for name, value in values.items()
    )


def decay_for(decay: str | Callable[[float], float] | None) -> Schedule | None:
    """A schedule by name, or as it is: what the rate is multiplied by, over the share of steps made."""
    if isinstance(decay, str):
        check_choice("decay", decay, DECAYS)
        return DECAYS[decay]
    if decay is not None and not callable(decay):
        raise ValueError(f"decay = {decay!r}: give a name ({', '.join(DECAYS)}) or a function")
    return decay


@contextmanager
def arithmetic(precision: Precision, device: torch.device) -> Iterator[None]:
    """Matrix products in TF32, if that is asked for and there is a device that has it."""
    if precision == "float32" or device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
