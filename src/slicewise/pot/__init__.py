"""POT's sliced functions, by this library: `import slicewise.pot as ot` in place of `import ot`.

Names, the order of arguments, defaults, results, logs and errors are those of `ot.sliced` and of the sliced functions of
`ot.unbalanced` in POT 0.9.7; NumPy arrays and tensors (JAX arrays by DLPack) come back as such. `distances`, `spheres`,
`plans` and `unbalanced` hold the functions, `projections` those that draw directions, `scaling` the scaler, `arrays` what
is known of arrays and seeds.

Imports `support`, `sampling`, `transport`, `problem`, `parts`, `distance`, `plans`. Used by programs that come from POT.
"""

from typing import Any

from slicewise.pot.distances import max_sliced_wasserstein_distance, sliced_wasserstein_distance
from slicewise.pot.plans import expected_sliced_plan, min_sliced_transport_plan, sliced_plans
from slicewise.pot.projections import (
    get_projections_orthogonal,
    get_projections_sphere,
    get_projections_spiral,
    get_random_projections,
    get_random_rotations,
    projection_sphere_to_circle,
)
from slicewise.pot.scaling import DataScaler
from slicewise.pot.spheres import (
    linear_circular_ot,
    linear_sliced_wasserstein_sphere,
    semidiscrete_wasserstein2_unif_circle,
    sliced_wasserstein_sphere,
    sliced_wasserstein_sphere_unif,
    stereographic_sliced_wasserstein_sphere,
    wasserstein_circle,
)
from slicewise.pot.unbalanced import sliced_unbalanced_ot, unbalanced_sliced_ot, uot_1d

__all__ = [
    "DataScaler",
    "expected_sliced_plan",
    "get_projections_orthogonal",
    "get_projections_sphere",
    "get_projections_spiral",
    "get_random_projections",
    "get_random_rotations",
    "linear_circular_ot",
    "linear_sliced_wasserstein_sphere",
    "max_sliced_wasserstein_distance",
    "min_sliced_transport_plan",
    "projection_sphere_to_circle",
    "semidiscrete_wasserstein2_unif_circle",
    "sliced_plans",
    "sliced_unbalanced_ot",
    "sliced_wasserstein_distance",
    "sliced_wasserstein_sphere",
    "sliced_wasserstein_sphere_unif",
    "stereographic_sliced_wasserstein_sphere",
    "unbalanced_sliced_ot",
    "uot_1d",
    "wasserstein_circle",
]


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module 'slicewise.pot' has no attribute {name!r}: it has POT's sliced functions only; for the others "
        f"import ot as well"
    )
