"""Statistics on sets of samples: do two differ, where and how surely; which are alike; what is their mean.

`two_sample` is a permutation test on `relabeling`s of a pool, `goodness` a test of samples against a law; `pairwise` has distances, kernels and vectors of many
sets, `energy` the energy distance and MMD along slices, `barycenter` the mean of sets. `tables` turns columns into
samples, `drift` tests them against a reference, and `streamed` compares tables of any size by `counts`.

Imports `distance` and the rooms before it. Used by `lab`; its functions are public.
"""

from slicewise.stats.barycenter import Barycenter, barycenter
from slicewise.stats.drift import Drift, DriftDetector, DriftInTime, change_point
from slicewise.stats.energy import energy_distance, mmd
from slicewise.stats.goodness import Goodness, goodness_of_fit
from slicewise.stats.pairwise import embed, pairwise
from slicewise.stats.streamed import TableDistance, compare_tables
from slicewise.stats.tables import TABLE_SUFFIXES, read_table
from slicewise.stats.two_sample import TwoSampleTest, two_sample_test

__all__ = [
    "TABLE_SUFFIXES",
    "Barycenter",
    "Drift",
    "DriftDetector",
    "DriftInTime",
    "Goodness",
    "TableDistance",
    "TwoSampleTest",
    "barycenter",
    "change_point",
    "compare_tables",
    "embed",
    "energy_distance",
    "goodness_of_fit",
    "mmd",
    "pairwise",
    "read_table",
    "two_sample_test",
]
