"""What is compared, and what the parts of a sliced distance may know of it.

`problem` holds the two sample sets and prices slices; `part` declares the kinds of parts and every capability they may
have; `population` computes sums and means over all samples, across processes too; `schedules` are numbers that change
in the course of a run; `padding`, `target` and `subspace` prepare samples.

Imports `support`, `sampling`, `transport`, `laws`. Used by `parts` and every room after it.

"""

from slicewise.problem.padding import pad
from slicewise.problem.part import (
    MOST_LEVERAGE,
    BuiltIn,
    Learner,
    Lift,
    LiftPart,
    Move,
    MovePart,
    Part,
    Slicer,
    SlicerPart,
    State,
    Uncertainty,
    Weighting,
    WeightingPart,
    check_fit,
    declared,
    follows_progress,
    graph_safe,
    label_free,
    needs_all_samples,
    needs_target_samples,
    rotation_invariant,
    unfit_for,
    walk,
)
from slicewise.problem.population import (
    Population,
    SideName,
    absent_to_mean,
    absent_to_origin,
    covariance_of,
    index_at,
    mean_of,
    rows_at,
    shares_of,
)
from slicewise.problem.problem import Convention, Problem, at_progress, fields_of
from slicewise.problem.schedules import Anneal, Instant, Moment, Schedule
from slicewise.problem.subspace import (
    Subspace,
    basis_of,
    effective_subspace,
    empirical_essf,
    essf,
    gaussian_constant,
    span_of,
)
from slicewise.problem.target import Target
