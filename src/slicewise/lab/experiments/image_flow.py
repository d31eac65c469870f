"""The experiment `image-flow`: flows from zeros to ones (MNIST), and from noise to faces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicewise.distance import Objective
from slicewise.lab.data import SIDE, Array, Images, digit, faces
from slicewise.lab.experiments.flows import ELEVEN, FlowCell, timed_cells
from slicewise.lab.experiments.gradient_flow import OBJECTIVES, on_scale
from slicewise.lab.names import IMAGE_FLOW as NAME
from slicewise.problem import Convention

DIGIT_RATES = tuple(float(f"{digit}e{power}") for power in range(-3, 4) for digit in (1, 5))
FACE_RATES = (1.0, 4.0, 8.0, 16.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 3200.0)
REDUCED = ", reduced"
QUICK_RATES: dict[Objective, tuple[float, ...]] = {
    "root": (5.0, 10.0, 50.0, 100.0, 500.0),
    "power": (50.0, 500.0, 1000.0, 5000.0),
}
_DRAWN = 8  # images in a figure


@dataclass(frozen=True)
class _ImageTask:
    """n images a side, from a path or from installed packages."""

    n: int
    path: str | None = None

    @property
    def shown(self) -> Sequence[int]:
        return (0, 3, 10, 30, 60, 100)

    @property
    def pictured(self) -> bool:
        return True

    @property
    def filmed(self) -> bool:
        return False


@dataclass(frozen=True)
class DigitTask(_ImageTask):
    """MNIST zeros to ones, 784 dimensions."""

    @property
    def setting(self) -> str:
        return "mnist"

    def _sets(self) -> tuple[Images, Images]:
        return digit(0, self.path), digit(1, self.path)

    @property
    def given(self) -> Mapping[str, Any]:
        digests = [images.require(self.n, (28, 28)).digest for images in self._sets()]
        return {"images": digests, "n": self.n}

    @property
    def noted(self) -> Mapping[str, Any]:
        return {"source": f"0 to 1, {self._sets()[0].source}"}

    def samples(self, seed: int) -> tuple[Tensor, Tensor]:
        x, y = (torch.from_numpy(images.sample(self.n, seed)) for images in self._sets())
        return x, y

    def picture(self, particles: Tensor, seed: int) -> Array:
        """Return the first images in uint8, (S, 8, 28, 28)."""
        return _bytes(particles, (28, 28))


@dataclass(frozen=True)
class FaceTask(_ImageTask):
    """Standard normal noise to faces, 64 × 64 × 3 = 12288 dimensions."""

    @property
    def setting(self) -> str:
        return "faces"

    @property
    def given(self) -> Mapping[str, Any]:
        return {"images": [faces(self.path).require(self.n).digest], "n": self.n}

    @property
    def noted(self) -> Mapping[str, Any]:
        return {"source": f"noise to {faces(self.path).source}"}

    def samples(self, seed: int) -> tuple[Tensor, Tensor]:
        y = torch.from_numpy(faces(self.path).sample(self.n, seed))
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(y.shape, generator=generator, dtype=y.dtype), y

    def picture(self, particles: Tensor, seed: int) -> Array:
        """Return the first faces in uint8, (S, 8, 64, 64, 3)."""
        return _bytes(particles, (SIDE, SIDE, 3))


def _bytes(particles: Tensor, shape: tuple[int, ...]) -> Array:
    images = particles[:, :_DRAWN].double().nan_to_num().clamp(0, 1) * 255
    return images.round().to(torch.uint8).reshape(*images.shape[:2], *shape).cpu().numpy()


def cells(
    preset: str,
    convention: Convention = "mean",
    machine: str = "here",
    *,
    mnist: str | None = None,
    faces_at: str | None = None,
) -> list[FlowCell]:
    """Return the cells: quick has a few hundred steps in reduced dimensions, paper rates and steps as published."""
    if preset == "quick":
        return _quick(DigitTask(50, mnist), FaceTask(50, faces_at), convention, machine)
    made: list[FlowCell] = []
    for task, rates in ((DigitTask(50, mnist), DIGIT_RATES), (FaceTask(50, faces_at), FACE_RATES)):
        for variant in ELEVEN:
            for reduce in (True, False):
                how: dict[str, Any] = {
                    "dtype": "float32",
                    "reduce": reduce,
                    "suffix": REDUCED * reduce,
                }
                known = (NAME, task, variant)
                seeds = (0, 1, 2)
                made.append(_computed(task, variant, seeds, 200_000, convention, how))
                made += [
                    FlowCell(*known, objective, rates, seeds, 200_000, convention, **how)
                    for objective in OBJECTIVES
                ]
        made += timed_cells(NAME, task, 2000, convention, machine)
    return made


def _computed(
    task: DigitTask | FaceTask,
    variant: str,
    seeds: tuple[int, ...],
    steps: int,
    convention: Convention,
    how: dict[str, Any],
) -> FlowCell:
    """Return a cell with computed steps and the default options of the variant."""
    return FlowCell(
        NAME, task, variant, "power", None, seeds, steps, convention, defaults=None, **how
    )


def _quick(
    digits: DigitTask, faces: FaceTask, convention: Convention, machine: str
) -> list[FlowCell]:
    how: dict[str, Any] = {"dtype": "float32", "reduce": True, "suffix": REDUCED}
    made = [_computed(digits, variant, (0,), 300, convention, how) for variant in ELEVEN]
    made.append(_computed(faces, "sw", (0,), 300, convention, how))
    searched = on_scale(QUICK_RATES, convention, digits.n)
    made += [
        FlowCell(NAME, digits, "sw", objective, rates, (0,), 300, convention, **how)
        for objective, rates in searched.items()
    ]
    return made + timed_cells(NAME, digits, 30, convention, machine)
