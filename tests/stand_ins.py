"""What stands in for a device: a graph that is a function called again.

What a CUDA graph does is make the same operations on the same buffers once more. So does this one; all that stands
around it (step numbers, what is drawn ahead, endings found in hindsight, copies in and out) is then the real thing.
And what no capture allows, that the host asks for a number, is no less an error here.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from slicewise.flows import movers

_ASKING = (
    torch.ops.aten._local_scalar_dense.default,  # item(), float(), bool(), a tensor for a plain number
    torch.ops.aten.nonzero.default,  # and masks as indices: a size that nobody knows yet
    torch.ops.aten.equal.default,
)


class NoQuestions(TorchDispatchMode):
    """While this is on, no operation may tell the host a number."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in _ASKING:
            raise AssertionError(f"{func} within a graph: a capture on a device would fail")
        return func(*args, **(kwargs or {}))


class Again:
    """Stands in for `CapturedGraph`: replaying calls the function again. Nothing happens while it is captured."""

    def __init__(self, function):
        self._function, self._asked = function, False

    def replay(self):
        """A capture is made once, so that no questions are asked the first time is enough."""
        with contextlib.nullcontext() if self._asked else NoQuestions():
            self._function()
        self._asked = True


def stand_in_for_graphs(monkeypatch, module):
    """Replace the CUDA graphs of a module; returns those it then makes."""
    stream = SimpleNamespace(wait_stream=lambda other: None)
    nothing = contextlib.nullcontext
    for name, stand_in in {
        "Stream": lambda: stream,
        "current_stream": lambda *device: "the one stream" if device else stream,
        "stream": lambda stream: nothing(),
        "device": lambda device: nothing(),
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(movers, "any_set", lambda flags: True)  # as on a device, which is not asked
    made = []

    def captured(function):
        made.append(Again(function))
        return made[-1]

    monkeypatch.setattr(module, "CapturedGraph", captured)
    return made
