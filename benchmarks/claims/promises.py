"""The claims about training in a latent space: the trainings, and the bounds of their figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slicewise.lab.experiments.flows import ELEVEN
from slicewise.lab.experiments.latent.cells import DISPLACEMENT, TrainingCell
from slicewise.lab.experiments.latent.presets import ONE_RATE
from slicewise.lab.experiments.latent.tasks import GENERATION, LatentTask, Measures
from slicewise.lab.latents.choice import LatentChoice
from slicewise.lab.names import GENERATE, TRANSLATE
from slicewise.training import Precision

_SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Figure:
    """A measured number and its bounds."""

    name: str
    number: float
    least: float = -math.inf
    most: float = math.inf
    beyond: bool = False  # `least` itself is not enough

    @property
    def holds(self) -> bool:
        """Whether the number lies within its bounds; NaN does not."""
        enough = self.number > self.least if self.beyond else self.number >= self.least
        return enough and self.number <= self.most

    @property
    def bound(self) -> str:
        """The bounds as text."""
        if self.least == -math.inf:
            return f"≤ {self.most:g}"
        if self.most == math.inf:
            return f"{'>' if self.beyond else '≥'} {self.least:.4g}"
        return f"{self.least:g} to {self.most:g}"


# From the measures of a training, and of what needs none, to figures.
Check = Callable[[Measures, Mapping[str, Measures]], list[Figure]]


@dataclass(frozen=True)
class Promise:
    """A training, and the figures that each of its seeds must have."""

    words: str
    cell: TrainingCell
    check: Check


@dataclass(frozen=True)
class Translated:
    """Return the figures of a translation, relative to its baselines."""

    w2: float  # of the excess over the floor, removed at least
    frechet: float
    probe: float  # taken for the target, at least

    def __call__(self, one: Measures, untrained: Mapping[str, Measures]) -> list[Figure]:
        shift = untrained["mean shift"]
        figures = []
        for name, measure, least in (
            ("W_2 excess removed", "w2_removed", self.w2),
            ("Fréchet excess removed", "frechet_removed", self.frechet),
        ):
            figures.append(Figure(name, one[measure], least))
            more = f"{name}, more than by the mean shift"
            figures.append(Figure(more, one[measure], shift[measure], beyond=True))
        return [
            *figures,
            Figure("variance ratio", one["variance_ratio"], 0.93, 1.05),
            Figure("taken for the target", one["probe"], self.probe),
            Figure("own source nearest", one["own_nearest"], 0.99),
        ]


@dataclass(frozen=True)
class Generated:
    """Return the figures of a generator."""

    sw2: float  # over the floor, at most
    energy: float

    def __call__(self, one: Measures, untrained: Mapping[str, Measures]) -> list[Figure]:
        floor = untrained["real"]
        return [
            Figure("SW_2 / floor", _share(one["sw2"], floor["sw2"]), most=self.sw2),
            Figure("energy", one["energy"], most=self.energy),
            Figure("variance ratio", one["variance_ratio"], 0.9, 1.05),
            Figure("W_2 / floor", _share(one["w2"], floor["w2"]), 0.98, 1.10),
        ]


def _share(number: float, floor: float) -> float:
    """Divide by a baseline; NaN if that is zero, as it is for samples that are all equal."""
    return number / floor if floor > 0 else math.nan


TRANSLATIONS = {
    "male to female": Translated(w2=0.80, frechet=0.80, probe=0.85),
    "adult to child": Translated(w2=0.95, frechet=0.78, probe=0.78),
}


@dataclass(frozen=True)
class Setting:
    """The latents and the sizes of networks that claims are measured with."""

    data: LatentChoice
    steps: int = 10_000
    precision: Precision = "tf32"
    size: int = 512  # hidden units; a batch is 4 times it

    def task(self, name: str, batch: int | None = None) -> LatentTask:
        return LatentTask(name, self.data, self.size, 4 * self.size if batch is None else batch)

    def cell(
        self, task: LatentTask, variant: str = "sw", seeds: tuple[int, ...] = _SEEDS, **more: Any
    ) -> TrainingCell:
        """Return a training with the default rate, which is not searched for."""
        experiment = GENERATE if task.generates else TRANSLATE
        known: dict[str, Any] = {"rates": (ONE_RATE,), "precision": self.precision, **more}
        return TrainingCell(
            experiment, task, variant, DISPLACEMENT, seeds=seeds, steps=self.steps, **known
        )


def generation(setting: Setting) -> Iterator[Promise]:
    """Return the claims about generation, with SGD and with Adam."""
    task = setting.task(GENERATION)
    yield Promise("SGD, displacement 0.1", setting.cell(task), Generated(2.1, 0.05))
    adam: dict[str, Any] = {"rates": (1e-3,), "optimizer": "adam", "decay": "linear"}
    for n_slices, check in ((50, Generated(1.4, 0.015)), (500, Generated(1.15, 0.004))):
        cell = setting.cell(task, n_slices=n_slices, **adam)
        yield Promise(f"Adam, falling rate, L = {n_slices}", cell, check)


def translation(setting: Setting, name: str) -> Promise:
    """Return the claim about one of `TRANSLATIONS`."""
    words = f"{name}, SGD, displacement 0.1"
    return Promise(words, setting.cell(setting.task(name)), TRANSLATIONS[name])


def sizes(setting: Setting) -> Iterator[tuple[TrainingCell, str, float]]:
    """Return trainings over batch sizes and slice counts, and how far the default rate may be from the best of a grid."""
    for batch in (setting.size, 4 * setting.size, 8 * setting.size):
        for n_slices in (10, 50, 200):
            cell = setting.cell(setting.task(GENERATION, batch), seeds=(0,), n_slices=n_slices)
            yield cell, f"one rate, B = {batch}, L = {n_slices}", 1.05 if n_slices >= 50 else 1.15


def variants(setting: Setting) -> Iterator[tuple[TrainingCell, str, float]]:
    """Return the same for every variant."""
    for variant in ELEVEN:
        cell = setting.cell(setting.task(GENERATION), variant, seeds=(0,))
        yield cell, f"one rate, {variant}", 1.25
