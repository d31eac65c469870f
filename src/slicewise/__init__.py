"""slicewise: learning with sliced-Wasserstein distances.

Samples are (*batch, n, d): tensors, or NumPy arrays and lists, which come back as such. Every leading dimension is a
batch dimension. Directions ("slices") are rows (L, d).

    sliced_wasserstein(x, y)        the distance; `evaluate` with its details, `value_and_grad` with its gradient
    SlicedWasserstein()             the distance as a loss module
    flow(x, y)                      move samples x onto samples y, without a learning rate; `displacement` is one step
    train(network, y)               train a network by the distance
    wasserstein(x, y)               the exact distance
    VARIANTS                        the methods by name, e.g. "ebsw"

`slicewise.color`, `slicewise.training`, `slicewise.judging`, `slicewise.metric` and `slicewise.parts` have the rest.
"""

import importlib
from typing import TYPE_CHECKING, Any

from slicewise import parts, steps
from slicewise.distance import (
    Evaluation,
    SlicedWasserstein,
    displacement,
    evaluate,
    sliced_wasserstein,
    value_and_grad,
)
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
from slicewise.support import NotArrivedWarning, did_you_mean, keep_old_paths, meant
from slicewise.transport import wasserstein
from slicewise.variants import VARIANTS, Recipe

if TYPE_CHECKING:
    from slicewise import color, judging, training
    from slicewise.flows import Flow, Recording, Stopping, flow
    from slicewise.training import Training, train
    from slicewise.transport import gaussian_detour, subspace_detour, subspace_robust_wasserstein

__version__ = "0.2.0"

keep_old_paths()

# Imported when they are first asked for: a program that computes distances needs none of them.
_WHEN_ASKED = {
    "Flow": "flows",
    "Recording": "flows",
    "Stopping": "flows",
    "Training": "training",
    "color": "color",
    "flow": "flows",
    "gaussian_detour": "transport",
    "judging": "judging",
    "subspace_detour": "transport",
    "subspace_robust_wasserstein": "transport",
    "train": "training",
    "training": "training",
}


def __getattr__(name: str) -> Any:
    if name not in _WHEN_ASKED:
        near = [] if name.startswith("_") else meant(name, __all__)
        hint = f": {did_you_mean(near).strip()}" if near else ""
        raise AttributeError(f"module 'slicewise' has no attribute {name!r}{hint}")
    room = importlib.import_module(f"slicewise.{_WHEN_ASKED[name]}")
    found = room if name == _WHEN_ASKED[name] else getattr(room, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


__all__ = [
    "VARIANTS",
    "Anneal",
    "Evaluation",
    "Flow",
    "NotArrivedWarning",
    "Problem",
    "Recipe",
    "Recording",
    "SlicedWasserstein",
    "Stopping",
    "Subspace",
    "Target",
    "Training",
    "backends",
    "color",
    "displacement",
    "effective_subspace",
    "empirical_essf",
    "essf",
    "evaluate",
    "flow",
    "gaussian_constant",
    "gaussian_detour",
    "judging",
    "pad",
    "parts",
    "sliced_wasserstein",
    "steps",
    "subspace_detour",
    "subspace_robust_wasserstein",
    "train",
    "training",
    "value_and_grad",
    "wasserstein",
]
