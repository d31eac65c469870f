"""slicewise: learning with sliced-Wasserstein distances.

Samples are (*batch, n, d): tensors, or NumPy arrays and lists, which come back as such. Every leading dimension is a
batch dimension. Directions ("slices") are rows (L, d).

    sliced_wasserstein(x, y)        the distance; `evaluate` with its details, `value_and_grad` with its gradient
    SlicedWasserstein()             the distance as a loss module
    flow(x, y)                      move samples x onto samples y, without a learning rate; `displacement` is one step
    train(network, y)               train a network by the distance, without a learning rate
    optim.Computed(parameters)      an optimizer without a learning rate, for a training loop of one's own
    laws.Normal()                   a law in the place of samples y, compared with exactly
    wasserstein(x, y)               the exact distance
    VARIANTS                        the methods by name, e.g. "ebsw"

`slicewise.color`, `slicewise.training`, `slicewise.judging`, `slicewise.metric` and `slicewise.parts` have the rest.

Every name is imported when it is first asked for: `import slicewise` itself imports neither torch nor NumPy.
"""

from typing import TYPE_CHECKING

from slicewise.support.doors import open_on_demand
from slicewise.support.renamed import keep_old_paths

if TYPE_CHECKING:
    from slicewise import (
        color,
        distance,
        distributed,
        flows,
        judging,
        kernels,
        laws,
        metric,
        nn,
        optim,
        parts,
        problem,
        sampling,
        steps,
        support,
        training,
        transport,
        variants,
    )
    from slicewise.distance import (
        Evaluation,
        Goodness,
        SlicedWasserstein,
        displacement,
        evaluate,
        goodness_of_fit,
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
    from slicewise.support import NotArrivedWarning
    from slicewise.training import Training, train
    from slicewise.transport import (
        gaussian_detour,
        subspace_detour,
        subspace_robust_wasserstein,
        wasserstein,
    )
    from slicewise.variants import VARIANTS, Recipe
else:
    __getattr__, _ = open_on_demand(
        __name__,
        {
            "color": "",
            "distance": (
                "Evaluation Goodness SlicedWasserstein displacement evaluate goodness_of_fit "
                "sliced_wasserstein value_and_grad"
            ),
            "distributed": "",
            "flows": "Flow Recording Stopping flow",
            "judging": "",
            "kernels": "backends",
            "laws": "",
            "metric": "",
            "nn": "",
            "optim": "",
            "parts": "",
            "problem": (
                "Anneal Problem Subspace Target effective_subspace empirical_essf essf "
                "gaussian_constant pad"
            ),
            "sampling": "",
            "steps": "",
            "support": "NotArrivedWarning",
            "training": "Training train",
            "transport": (
                "gaussian_detour subspace_detour subspace_robust_wasserstein wasserstein"
            ),
            "variants": "VARIANTS Recipe",
        },
    )

__version__ = "0.2.0"

keep_old_paths()


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


__all__ = [
    "VARIANTS",
    "Anneal",
    "Evaluation",
    "Flow",
    "Goodness",
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
    "goodness_of_fit",
    "judging",
    "laws",
    "nn",
    "optim",
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
