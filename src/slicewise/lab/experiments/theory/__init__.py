"""The experiment `theory`: statements of the paper, tested by measurements. `CHECKS` lists its checks by name."""

from __future__ import annotations

from slicewise.lab.experiments.check import Check
from slicewise.lab.experiments.theory.directions.gaussian_slices import GAUSSIAN_SLICES
from slicewise.lab.experiments.theory.directions.informativeness import INFORMATIVENESS
from slicewise.lab.experiments.theory.directions.normalized_gaussian import GAUSSIAN
from slicewise.lab.experiments.theory.directions.orthogonality import ORTHOGONALITY
from slicewise.lab.experiments.theory.directions.projected_slices import PROJECTED
from slicewise.lab.experiments.theory.edge import EDGE
from slicewise.lab.experiments.theory.evaluation import EVALUATION
from slicewise.lab.experiments.theory.gradient_error import GRADIENT
from slicewise.lab.experiments.theory.minibatch import MINIBATCH
from slicewise.lab.experiments.theory.minimizing import MINIMIZING
from slicewise.lab.experiments.theory.one_step import ONE_STEP
from slicewise.lab.experiments.theory.scaling import SCALING
from slicewise.lab.experiments.theory.scaling_factor import ESSF
from slicewise.lab.experiments.theory.value_error import EPSILON

CHECKS: dict[str, Check] = {
    check.name: check
    for check in (
        INFORMATIVENESS,
        PROJECTED,
        GAUSSIAN_SLICES,
        SCALING,
        ESSF,
        EPSILON,
        GRADIENT,
        ORTHOGONALITY,
        GAUSSIAN,
        MINIBATCH,
        ONE_STEP,
        EDGE,
        MINIMIZING,
        EVALUATION,
    )
}
