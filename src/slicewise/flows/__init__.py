"""Samples moved onto samples, with the step computed or at a given learning rate.

`flow` is the call, `result` what it returns and `history` what is recorded on the way; `setup` and `settings` turn its
arguments into groups of runs; `loop` advances all groups, `group` one of them, and `stepping` makes blocks of steps;
`movers` compute a step, `restarts` say how stuck runs escape, `cooling` shortens steps near a minimum, `slices` say
where directions come from; `stopping` finds the runs that have ended, and `replay` makes steps a CUDA graph.

Imports `distance` and the rooms before it. Used by `training` (slices, replay), `color` and `lab`.
"""

from slicewise.flows.flow import flow
from slicewise.flows.history import History, Recording
from slicewise.flows.replay import Scheduled, Timetable
from slicewise.flows.result import Flow
from slicewise.flows.settings import STEP_VERSION_KEY, default_steps
from slicewise.flows.slices import (
    PredrawnSlices,
    StepSlices,
    as_run_state,
    initial_state,
    predraw_slices,
    prepare_step,
    slices_for_step,
)
from slicewise.flows.stopping import Stopping
