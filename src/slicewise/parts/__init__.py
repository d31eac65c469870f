"""The parts that sliced distances are composed of. Each part is a small frozen dataclass.

There are four kinds of parts; `slicewise.problem` defines their protocols.

- Slicers (`slicers`) propose directions. Moves (`moves`) map these directions to new ones.
- Weightings (`weightings`, `control_variates`) compute the weight of each slice.
- Lifts (`lifts`, `spheres`, `moments`) replace the samples by others, which are sliced in their place.
- Parts in `learned` are slicers or lifts with parameters that are trained while the distance is used.

`legacy` reproduces errors of published code, so that published numbers can be reproduced.

Imports `support`, `sampling`, `transport`, `problem`. Used by `variants`, which composes them, and by your own recipes.
"""

from slicewise.parts.control_variates import ControlVariate
from slicewise.parts.learned import Activation, Augment, PushForward, climb_by_adam, cold_layer
from slicewise.parts.legacy import AliasedTrace, RaisingMove, von_mises_fisher
from slicewise.parts.lifts import Circles, Curved, Monomials, Networks, curved
from slicewise.parts.moments import Between, Moments, Summary, normality
from slicewise.parts.moves import (
    Afresh,
    Ascend,
    Best,
    Concentration,
    InTurn,
    Metropolis,
    Orthogonal,
    Refine,
    Repeat,
    Resample,
    Spread,
)
from slicewise.parts.slicers import (
    Frame,
    Gaussian,
    LowDiscrepancy,
    Orthonormal,
    Principal,
    Quasi,
    RandomPath,
    Then,
    Together,
    Trace,
    Uniform,
    interleave,
)
from slicewise.parts.spheres import Circular, GreatCircles, Stereographic, frame_of, turns
from slicewise.parts.weightings import (
    Aligned,
    Alignment,
    Drawn,
    Energy,
    EnergyKind,
    Equal,
    PathDensity,
    Peak,
    Phi,
    Reciprocal,
    Weights,
    coefficients,
    constant_weights,
    slice_cost,
    slice_weights,
    weights_for,
)

__all__ = [
    "Activation",
    "Afresh",
    "AliasedTrace",
    "Aligned",
    "Alignment",
    "Ascend",
    "Augment",
    "Best",
    "Between",
    "Circles",
    "Circular",
    "Concentration",
    "ControlVariate",
    "Curved",
    "Drawn",
    "Energy",
    "EnergyKind",
    "Equal",
    "Frame",
    "Gaussian",
    "GreatCircles",
    "InTurn",
    "LowDiscrepancy",
    "Metropolis",
    "Moments",
    "Monomials",
    "Networks",
    "Orthogonal",
    "Orthonormal",
    "PathDensity",
    "Peak",
    "Phi",
    "Principal",
    "PushForward",
    "Quasi",
    "RaisingMove",
    "RandomPath",
    "Reciprocal",
    "Refine",
    "Repeat",
    "Resample",
    "Spread",
    "Stereographic",
    "Summary",
    "Then",
    "Together",
    "Trace",
    "Uniform",
    "Weights",
    "climb_by_adam",
    "coefficients",
    "cold_layer",
    "constant_weights",
    "curved",
    "frame_of",
    "interleave",
    "normality",
    "slice_cost",
    "slice_weights",
    "turns",
    "von_mises_fisher",
    "weights_for",
]
