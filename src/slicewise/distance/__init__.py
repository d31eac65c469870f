"""The distance itself, as functions and as a loss.

`reference` is the whole of it in twenty lines of plain PyTorch, which everything faster is tested against. `request`
turns a caller's arguments into a recipe and a checked problem, `prepare` draws its slices, `objective` states what is
computed of their costs; `evaluation`, `gradient`, `displacement` and `loss` are the public calls, `bounds` an upper
bound of the largest slice, `replay` evaluations as CUDA graphs.

Imports every room before it. Used by `flows`, `judging`, `training`, `metric`, `lab`.
"""

from slicewise.distance.displacement import displacement, valued
from slicewise.distance.evaluation import Evaluation, evaluate, sliced_wasserstein
from slicewise.distance.gradient import Objective, differentiated, priced, stepped, value_and_grad
from slicewise.distance.loss import Scale, SlicedWasserstein
from slicewise.distance.prepare import Prepared, draw
from slicewise.distance.replay import can_replay
from slicewise.distance.request import problem_for, recipe_for

__all__ = [
    "Evaluation",
    "Objective",
    "Prepared",
    "Scale",
    "SlicedWasserstein",
    "can_replay",
    "differentiated",
    "displacement",
    "draw",
    "evaluate",
    "priced",
    "problem_for",
    "recipe_for",
    "sliced_wasserstein",
    "stepped",
    "value_and_grad",
    "valued",
]
