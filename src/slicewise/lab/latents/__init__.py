"""Latents of pictures: read from files, split into training and held-out rows, labeled, decoded, drawn.

`layouts.load` reads them, `sets.Latents` holds them, `choice.LatentChoice` names them in a study; `domains` turns labels into
domains. `digits` makes latents without a file, `stylegan` and `faces` use networks that others trained, if installed;
`pictures` draws.

Imports judging, support, lab.data, lab.images and lab.errors. Used by experiments and cli.
"""

from __future__ import annotations

from slicewise.lab.latents.choice import LatentChoice
from slicewise.lab.latents.layouts import load
from slicewise.lab.latents.pictures import (
    axes_for,
    explained_variance,
    made_by,
    mosaic,
    participation_ratio,
    translated,
    views,
)
from slicewise.lab.latents.sets import Latents, Task, subset_sizes, task_of, tasks
from slicewise.lab.names import ADULT, CHILD

__all__ = [
    "ADULT",
    "CHILD",
    "LatentChoice",
    "Latents",
    "Task",
    "axes_for",
    "explained_variance",
    "load",
    "made_by",
    "mosaic",
    "participation_ratio",
    "subset_sizes",
    "task_of",
    "tasks",
    "translated",
    "views",
]
