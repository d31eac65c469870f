"""slicewise: learning with sliced-Wasserstein distances.

Samples are (*batch, n, d): tensors, or NumPy arrays and lists, which come back as such. Every leading dimension is a
batch dimension. Directions ("slices") are rows (L, d).

    sliced_wasserstein(x, y)        the distance; `evaluate` with its details, `value_and_grad` with its gradient
    SlicedWasserstein()             the distance as a loss module
    flow(x, y)                      move samples x onto samples y, without a learning rate; `displacement` is one step
    train(network, y)               train a network by the distance, without a learning rate
    optim.Computed(parameters)      an optimizer without a learning rate, for a training loop of one's own
    sliced_plan(x, y)               a transport plan from slices; `couple` pairs batches, `interpolate` walks along it
    unbalanced(x, y)                the distance with relaxed marginals
    two_sample_test(x, y)           do two sets differ, where, and how sure is that? `DriftDetector` for tables
    pairwise(sets), barycenter(sets)   all distances between several sets; their mean
    laws.Normal()                   a law in the place of samples y, compared with exactly
    wasserstein(x, y)               the exact distance
    VARIANTS                        the methods by name, e.g. "ebsw"

`slicewise.pot` has POT's sliced functions. `slicewise.color`, `slicewise.training`, `slicewise.judging`,
`slicewise.metric` and `slicewise.parts` have the rest.

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
        plans,
        pot,
        problem,
        sampling,
        stats,
        steps,
        support,
        training,
        transport,
        variants,
    )
    from slicewise.distance import (
        Evaluation,
        SlicedWasserstein,
        Unbalanced,
        displacement,
        evaluate,
        sliced_wasserstein,
        spherical_uniformity,
        unbalanced,
        value_and_grad,
    )
    from slicewise.flows import Flow, Recording, Stopping, flow
    from slicewise.kernels import backends
    from slicewise.plans import Interpolation, Pairs, Plan, couple, interpolate, sliced_plan
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
    from slicewise.stats import (
        Barycenter,
        Drift,
        DriftDetector,
        Goodness,
        TwoSampleTest,
        barycenter,
        compare_tables,
        embed,
        energy_distance,
        goodness_of_fit,
        mmd,
        pairwise,
        two_sample_test,
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
                "Evaluation SlicedWasserstein Unbalanced displacement evaluate sliced_wasserstein "
                "spherical_uniformity unbalanced value_and_grad"
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
            "plans": "Interpolation Pairs Plan couple interpolate sliced_plan",
            "pot": "",
            "problem": (
                "Anneal Problem Subspace Target effective_subspace empirical_essf essf "
                "gaussian_constant pad"
            ),
            "sampling": "",
            "stats": (
                "Barycenter Drift DriftDetector Goodness TwoSampleTest barycenter compare_tables embed "
                "energy_distance goodness_of_fit mmd pairwise two_sample_test"
            ),
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
    "Barycenter",
    "Drift",
    "DriftDetector",
    "Evaluation",
    "Flow",
    "Goodness",
    "Interpolation",
    "NotArrivedWarning",
    "Pairs",
    "Plan",
    "Problem",
    "Recipe",
    "Recording",
    "SlicedWasserstein",
    "Stopping",
    "Subspace",
    "Target",
    "Training",
    "TwoSampleTest",
    "Unbalanced",
    "backends",
    "barycenter",
    "color",
    "compare_tables",
    "couple",
    "displacement",
    "effective_subspace",
    "embed",
    "empirical_essf",
    "energy_distance",
    "essf",
    "evaluate",
    "flow",
    "gaussian_constant",
    "gaussian_detour",
    "goodness_of_fit",
    "interpolate",
    "judging",
    "laws",
    "mmd",
    "nn",
    "optim",
    "pad",
    "pairwise",
    "parts",
    "pot",
    "sliced_plan",
    "sliced_wasserstein",
    "spherical_uniformity",
    "stats",
    "steps",
    "subspace_detour",
    "subspace_robust_wasserstein",
    "train",
    "training",
    "two_sample_test",
    "unbalanced",
    "value_and_grad",
    "wasserstein",
]
