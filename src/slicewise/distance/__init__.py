"""The distance itself, as functions and as a loss.

`reference` is the whole of it in twenty lines of plain PyTorch, which everything faster is tested against. `request`
turns a caller's arguments into a recipe, a checked problem and its slices, `objective` states what is computed of their
costs, `pricing` computes it with its gradient; `evaluation`, `gradient`, `displacement` and `loss` are the public calls,
`bounds` an upper bound of the largest slice, `unbalanced` the distance with relaxed marginals, `uniformity` that of
directions to the uniform law, `intervals` states how sure a value is. `plan` keeps what calls of one kind need not
decide again, `replay` captures them as CUDA graphs, `compiled` is the loss as one operation for `torch.compile`, `holding` the loss with its plans held.

Imports every room before it. Used by `plans`, `stats`, `nn`, `optim`, `flows`, `judging`, `training`, `metric`, `lab`.
"""

from slicewise.distance.displacement import displacement, valued
from slicewise.distance.evaluation import Evaluation, evaluate, sliced_wasserstein
from slicewise.distance.gradient import value_and_grad
from slicewise.distance.holding import (
    Tape,
    held_for,
    held_weights,
    playing,
    recording,
    tape_in_use,
)
from slicewise.distance.intervals import confidence_interval, skewness_of_costs
from slicewise.distance.loss import Scale, SlicedWasserstein
from slicewise.distance.objective import (
    Objective,
    check_objective,
    distance_of_value,
    value_of_means,
    weigh,
)
from slicewise.distance.plan import LawPricer, law_pricer
from slicewise.distance.pricing import differentiated, priced, stepped
from slicewise.distance.replay import LARGEST, Graph, circumstances, graph_for
from slicewise.distance.request import (
    BACKENDS,
    Prepared,
    draw,
    fixed_slices,
    prepare,
    problem_for,
    randomness_of,
    recipe_for,
)
from slicewise.distance.unbalanced import (
    Unbalanced,
    equal_masses,
    penalty_pair,
    unbalanced,
)
from slicewise.distance.uniformity import spherical_uniformity
