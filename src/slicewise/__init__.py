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

from slicewise.distance import (
    Evaluation,
    SlicedWasserstein,
    displacement,
    evaluate,
    sliced_wasserstein,
    value_and_grad,
)
from slicewise.flows import Flow, Recording, Stopping, flow
from slicewise.kernels import backends
from slicewise.problem import (
    Anneal,
    Problem,
    Subspace,
    Target,
    effective_subspace,
    empirical_essf,
    essf,
    gaussian_constant,
    pad,
)
from slicewise.support import did_you_mean, keep_old_paths, meant
from slicewise.transport import wasserstein
from slicewise.variants import VARIANTS, Recipe

if TYPE_CHECKING:
    from slicewise.transport import gaussian_detour, subspace_detour, subspace_robust_wasserstein

keep_old_paths()

__version__ = "0.1.0"

# Of the extra `exact`, and few calls need them: an import that is not made is the quickest.
_WHEN_ASKED = {
    "gaussian_detour": "subspace_detour",
    "subspace_detour": "subspace_detour",
    "subspace_robust_wasserstein": "subspace_robust",
}


def __getattr__(name: str) -> Any:
    if name not in _WHEN_ASKED:
        near = [] if name.startswith("_") else meant(name, __all__)
        hint = f": {did_you_mean(near).strip()}" if near else ""
        raise AttributeError(f"module 'slicewise' has no attribute {name!r}{hint}")
    return getattr(importlib.import_module(f"slicewise.transport.{_WHEN_ASKED[name]}"), name)


__all__ = [
    "VARIANTS",
    "Anneal",
    "Evaluation",
    "Flow",
    "Problem",
    "Recipe",
    "Recording",
    "SlicedWasserstein",
    "Stopping",
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
