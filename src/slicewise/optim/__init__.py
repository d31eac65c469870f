"""Optimizers whose step length is computed instead of searched.

`computed` is the optimizer to use in a training loop; `walker` follows directions (gradient, momentum, Adam) by computed
lengths, for one network or a stack; `trial` evaluates a loss at weights that were moved on trial, and undoes all of it;
`ranks` is what processes that train one network do together.

Imports `steps`, `distance` and the rooms before them. Used by `training`.
"""

from slicewise.optim.computed import Computed
from slicewise.optim.trial import (
    Ahead,
    Derivatives,
    Measured,
    Randomness,
    measured_curvature,
    untouched,
)
from slicewise.optim.walker import DIRECTIONS, Walker, half_decay

__all__ = [
    "DIRECTIONS",
    "Ahead",
    "Computed",
    "Derivatives",
    "Measured",
    "Randomness",
    "Walker",
    "half_decay",
    "measured_curvature",
    "untouched",
]
