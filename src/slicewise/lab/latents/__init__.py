"""Latents of pictures: read, split, labelled, decoded, drawn."""

from __future__ import annotations

from slicewise.lab.latents.layouts import load
from slicewise.lab.latents.sets import Latents, Task, tasks

__all__ = ["Latents", "Task", "load", "tasks"]
