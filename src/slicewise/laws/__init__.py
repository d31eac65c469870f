"""Laws that are known, to compare samples with in the place of samples y: exactly, without sampling them.

`known` has the laws in R^d (`Normal`, `StudentT`, `UniformSphere`, `UniformBall`, `Quantile`, `Mixture`), `lines` the
standard laws on the line that their slices are.

Imports `support`, `sampling`, `transport`, which prices samples against them. Used by `problem` and every room after it.
"""

from slicewise.laws.known import (
    Law,
    Mixture,
    Normal,
    OnSlices,
    PlottingPositions,
    Quantile,
    StudentT,
    UniformBall,
    UniformSphere,
    law_of_number,
    on_slices,
    refuse_laws,
)

__all__ = [
    "Law",
    "Mixture",
    "Normal",
    "OnSlices",
    "PlottingPositions",
    "Quantile",
    "StudentT",
    "UniformBall",
    "UniformSphere",
    "law_of_number",
    "on_slices",
    "refuse_laws",
]
