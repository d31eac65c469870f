"""Optimal transport: on a line, on a circle, along slices, and exactly.

`one_dim` is transport on the line in plain PyTorch, which every faster version is tested against; `sliced` projects and
prices many slices in bounded memory, `autograd` makes that differentiable (and has the p-th root), `backproject` takes gradients on lines back
to samples; `known_law` prices samples against a law in place of samples, `relabeled` prices all relabelings of a pool,
`circle` is transport on the circle, `couplings` prices plans in the samples' own space; `exact` is the exact distance;
`subspace_robust` and `subspace_detour` are exact
relatives.

Imports `support`. Used by `problem`, `parts`, `distance` and all that needs an exact distance.
"""

from typing import TYPE_CHECKING

from slicewise.support import open_on_demand
from slicewise.transport.autograd import root, root_slope, slice_costs, weighted_cost
from slicewise.transport.backproject import backproject, descend
from slicewise.transport.circle import (
    CirclePlan,
    circle_costs,
    linear_circle_costs,
    plan_on_circles,
    uniform_circle_costs,
)
from slicewise.transport.couplings import at_index, distance_power, pair_costs
from slicewise.transport.exact import exact_extra, wasserstein, within
from slicewise.transport.known_law import (
    KnownLaw,
    LawMatcher,
    LineCells,
    LineLaw,
    Placed,
    double_exponential,
    equal_cells,
    solved,
)
from slicewise.transport.matching import match_samples, matched_distance
from slicewise.transport.one_dim import (
    TIED,
    Match,
    Wanted,
    match,
    order_of,
    plan_mean,
    plan_on_lines,
    potentials_on_lines,
    uniform_cells,
)
from slicewise.transport.relabeled import LineCost, plain_relabeled_costs, relabeled_costs
from slicewise.transport.sliced import (
    DEVICE_PIECE_BYTES,
    PIECE_BYTES,
    Gradients,
    JointMatcher,
    Matcher,
    MovedPoints,
    Needs,
    PointsMatcher,
    PricingMatcher,
    RoundPoints,
    match_slices,
    project,
    pull,
    pull_back,
    slices_in_a_piece,
    sorted_lines,
    swapped,
)

# Imported when they are asked for: few programs need them.
if TYPE_CHECKING:
    from slicewise.transport.subspace_detour import gaussian_detour, subspace_detour
    from slicewise.transport.subspace_robust import subspace_robust_wasserstein
else:
    __getattr__, __dir__ = open_on_demand(
        __name__,
        {
            "subspace_detour": "gaussian_detour subspace_detour",
            "subspace_robust": "subspace_robust_wasserstein",
        },
    )
