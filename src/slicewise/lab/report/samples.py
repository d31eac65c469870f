"""Samples to look at: what each variant made at its best rate, as runs have kept it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise.lab.experiments.flows import ELEVEN
from slicewise.lab.experiments.latent.cells import DISPLACEMENT
from slicewise.lab.experiments.latent.tasks import GENERATION
from slicewise.lab.report.best import Best
from slicewise.lab.report.trainings import Place, objectives
from slicewise.lab.study.store import Store

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Samples:
    """Some samples (n, ...), who made them, and what a translator made them of."""

    label: str
    made: Array
    source: Array | None = None


def samples(store: Store, place: Place, name: str) -> list[Samples]:
    """Of each variant what its best rate made; also who cannot win is looked at, to see why.

    `name` is that of the arrays: "end" has latents, "pictures" what they were decoded to.
    """
    found = []
    for variant in ELEVEN:
        chosen = _chosen(place, variant)
        if chosen is None:
            continue
        objective, best, words = chosen
        arrays = (store.array(row["key"], name) for row in best.runs)
        kept = next((one for one in arrays if one is not None), None)  # of the first seed alone
        if kept is None:
            continue
        source, made = (None, kept) if place.setting == GENERATION else kept
        found.append(Samples(f"{variant}, {objective} {best.rate:g}{words}", made, source))
    return found


def _chosen(place: Place, variant: str) -> tuple[str, Best, str] | None:
    """The objective and the rate, and words where they cannot win. Searched rates come before the one that was not."""
    there = (*objectives(place), DISPLACEMENT)
    for objective in there:
        best = place.best(variant, objective)
        if best is not None:
            return objective, best, ""
    for objective in there:
        least = place.least(variant, objective)
        if least is not None:
            return objective, least, ", cannot win"
    return None
