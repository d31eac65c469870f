"""Optimizers whose step length is computed instead of searched.

`computed` is the optimizer to use in a training loop; `walker` follows directions (gradient, momentum, Adam) by computed
lengths, for one network or a stack; `calibration` lets outputs start at the scale of the data; `trial` evaluates a loss at weights that were moved on trial, and undoes all of it;
`ranks` is what processes that train one network do together.

Imports `steps`, `distance` and the rooms before them. Used by `training`.
"""

from slicewise.optim.calibration import Compared, calibrate
from slicewise.optim.computed import Computed
from slicewise.optim.trial import (
    Ahead,
    Derivatives,
    Measured,
    Randomness,
    lent_copies,
    measured_curvature,
    untouched,
)
from slicewise.optim.walker import DIRECTIONS, Walker

__all__ = [
    "DIRECTIONS",
    "Ahead",
    "Compared",
    "Computed",
    "Derivatives",
    "Measured",
    "Randomness",
    "Walker",
    "calibrate",
    "lent_copies",
    "measured_curvature",
    "untouched",
]
