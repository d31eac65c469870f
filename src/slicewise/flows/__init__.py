"""Samples moved onto samples, with the step computed or at a given learning rate.

`flow` is the call; `setup` and `settings` turn its arguments into groups of runs; `loop` advances all groups, `group`
one of them, `stepping` makes the steps, `movers` say how particles move and `restarts` how stuck runs get free;
`slices` draws directions, `stopping` finds the runs that have ended, `replay` makes steps a CUDA graph; `result` is
what comes back.

Imports `distance` and the rooms before it. Used by `training` (slices, replay), `color` and `lab`.
"""

from slicewise.flows.flow import flow
from slicewise.flows.replay import Scheduled, Timetable
from slicewise.flows.result import Flow
from slicewise.flows.settings import COMPUTED
from slicewise.flows.slices import Ahead, Foresight, blind_slices, cold, drawn, named, sliced
from slicewise.flows.stopping import Status

__all__ = [
    "Ahead",
    "COMPUTED",
    "Flow",
    "Foresight",
    "Scheduled",
    "Status",
    "Timetable",
    "blind_slices",
    "cold",
    "drawn",
    "flow",
    "named",
    "sliced",
]
