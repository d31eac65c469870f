"""What stands in for a device: a graph that is a function called again.

What a CUDA graph does is make the same operations on the same buffers once more. So does this one; all that stands
around it (step numbers, what is drawn ahead, endings found in hindsight, copies in and out) is then the real thing.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import torch


class Again:
    """Stands in for a CUDA graph."""

    def replay(self):
        self.make()


def stand_in_for_graphs(monkeypatch, owner):
    """Replace torch's graphs; `owner._capture` is what a graph of that class makes at each replay."""
    stream = SimpleNamespace(wait_stream=lambda other: None)
    nothing = contextlib.nullcontext
    for name, stand_in in {
        "Stream": lambda: stream,
        "current_stream": lambda *device: "the one stream" if device else stream,
        "stream": lambda stream: nothing(),
        "device": lambda device: nothing(),
        "CUDAGraph": Again,
        "graph": lambda graph, **_: nothing(),
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    capture, made = owner._capture, []

    def captured(self):
        made.append(self)
        self._graph.make = lambda: capture(self)  # nothing happens while it is captured

    monkeypatch.setattr(owner, "_capture", captured)
    return made
