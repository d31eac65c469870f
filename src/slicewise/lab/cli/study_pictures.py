"""Pictures of what the networks of a study have made: samples that their runs have kept, decoded."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import torch
from torch import Tensor

from slicewise.lab.data.arrays import Array, printable
from slicewise.lab.errors import Trouble
from slicewise.lab.experiments.latent.presets import GENERATE, TRANSLATE
from slicewise.lab.latents.sets import Latents
from slicewise.lab.report.samples import samples
from slicewise.lab.report.trainings import Place, places
from slicewise.lab.study.store import Store
from slicewise.support import check_choice, progress_bar

_DPI = 200  # an inch has one face


def pictures_of_study(path: Path, latents: Latents, asked: str | None) -> bytes:
    """A PNG of one task, that which is asked for or the first there is: a line for each variant at its best rate.

    Held-out samples come first; of a translation the sources do, each above what became of it.
    """
    from slicewise.lab.latents.pictures import made_by, translated

    with Store.reading(path) as store:
        place = _place(store, path, latents, asked)
        found = samples(store, place, "end")
    if not found:
        raise Trouble(
            f"{printable(str(path))} has kept no samples of {place.setting}: all its runs have diverged, or are of an "
            f"earlier version"
        )
    made = {one.label: _rows(one.made) for one in found}
    count = len(found[0].made)
    with progress_bar(len(found) + 1, None, "lines decoded") as tick:
        done = 0

        def decoder(rows: Tensor) -> Array:
            nonlocal done
            pictures = latents.decode(rows)
            done += 1
            tick(done, "")
            return pictures

        seen = dataclasses.replace(latents, decoder=decoder)
        if found[0].source is None:
            drawing = made_by(seen, made, count)
        else:
            source, _, target = place.setting.partition(" to ")
            drawing = translated(seen, _rows(found[0].source), made, (source, target), count)
        file = io.BytesIO()
        drawing.savefig(file, format="png", dpi=_DPI)
    return file.getvalue()


def _place(store: Store, path: Path, latents: Latents, asked: str | None) -> Place:
    """Where the runs of a task on these latents are; of several, as with other networks, those of the most steps."""
    every = [place for name in (GENERATE, TRANSLATE) for place in places(store, name)[0]]
    ours = [one for one in every if one.given["task"]["latents"] == latents.digest]
    if not ours:
        raise Trouble(
            f"{printable(str(path))} has no runs on {latents.name} ({latents.digest[:6]}) as they are split here: give the "
            f"same path and options as to `slicewise reproduce`"
        )
    there = list(dict.fromkeys(one.setting for one in ours))
    if asked is not None:
        check_choice("--task", asked, there)
    wanted = there[0] if asked is None else asked
    return max((one for one in ours if one.setting == wanted), key=lambda one: one.given["steps"])


def _rows(kept: Array) -> Tensor:
    return torch.from_numpy(kept).float()
