"""Which of the paper's numbers have one of ours beside them, counted from kept records.

`counterparts` finds for every published number the run, or the best of several runs, that repeats it.

Imports lab.experiments, lab.names, lab.published and lab.study. Used by cli.
"""

from __future__ import annotations

from slicewise.lab.coverage.counterparts import (
    Counterpart,
    counts,
    coverage,
    coverage_csv,
    coverage_table,
    latent_objective,
)

__all__ = [
    "Counterpart",
    "counts",
    "coverage",
    "coverage_csv",
    "coverage_table",
    "latent_objective",
]
