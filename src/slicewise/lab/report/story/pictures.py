"""Pictures before and after: photographs whose colors were moved, images that flowed, samples that a network made."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slicewise.lab.data import Array
from slicewise.lab.experiments import COMPUTED, GENERATION
from slicewise.lab.report.flow_runs import Flows
from slicewise.lab.report.training_runs import Group, samples
from slicewise.lab.study import Store

_COLUMNS = 8  # images in a strip


@dataclass(frozen=True)
class Pair:
    """Two pictures of one size, which the page lets a reader slide over each other."""

    title: str
    before: str  # a data URI
    after: str
    named: tuple[str, str]  # what they show
    wide: bool  # a strip of small images


def of_flows(flows: Flows) -> list[Pair]:
    """Return the start and the end of "sw" with computed steps, for each group that has pictures."""
    found = []
    for group in flows.groups:
        for row in flows.some(group, "sw", None):
            end = flows.store.array(row["key"], "end")
            if end is None or flows.experiment == "gradient-flow":
                continue
            before, after = start_and_end(flows, group, end)
            if before is not None:
                steps = row["measures"].get("steps", 0)
                source = row["given"].get("source", group)
                named = ("before", f"after {steps:,.0f} steps")
                found.append(Pair(f"{group.split(',')[0]}: {source}", data_uri(before), data_uri(after), named, flows.experiment != "color"))  # fmt: skip
                break
    return found


def start_and_end(flows: Flows, group: str, end: Array) -> tuple[Array | None, Array]:
    """Return pictures of the start of a group, None if it was not kept, and of an end that is stored with a run."""
    ways = (flows.store.array(row["key"], "way") for row in flows.some(group, "sw", None))
    way = next((one for one in ways if one is not None), None)
    if flows.experiment == "color":  # the target comes first
        return (None if way is None else way[1]), end[1]
    return (None if way is None else _strip(way[0])), _strip(end[0])


def of_trainings(store: Store, group: Group) -> list[Pair]:
    """Return samples of "sw", trained without a rate, over real ones or over their sources."""
    for one in samples(store, group, "pictures", (COMPUTED,)):
        if not one.label.startswith("sw,"):
            continue
        if group.setting == GENERATION:
            real = None if group.floor is None else store.array(group.floor["key"], "pictures")
            before, named = real, ("real, held out", "generated without a rate")
        else:
            before, named = one.source, ("source", "translated without a rate")
        if before is not None:
            count = min(len(before), len(one.made))
            return [Pair(f"{group.words}, sw", data_uri(_strip(before[:count])), data_uri(_strip(one.made[:count])), named, True)]  # fmt: skip
    return []


def _strip(images: Array) -> Array:
    """Return images (n, height, width[, 3]) beside each other."""
    return np.concatenate(list(images[:_COLUMNS]), axis=1)


def data_uri(pixels: Array) -> str:
    """Return pixels as the address of a JPEG that holds them; small images are enlarged without smoothing."""
    from PIL import Image

    whole = pixels if pixels.dtype == np.uint8 else np.clip(np.round(pixels), 0, 255).astype(np.uint8)  # fmt: skip
    image = Image.fromarray(whole)
    if image.height < 48:
        image = image.resize((image.width * 2, image.height * 2), Image.Resampling.NEAREST)
    file = io.BytesIO()
    image.convert("RGB").save(file, format="JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


def all_pairs(store: Store, every: Sequence[Flows], trained: Sequence[Group]) -> list[Pair]:
    """Return every pair of pictures of a store."""
    return [
        *(pair for flows in every for pair in of_flows(flows)),
        *(pair for group in trained for pair in of_trainings(store, group)),
    ]
