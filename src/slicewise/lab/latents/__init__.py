"""Latents of pictures: read, split, labeled, decoded, drawn."""

from __future__ import annotations

from slicewise.lab.latents.choice import LatentChoice
from slicewise.lab.latents.layouts import load
from slicewise.lab.latents.sets import Latents, Task, tasks

__all__ = ["LatentChoice", "Latents", "Task", "load", "tasks"]
