"""A pytest plugin that lets POT's own tests ask `slicewise.pot`: its functions take the place of POT's.

`make pot-tests SOURCE=folder` runs them, where the folder is a checkout of POT. POT itself stays installed: its other
functions (exact solvers, backends) are what the tests compare with.
"""

from __future__ import annotations

import ot
import ot.sliced
import ot.unbalanced

import slicewise.pot

# Solvers on a single circle or line stay POT's: tests compare ours with them. One is replaced: POT's
# `linear_circular_ot` takes the quantile after the right one (docs/coming-from.md).
KEPT = {"wasserstein_circle", "semidiscrete_wasserstein2_unif_circle", "uot_1d", "DataScaler"}
REPLACED = []


def pytest_configure(config):
    for name in slicewise.pot.__all__:
        if name in KEPT:
            continue
        for module in (ot, ot.sliced, ot.unbalanced):
            if hasattr(module, name):
                setattr(module, name, getattr(slicewise.pot, name))
                REPLACED.append(f"{module.__name__}.{name}")


def pytest_report_header(config):
    return f"slicewise.pot in place of {len(REPLACED)} names of POT {ot.__version__}"
