"""Published settings of each variant, as options; names that a preset lacks keep our defaults.

"paper" is what the paper's runtimes suggest it used (it lists none); "flow_script", "color_script" and
"dg" are the gradient-flow, colour-transfer and deep-generative scripts of the repositories that
introduced each method. Published chains are counted here as slices: chains × steps.
"""

from __future__ import annotations

from typing import Any

from slicewise.problem import Anneal

# The rate of slice ascents in the published flow and colour scripts.
REFERENCE_ASCENT = 0.1

_ASCENT = {"ascent_step": REFERENCE_ASCENT}
_SLOW_ASCENT = {"ascent_step": 0.01}
_KAPPA = {"kappa": 50.0}


def _chains(chains: int, n_steps: int, **more: Any) -> dict[str, Any]:
    return {"n_slices": chains * n_steps, "n_steps": n_steps, **more}


PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "paper": {
        "sw": {"n_slices": 50},
        "maxsw": {"n_steps": 10, **_ASCENT},
        "dsw": {"n_slices": 50, "n_steps": 10, "penalty": 1.0, "inner_lr": 5e-4},
        "vdsw": {"n_slices": 50, "n_steps": 10, **_KAPPA, **_ASCENT},
        "maxksw": {"n_slices": 2, "n_steps": 10, **_ASCENT},
        "imsw": _chains(2, 10, **_ASCENT),
        "vimsw": _chains(2, 10, **_KAPPA, **_ASCENT),
        "omsw": _chains(2, 10),
        "rmsw": _chains(2, 10, **_KAPPA),
        "ebsw": {"n_slices": 50},
        "rpsw": {"n_slices": 50, **_KAPPA},
        "ebrpsw": {"n_slices": 50, **_KAPPA},
    },
    "flow_script": {
        "sw": {"n_slices": 30},
        "maxsw": {"n_steps": 30, **_ASCENT},
        "dsw": {
            "n_slices": 1000,
            "n_steps": 10,
            "penalty": 10.0,
            "inner_lr": 5e-3,
            "betas": (0.999, 0.999),
            "redraw": True,
        },
        "vdsw": {"n_slices": 5, "n_steps": 2, "kappa": 10.0, "law": "power_spherical", **_ASCENT},
        "maxksw": {"n_slices": 2, "n_steps": 15, **_ASCENT},
        "imsw": _chains(2, 5, **_ASCENT),
        "vimsw": _chains(2, 5, **_KAPPA, **_ASCENT),
        "omsw": _chains(5, 2),
        "rmsw": _chains(2, 5, **_KAPPA),
        "ebsw": {"n_slices": 10},
        "rpsw": {"n_slices": 10, "kappa": Anneal(100.0)},
        "ebrpsw": {"n_slices": 10, "kappa": Anneal(50.0)},
    },
    "color_script": {
        "sw": {"n_slices": 45},
        "maxsw": {"n_steps": 45, **_ASCENT},
        "vdsw": {"n_slices": 50, "n_steps": 2, "kappa": 10.0, **_ASCENT},
        "maxksw": {"n_slices": 3, "n_steps": 15, **_ASCENT},
        "imsw": _chains(3, 5, **_ASCENT),
        "vimsw": _chains(3, 5, **_KAPPA, **_ASCENT),
        "omsw": _chains(3, 5),
        "rmsw": _chains(3, 5, **_KAPPA),
        "ebsw": {"n_slices": 100},
    },
    "dg": {
        "sw": {"n_slices": 1000},
        "maxsw": {"n_steps": 10, **_SLOW_ASCENT},
        "dsw": {"n_slices": 1000, "n_steps": 10, "penalty": 1.0, "inner_lr": 5e-4},
        "vdsw": {"n_slices": 10, "n_steps": 100, **_KAPPA, **_ASCENT},
        "maxksw": {"n_steps": 10, **_SLOW_ASCENT},
        "imsw": {"n_steps": 10, **_SLOW_ASCENT},
        "vimsw": {"n_steps": 10, **_KAPPA, **_SLOW_ASCENT},
        "omsw": _chains(1000, 10),
        "rmsw": _chains(1000, 10, **_KAPPA),
        "ebsw": {"n_slices": 10, "energy": "poly", "hold_weights": True},
        "rpsw": {"n_slices": 10_000, "kappa": Anneal(100.0)},
        "ebrpsw": {"n_slices": 10_000, "kappa": Anneal(100.0)},
    },
}
