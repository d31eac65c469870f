"""slicewise: learning with sliced-Wasserstein distances.

Samples are (*batch, n, d), directions are rows (L, d), costs are means over samples.
"""

from slicewise import steps
from slicewise.catalogue import VARIANTS
from slicewise.detours import gaussian_detour, subspace_detour
from slicewise.displacement import displacement
from slicewise.distance import Evaluation, evaluate, sliced_wasserstein
from slicewise.gradient import value_and_grad
from slicewise.judge import wasserstein
from slicewise.kernels import backends
from slicewise.learn.flow import flow
from slicewise.learn.record import Flow
from slicewise.loss import SlicedWasserstein
from slicewise.padding import pad
from slicewise.problem import Problem
from slicewise.recipe import Recipe
from slicewise.robust import subspace_robust_wasserstein
from slicewise.schedules import Anneal
from slicewise.subspace import (
    Subspace,
    effective_subspace,
    empirical_essf,
    essf,
    gaussian_constant,
)
from slicewise.target import Target

__version__ = "0.1.0"

__all__ = [
    "VARIANTS",
    "Anneal",
    "Evaluation",
    "Flow",
    "Problem",
    "Recipe",
    "SlicedWasserstein",
    "Subspace",
    "Target",
    "backends",
    "displacement",
    "effective_subspace",
    "empirical_essf",
    "essf",
    "evaluate",
    "flow",
    "gaussian_constant",
    "gaussian_detour",
    "pad",
    "sliced_wasserstein",
    "steps",
    "subspace_detour",
    "subspace_robust_wasserstein",
    "value_and_grad",
    "wasserstein",
]
