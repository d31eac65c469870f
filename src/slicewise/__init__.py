"""slicewise: learning with sliced-Wasserstein distances.

Samples are torch tensors (*batch, n, d), directions are rows (L, d), costs are means over samples.

    sliced_wasserstein(x, y)        a number; `evaluate` with its workings, `value_and_grad` with the gradient
    SlicedWasserstein()             a loss to train with
    flow(x, y)                      samples carried to samples, no rate needed; `displacement` is one step of it
    wasserstein(x, y)               the exact distance
    VARIANTS                        what may be asked for by name, as "ebsw"

Every name in a line is in docs/names.md.
"""

import importlib
from typing import TYPE_CHECKING, Any

from slicewise import steps
from slicewise.catalogue import VARIANTS
from slicewise.displacement import displacement
from slicewise.distance import Evaluation, evaluate, sliced_wasserstein
from slicewise.gradient import value_and_grad
from slicewise.judge import wasserstein
from slicewise.kernels import backends
from slicewise.learn.flow import flow
from slicewise.learn.record import Flow
from slicewise.loss import SlicedWasserstein
from slicewise.naming import did_you_mean, meant
from slicewise.padding import pad
from slicewise.problem import Problem
from slicewise.recipe import Recipe
from slicewise.schedules import Anneal
from slicewise.subspace import (
    Subspace,
    effective_subspace,
    empirical_essf,
    essf,
    gaussian_constant,
)
from slicewise.target import Target

if TYPE_CHECKING:
    from slicewise.detours import gaussian_detour, subspace_detour
    from slicewise.robust import subspace_robust_wasserstein

__version__ = "0.1.0"

# Of the extra `exact`, and few calls need them: an import that is not made is the quickest.
_WHEN_ASKED = {
    "gaussian_detour": "detours",
    "subspace_detour": "detours",
    "subspace_robust_wasserstein": "robust",
}


def __getattr__(name: str) -> Any:
    if name not in _WHEN_ASKED:
        near = [] if name.startswith("_") else meant(name, __all__)
        hint = f": {did_you_mean(near).strip()}" if near else ""
        raise AttributeError(f"module 'slicewise' has no attribute {name!r}{hint}")
    return getattr(importlib.import_module(f"slicewise.{_WHEN_ASKED[name]}"), name)


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
